"""Counterfactual pairs, triplets and windows with their targets, from every form of an image set."""

import pickle  # noqa: TID251 - a DataLoader pickles its data when it spawns workers

import pytest

from candlelight.loaders.causal_columns import INTERVENTION_KINDS
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.selection.pair_dataset import collate_pairs
from candlelight.loaders.selection.sample_tuples import (
    counterfactual_pairs,
    counterfactual_triplets,
    sequence_windows,
)
from tests.loaders.conftest import CAUSAL
from tests.refusals import refused

torch = pytest.importorskip("torch")
FACTORS = ["shape", "angle"]


def form(causal_root, causal_packs, datasets, how, name):
    if how == "folder":
        return FrameFolder(causal_root, name)
    if how == "datasets":
        loaded = datasets.load_dataset(str(causal_packs / "hub"), name, split="train")
        return loaded.with_format("torch")
    return open_frames(causal_packs / how, name)


@pytest.fixture(params=["folder", "hdf5", "hub", "datasets"])
def opened(request, causal_root, causal_packs, datasets):
    return lambda name: form(causal_root, causal_packs, datasets, request.param, name)


@pytest.fixture
def folder(causal_root):
    return lambda name: FrameFolder(causal_root, name)


def ids(tuples):
    """List the ids of the samples of each tuple, and check the pixels and targets against the metadata."""
    found = []
    for number in range(len(tuples)):
        item = tuples[number]
        found.append(tuple(sample["id"] for sample in item["samples"]))
        many = len(item["samples"]) > 2
        for place, sample in enumerate(item["samples"][1:]):
            name, _, index = sample["id"].rpartition("-")
            kinds = CAUSAL[name][int(index)][-1]
            due = [INTERVENTION_KINDS.index(kinds.get(factor, "")) for factor in tuples.factors]
            assert (item["kinds"][place] if many else item["kinds"]).tolist() == due
            assert (item["targets"][place] if many else item["targets"]).tolist() == [
                kind > 0 for kind in due
            ]
    return found


def test_pairs_join_each_counterfactual_to_its_factual(opened):
    pairs = counterfactual_pairs(opened("train"), opened("changed"), FACTORS)
    due = [("train-000000", f"changed-{row:06d}") for row in range(3)]
    assert ids(pairs) == [*due, ("train-000002", "changed-000003")]
    assert pairs[1]["targets"].tolist() == [False, True]


def test_interventions_that_both_samples_share_are_no_targets(opened):
    pairs = counterfactual_pairs(opened("steps"), opened("late"), FACTORS)
    kinds = [pairs[row]["kinds"].tolist() for row in range(4)]
    # Of the second pair, shape was set to the same value before. The angle of the third was soft before, and
    # the shape of the fourth had another value.
    assert kinds == [[0, 0], [0, 3], [0, 1], [1, 0]]


def test_triplets_have_two_counterfactuals_of_different_targets(opened):
    """Of the three counterfactuals of sample 0, the last two have the same target."""
    triplets = counterfactual_triplets(opened("train"), opened("changed"), FACTORS)
    due = [("train-000000", "changed-000000", f"changed-{row:06d}") for row in (1, 2)]
    assert ids(triplets) == due
    assert triplets[1]["kinds"].tolist() == [[1, 0], [0, 3]]


@pytest.mark.parametrize("length", [2, 3])
def test_windows_are_the_successive_steps_of_a_unit(opened, length):
    windows = sequence_windows(opened("steps"), length, FACTORS)
    rows = range(len(CAUSAL["steps"]))
    due = [
        tuple(f"steps-{row:06d}" for row in window)
        for window in zip(*(rows[start:] for start in range(length)), strict=False)
        if len({CAUSAL["steps"][row][0] for row in window}) == 1
    ]
    assert ids(windows) == due
    assert len(due) == {2: 4, 3: 2}[length]


def test_targets_on_hidden_variables_are_named(folder):
    """By default, the intervention on `mood` would not be seen."""
    pairs = counterfactual_pairs(folder("train"), folder("hidden"), ["mood", "angle"])
    assert pairs[0]["targets"].tolist() == [True, True]
    assert counterfactual_pairs(folder("train"), folder("hidden"), ["shape"])[0]["targets"].tolist() == [
        False
    ]
    assert counterfactual_pairs(folder("train"), folder("changed")).factors == ("shape", "angle")
    with refused(r"set `mood`, which is no factor of the set; .* factors=\['shape', 'angle', 'mood'\]"):
        counterfactual_pairs(folder("train"), folder("hidden"))


def test_pixels_are_those_of_the_rows(folder):
    train, changed = folder("train"), folder("changed")
    first, second = counterfactual_pairs(train, changed)[3]["samples"]
    torch.testing.assert_close(first["image"], train[2]["image"], rtol=0, atol=0)
    torch.testing.assert_close(second["image"], changed[3]["image"], rtol=0, atol=0)


def test_windows_without_a_step_are_left_out_and_any_order_of_rows_is_right(causal_packs, datasets):
    loaded = datasets.load_dataset(str(causal_packs / "hub"), "steps", split="train")
    windows = sequence_windows(loaded.select([5, 1, 3, 0, 4]), 2, FACTORS)  # without step 2 of the first unit
    due = [(3, 4), (0, 1), (4, 5)]
    assert ids(windows) == [tuple(f"steps-{row:06d}" for row in pair) for pair in due]
    with refused("expected each sample once, got repeated ones; give the rows of one set"):
        sequence_windows(loaded.select([0, 1, 0]), 2, FACTORS)


def test_workers_batch_the_same_tuples(causal_packs):
    frames = open_frames(causal_packs / "hdf5", "steps")
    windows = sequence_windows(frames, 3)
    loader = torch.utils.data.DataLoader(
        pickle.loads(pickle.dumps(windows)),  # as a spawned worker gets them
        batch_size=2,
        collate_fn=collate_pairs,
        num_workers=2,
        multiprocessing_context="fork",
    )
    (batch,) = loader
    assert [step["id"] for step in batch["samples"]] == [
        [f"steps-{row:06d}" for row in rows] for rows in ((0, 3), (1, 4), (2, 5))
    ]
    assert batch["samples"][0]["image"].shape == (2, 3, 24, 32)
    assert batch["targets"].tolist() == [[[True, False], [False, True]], [[False, False], [True, False]]]
    assert batch["kinds"].dtype == torch.uint8
    assert collate_pairs(windows.__getitems__([1, 0]), collate=len)["samples"] == [2, 2, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda get: sequence_windows(get("train")), "expected a set with steps, got one without"),
        (
            lambda get: sequence_windows(get("steps"), 1),
            "length: expected 2 steps or more in a window, got 1",
        ),
        (lambda get: sequence_windows(get("steps"), 4), "expected a unit with 4 successive steps"),
        (
            lambda get: counterfactual_pairs(get("steps"), get("changed")),
            "expected a counterfactual of a sample",
        ),
        (
            lambda get: counterfactual_triplets(get("train"), get("train")),
            "expected a sample with two counter",
        ),
        (
            lambda get: counterfactual_pairs([1], get("changed")),
            "factors: expected the names of the factors for a",
        ),
        (lambda get: counterfactual_pairs([1], get("changed"), FACTORS), "expected frames, a pack, or a"),
    ],
)
def test_sets_without_tuples_are_refused(folder, make, message):
    with refused(message):
        make(folder)
