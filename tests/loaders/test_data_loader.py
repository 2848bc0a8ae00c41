import gc
import json
import weakref
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from candlelight.loaders.epoch_order import ResumableSampler
from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.samples import collate

# Python 3.12 and newer warn of forking after torch has started threads; these tests fork on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
WORKERS = [(0, None), (1, "fork"), (2, "fork"), (1, "spawn")]


@pytest.fixture(scope="module")
def frames(tmp_path_factory, frames_root):
    """Pack one set of six frames."""
    folder = tmp_path_factory.mktemp("packed")
    pack_hdf5(frames_root, folder, sets=["grid"])
    return HDF5Frames(folder / "grid.h5", layers=["image", "depth"])


def loader_of(rows, sampler, workers, method="fork", collate_fn=list, **options):
    context = method if workers else None
    options |= {"batch_sampler": sampler, "collate_fn": collate_fn}
    return DataLoader(rows, num_workers=workers, multiprocessing_context=context, **options)


@pytest.mark.parametrize(("workers", "method"), WORKERS)
def test_a_run_resumed_in_mid_epoch_reads_the_remaining_batches(frames, workers, method):
    def start():
        sampler = ResumableSampler(len(frames), 2, shuffle=True, seed=5)
        return sampler, loader_of(frames, sampler, workers, method, collate)

    run, loader = start()
    expected = [collate([frames[row] for row in rows]) for rows in run.order.batches(0)]
    batches = run.track(loader)
    next(batches)
    state = json.loads(json.dumps(run.state_dict()))
    rest = list(batches)
    again, loader = start()
    again.load_state_dict(state)
    for found in (rest, list(again.track(loader))):
        for batch, wanted in zip(found, expected[1:], strict=True):
            assert batch["id"] == wanted["id"]
            for name in ("index", *frames.layers):
                assert torch.equal(batch[name], wanted[name])
    assert run.epoch == again.epoch == 1


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_run_may_be_resumed_with_another_number_of_workers(workers):
    first, second = (ResumableSampler(11, shuffle=True) for _ in range(2))
    expected = list(first.order.batches(0))
    samples = first.track(loader_of(range(11), first, 1))
    read = [next(samples) for _ in range(5)]
    second.load_state_dict(first.state_dict())
    assert read + list(second.track(loader_of(range(11), second, workers))) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_all_ranks_and_workers_read_each_row_once(workers):
    read = []
    for rank in range(3):
        sampler = ResumableSampler(13, 2, shuffle=True, rank=rank, world_size=3, uneven="keep")
        for batch in sampler.track(loader_of(range(13), sampler, workers)):
            read += batch
    assert sorted(read) == list(range(13))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_run_continues_after_an_error_in_its_loop(persistent):
    """Eleven rows in batches of four: the last batch is short; the error occurs in the second epoch."""
    run = ResumableSampler(11, 4, shuffle=True, seed=1)
    loader = loader_of(range(11), run, 2, persistent_workers=persistent)
    expected = [batch for epoch in range(3) for batch in run.order.batches(epoch)]
    assert [len(batch) for batch in expected] == [4, 4, 3] * 3
    assert len(set(map(tuple, expected))) == 9
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


@pytest.mark.parametrize("workers", [0, 2])
def test_uncounted_batches_after_a_counted_epoch_are_detected(workers):
    sampler = ResumableSampler(4, 2)
    loader = loader_of(range(4), sampler, workers)
    assert list(sampler.track(loader)) == [[0, 1], [2, 3]]
    assert sampler.state_dict()["epoch"] == 1
    assert list(loader) == [[0, 1], [2, 3]]
    with pytest.raises(InputError, match="batches were not counted"):
        sampler.state_dict()


def test_batches_and_files_are_released(frames):
    sampler = ResumableSampler(len(frames), 2)
    loader, opened = loader_of(frames, sampler, 0, collate_fn=collate), []
    gc.collect()  # files of earlier tests in this process, whose readers are garbage, would be closed later
    for _ in range(3):
        kept = [weakref.ref(batch["image"]) for batch in sampler.track(loader)]
        assert [reference() for reference in kept] == [None] * 3
        opened.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(opened)) == 1
