from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.models import GrayRetinex, Weiss
from candlelight.evaluation.run.model_outputs import run_intrinsic
from candlelight.loaders.errors import InputError

ALBEDO = torch.full((1, 3, 8, 9), 0.2)
ALBEDO[..., 4:] = 0.8
SHADOWS = torch.ones(5, 1, 8, 9)
for _light in range(5):
    SHADOWS[_light, :, _light : _light + 2] = 0.4
LIGHTS = (ALBEDO[0] * SHADOWS)[None]


def test_moving_shadows_leave_the_reflectance() -> None:
    reflectance, shading = Weiss()(LIGHTS[:, 1], LIGHTS)
    torch.testing.assert_close(reflectance, ALBEDO / 0.8)
    torch.testing.assert_close(shading[0, :1], SHADOWS[1] * 0.8)


def test_gray_retinex_cannot_tell_a_shadow_from_paint() -> None:
    reflectance, _ = GrayRetinex()(LIGHTS[:, 1])
    assert (reflectance - ALBEDO / 0.8).abs().max() > 0.1


def test_a_threshold_removes_smooth_shading() -> None:
    ramp = torch.linspace(0.5, 1.0, 9).expand(1, 1, 1, 8, 9)
    lights = LIGHTS * ramp
    alone, followed = (Weiss(threshold)(lights[:, 1], lights)[0] for threshold in (None, 0.3))
    # The one gradient that is kept includes the step of the ramp, 0.1.
    assert (followed - ALBEDO / 0.8).abs().max() < 0.03
    assert (alone - ALBEDO / 0.8).abs().max() > 0.1


def test_rows_of_a_batch_use_their_own_lights() -> None:
    both = torch.cat([LIGHTS, LIGHTS.flip(4)])
    found = Weiss()(both[:, 1], both)[0]
    for row in range(2):
        alone = Weiss()(both[row : row + 1, 1], both[row : row + 1])[0]
        assert torch.equal(found[row], alone[0])


def test_the_harness_passes_lights_and_refuses_data_without_them() -> None:
    reflectance, _, failed = run_intrinsic(Weiss(), LIGHTS[:, 1], None, LIGHTS)
    assert not failed.any()
    torch.testing.assert_close(reflectance, ALBEDO / 0.8)
    with pytest.raises(InputError, match="model `Weiss` takes images under several lights"):
        run_intrinsic(Weiss(), LIGHTS[:, 1])


def test_errors() -> None:
    with pytest.raises(InputError, match="`threshold` must be a threshold of at least 0, got nan"):
        Weiss(np.nan)
    with pytest.raises(InputError, match=r"expected `image` .*, `lights` .*got"):
        unwrap(Weiss.__call__)(Weiss(), LIGHTS[:, 1], LIGHTS[:, 1])
