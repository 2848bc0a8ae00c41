"""The geometry trace reduces the error of albedo and normals at edges, and changes nothing elsewhere."""

import numpy as np
import pytest

from candlelight.loaders import FrameFolder

pytestmark = [pytest.mark.blender, pytest.mark.slow, pytest.mark.usefixtures("kept_renderers")]

RECIPE = """
name: geometry
image: {width: 48, height: 36}
exposure: 0.3
layers: [image, radiance, albedo, shading, residual, depth, normal, object, roughness]
sets:
  without: &cube
    factors:
      place: {values: [0, 2.2, 30], unit: m}  # in the middle, cut off by the border, outside the image
    layout:
      objects: [{type: cube, material: red, size: 1.2, rotation: 30, location: [$place, 0]}]
      environment: {scene: studio}
      floor: {catcher: true}
      lights: [{azimuth: -40, distance: 4}]
      camera: {location: [0.5, 5, 1.2], look_at: [0, 0, 0.7], field_of_view: 44}
    render: {samples: 4, geometry_samples: 0}
  with: {<<: *cube, render: {samples: 4, geometry_samples: 256}}
  truth: {<<: *cube, render: {samples: 512, denoise: false}}
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory, render_recipe):
    root = tmp_path_factory.mktemp("geometry")
    render_recipe(root, RECIPE, workers=2)
    readers = {name: FrameFolder(root / "frames", name) for name in ("without", "with", "truth")}
    return {name: [reader.frame(i) for i in range(3)] for name, reader in readers.items()}


def error(frame, truth, name):
    return float(np.square(frame.layers[name].astype(float) - truth.layers[name]).mean())


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("name", "share"), [("albedo", 1 / 50), ("roughness", 1 / 50), ("image", 0.9)])
def test_the_geometry_trace_reduces_the_error_at_edges(frames, place, name, share):
    without, with_it, truth = (frames[kind][place] for kind in ("without", "with", "truth"))
    assert error(with_it, truth, name) < error(without, truth, name) * share


@pytest.mark.parametrize("place", [0, 1, 2])
def test_layers_do_not_change_where_no_object_is(frames, place):
    without, with_it = frames["without"][place].layers, frames["with"][place].layers
    for name in ("depth", "object"):
        np.testing.assert_array_equal(without[name], with_it[name])
    bare = (without["albedo"] == 0).all(axis=-1) & (with_it["albedo"] == 0).all(axis=-1)
    assert bare.mean() > 0.5
    for name in ("normal", "roughness", "shading"):
        np.testing.assert_array_equal(without[name][bare], with_it[name][bare], err_msg=name)
    # The environment map is computed, not sampled, so it is nearer to a trace of many samples.
    truth = frames["truth"][place].layers["residual"][bare].astype(float)
    errors = [layers["residual"][bare] - truth for layers in (without, with_it)]
    assert np.square(errors[1]).mean() < np.square(errors[0]).mean() / 50
    assert abs(errors[1].mean()) < 0.01 * truth.mean()
    assert bare.all() == (place == 2)


def test_the_identity_holds_and_metadata_state_the_geometry_samples(frames):
    for frame in (*frames["without"], *frames["with"]):
        layers = {name: array.astype(np.float32) for name, array in frame.layers.items()}
        total = layers["albedo"] * layers["shading"] + layers["residual"]
        np.testing.assert_array_equal(total.astype(np.float16), frame.layers["radiance"])
        assert ((layers["shading"] == 0) | (layers["albedo"] > 0)).all()
    assert [frame.metadata.renderer.geometry_samples for frame in frames["with"]] == [256] * 3
    assert frames["without"][0].metadata.renderer.geometry_samples is None
