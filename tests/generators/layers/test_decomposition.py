import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyoidn")

from generators.layers.decomposition import (
    _LARGEST_HALF,
    LEAST_ALBEDO,
    camera_normals,
    decompose_trace,
    denoise_layers,
    frame_layers,
    limit_denoiser_threads,
)
from generators.scenes.camera import world_to_camera
from generators.scenes.scene import Camera
from loaders.colour import to_display

CAMERA = Camera(location=(1, 4, 2), look_at=(0, 0, 0.5), field_of_view=40)
H, W = 6, 8
KINDS = ("Diffuse", "Glossy", "Transmission")
ALL = ("image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object", "part")


def made_passes(seed=0, lights=()):
    """Passes of a scene that never was: noise that adds up as Cycles' passes do."""
    rng = np.random.default_rng(seed)

    def rgb(high=1.0):
        return rng.uniform(0, high, (H, W, 3)).astype(np.float32)

    passes = {f"{kind} {share}": rgb() for kind in KINDS for share in ("Direct", "Indirect", "Color")}
    passes |= {name: rgb(0.1) for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment")}
    # Cycles' own diffuse colour is not the albedo: it depends on the view.
    passes["albedo"] = np.clip(passes["Diffuse Color"] * 1.2, 0, 1)
    passes["albedo"][0] = 0.0
    passes["Diffuse Color"][0] = 0.0
    passes["Combined"] = combined(passes)
    passes["Depth"] = rng.uniform(1, 9, (H, W)).astype(np.float32)
    passes["Depth"][0] = 1e10
    passes["normal"] = rng.normal(size=(H, W, 3)).astype(np.float32)
    passes["normal"][0] = 0.0
    passes["Denoising Normal"], passes["Denoising Albedo"] = passes["normal"], rgb()
    passes["Object Index"] = rng.integers(0, 3, (H, W)).astype(np.float32)
    passes["Material Index"] = rng.integers(0, 2, (H, W)).astype(np.float32)
    passes["Position"] = rng.normal(size=(H, W, 3)).astype(np.float32)
    passes |= {name: rng.random((H, W)).astype(np.float32) for name in ("roughness", "metallic")}
    passes["coverage"] = (passes["albedo"].max(axis=-1) > 0).astype(np.float32)
    shares = rng.dirichlet(np.ones(max(len(lights), 1)))
    return passes | {
        f"Combined_{name}": (passes["Combined"] * share).astype(np.float32)
        for name, share in zip(lights, shares, strict=False)
    }


def combined(passes):
    total = np.zeros((H, W, 3))
    for kind in KINDS:
        total += passes[f"{kind} Color"].astype(float) * (
            passes[f"{kind} Direct"] + passes[f"{kind} Indirect"]
        )
    for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment"):
        total += passes[name]
    return total.astype(np.float32)


def parts(passes, *, catcher=False, split=False):
    return decompose_trace(passes, camera=CAMERA, catcher=catcher, split=split)


def flat(value):
    return np.full((H, W, 3), value, np.float32)


# ------------------------------------------------------------------------------------------ decomposition


def test_decomposition_in_numbers():
    # One white Lambertian light of 0.5 + 0.25 on albedo 0.4 (Cycles says 0.3), a highlight of 0.2.
    passes = made_passes() | {
        name: flat(value)
        for name, value in {
            **{"Diffuse Color": 0.3, "Diffuse Direct": 0.5, "Diffuse Indirect": 0.25, "albedo": 0.4},
            **{"Glossy Color": 1.0, "Glossy Direct": 0.2, "Glossy Indirect": 0.0, "Transmission Color": 0.0},
            **{"Volume Direct": 0.0, "Volume Indirect": 0.0, "Emission": 0.0, "Environment": 0.0},
            "Combined": 0.3 * 0.75 + 0.2,
        }.items()
    }
    found = parts(passes)
    np.testing.assert_allclose(found.albedo, 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.shading, 0.3 * 0.75 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.shading_direct, 0.3 * 0.5 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(found.residual, 0.2, rtol=1e-5)
    assert found.identity_error < 1e-6


def test_decomposition_pixel_by_pixel():
    passes = made_passes()
    found = parts(passes)
    for y, x, c in np.ndindex(H, W, 3):
        albedo = float(passes["albedo"][y, x, c])
        light = float(passes["Diffuse Direct"][y, x, c]) + float(passes["Diffuse Indirect"][y, x, c])
        diffuse = float(passes["Diffuse Color"][y, x, c]) * light
        assert found.albedo[y, x, c] == pytest.approx(albedo if albedo > LEAST_ALBEDO else 0)
        assert found.shading[y, x, c] == pytest.approx(
            diffuse / albedo if albedo > LEAST_ALBEDO else 0, rel=1e-5
        )
        assert found.residual[y, x, c] == pytest.approx(
            float(passes["Combined"][y, x, c]) - diffuse, abs=1e-5
        )
    assert found.identity_error < 1e-6


def test_geometry_is_passed_on():
    passes = made_passes()
    found = parts(passes)
    assert np.isinf(found.depth[0]).all()
    np.testing.assert_array_equal(found.depth[1:], passes["Depth"][1:])
    np.testing.assert_array_equal(found.object, passes["Object Index"])
    np.testing.assert_array_equal(found.part, passes["Material Index"])
    assert (found.object.dtype, found.depth.dtype) == (np.uint8, np.float32)


@pytest.mark.parametrize(
    "name", ["Glossy Direct", "Transmission Color", "Emission", "Environment", "Diffuse Direct"]
)
def test_identity_error_sees_a_wrong_pass(name):
    passes = made_passes()
    passes[name] = passes[name].copy()
    passes[name][3, 4, 1] += 0.25
    assert parts(passes).identity_error > 1e-3
    assert parts(passes, catcher=True).identity_error is None


def test_identity_error_is_relative_where_it_is_bright():
    passes = made_passes()
    passes["Emission"][2, 2] = 1000.0
    passes["Combined"] = combined(passes)
    passes["Emission"][2, 2] = 1001.0
    assert parts(passes).identity_error == pytest.approx(1e-3, rel=0.01)


def test_splitting_keeps_the_sum():
    passes = made_passes()
    whole, split = parts(passes), parts(passes, split=True)
    assert split.shading is None
    np.testing.assert_allclose(split.shading_direct + split.shading_indirect, whole.shading, rtol=1e-6)


def test_normals_are_unit_vectors_in_camera_axes():
    forward = world_to_camera(CAMERA)[2, :3].astype(np.float32)
    right = world_to_camera(CAMERA)[0, :3].astype(np.float32)
    world = np.stack([-0.5 * forward, right, np.array([0, 0, 1], np.float32), np.zeros(3, np.float32)])[None]
    towards, sideways, up, nothing = camera_normals(world, CAMERA)[0]
    np.testing.assert_allclose(towards, (0, 0, -1), atol=1e-6)
    np.testing.assert_allclose(sideways, (1, 0, 0), atol=1e-6)
    assert up[1] < -0.9  # y points down
    assert up[2] < 0  # and the floor is seen from above
    np.testing.assert_array_equal(nothing, 0)


# ----------------------------------------------------------------------------------------------- denoising


def test_denoising_leaves_albedo_and_geometry():
    passes = made_passes()
    before = parts(passes)
    after = denoise_layers(before, passes)
    for name in ("albedo", "depth", "normal", "object", "part"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.identity_error == before.identity_error
    assert not np.array_equal(after.shading, before.shading)


def test_albedo_leaves_no_print_in_the_denoised_shading():
    # The same light on another albedo: nothing that the denoiser is given may differ.
    passes = made_passes()
    passes["albedo"] = np.where(passes["albedo"] > 0, passes["albedo"] * 0.5 + 0.2, 0).astype(np.float32)
    before = parts(made_passes())
    one = denoise_layers(before, made_passes())
    other = denoise_layers(replace(parts(passes), shading=before.shading), passes)
    np.testing.assert_array_equal(one.shading, other.shading)


def test_denoised_shares_are_those_that_were_asked_for():
    passes = made_passes(lights=("key", "fill"))
    whole, split = (denoise_layers(parts(passes, split=split), passes) for split in (False, True))
    assert split.shading is None
    assert not np.array_equal(split.shading_direct, parts(passes).shading_direct)
    assert (whole.shading[0] == 0).all()
    assert whole.lights.keys() == {"key", "fill"}


def test_what_shines_by_itself_is_not_denoised():
    passes = made_passes()
    before, added = parts(passes), np.random.default_rng(1).random((H, W, 3)).astype(np.float32)
    brighter = passes | {"Emission": passes["Emission"] + added, "Combined": passes["Combined"] + added}
    one, other = denoise_layers(before, passes), denoise_layers(parts(brighter), brighter)
    np.testing.assert_allclose(other.residual - one.residual, added, atol=1e-5)


def test_the_map_on_a_shadow_catcher_keeps_its_detail():
    # Nothing but the map, without a shadow: what was divided out comes back as it was.
    passes = {name: np.zeros_like(array) for name, array in made_passes().items()}
    passes["Environment"] = np.random.default_rng(2).uniform(0.1, 4, (H, W, 3)).astype(np.float32)
    passes["Combined"] = passes["Environment"].copy()
    found = denoise_layers(parts(passes, catcher=True), passes)
    # A picture this small the denoiser gives back within a tenth; the map's own contrast is 40 to 1.
    np.testing.assert_allclose(found.residual, passes["Environment"], rtol=0.1)


def test_the_border_is_denoised_as_the_middle_is():
    wide, high = 96, 80
    passes = {
        name: np.ones((high, wide, *array.shape[2:]), np.float32) for name, array in made_passes().items()
    }
    found = denoise_layers(parts(passes), passes)
    np.testing.assert_allclose(found.shading, 2.0, rtol=0.02)  # direct and indirect light of 1 on white


def test_threads_are_told_to_the_denoiser(monkeypatch):
    monkeypatch.setenv("OIDN_NUM_THREADS", "7")
    monkeypatch.setenv("OIDN_SET_AFFINITY", "1")
    limit_denoiser_threads(3)
    assert (os.environ["OIDN_NUM_THREADS"], os.environ["OIDN_SET_AFFINITY"]) == ("3", "0")


# --------------------------------------------------------------------------------------------- development


def develop_all(found, gain=(1.0, 1.0, 1.0), exposure=1.0, layers=ALL):
    return frame_layers(found, gain=gain, exposure=exposure, layers=layers)


def test_stored_layers_hold_the_identity_to_the_bit():
    layers, checks = develop_all(parts(made_passes()), gain=(1.7, 0.3, 0.9))
    parts32 = [layers[name].astype(np.float32) for name in ("albedo", "shading", "residual")]
    again = (parts32[0] * parts32[1] + parts32[2]).astype(np.float16)
    np.testing.assert_array_equal(layers["radiance"], again)
    assert checks.stored_error <= 2**-11


def test_image_is_radiance_through_the_curve():
    layers, checks = develop_all(parts(made_passes()), exposure=0.6)
    exposed = layers["radiance"].astype(np.float32) * np.float32(0.6)
    np.testing.assert_array_equal(layers["image"], to_display(exposed))
    assert checks.clipped == pytest.approx((exposed > 1).any(axis=-1).mean())
    assert 0 < checks.clipped < 1


def test_layers_are_those_asked_for_with_the_schemas_types():
    layers, _ = develop_all(parts(made_passes()), layers=("depth", "image", "shading_direct"))
    assert list(layers) == ["depth", "image", "shading_direct"]
    assert [array.dtype for array in layers.values()] == [np.float32, np.uint8, np.float16]
    everything, _ = develop_all(parts(made_passes()))
    assert {name for name, array in everything.items() if array.dtype != np.float16} == {
        *("image", "depth", "object", "part")
    }


@pytest.mark.parametrize("split", [False, True])
def test_gain_by_powers_of_two_scales_exactly(split):
    # Rounding to half precision commutes with powers of two, so here the scaling is exact even after it.
    found = parts(made_passes(), split=split)
    plain, _ = develop_all(found)
    scaled, _ = develop_all(found, gain=(2.0, 0.5, 4.0))
    for name in ("shading", "residual"):
        np.testing.assert_array_equal(scaled[name], plain[name] * np.array([2, 0.5, 4], np.float16))
    for name in ("albedo", "depth", "normal", "object"):
        np.testing.assert_array_equal(scaled[name], plain[name])


def test_any_gain_scales_within_half_a_step():
    found = parts(made_passes())
    gain = (1.37, 0.81, 0.113)
    layers, _ = develop_all(found, gain=gain)
    expected = found.shading * np.array(gain, np.float32)
    np.testing.assert_allclose(layers["shading"], expected, rtol=2**-11, atol=1e-7)


def test_split_shares_add_up_after_rounding():
    layers, _ = develop_all(
        parts(made_passes(), split=True), layers=("image", "shading", "shading_direct", "shading_indirect")
    )
    shares = [layers[f"shading_{share}"].astype(np.float32) for share in ("direct", "indirect")]
    np.testing.assert_array_equal(layers["shading"], (shares[0] + shares[1]).astype(np.float16))


def test_the_brightest_highlights_are_held_at_the_largest_half():
    passes = made_passes()
    passes["Emission"][2, 3] = 1e6
    passes["Combined"] = combined(passes)
    layers, checks = develop_all(parts(passes))
    assert np.isfinite(layers["radiance"]).all()
    assert (layers["residual"][2, 3] == _LARGEST_HALF).all()
    assert (layers["radiance"][2, 3] == _LARGEST_HALF).all()
    assert (layers["image"][2, 3] == 255).all()
    assert checks.stored_error < 0.01


def test_light_sum_error():
    names = ("light/key", "light/fill", "light/environment")
    passes = made_passes(lights=("key", "fill", "environment"))
    layers, checks = develop_all(parts(passes), layers=(*ALL, *names))
    total = np.sum([layers[name].astype(float) for name in names], axis=0)
    error = np.abs(total - layers["radiance"]).ravel()
    assert checks.light_sum_error == pytest.approx(
        np.percentile(error, 95) / layers["radiance"].astype(float).mean()
    )
    assert checks.light_sum_error < 2e-3
    del passes["Combined_fill"]
    assert develop_all(parts(passes))[1].light_sum_error > 0.05
    assert develop_all(parts(made_passes()))[1].light_sum_error is None


def test_lights_take_the_gain():
    passes = made_passes(lights=("key",))
    layers, _ = develop_all(parts(passes), gain=(2.0, 1.0, 0.5), layers=("image", "light/key"))
    expected = (passes["Combined_key"] * np.array([2, 1, 0.5], np.float32)).astype(np.float16)
    np.testing.assert_array_equal(layers["light/key"], expected)
