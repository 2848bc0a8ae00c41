"""Albedo and normals of objects over a shadow catcher: as fine as their own samples, all else untouched."""

import numpy as np
import pytest

from generators.engine.render_plan import render
from generators.language.load_recipe import load_recipe
from generators.planning.plan import make_plan
from loaders import FrameFolder

pytestmark = pytest.mark.blender

RECIPE = """
name: geometry
description: One scene.
image: {width: 48, height: 36}
exposure: 0.3
layers: [image, radiance, albedo, shading, residual, depth, normal, object, roughness]
sets:
  cube:
    factors:
      place: {values: [0, 2.2, 30], unit: m}  # in the middle, cut off by the side, out of the picture
    layout:
      objects: [{type: cube, material: red, size: 1.2, rotation: 30, location: [$place, 0]}]
      environment: {scene: studio}
      floor: {catcher: true}
      lights: [{azimuth: -40, distance: 4}]
      camera: {location: [0.5, 5, 1.2], look_at: [0, 0, 0.7], field_of_view: 44}
"""
KINDS = {
    "coarse": "{samples: 4, geometry_samples: 0}",
    "fine": "{samples: 4, geometry_samples: 256}",
    "truth": "{samples: 512, denoise: false}",
}


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("geometry")
    (folder / "geometry.yaml").write_text(RECIPE)
    found = {}
    for kind, how in KINDS.items():
        plan = make_plan(load_recipe(folder / "geometry.yaml", [f"render={how}"]))
        outcome = render(plan, folder / kind, workers=1)
        assert (outcome.written, outcome.failed) == (3, {})
        found[kind] = [FrameFolder(folder / kind, "cube").frame(i) for i in range(3)]
    return found


def error(frame, truth, name):
    return float(np.square(frame.layers[name].astype(float) - truth.layers[name]).mean())


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["albedo", "roughness"])
def test_edges_are_as_fine_as_the_samples_asked_for(frames, place, name):
    coarse, fine, truth = (frames[kind][place] for kind in ("coarse", "fine", "truth"))
    assert error(fine, truth, name) < error(coarse, truth, name) / 50


@pytest.mark.parametrize("place", [0, 1])
def test_the_image_gains_too(frames, place):
    coarse, fine, truth = (frames[kind][place] for kind in ("coarse", "fine", "truth"))
    assert error(fine, truth, "image") < error(coarse, truth, "image") * 0.9


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nothing_changes_where_no_object_is(frames, place):
    coarse, fine = frames["coarse"][place].layers, frames["fine"][place].layers
    for name in ("depth", "object"):
        np.testing.assert_array_equal(coarse[name], fine[name])
    apart = (coarse["albedo"] == 0).all(axis=-1) & (fine["albedo"] == 0).all(axis=-1)
    assert apart.mean() > 0.5
    for name in ("normal", "roughness", "shading"):
        np.testing.assert_array_equal(coarse[name][apart], fine[name][apart], err_msg=name)
    # The map is worked out and not sampled: the same light, nearer to what many samples see.
    truth = frames["truth"][place].layers["residual"][apart].astype(float)
    apart_from_truth = [layers["residual"][apart] - truth for layers in (coarse, fine)]
    assert np.square(apart_from_truth[1]).mean() < np.square(apart_from_truth[0]).mean() / 50
    assert abs(apart_from_truth[1].mean()) < 0.01 * truth.mean()
    assert apart.all() == (place == 2)


def test_the_identity_holds_and_the_metadata_tell(frames):
    for frame in (*frames["coarse"], *frames["fine"]):
        layers = {name: array.astype(np.float32) for name, array in frame.layers.items()}
        total = layers["albedo"] * layers["shading"] + layers["residual"]
        np.testing.assert_array_equal(total.astype(np.float16), frame.layers["radiance"])
        assert ((layers["shading"] == 0) | (layers["albedo"] > 0)).all()
    assert [frame.metadata.renderer.geometry_samples for frame in frames["fine"]] == [256] * 3
    assert frames["coarse"][0].metadata.renderer.geometry_samples is None
