import hashlib
import json

import numpy as np
import pytest

from candlelight.loaders.epoch_order import EpochOrder, ResumableSampler
from tests.refusals import refused


def all_rows(epoch, **options):
    return [EpochOrder(rank=rank, **options).epoch_rows(epoch) for rank in range(options["world_size"])]


@pytest.mark.parametrize(("rows", "ranks"), [(1, 1), (12, 3), (13, 3), (7, 7), (100, 8)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_share_the_rows(rows, ranks, shuffle):
    options = {"rows": rows, "world_size": ranks, "shuffle": shuffle, "seed": 4}
    kept = all_rows(2, **options, uneven="keep")
    assert sorted(np.concatenate(kept)) == list(range(rows))
    padded = all_rows(2, **options, uneven="pad")
    assert {len(share) for share in padded} == {-(-rows // ranks)}
    assert set(np.concatenate(padded)) == set(range(rows))
    assert np.bincount(np.concatenate(padded)).max() <= 2
    dropped = all_rows(2, **options, uneven="drop")
    assert {len(share) for share in dropped} == {rows // ranks}
    assert np.bincount(np.concatenate(dropped)).max() == 1
    for whole, more, less in zip(kept, padded, dropped, strict=True):
        assert more[: len(whole)].tolist() == whole.tolist()
        assert whole[: len(less)].tolist() == less.tolist()


def test_every_epoch_and_seed_has_its_own_order():
    orders = [
        tuple(EpochOrder(50, shuffle=True, seed=seed).epoch_rows(epoch))
        for seed in range(5)
        for epoch in range(5)
    ]
    assert len(set(orders)) == 25
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert EpochOrder(50).epoch_rows(3).tolist() == list(range(50))


def test_each_row_comes_first_equally_often():
    firsts = [EpochOrder(8, shuffle=True).epoch_rows(epoch)[0] for epoch in range(800)]
    counts = np.bincount(firsts, minlength=8)
    assert ((counts - 100) ** 2 / 100).sum() < 24.3  # chi-square of 7 degrees of freedom, p = 0.001


def test_golden_orders_do_not_change():
    """Old runs must stay resumable: these values must never change."""
    assert EpochOrder(8, shuffle=True, seed=1).epoch_rows(0).tolist() == [4, 0, 7, 6, 5, 3, 1, 2]
    assert EpochOrder(8, shuffle=True, seed=2**40).epoch_rows(7).tolist() == [4, 7, 6, 2, 1, 3, 0, 5]
    order = EpochOrder(100_000, shuffle=True).epoch_rows(3).astype("<i8")
    assert hashlib.sha256(order.tobytes()).hexdigest()[:16] == "35549cced66cc0d5"


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_slices_of_the_rows_of_a_rank(drop_last):
    for batch_size in (1, 3, 4, 10):
        order = EpochOrder(10, batch_size, shuffle=True, drop_last=drop_last)
        batches = list(order.batches(1))
        rows = order.epoch_rows(1).tolist()
        expected = [rows[first : first + batch_size] for first in range(0, 10, batch_size)]
        if drop_last:
            expected = [batch for batch in expected if len(batch) == batch_size]
        assert batches == expected
        assert len(order) == len(expected)
        assert list(order.batches(1, 1)) == expected[1:]
        assert list(order.batches(1, len(order))) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected 1 or more, got 0"),
        ({"seed": -1}, "seed: expected 0 or more, got -1"),
        ({"rank": 2, "world_size": 2}, "rank: expected 0..world_size - 1 = 1, got 2"),
        ({"rank": -1}, "rank: expected .* got -1"),
        ({"world_size": 6}, "world_size: expected at most one rank for each of 5 rows, got 6"),
        ({"rows": 0}, "world_size: expected at most one rank for each of 0 rows"),
        (
            {"batch_size": 4, "world_size": 2, "drop_last": True},
            "batch_size: expected at most the 3 rows of a rank with drop_last, got 4; lower it",
        ),
        ({"epoch": -1}, "epoch: expected 0 or more, got -1"),
        ({"uneven": "fill"}, "uneven: expected pad, drop or keep, got 'fill'"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with refused(message):
        ResumableSampler(**{"rows": 5} | options)


@pytest.mark.parametrize("stop", [0, 1, 3, 4, 6])
def test_a_run_continues_where_another_run_stopped(stop):
    options = {"batch_size": 3, "shuffle": True, "seed": 9, "epoch": 2}
    whole = ResumableSampler(10, **options)
    expected = list(whole.track(whole)) + list(whole.track(whole))
    first = ResumableSampler(10, **options)
    read = []
    while len(read) < stop:
        for batch in first.track(first):
            read.append(batch)
            if len(read) == stop:
                break
    state = json.loads(json.dumps(first.state_dict()))
    second = ResumableSampler(10, **options | {"epoch": 0})
    second.load_state_dict(state)
    while second.epoch < 4:
        read += second.track(second)
    assert read == expected
    assert len(second) == 4


@pytest.mark.parametrize("stop", [0, 2, 4])
def test_uncounted_batches_are_detected(stop):
    sampler = ResumableSampler(4)
    for number, _ in enumerate(sampler.track(sampler) if stop else (), 1):
        if number == stop:
            break
    sampler.state_dict()
    list(sampler)
    with refused(r"batches were not counted; iterate over `track\(loader\)`"):
        sampler.state_dict()
    sampler.set_epoch(5)
    assert sampler.state_dict()["epoch"] == 5


@pytest.mark.parametrize(
    ("uneven", "batches"), [("pad", [3, 3, 3]), ("keep", [3, 2, 2]), ("drop", [2, 2, 2])]
)
def test_the_state_of_one_rank_resumes_all_ranks(uneven, batches):
    """One rank saves the checkpoint for all; three ranks share seven rows."""

    def ranks():
        options = {"shuffle": True, "seed": 2, "world_size": 3, "uneven": uneven}
        return [ResumableSampler(7, rank=rank, **options) for rank in range(3)]

    assert [len(rank) for rank in ranks()] == batches
    for saver, most in enumerate(batches):
        for done in range(most + 1):
            first, second = ranks(), ranks()
            counting = first[saver].track(first[saver])
            for _ in range(done):
                next(counting)
            for rank in second:
                rank.load_state_dict(first[saver].state_dict())
                assert list(rank.track(rank)) == list(rank.order.batches(0))[done:]
                assert rank.epoch == 1


def test_loaders_of_another_order_are_refused():
    torch_data = pytest.importorskip("torch.utils.data")
    sampler, rows = ResumableSampler(4, 2), list(range(4))
    with refused("batch_sampler: expected a DataLoader made with this sampler"):
        sampler.track(torch_data.DataLoader(rows, batch_size=2, shuffle=True))
    as_they_come = torch_data.DataLoader(rows, batch_sampler=sampler, num_workers=1, in_order=False)
    with refused("in_order: expected True"):
        sampler.track(as_they_come)


def test_a_state_of_another_order_is_refused():
    sampler = ResumableSampler(10, shuffle=True)
    state = sampler.state_dict()
    for name, now, then in (("seed", 1, 0), ("world_size", 2, 1), ("rows", 11, 10)):
        other = ResumableSampler(**{"rows": 10, "shuffle": True, name: now})
        with refused(f"state: expected {name} {now}, got {then}; use the arguments of that run"):
            other.load_state_dict(state)
    for odd in ({}, {"epoch": 0, "done": 0, "order": 3}, {"epoch": "x", "done": 0, "order": {}}):
        with refused("state: expected a result of `state_dict`, got something else"):
            sampler.load_state_dict(odd)
    for done in (-1, 11):
        with refused(rf"expected up to 10 batches of an epoch, got {done} of 0"):
            sampler.load_state_dict(state | {"done": done})
    sampler.load_state_dict(state | {"done": 10})
    assert list(sampler.track(sampler)) == []
    assert sampler.epoch == 1
