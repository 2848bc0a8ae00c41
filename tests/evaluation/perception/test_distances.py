"""Distances of pairs of images: their functions, and the specs that open them."""

import math
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.perception import check_distance, open_distance, pair_distances
from candlelight.evaluation.perception.distances import (
    DISTANCES,
    dssim_distance,
    lmse_distance,
    ms_ssim_distance,
    rmse_distance,
    ssim_distance,
)
from tests.refusals import refused

IMAGES = torch.rand(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))


def pair(name: str) -> tuple[Tensor, Tensor]:
    """Draw images, and the same with some noise."""
    side = 161 if name == "ms-ssim" else 24
    reference, noise = torch.rand(2, 2, 3, side, side, generator=torch.Generator().manual_seed(1))
    return 0.8 * reference + 0.2 * noise, reference


@pytest.mark.parametrize("name", DISTANCES)
def test_each_pair_has_its_distance(name):
    named = open_distance(f"mine={name}")
    assert named.identity == ModelIdentity("mine", "shipped", open_distance(name).identity.version)
    assert named.colour_space == ("linear" if name == "lmse" else "srgb")
    distance, _ = DISTANCES[name]
    transformed, reference = pair(name)
    assert distance(reference, reference).tolist() == pytest.approx([0, 0], abs=1e-7)
    found = distance(transformed, reference)
    assert found.shape == (2,)
    assert bool((found > 0.001).all())
    # Values that are not finite give nan in their row alone.
    for place in (0, 1):
        given = [transformed, reference]
        given[place] = given[place].clone()
        given[place][1, 0, 3, 3] = torch.nan
        assert distance(*given).isnan().tolist() == [False, True]


def test_rmse_of_one_changed_value():
    reference = torch.full((1, 3, 2, 2), 0.5)
    changed = reference.clone()
    changed[0, 1, 0, 1] = 0.9
    assert rmse_distance(changed, reference).item() == pytest.approx(0.4 / math.sqrt(12))


def test_ssim_equals_windows_of_the_paper_s_constants():
    transformed, reference = (images.double().numpy() for images in pair("ssim"))
    across = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    weights = np.outer(across, across) / across.sum() ** 2
    wanted = []
    for one, other in zip(transformed.reshape(-1, 24, 24), reference.reshape(-1, 24, 24), strict=True):
        a, b = (sliding_window_view(values, (11, 11)) for values in (one, other))
        mean_a, mean_b = (weights * a).sum((2, 3)), (weights * b).sum((2, 3))
        variance = (weights * (a**2 + b**2)).sum((2, 3)) - mean_a**2 - mean_b**2
        product = (weights * a * b).sum((2, 3)) - mean_a * mean_b
        map_ = (2 * mean_a * mean_b + 0.01**2) * (2 * product + 0.03**2)
        map_ /= (mean_a**2 + mean_b**2 + 0.01**2) * (variance + 0.03**2)
        wanted.append(1 - map_.mean())
    found = ssim_distance(torch.from_numpy(transformed), torch.from_numpy(reference))
    np.testing.assert_allclose(found, np.reshape(wanted, (2, 3)).mean(1), atol=1e-10)


def test_closed_forms_of_constant_images():
    """Only the luminance of Wang et al. differs: (2 a b + C1) / (a^2 + b^2 + C1)."""
    a, b = 0.25, 0.75
    luminance = (2 * a * b + 1e-4) / (a**2 + b**2 + 1e-4)
    one, other = torch.full((1, 3, 176, 176), a).double(), torch.full((1, 3, 176, 176), b).double()
    small = one[..., :12, :12], other[..., :12, :12]
    assert ssim_distance(*small).item() == pytest.approx(1 - luminance)
    assert ms_ssim_distance(one, other).item() == pytest.approx(1 - luminance**0.1333)
    assert dssim_distance(*small).item() == pytest.approx(0)
    assert rmse_distance(one, other).item() == pytest.approx(0.5)


def test_lmse_ignores_a_scale_of_each_window_and_colour():
    reference = IMAGES[:1, :, :20, :20]
    gray = reference.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    assert lmse_distance(0.3 * gray, reference).item() == pytest.approx(0, abs=1e-7)
    assert lmse_distance(torch.zeros_like(gray), reference).item() == 1
    assert math.isnan(lmse_distance(gray, torch.zeros_like(gray)).item())


@pytest.mark.parametrize(
    ("name", "side", "message"),
    [
        ("ssim", 10, "SSIM needs images of at least 11x11 pixels, got 10x10"),
        ("dssim", 10, "SSIM needs images of at least 11x11 pixels, got 10x10"),
        ("ms-ssim", 160, "MS-SSIM needs images of at least 161x161 pixels, got 160x160"),
        ("lmse", 19, "got 19x19"),
    ],
)
def test_small_images(name, side, message):
    images = torch.zeros(1, 3, side, side)
    with refused(message):
        DISTANCES[name][0](images, images)


# ----------------------------------------------------------------------------------------------------- specs


