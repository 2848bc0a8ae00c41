import gc
import json
import weakref
from pathlib import Path

import pytest

from candlelight.loaders.epoch_order import ResumableSampler
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.samples import collate

torch = pytest.importorskip("torch")

# Python 3.12 and newer warn of forking after torch has started threads; these tests fork on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture(scope="module")
def frames(stored):
    return HDF5Frames(stored / "hdf5" / "grid.h5", layers=["image", "depth"])


def loader_of(rows, sampler, workers, collate_fn=list, **options):
    context = "fork" if workers else None
    options |= {"batch_sampler": sampler, "collate_fn": collate_fn}
    return torch.utils.data.DataLoader(rows, num_workers=workers, multiprocessing_context=context, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_resumed_in_mid_epoch_reads_the_remaining_batches(frames, workers):
    def start():
        sampler = ResumableSampler(len(frames), 2, shuffle=True, seed=5)
        return sampler, loader_of(frames, sampler, workers, collate)

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


def test_batches_and_files_are_released(frames):
    sampler = ResumableSampler(len(frames), 2)
    loader, opened = loader_of(frames, sampler, 0, collate_fn=collate), []
    gc.collect()  # files of earlier tests in this process, whose readers are garbage, would be closed later
    for _ in range(3):
        kept = [weakref.ref(batch["image"]) for batch in sampler.track(loader)]
        assert [reference() for reference in kept] == [None] * 3
        opened.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(opened)) == 1
