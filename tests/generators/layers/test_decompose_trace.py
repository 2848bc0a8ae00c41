import numpy as np
import pytest

from candlelight.generators.layers.decompose_trace import LEAST_ALBEDO, camera_normals
from candlelight.generators.scenes.camera import world_to_camera
from tests.generators.layers.conftest import CAMERA, HEIGHT, WIDTH


def flat(value):
    return np.full((HEIGHT, WIDTH, 3), value, np.float32)


def test_decomposition_matches_numbers_by_hand(make_passes, decomposed):
    # Light of 0.5 + 0.25 on albedo 0.4 (Cycles' Diffuse Color is 0.3), and a highlight of 0.2.
    passes = make_passes() | {
        name: flat(value)
        for name, value in {
            **{"Diffuse Color": 0.3, "Diffuse Direct": 0.5, "Diffuse Indirect": 0.25, "albedo": 0.4},
            **{"Glossy Color": 1.0, "Glossy Direct": 0.2, "Glossy Indirect": 0.0, "Transmission Color": 0.0},
            **{"Volume Direct": 0.0, "Volume Indirect": 0.0, "Emission": 0.0, "Environment": 0.0},
            "Combined": 0.3 * 0.75 + 0.2,
        }.items()
    }
    found = decomposed(passes)
    np.testing.assert_allclose(found.albedo, 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.shading, 0.3 * 0.75 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.shading_direct, 0.3 * 0.5 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.residual, 0.2, rtol=1e-5)
    assert found.identity_error < 1e-6


def test_decomposition_matches_a_loop_over_pixels(make_passes, decomposed):
    passes = make_passes()
    found = decomposed(passes)
    for y, x, c in np.ndindex(HEIGHT, WIDTH, 3):
        albedo = float(passes["albedo"][y, x, c])
        light = float(passes["Diffuse Direct"][y, x, c]) + float(passes["Diffuse Indirect"][y, x, c])
        diffuse = float(passes["Diffuse Color"][y, x, c]) * light
        assert found.albedo[y, x, c] == pytest.approx(albedo if albedo > LEAST_ALBEDO else 0)
        shading = diffuse / albedo if albedo > LEAST_ALBEDO else 0
        assert found.shading[y, x, c] == pytest.approx(shading, rel=1e-5)
        residual = float(passes["Combined"][y, x, c]) - diffuse
        assert found.residual[y, x, c] == pytest.approx(residual, abs=1e-5)
    assert found.identity_error < 1e-6
    assert np.isinf(found.depth[0]).all()
    np.testing.assert_array_equal(found.depth[1:], passes["Depth"][1:])
    np.testing.assert_array_equal(found.object, passes["Object Index"])
    np.testing.assert_array_equal(found.part, passes["Material Index"])
    assert (found.object.dtype, found.depth.dtype) == (np.uint8, np.float32)


@pytest.mark.parametrize("name", ["Transmission Color", "Diffuse Direct"])
def test_a_wrong_pass_raises_the_identity_error(make_passes, decomposed, name):
    passes = make_passes()
    passes[name] = passes[name].copy()
    passes[name][3, 4, 1] += 0.25
    assert decomposed(passes).identity_error > 1e-3
    assert decomposed(passes, catcher=True).identity_error is None


@pytest.mark.parametrize(("albedo", "fails"), [(LEAST_ALBEDO / 2, False), (0.0, True)])
def test_light_without_albedo_is_an_error_unless_an_edge_dilutes_it(make_passes, decomposed, albedo, fails):
    passes = make_passes()
    passes["albedo"][3, 4] = albedo
    found = decomposed(passes)
    assert (found.shading[3, 4] == 0).all()
    assert (found.identity_error > 1e-3) == fails


def test_identity_error_is_relative_in_bright_pixels(make_passes, decomposed, sum_of_passes):
    passes = make_passes()
    passes["Emission"][2, 2] = 1000.0
    passes["Combined"] = sum_of_passes(passes)
    passes["Emission"][2, 2] = 1001.0
    assert decomposed(passes).identity_error == pytest.approx(1e-3, rel=0.01)


def test_direct_and_indirect_shading_add_up(make_passes, decomposed):
    passes = make_passes()
    whole, split = decomposed(passes), decomposed(passes, split=True)
    assert split.shading is None
    np.testing.assert_allclose(split.shading_direct + split.shading_indirect, whole.shading, rtol=1e-6)


def test_normals_are_unit_vectors_in_camera_axes():
    right, _, forward = world_to_camera(CAMERA)[:3, :3].astype(np.float32)
    world = np.stack([-0.5 * forward, right, np.array([0, 0, 1], np.float32), np.zeros(3, np.float32)])[None]
    towards, sideways, up, nothing = camera_normals(world, CAMERA)[0]
    np.testing.assert_allclose(towards, (0, 0, -1), atol=1e-6)
    np.testing.assert_allclose(sideways, (1, 0, 0), atol=1e-6)
    assert up[1] < -0.9  # y points down
    assert up[2] < 0  # the camera looks down on the floor
    np.testing.assert_array_equal(nothing, 0)
