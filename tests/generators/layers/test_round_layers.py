import numpy as np
import pytest

from candlelight.generators.layers.round_layers import frame_layers
from candlelight.loaders.colour import to_display

ALL = ("image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object", "part")
LARGEST_HALF = 65504.0


def all_layers(found, gain=(1.0, 1.0, 1.0), exposure=1.0, layers=ALL):
    return frame_layers(found, gain=gain, exposure=exposure, layers=layers)


def test_stored_radiance_is_exactly_that_of_the_stored_layers(make_passes, decomposed):
    layers, checks = all_layers(decomposed(make_passes()), gain=(1.7, 0.3, 0.9))
    parts32 = [layers[name].astype(np.float32) for name in ("albedo", "shading", "residual")]
    again = (parts32[0] * parts32[1] + parts32[2]).astype(np.float16)
    np.testing.assert_array_equal(layers["radiance"], again)
    assert checks.stored_error <= 2**-11


def test_image_is_radiance_times_exposure_in_srgb(make_passes, decomposed):
    layers, checks = all_layers(decomposed(make_passes()), exposure=0.6)
    exposed = layers["radiance"].astype(np.float32) * np.float32(0.6)
    np.testing.assert_array_equal(layers["image"], to_display(exposed))
    assert checks.clipped == pytest.approx((exposed > 1).any(axis=-1).mean())
    assert 0 < checks.clipped < 1


def test_requested_layers_have_the_types_of_the_schema(make_passes, decomposed):
    layers, _ = all_layers(decomposed(make_passes()), layers=("depth", "image", "shading_direct"))
    assert list(layers) == ["depth", "image", "shading_direct"]
    assert [array.dtype for array in layers.values()] == [np.float32, np.uint8, np.float16]
    everything, _ = all_layers(decomposed(make_passes()))
    assert {name for name, array in everything.items() if array.dtype != np.float16} == {
        *("image", "depth", "object", "part")
    }


@pytest.mark.parametrize("split", [False, True])
def test_gain_by_powers_of_two_scales_exactly(make_passes, decomposed, split):
    # Rounding to half precision commutes with powers of two, so the rounded layers scale exactly.
    found = decomposed(make_passes(), split=split)
    plain, _ = all_layers(found)
    scaled, _ = all_layers(found, gain=(2.0, 0.5, 4.0))
    for name in ("shading", "residual"):
        np.testing.assert_array_equal(scaled[name], plain[name] * np.array([2, 0.5, 4], np.float16))
    for name in ("albedo", "depth", "normal", "object"):
        np.testing.assert_array_equal(scaled[name], plain[name])


def test_any_gain_scales_within_half_a_rounding_step(make_passes, decomposed):
    found = decomposed(make_passes())
    gain = (1.37, 0.81, 0.113)
    layers, _ = all_layers(found, gain=gain)
    expected = found.shading * np.array(gain, np.float32)
    np.testing.assert_allclose(layers["shading"], expected, rtol=2**-11, atol=1e-7)


def test_direct_and_indirect_shading_add_up_after_rounding(make_passes, decomposed):
    layers, _ = all_layers(
        decomposed(make_passes(), split=True),
        layers=("image", "shading", "shading_direct", "shading_indirect"),
    )
    shares = [layers[f"shading_{share}"].astype(np.float32) for share in ("direct", "indirect")]
    np.testing.assert_array_equal(layers["shading"], (shares[0] + shares[1]).astype(np.float16))


def test_values_beyond_half_precision_become_its_largest_number(make_passes, decomposed, sum_of_passes):
    passes = make_passes()
    passes["Emission"][2, 3] = 1e6
    passes["Combined"] = sum_of_passes(passes)
    layers, checks = all_layers(decomposed(passes))
    assert np.isfinite(layers["radiance"]).all()
    assert (layers["residual"][2, 3] == LARGEST_HALF).all()
    assert (layers["radiance"][2, 3] == LARGEST_HALF).all()
    assert (layers["image"][2, 3] == 255).all()
    assert checks.stored_error < 0.01


def test_light_sum_error_is_the_95th_percentile_over_the_mean(make_passes, decomposed):
    names = ("light/key", "light/fill", "light/environment")
    passes = make_passes(lights=("key", "fill", "environment"))
    layers, checks = all_layers(decomposed(passes), layers=(*ALL, *names))
    total = np.sum([layers[name].astype(float) for name in names], axis=0)
    error = np.abs(total - layers["radiance"]).ravel()
    assert checks.light_sum_error == pytest.approx(
        np.percentile(error, 95) / layers["radiance"].astype(float).mean()
    )
    assert checks.light_sum_error < 2e-3
    del passes["Combined_fill"]
    assert all_layers(decomposed(passes))[1].light_sum_error > 0.05
    assert all_layers(decomposed(make_passes()))[1].light_sum_error is None


def test_gain_applies_to_light_layers(make_passes, decomposed):
    passes = make_passes(lights=("key",))
    layers, _ = all_layers(decomposed(passes), gain=(2.0, 1.0, 0.5), layers=("image", "light/key"))
    expected = (passes["Combined_key"] * np.array([2, 1, 0.5], np.float32)).astype(np.float16)
    np.testing.assert_array_equal(layers["light/key"], expected)
