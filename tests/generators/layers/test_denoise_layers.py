import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyoidn")

from candlelight.generators.layers.denoise_layers import denoise_layers, limit_denoiser_threads

HEIGHT, WIDTH = 6, 8


def test_denoising_changes_neither_albedo_nor_geometry(make_passes, decomposed):
    passes = make_passes()
    before = decomposed(passes)
    after = denoise_layers(before, passes)
    for name in ("albedo", "depth", "normal", "object", "part"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.identity_error == before.identity_error
    assert not np.array_equal(after.shading, before.shading)


def test_denoised_shading_does_not_depend_on_albedo(make_passes, decomposed):
    # The same shading on another albedo: the denoiser must get the same arrays.
    passes = make_passes()
    passes["albedo"] = np.where(passes["albedo"] > 0, passes["albedo"] * 0.5 + 0.2, 0).astype(np.float32)
    before = decomposed(make_passes())
    one = denoise_layers(before, make_passes())
    other = denoise_layers(replace(decomposed(passes), shading=before.shading), passes)
    np.testing.assert_array_equal(one.shading, other.shading)


def test_denoising_keeps_requested_shares_and_lights(make_passes, decomposed):
    passes = make_passes(lights=("key", "fill"))
    whole, split = (denoise_layers(decomposed(passes, split=split), passes) for split in (False, True))
    assert split.shading is None
    assert not np.array_equal(split.shading_direct, decomposed(passes).shading_direct)
    assert (whole.shading[0] == 0).all()
    assert whole.lights.keys() == {"key", "fill"}


def test_emission_is_not_denoised(make_passes, decomposed):
    passes = make_passes()
    before, added = decomposed(passes), np.random.default_rng(1).random((HEIGHT, WIDTH, 3)).astype(np.float32)
    brighter = passes | {"Emission": passes["Emission"] + added, "Combined": passes["Combined"] + added}
    one, other = denoise_layers(before, passes), denoise_layers(decomposed(brighter), brighter)
    np.testing.assert_allclose(other.residual - one.residual, added, atol=1e-5)


def test_the_environment_map_on_a_shadow_catcher_keeps_its_detail(make_passes, decomposed):
    # The map alone, without a shadow.
    passes = {name: np.zeros_like(array) for name, array in make_passes().items()}
    passes["Environment"] = np.random.default_rng(2).uniform(0.1, 4, (HEIGHT, WIDTH, 3)).astype(np.float32)
    passes["Combined"] = passes["Environment"].copy()
    found = denoise_layers(decomposed(passes, catcher=True), passes)
    # The denoiser changes so small an image by up to a tenth; the map's contrast is 40 to 1.
    np.testing.assert_allclose(found.residual, passes["Environment"], rtol=0.1)


def test_the_denoiser_makes_no_error_along_the_border(make_passes, decomposed):
    wide, high = 96, 80
    passes = {
        name: np.ones((high, wide, *array.shape[2:]), np.float32) for name, array in make_passes().items()
    }
    found = denoise_layers(decomposed(passes), passes)
    np.testing.assert_allclose(found.shading, 2.0, rtol=0.02)  # direct and indirect light of 1 on white


def test_the_denoiser_is_limited_to_the_threads(monkeypatch):
    monkeypatch.setenv("OIDN_NUM_THREADS", "7")
    monkeypatch.setenv("OIDN_SET_AFFINITY", "1")
    limit_denoiser_threads(3)
    assert (os.environ["OIDN_NUM_THREADS"], os.environ["OIDN_SET_AFFINITY"]) == ("3", "0")
