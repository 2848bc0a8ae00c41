import json
import math

import numpy as np
import pytest
import torch

from evaluation.intrinsic.lmse import lmse_score
from evaluation.intrinsic.mse import mse
from evaluation.intrinsic.protocol import score_baselines, score_intrinsic
from evaluation.intrinsic.si_mse import si_mse
from evaluation.models.baselines import BASELINES, constant_shading
from evaluation.models.ground_truth import ground_truth
from loaders.colour import to_display
from loaders.errors import InputError

EXPOSURE = 4.0


@pytest.fixture
def frames(memory_frames):
    """Five frames; in the first two the albedo is 0 in a corner, the fourth has no light."""
    rng = np.random.default_rng(0)
    albedo = rng.uniform(0.1, 1, (5, 3, 24, 30)).astype(np.float16)
    albedo[:2, :, :6, :9] = 0
    shading = (rng.uniform(0.1, 1, (5, 3, 24, 30)) / EXPOSURE).astype(np.float16)
    shading[3] = 0
    image = to_display(albedo.astype(np.float32) * shading * np.float32(EXPOSURE))
    layers = {"image": image, "albedo": albedo, "shading": shading}
    return memory_frames({k: torch.from_numpy(v) for k, v in layers.items()}, exposure=EXPOSURE)


class Oracle:
    """Answers with the truth, which it knows by the image."""

    def __init__(self, frames) -> None:
        self.truth = ground_truth([frames[row] for row in range(len(frames))], EXPOSURE)

    def __call__(self, image):
        rows = [int((self.truth.image == one).flatten(1).all(1).nonzero()[0]) for one in image]
        return 0.5 * self.truth.albedo[rows], self.truth.shading[rows]


def test_the_truth_scores_zero_in_any_scale(frames) -> None:
    scores = score_intrinsic(Oracle(frames), frames, rows=[0, 1, 2, 4])
    assert scores.score < 1e-6
    assert (scores.si_mse_reflectance < 1e-9).all()
    assert (scores.mse_reflectance > 0.01).all()
    assert (scores.mse_shading == 0).all()


def test_errors_are_those_of_the_metrics(frames) -> None:
    scores = score_intrinsic(constant_shading, frames, batch_size=2)
    truth = ground_truth([frames[row] for row in range(5)], EXPOSURE)
    reflectance, shading = constant_shading(truth.image)
    wanted = lmse_score(reflectance, shading, truth.albedo, truth.shading, truth.mask)
    torch.testing.assert_close(scores.lmse, wanted, equal_nan=True)
    torch.testing.assert_close(scores.mse_reflectance, mse(reflectance, truth.albedo, truth.mask))
    torch.testing.assert_close(scores.si_mse_shading, si_mse(shading, truth.shading, truth.mask))
    assert scores.ids == tuple(f"memory/{row:06d}" for row in range(5))


def test_pixels_without_albedo_do_not_count(frames) -> None:
    plain = score_intrinsic(constant_shading, frames, rows=[0])

    def spoilt(image):
        reflectance, shading = image.clone(), torch.ones_like(image)
        reflectance[:, :, :6, :9], shading[:, :, :6, :9] = 7, torch.nan
        return reflectance, shading

    assert score_intrinsic(spoilt, frames, rows=[0]).to_json() == plain.to_json()


def test_rows_are_scored_in_the_order_asked_for(frames) -> None:
    every = score_intrinsic(constant_shading, frames)
    some = score_intrinsic(constant_shading, frames, rows=[4, 1])
    assert some.ids == (every.ids[4], every.ids[1])
    assert torch.equal(some.lmse, every.lmse[[4, 1]])


def test_frame_without_light_is_left_out_of_the_mean(frames) -> None:
    scores = score_intrinsic(constant_shading, frames)
    assert scores.lmse.isnan().tolist() == [False, False, False, True, False]
    assert scores.score == pytest.approx(scores.lmse[[0, 1, 2, 4]].mean().item())
    assert math.isnan(score_intrinsic(constant_shading, frames, rows=[3]).score)


def test_json_is_strict_and_says_what_better_means(frames) -> None:
    scores = score_intrinsic(constant_shading, frames)
    content = json.loads(scores.to_json(), parse_constant=pytest.fail)
    assert content["better"] == "lower"
    assert content["score"] == content["means"]["lmse"] == scores.score
    assert content["samples_scored"] == 4
    assert [sample["id"] for sample in content["samples"]] == list(scores.ids)
    assert content["samples"][3]["lmse_shading"] is None
    assert content["samples"][2]["mse_shading"] == scores.mse_shading[2].item()


def test_baselines_are_scored_like_models(frames) -> None:
    found = score_baselines(frames, rows=[2, 0])
    assert found.keys() == BASELINES.keys()
    for name, scores in found.items():
        assert scores.to_json() == score_intrinsic(BASELINES[name], frames, rows=[2, 0]).to_json()


def test_network_is_run_in_evaluation_mode_and_keeps_its_own(frames) -> None:
    class Dropping(torch.nn.Module):
        def forward(self, image):
            assert not torch.is_grad_enabled()
            return torch.nn.functional.dropout(image, training=self.training), torch.ones_like(image)

    model = Dropping()
    assert score_intrinsic(model, frames).to_json() == score_intrinsic(constant_shading, frames).to_json()
    assert model.training


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (lambda image: (image, image.mean(1)), r"\[\[1, 3, 24, 30\], \[1, 24, 30\]\]"),
        (lambda image: (image,), r"\[\[1, 3, 24, 30\]\]"),
        (lambda image: (image, None), r"\[\[1, 3, 24, 30\], 'NoneType'\]"),
        (lambda image: 1, r"\['int'\]"),
    ],
    ids=["gray", "one", "none", "number"],
)
def test_model_with_another_output(frames, output, got: str) -> None:
    with pytest.raises(InputError, match=rf"must return reflectance and shading .*got {got}"):
        score_intrinsic(output, frames, rows=[0])


def test_missing_layer(frames) -> None:
    del frames.samples[1]["shading"]
    with pytest.raises(InputError, match="sample `memory/000001` has no `shading` layer"):
        score_intrinsic(constant_shading, frames)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [5]}, r"`rows` must lie in 0\.\.4, got 5"),
        ({"rows": [-1]}, r"`rows` must lie in 0\.\.4, got -1"),
        ({"rows": []}, "`rows` must name at least one row"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
    ],
)
def test_bad_arguments(frames, arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_intrinsic(constant_shading, frames, **arguments)


def test_small_frames_are_refused(memory_frames) -> None:
    layers = {name: torch.ones(1, 3, 19, 30).half() for name in ("albedo", "shading")}
    frames = memory_frames({"image": torch.zeros(1, 3, 19, 30).byte(), **layers})
    with pytest.raises(InputError, match="at least one window of 20x20 pixels, got 19x30"):
        score_intrinsic(constant_shading, frames)