OWN = """
import torch

colour_space = "unused"

def plain(transformed, reference):
    return (transformed - reference).abs().mean((1, 2, 3))

def column(transformed, reference):
    return plain(transformed, reference)[:, None]

def total(transformed, reference):
    return plain(transformed, reference).sum()

def text(transformed, reference):
    return "0"

def fails(transformed, reference):
    raise KeyError("gain")

def make():
    return plain

class Linear(torch.nn.Module):
    colour_space = "linear"

    def forward(self, transformed, reference):
        return plain(transformed, reference)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_linear_distances_get_decoded_images(own):
    # Half is no scale in light.
    assert float(pair_distances(open_distance("lmse"), 0.5 * IMAGES, IMAGES).max()) > 1e-6
    named = open_distance(f"{own}:Linear")
    half = pair_distances(named, torch.full_like(IMAGES, 0.5), torch.zeros_like(IMAGES))
    assert half.tolist() == pytest.approx([0.2140] * 2, abs=1e-4)


@pytest.mark.parametrize("attribute", ["plain", "column", "make"])
def test_own_code_in_a_file(own, attribute):
    named = open_distance(f"{own}:{attribute}")
    assert (named.identity.source, len(named.identity.sha256)) == ("callable", 64)
    wanted = (IMAGES - 0.5).abs().mean((1, 2, 3)).double()
    torch.testing.assert_close(pair_distances(named, torch.full_like(IMAGES, 0.5), IMAGES), wanted)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("total", r"`own.py:total`: expected one number for each of 2 pairs, got \[\]; return a tens"),
        ("text", "expected one number for each of 2 pairs, got str"),
        ("fails", r"`own.py:fails` raised KeyError: 'gain' \(own.py, line"),
    ],
)
def test_wrong_results(own, attribute, message):
    with refused(message):
        pair_distances(open_distance(f"{own}:{attribute}"), IMAGES, IMAGES)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("retinex", "distance `retinex`: expected one of rmse, ssim, ms-ssim, lmse, dssim; or lpips:FOLDER"),
        ("ms_ssim", "did you mean `ms-ssim`"),
        ("cgintrinsics:checkout:weights", "expected one of rmse"),
        ("lpips:", "expected one of rmse"),
        ("lpips:nowhere", "expected alexnet-owt-7be5be79.pth from https.*nowhere.*does not exist"),
        ("lpips:vgg:nowhere", "expected vgg16-397923af.pth from https.*nowhere.*does not exist"),
    ],
)
def test_specs_that_are_refused(spec, message):
    with refused(message):
        open_distance(spec)


def test_lpips_reads_both_files_of_a_folder(tmp_path):
    stack = FEATURE_STACKS["squeeze"]
    features = {f"features.{name}": values for name, values in stack.build().state_dict().items()}
    torch.save(features, tmp_path / stack.file)
    heads = {f"lin{n}.model.1.weight": torch.ones(1, width, 1, 1) for n, width in enumerate(stack.channels)}
    torch.save(heads, tmp_path / "squeeze.pth")
    named = open_distance(f"lpips:squeeze:{tmp_path}")
    check_distance(named, IMAGES)
    found = pair_distances(named, IMAGES.flip(0), IMAGES)
    assert bool((found > 0).all())
    torch.save({name: 2 * values for name, values in heads.items()}, tmp_path / "squeeze.pth")
    again = open_distance(f"own=lpips:squeeze:{tmp_path}")
    torch.testing.assert_close(pair_distances(again, IMAGES.flip(0), IMAGES), 2 * found)
    assert (named.identity.name, again.identity.name) == ("lpips-squeeze", "own")
    assert again.identity.sha256 != named.identity.sha256


def test_a_similarity_is_refused_and_an_undefined_distance_is_not():
    def similarity(transformed, reference):
        return 1 - rmse_distance(transformed, reference)

    named = NamedModel(ModelIdentity("mine", "callable"), similarity, "srgb")
    with refused("distance `mine`: expected 0 for equal images, got 1; return 1 - sim"):
        check_distance(named, IMAGES)
    check_distance(open_distance("lmse"), torch.zeros(1, 3, 20, 20))


class Metric(torch.nn.Module):
    """A metric with the members of pyiqa's."""

    def __init__(self, mode: str, of_equal: float, sign: int) -> None:
        super().__init__()
        self.metric_mode, self.of_equal, self.sign = mode, of_equal, sign

    def forward(self, image, reference):
        return self.of_equal + self.sign * rmse_distance(image, reference)[:, None]


@pytest.fixture
def pyiqa(monkeypatch):
    """Put a package in the place of pyiqa, with metrics of each kind."""
    kinds = {"near": ("FR", 0, 1), "alike": ("FR", 1, -1), "decibels": ("FR", 80, -1), "alone": ("NR", 0, 1)}
    package = ModuleType("pyiqa")
    package.create_metric = lambda name, device: Metric(*kinds[name]).to(device)
    package.__version__ = "0.1"
    monkeypatch.setitem(sys.modules, "pyiqa", package)


@pytest.mark.parametrize("metric", ["near", "alike"])
def test_metrics_of_pyiqa_become_distances(pyiqa, metric):
    named = open_distance(f"pyiqa:{metric}")
    assert named.identity.version == f"{metric} of pyiqa 0.1"
    found = pair_distances(named, IMAGES.flip(0), IMAGES)
    torch.testing.assert_close(found, rmse_distance(IMAGES.flip(0), IMAGES).double())


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("decibels", "`pyiqa:decibels`: expected 0 or 1 for equal images, got 80; make a distance of"),
        ("alone", "`pyiqa:alone`: expected a full-reference metric, got one that takes no reference"),
        ("other", "`pyiqa:other`: cannot be made: KeyError: 'other'"),
    ],
)
def test_other_metrics_of_pyiqa(pyiqa, metric, message):
    with refused(message):
        open_distance(f"pyiqa:{metric}")


def test_pyiqa_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiqa", None)
    with refused(r"`pyiqa:dists`: cannot import pyiqa.*pip install pyiqa; not for comm"):
        open_distance("pyiqa:dists")
