import pickle  # noqa: TID251 - a DataLoader pickles its data when it spawns workers
from functools import partial

import numpy as np
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.pair_dataset import PairDataset, collate_pairs, read_samples
from candlelight.loaders.selection.supervision import k_pairs, match_pairs, rank_pairs
from tests.refusals import refused

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def frames(frames_root) -> FrameFolder:
    return FrameFolder(frames_root, "grid", ["image"])


@pytest.fixture(scope="module")
def pairs(frames) -> PairDataset:
    return PairDataset(frames, partial(k_pairs, FactorIndex.of(frames), 3, k=1, distinct=True), length=24)


def as_lists(batch: dict) -> list:
    return list(zip(batch["first"]["id"], batch["second"]["id"], batch["label"].tolist(), strict=True))


def test_items_are_the_drawn_rows(frames, pairs):
    drawn = pairs.draw(np.arange(24))
    for i in range(24):
        item = pairs[i]
        assert item["first"]["id"] == frames.metadata(drawn.first[i]).id
        assert item["second"]["id"] == frames.metadata(drawn.second[i]).id
        assert item["drawn"].tolist() == drawn.drawn[i].tolist()
        assert item["label"] == 1
        assert item["first"]["factors"] != item["second"]["factors"]
    torch.testing.assert_close(pairs[0]["first"]["image"], frames[int(drawn.first[0])]["image"])


def test_another_epoch_has_other_pairs(frames, pairs):
    whole = PairDataset(frames, pairs.draw, length=48)
    later = PairDataset(frames, pairs.draw, length=24, start=24)
    assert [later[i]["first"]["id"] for i in range(24)] == [whole[24 + i]["first"]["id"] for i in range(24)]


def test_workers_do_not_change_pairs(pairs):
    loader = torch.utils.data.DataLoader(
        pickle.loads(pickle.dumps(pairs)),  # as a spawned worker gets them
        batch_size=5,
        collate_fn=collate_pairs,
        num_workers=2,
        multiprocessing_context="fork",
    )
    found = [pair for batch in loader for pair in as_lists(batch)]
    expected = [pairs[i] for i in range(24)]
    assert found == [(e["first"]["id"], e["second"]["id"], 1) for e in expected]


def test_batches_stack_labels_and_samples(frames):
    index = FactorIndex.of(frames)
    ranked = PairDataset(frames, partial(rank_pairs, index, 0, names=["size", "color"]), length=6)
    batch = collate_pairs(ranked.__getitems__([5, 0, 3]))
    assert batch["label"].shape == (3, 2)
    assert batch["label"].dtype == torch.bool
    assert batch["first"]["image"].shape[0] == 3
    own = collate_pairs(ranked.__getitems__([5, 0]), collate=len)
    assert own["second"] == 2


def test_data_without_batched_reading_are_read():
    assert read_samples({4: "x", 7: "y"}, np.array([7, 4])) == ["y", "x"]


def test_bad_numbers_and_lengths_are_refused(frames):
    index = FactorIndex.of(frames).select(np.array([0, 4]))
    lone = PairDataset(frames, partial(k_pairs, index, 0, distinct=True, k=1, missing="mask"), length=3)
    with refused("pair 1 has no second row"):
        lone[1]
    with pytest.raises(IndexError, match=r"pairs are numbered 0\.\.2, got 3 to 3"):
        lone[3]
    with refused("length: expected at least one pair, got 0"):
        PairDataset(frames, partial(match_pairs, index, 0, share=["size"]), length=0)
