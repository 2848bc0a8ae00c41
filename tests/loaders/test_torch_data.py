import json
import multiprocessing
import weakref
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from loaders.epochs import ResumableSampler
from loaders.errors import InputError
from loaders.hdf5.reader import HDF5Frames
from loaders.hdf5.writer import pack_hdf5
from loaders.samples import collate
from loaders.torch_data import FrameStream

# Python 3.12 and newer warn of forking once torch has started threads; it is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
WORKERS = [(0, None), (1, "fork"), (2, "fork")]


class Numbers:
    """Rows that are their own numbers, in place of frames; top level, so that it can be sent to workers."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> int:
        return row


@pytest.fixture(scope="module")
def frames(tmp_path_factory, frames_root):
    """Pack one set of six frames."""
    folder = tmp_path_factory.mktemp("packed")
    pack_hdf5(frames_root, folder, sets=["grid"])
    return HDF5Frames(folder / "grid.h5", layers=["image", "depth"])


def loader_of(stream, workers, method):
    context = multiprocessing.get_context(method) if method else None
    return DataLoader(stream, batch_size=None, num_workers=workers, multiprocessing_context=context)


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.parametrize(("workers", "method"), WORKERS)
def test_batches_are_the_same_however_many_workers(frames, workers, method):
    stream = FrameStream(frames, 2, shuffle=True, seed=3)
    expected = [collate([frames[row] for row in rows]) for rows in stream.order.batches(0)]
    assert len(stream) == len(loader_of(stream, 0, None)) == 3
    found = list(stream.track(loader_of(stream, workers, method)))
    assert indices(found) == indices(expected)
    for batch, wanted in zip(found, expected, strict=True):
        assert batch["id"] == wanted["id"]
        for name in frames.layers:
            assert torch.equal(batch[name], wanted[name])


@pytest.mark.parametrize(
    ("kind", "workers", "method"),
    [
        *[("stream", *how) for how in WORKERS],
        *[("map", *how) for how in WORKERS],
        ("stream", 2, "spawn"),
        ("map", 1, "spawn"),
    ],
)
def test_resuming_in_mid_epoch_gives_what_was_to_come(frames, kind, workers, method):
    def start():
        if kind == "stream":
            stream = FrameStream(frames, 1, shuffle=True, seed=5)
            return stream, loader_of(stream, workers, method)
        sampler = ResumableSampler(len(frames), 1, shuffle=True, seed=5)
        context = multiprocessing.get_context(method) if method else None
        return sampler, DataLoader(
            frames,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            multiprocessing_context=context,
        )

    run, loader = start()
    batches = run.track(loader)
    read = [next(batches) for _ in range(2)]
    state = json.loads(json.dumps(run.state_dict()))
    rest = list(batches)
    assert len(read + rest) == 6
    again, loader = start()
    again.load_state_dict(state)
    found = list(again.track(loader))
    assert indices(found) == indices(rest)
    for batch, wanted in zip(found, rest, strict=True):
        assert torch.equal(batch["image"], wanted["image"])
        assert torch.equal(batch["depth"], wanted["depth"])
    assert run.epoch == again.epoch == 1


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_run_may_go_on_with_other_workers(workers):
    first = FrameStream(Numbers(11), shuffle=True)
    expected = first.order.epoch_rows(0).tolist()
    samples = first.track(loader_of(first, 1, "fork"))
    read = [next(samples) for _ in range(5)]
    second = FrameStream(Numbers(11), shuffle=True)
    second.load_state_dict(first.state_dict())
    assert read + list(second.track(loader_of(second, workers, "fork" if workers else None))) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_all_ranks_and_workers_read_each_row_once(workers):
    read = []
    for rank in range(3):
        stream = FrameStream(Numbers(13), shuffle=True, rank=rank, world_size=3, uneven="keep")
        read += stream.track(loader_of(stream, workers, "fork" if workers else None))
    assert sorted(read) == list(range(13))


def test_persistent_workers_see_the_next_epoch():
    stream = FrameStream(Numbers(9), shuffle=True)
    loader = DataLoader(
        stream, batch_size=None, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
    )
    orders = [list(stream.track(loader)) for _ in range(3)]
    assert orders == [stream.order.epoch_rows(epoch).tolist() for epoch in range(3)]
    assert len(set(map(tuple, orders))) == 3


def test_more_workers_than_batches_read_each_row_once():
    stream = FrameStream(Numbers(3), 3, collate=list)
    assert list(stream.track(loader_of(stream, 2, "fork"))) == [[0, 1, 2]]


@pytest.mark.parametrize("kind", ["stream", "map"])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_run_goes_on_after_an_error_in_its_loop(kind, persistent):
    """Eleven rows by four: the last batch is short; the error comes in the second epoch."""
    options = {"shuffle": True, "seed": 1}
    workers = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": persistent}
    if kind == "stream":
        run = FrameStream(Numbers(11), 4, collate=list, **options)
        loader = DataLoader(run, batch_size=None, collate_fn=list, **workers)
    else:
        run = ResumableSampler(11, 4, **options)
        loader = DataLoader(Numbers(11), batch_sampler=run, collate_fn=list, **workers)
    expected = [batch for epoch in range(3) for batch in run.order.batches(epoch)]
    assert [len(batch) for batch in expected] == [4, 4, 3] * 3
    read = list(run.track(loader))

    def train():
        for batch in run.track(loader):
            read.append(batch)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    state = run.state_dict()
    assert (state["epoch"], state["done"], len(read)) == (1, 1, 4)
    rest = [batch for _ in range(2) for batch in run.track(loader)]
    assert read + rest == expected
    run.load_state_dict(state)
    assert [batch for _ in range(2) for batch in run.track(loader)] == rest


def test_workers_that_nobody_counts_are_noticed_after_a_counted_epoch():
    stream = FrameStream(Numbers(4))
    loader = loader_of(stream, 2, "fork")
    assert list(stream.track(loader)) == [0, 1, 2, 3]
    assert stream.state_dict()["epoch"] == 1
    assert list(loader) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="batches were read uncounted"):
        stream.state_dict()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_nobody_counted_is_not_said_to_be_done(workers):
    stream = FrameStream(Numbers(4))
    assert list(loader_of(stream, workers, "fork" if workers else None)) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="batches were read uncounted"):
        stream.state_dict()


def test_loaders_that_do_not_fit_are_refused():
    stream = FrameStream(Numbers(3))
    with pytest.raises(InputError, match="batch_size: give it to FrameStream, and `batch_size=None` to the"):
        stream.track(DataLoader(stream))
    with pytest.raises(InputError, match="dataset: expected a DataLoader of this stream, got one of other"):
        FrameStream(Numbers(3)).track(DataLoader(stream, batch_size=None))
    with pytest.raises(InputError, match="world_size: expected at most one rank for each of 3 rows, got 4"):
        FrameStream(Numbers(3), world_size=4)


def test_nothing_of_a_batch_is_kept(frames):
    stream = FrameStream(frames, 2)
    opened = []
    for _ in range(3):
        kept = [weakref.ref(batch["image"]) for batch in stream.track(stream)]
        assert [reference() for reference in kept] == [None] * 3
        opened.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(opened)) == 1
