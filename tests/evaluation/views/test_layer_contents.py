"""Single layers of frames and of public data: values, scored pixels, and parts."""

from pathlib import Path

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import open_data
from candlelight.loaders import FrameFolder
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.schema import LAYERS
from tests.evaluation.noise_frames import load_builders, write_frames
from tests.refusals import refused

EXPOSURE = 0.5
COLOURS = ("shading", "residual", "reconstruction")


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("layers")
    write_frames(root, {"free": {"exposure": EXPOSURE}}, tuple(LAYERS))
    return root


@pytest.fixture(scope="module")
def samples(frames):
    return FrameFolder(frames, "free")


@pytest.mark.parametrize("layer", ["albedo", *COLOURS, "normal", "depth", "roughness", "metallic"])
def test_a_layer_of_frames_is_that_of_the_frame(frames, samples, layer) -> None:
    view = open_data("layers", frames, layer=layer)
    for row in (0, 2):
        item, sample = view[row], samples[row]
        stored = sample["radiance" if layer == "reconstruction" else layer].float()
        expected = (stored if stored.ndim == 3 else stored[None]) * (EXPOSURE if layer in COLOURS else 1)
        assert torch.equal(item.image, sample["radiance"].float() * EXPOSURE)
        assert torch.equal(item.truth, expected)
        seen = sample["normal"].float().norm(dim=0) > 0.5
        mask = {
            "albedo": (sample["albedo"] > 0).any(0),
            "shading": (sample["albedo"] > 0).all(0),
            "residual": torch.ones_like(seen),
            "reconstruction": (sample["albedo"] > 0).any(0),
            "normal": seen,
            "depth": sample["depth"].isfinite(),
        }.get(layer, seen)
        assert torch.equal(item.mask, mask)
        assert not item.parts


def test_parts_are_the_pixels_of_all_objects_of_a_kind(frames, samples) -> None:
    for by, kinds in (("object", ("cone", "cube", "torus")), ("material", ("brick", "matte"))):
        view = open_data("layers", frames, layer="depth", by=by, leave_edges=1)
        assert view.parts == kinds
        item, sample, metadata = view[2], samples[2], samples.metadata(2)
        assert list(item.parts) == list(kinds)
        for kind in kinds:
            field = {"object": "type", "material": "material"}[by]
            numbers = [n for n, one in enumerate(metadata.objects, 1) if getattr(one, field) == kind]
            assert torch.equal(item.parts[kind], torch.from_numpy(np.isin(sample["object"].numpy(), numbers)))
        near = torch.from_numpy(mixed_edges(sample["object"].numpy(), 1))
        assert torch.equal(item.mask, sample["depth"].isfinite() & ~near)
        assert "1 pixels at edges" in view.identity.mask


def test_public_data_have_the_layers_of_their_reader(tmp_path) -> None:
    builders = load_builders("loaders/public/copies.py")
    builders.WRITERS["hypersim"](tmp_path)
    for layer, key in (("albedo", "reflectance"), ("shading", "shading"), ("residual", "residual")):
        view = open_data("layers", f"hypersim:{tmp_path}", split="test", layer=layer)
        item, read = view[0], view.named.reader[0]
        assert torch.equal(item.truth, read[key])
        assert torch.equal(item.mask, read[f"{key}_mask"])
    whole = open_data("layers", f"hypersim:{tmp_path}", split="test", layer="reconstruction")[0]
    assert torch.equal(whole.truth, whole.image)
    with refused("Hypersim: `hypersim` has no layer depth"):
        open_data("layers", f"hypersim:{tmp_path}", split="test", layer="depth")[0]
    with refused("takes no .*by"):
        open_data("layers", f"hypersim:{tmp_path}", split="test", by="object")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "albdo"}, "`layer` must be one of: albedo, .*did you mean `albedo`"),
        ({"by": "part"}, "`by` must be one of: object, material"),
        ({"leave_edges": -1}, "leave_edges: expected 0 or more pixels, got -1"),
    ],
)
def test_options_are_checked(frames, options, message) -> None:
    with refused(message):
        open_data("layers", frames, **options)


def test_a_set_without_the_layer_is_refused(tmp_path) -> None:
    write_frames(tmp_path, {"free": {}}, ("image", "albedo", "roughness"))
    with refused("has no `depth` layer"):
        open_data("layers", tmp_path, layer="depth")
    assert open_data("layers", tmp_path, layer="roughness")[0].mask.all()  # nothing tells where a surface is
