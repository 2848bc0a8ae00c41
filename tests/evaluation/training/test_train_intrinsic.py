import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.training import SmallRows, intrinsic_loss, train_intrinsic
from candlelight.evaluation.training.train_intrinsic import TrainingRows, draw_batches, regime_loss
from tests.evaluation.training.conftest import same_weights
from tests.refusals import refused

QUICK = {"epochs": 2, "batch_size": 2, "width": 2}


def test_learns_what_transfers_to_new_scenes(scenes) -> None:
    network, history = train_intrinsic(scenes(24, seed=0), seed=0, epochs=16, width=8, batch_size=2)
    assert history.training[-1] < 0.75 * history.training[0]
    unseen = scenes(8, seed=1)
    trivial = min(result.score for result in evaluate("lmse", unseen, BASELINES).values())
    found = evaluate("lmse", unseen, {"network": network})["network"]
    assert found.score < 0.75 * trivial
    # Reflectance and shading come in their true scale, too.
    assert found.scores["mse_reflectance"].value < 0.045
    assert found.scores["mse_shading"].value < 0.04


def test_pixels_without_albedo_do_not_count_and_gray_shading_is_learned_by_all_channels(scenes) -> None:
    view, spoilt = scenes(2, seed=0), scenes(2, seed=0)
    for item in (*view.items, *spoilt.items):
        item.mask[:5] = False
    for item in spoilt.items:
        item.shading[:, :5] = 9
    spoilt.items = [replace(item, shading=item.shading[:1]) for item in spoilt.items]
    assert same_weights(*(train_intrinsic(some, seed=0, **QUICK)[0] for some in (view, spoilt)))


def test_supervised_loss_equals_a_loop_over_pixels() -> None:
    rng = np.random.default_rng(0)
    prediction, target = rng.uniform(0, 1, (2, 2, 3, 5, 6))
    mask = rng.uniform(size=(2, 5, 6)) < 0.7
    for row in range(2):
        error = np.log(prediction[row] + 0.01) - np.log(target[row] + 0.01)
        inside, steps = [], {(1, 0): [], (0, 1): []}
        for y, x in np.argwhere(mask[row]):
            inside.append(error[:, y, x])
            for (down, right), some in steps.items():
                before = (y - down, x - right)
                if min(before) >= 0 and mask[row][before]:
                    some.extend(np.abs(error[:, y, x] - error[(slice(None), *before)]))
        values = np.array(inside)
        wanted = (values**2).mean() - values.mean() ** 2 / 2 + sum(map(np.mean, steps.values()))
        found = intrinsic_loss(*map(torch.from_numpy, (prediction, target, mask)))[row].item()
        assert found == pytest.approx(wanted, rel=1e-12)


def test_loss_ignores_half_of_a_scale_error_and_is_zero_without_pixels() -> None:
    target = torch.full((2, 3, 4, 4), 0.5, dtype=torch.float64)
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[1] = False
    # All errors are log 2: log(2)^2 - log(2)^2 / 2, and no differences.
    found = intrinsic_loss(2 * target + 0.01, target, mask)
    assert found.tolist() == pytest.approx([np.log(2) ** 2 / 2, 0])


def test_loss_has_a_finite_gradient_at_black() -> None:
    prediction = torch.zeros(1, 3, 4, 4, requires_grad=True)
    intrinsic_loss(prediction, torch.ones(1, 3, 4, 4), torch.ones(1, 4, 4, dtype=torch.bool)).backward()
    assert prediction.grad.isfinite().all()


@pytest.mark.parametrize("regime", ["multi-illumination", "unsupervised"])
def test_truth_of_an_image_is_not_read_without_supervision(lit_scenes, regime: str) -> None:
    """Spoil the truth of all images; the unsupervised regime keeps that of the last scene as an example."""
    spoilt = copy.copy(lit_scenes)
    rows = range(len(lit_scenes)) if regime == "multi-illumination" else range(len(lit_scenes) - 2)
    spoilt.items = [
        replace(item, reflectance=item.reflectance.flip(1), shading=item.shading.flip(1))
        if row in rows
        else item
        for row, item in enumerate(lit_scenes.items)
    ]
    batches = []
    for view in (lit_scenes, spoilt):
        reader = TrainingRows(view)
        draws = torch.Generator().manual_seed(0)
        made = reader.with_others(reader.mirrored([[0, 1]], draws), [0, 1, 6, 7], draws)
        batches.append(next(iter(made)))
    parts = torch.rand(2, 2, 3, 24, 32, generator=torch.Generator().manual_seed(1))
    losses = [regime_loss(regime, tuple(parts), batch, torch.Generator().manual_seed(2)) for batch in batches]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("regime", "options", "message"),
    [
        ("multi-illumination", {"rows": [0, 2]}, "at least 2 of them in a batch, got at most 1"),
        ("multi-illumination", {"lights": 1}, "got at most 1; give other data"),
        ("unsupervised", {"rows": [0, 1]}, "expected rows of more scenes than the 1 of a batch"),
        ("semi-supervised", {}, "`regime`: expected one of supervised, multi-illumination, unsupervised"),
    ],
)
def test_a_regime_refuses_data_without_its_supervision(lit_scenes, regime: str, options, message) -> None:
    with refused(message):
        train_intrinsic(lit_scenes, regime=regime, seed=0, **QUICK | options)


