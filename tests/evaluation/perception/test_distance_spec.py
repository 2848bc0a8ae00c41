import sys
from types import ModuleType

import pytest
import torch

from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.perception import (
    DISTANCES,
    check_distance,
    open_distance,
    pair_distances,
    rmse_distance,
)
from candlelight.evaluation.perception.lpips import FEATURE_STACKS
from tests.refusals import refused

IMAGES = torch.rand(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize("name", DISTANCES)
def test_shipped_distances(name):
    named = open_distance(f"mine={name}")
    assert named.identity == ModelIdentity("mine", "shipped", open_distance(name).identity.version)
    assert named.colour_space == ("linear" if name == "lmse" else "srgb")


def test_linear_distances_get_decoded_images():
    darker = 0.5 * IMAGES
    assert (
        float(pair_distances(open_distance("lmse"), darker, IMAGES).max()) > 1e-6
    )  # half is no scale in light
    named = NamedModel(ModelIdentity("raw", "callable"), DISTANCES["lmse"][0], "srgb")
    assert float(pair_distances(named, darker, IMAGES).max()) < 1e-6


@pytest.mark.parametrize("attribute", ["plain", "column", "make"])
def test_own_code_in_a_file(own, attribute):
    named = open_distance(f"{own}:{attribute}")
    assert named.identity.source == "callable"
    assert named.identity.sha256 is not None
    wanted = (IMAGES - 0.5).abs().mean((1, 2, 3)).double()
    torch.testing.assert_close(pair_distances(named, torch.full_like(IMAGES, 0.5), IMAGES), wanted)


def test_own_code_may_ask_for_linear_images(own):
    named = open_distance(f"{own}:Linear")
    assert named.colour_space == "linear"
    half = pair_distances(named, torch.full_like(IMAGES, 0.5), torch.zeros_like(IMAGES))
    assert half.tolist() == pytest.approx([0.2140] * 2, abs=1e-4)


def test_own_code_in_a_package():
    named = open_distance("candlelight.evaluation.perception:rmse_distance")
    assert named.identity.name == "candlelight.evaluation.perception:rmse_distance"
    assert named.model is rmse_distance


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            "total",
            r"distance `own.py:total`: expected one number for each of 2 pairs, got \[\]; return a tens",
        ),
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
        ("hf:me/model", "distance `hf:me/model`: expected one of"),
        ("cgintrinsics:checkout:weights", "expected one of rmse"),
        ("lpips:", "expected one of rmse"),
        ("lpips:nowhere", "expected alexnet-owt-7be5be79.pth from https.*nowhere.*does not exist"),
        ("lpips:vgg:nowhere", "expected vgg16-397923af.pth from https.*nowhere.*does not exist"),
        ("nowhere.py:metric", "expected a file of Python, there is no nowhere.py"),
        ("no_such_package.metrics:one", "cannot import `no_such_package.metrics`"),
    ],
)
def test_messages(spec, message):
    with refused(message):
        open_distance(spec)


def test_lpips_reads_both_files_of_a_folder(tmp_path):
    stack = FEATURE_STACKS["squeeze"]
    features = {f"features.{name}": values for name, values in stack.build().state_dict().items()}
    torch.save(features, tmp_path / stack.file)
    heads = {f"lin{n}.model.1.weight": torch.ones(1, width, 1, 1) for n, width in enumerate(stack.channels)}
    torch.save(heads, tmp_path / "squeeze.pth")
    named = open_distance(f"lpips:squeeze:{tmp_path}")
    assert named.identity.name == "lpips-squeeze"
    before = named.identity.sha256
    check_distance(named, IMAGES)
    found = pair_distances(named, IMAGES.flip(0), IMAGES)
    assert bool((found > 0).all())
    torch.save({name: 2 * values for name, values in heads.items()}, tmp_path / "squeeze.pth")
    again = open_distance(f"own=lpips:squeeze:{tmp_path}")
    torch.testing.assert_close(pair_distances(again, IMAGES.flip(0), IMAGES), 2 * found)
    assert again.identity.name == "own"
    assert again.identity.sha256 != before


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
        (
            "decibels",
            "distance `pyiqa:decibels`: expected 0 or 1 for equal images, got 80; make a distance of",
        ),
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
