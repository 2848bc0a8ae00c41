from dataclasses import replace

import numpy as np
import pytest
import torch

from evaluation.intrinsic import score_baselines, score_intrinsic
from evaluation.models.network import IntrinsicNet
from evaluation.training import intrinsic_loss, train_intrinsic, training_rows
from loaders.errors import InputError

QUICK = {"epochs": 2, "batch_size": 2, "width": 2}


def same_weights(one: IntrinsicNet, other: IntrinsicNet) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_learns_what_transfers_to_new_scenes(scenes) -> None:
    network, history = train_intrinsic(scenes(48, seed=0), seed=0, epochs=15, width=8)
    assert history.training[-1] < 0.7 * history.training[0]
    unseen = scenes(16, seed=1)
    trivial = min(result.score for result in score_baselines(unseen).values())
    found = score_intrinsic({"network": network}, unseen)["network"]
    assert found.score < 0.75 * trivial
    # Reflectance and shading come in their true scale, too.
    assert found.scores["mse_reflectance"].value < 0.04
    assert found.scores["mse_shading"].value < 0.04


def test_result_depends_on_the_seed_alone(scenes) -> None:
    frames = scenes(5, seed=0)
    before = torch.get_rng_state()
    one, history = train_intrinsic(frames, seed=1, **QUICK)
    again, same_history = train_intrinsic(frames, seed=1, **QUICK)
    other, _ = train_intrinsic(frames, seed=2, **QUICK)
    assert same_weights(one, again)
    assert history == same_history
    assert not same_weights(one, other)
    assert not one.training
    assert torch.equal(torch.get_rng_state(), before)


def test_held_out_rows_are_measured_but_not_learned(scenes) -> None:
    plain, history = train_intrinsic(scenes(6, seed=0), seed=0, validation=[1, 4], **QUICK)
    assert len(history.training) == len(history.validation) == 2
    changed = scenes(6, seed=0)
    for row in (1, 4):
        changed.items[row] = replace(changed[row], reflectance=changed[row].reflectance / 2)
    network, other = train_intrinsic(changed, seed=0, validation=[1, 4], **QUICK)
    assert same_weights(plain, network)
    assert other.training == history.training
    assert other.validation != history.validation


def test_rows_choose_what_is_learned(scenes) -> None:
    frames = scenes(6, seed=0)
    some, history = train_intrinsic(frames, seed=0, rows=[0, 2, 3, 5], **QUICK)
    rest, _ = train_intrinsic(frames, seed=0, validation=[1, 4], **QUICK)
    assert same_weights(some, rest)
    assert history.validation == ()


def test_pixels_without_albedo_do_not_count(scenes) -> None:
    view, spoilt = scenes(2, seed=0), scenes(2, seed=0)
    for item in (*view.items, *spoilt.items):
        item.mask[:5] = False
    for item in spoilt.items:
        item.shading[:, :5] = 9
    assert same_weights(*(train_intrinsic(some, seed=0, **QUICK)[0] for some in (view, spoilt)))


def test_gray_shading_is_learned_by_all_channels(scenes) -> None:
    view, gray = scenes(2, seed=0), scenes(2, seed=0)
    gray.items = [replace(item, shading=item.shading[:1]) for item in gray.items]
    assert same_weights(*(train_intrinsic(some, seed=0, **QUICK)[0] for some in (view, gray)))


def test_rows_are_read_once_if_they_fit_in_memory(scenes, monkeypatch) -> None:
    def counting(view):
        reads = []
        read = type(view).__getitem__
        monkeypatch.setattr(type(view), "__getitem__", lambda self, row: reads.append(row) or read(self, row))
        return reads

    reads = counting(scenes(4, seed=0))
    held, _ = train_intrinsic(scenes(4, seed=0), seed=0, **QUICK)
    assert len(reads) == 1 + 4  # one more to learn the size of an image
    reads.clear()
    monkeypatch.setattr(training_rows, "CACHE_BYTES", 1)
    read_again, _ = train_intrinsic(scenes(4, seed=0), seed=0, **QUICK)
    assert same_weights(held, read_again)
    assert len(reads) > 1 + 4


def test_loss_equals_a_loop_over_pixels() -> None:
    rng = np.random.default_rng(0)
    prediction, target = rng.uniform(0, 1, (2, 2, 3, 5, 6))
    mask = rng.uniform(size=(2, 5, 6)) < 0.7
    for row in range(2):
        error = np.log(prediction[row] + 0.01) - np.log(target[row] + 0.01)
        inside, steps = [], 0.0
        for y, x in np.argwhere(mask[row]):
            inside.append(error[:, y, x])
            for before in ((y - 1, x), (y, x - 1)):
                if min(before) >= 0 and mask[row][before]:
                    steps += np.abs(error[:, y, x] - error[(slice(None), *before)]).sum()
        values = np.array(inside)
        wanted = (values**2).mean() - values.mean() ** 2 / 2 + steps / values.size
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [0, 1], "validation": [1]}, "must share no row, got 1 in both"),
        ({"validation": [0, 1, 2]}, "`rows` must name at least one row"),
        ({"validation": [3]}, r"`validation` must lie in 0\.\.2, got 3"),
        ({"rows": [-1]}, r"`rows` must lie in 0\.\.2, got -1"),
        ({"epochs": 0}, "`epochs` and `batch_size` must be at least 1, got 0 and 4"),
        ({"batch_size": 0, "epochs": 1}, "`epochs` and `batch_size` must be at least 1, got 1 and 0"),
    ],
)
def test_bad_arguments(scenes, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_intrinsic(scenes(3, seed=0), seed=0, **arguments)