def test_batches_hold_every_row_once_and_scenes_together() -> None:
    scenes = [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
    draws = torch.Generator().manual_seed(0)
    batches = draw_batches(scenes, range(10), 4, 2, draws)
    assert sorted(row for batch in batches for row in batch) == list(range(10))
    assert max(map(len, batches)) <= 4
    parts = [[scenes[row] for row in batch] for batch in batches]
    assert all(len(set(some)) < len(some) or len(some) == 1 for some in parts)


def test_images_of_one_scene_are_mirrored_together(lit_scenes) -> None:
    reader, seen = TrainingRows(lit_scenes), set()
    for seed in range(8):
        draws = torch.Generator().manual_seed(seed)
        (batch,) = reader.mirrored([[0, 1, 2, 3]], draws)
        plain = [torch.equal(batch.truth.image[row], lit_scenes[row].image) for row in range(4)]
        assert plain[0] == plain[1]
        assert plain[2] == plain[3]
        seen.add((plain[0], plain[2]))
    assert len(seen) > 1


def test_images_of_several_sizes_are_scaled_to_squares(scenes) -> None:
    view = scenes(2, seed=0)
    view.items.append(scenes(1, seed=1, height=48, width=40)[0])
    view.ids, view.groups = ("a", "b", "c"), ("a", "b", "c")
    with refused(r"one size, got 24 x 32 and 48 x 40"):
        train_intrinsic(view, seed=0, **QUICK)
    small = SmallRows(view, size=16)
    assert {tuple(item.image.shape) for item in small} == {(3, 16, 16)}
    assert small[2].mask.sum() == 16 * 13
    assert torch.allclose(
        small[0].image[:, :12, :16], view[0].image.unfold(1, 2, 2).unfold(2, 2, 2).mean((3, 4))
    )
    known = torch.ones_like(view[0].image, dtype=torch.bool)
    known[0, :2, :1] = False
    view.items[0] = replace(view[0], shading_known=known)
    assert (~small[0].shading_known[:, :12]).nonzero().tolist() == [[0, 0, 0]]
    train_intrinsic(small, seed=0, **QUICK)


@pytest.mark.parametrize("layer", ["image", "reflectance", "shading"])
def test_values_that_are_not_finite_leave_the_mask(scenes, layer: str) -> None:
    unknown, spoilt = scenes(2, seed=0), scenes(2, seed=0)
    for item in unknown.items:
        item.mask[3] = False
    for view, value in ((unknown, 0.0), (spoilt, np.nan)):
        view.items = [replace(item, **{layer: getattr(item, layer).clone()}) for item in view.items]
        for item in view.items:
            getattr(item, layer)[:, 3] = value
    found = [train_intrinsic(view, seed=0, **QUICK) for view in (unknown, spoilt)]
    assert same_weights(found[0][0], found[1][0])
    assert np.isfinite(found[1][1].training).all()


def test_small_held_out_images_and_images_without_a_known_pixel_are_refused(scenes, tmp_path) -> None:
    view = SmallRows(scenes(3, seed=0), size=16)
    with refused(r"windows of 20x20 pixels, got images of 16x16 .*larger `SmallRows`"):
        train_intrinsic(view, seed=0, validation=[0], state=tmp_path / "state", **QUICK)
    assert list(tmp_path.iterdir()) == []
    train_intrinsic(view, seed=0, **QUICK)
    unknown = scenes(2, seed=0)
    for item in unknown.items:
        item.mask[:] = False
    with refused("expected training images with known pixels, got none"):
        train_intrinsic(unknown, seed=0, **QUICK)
