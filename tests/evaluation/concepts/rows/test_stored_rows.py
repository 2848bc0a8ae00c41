import errno
import gc
import io
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from candlelight.evaluation.concepts import rows as row_module
from candlelight.evaluation.concepts.activations import layer_activations, layer_gradients
from candlelight.evaluation.concepts.cav import fit_cavs, random_cavs
from candlelight.evaluation.concepts.permutation import exchange_derivatives
from candlelight.evaluation.concepts.rows import (
    RecomputedRows,
    RowStorage,
    StoredRows,
    columns_of,
)
from candlelight.evaluation.concepts.sensitivity import directional_derivatives
from tests.refusals import refused

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_module, "_BLOCK_ELEMENTS", 1 << 7)


def stored(rows, folder, batch=3):
    """Write rows in batches."""
    found = StoredRows(tuple(rows.shape), rows.dtype, CPU, folder)
    for start in range(0, len(rows), batch):
        found.write(rows[start : start + batch], start)
    return found


def recomputed(rows, folder, width=9):
    return RecomputedRows(lambda some: rows[some], len(rows), memory=len(rows) * rows.dtype.itemsize * width)


def draw(seed, count, dim, dtype=torch.float32):
    return (torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)) + 3).to(dtype)


@pytest.mark.parametrize("dim", [1, 18, 19, 100], ids=lambda dim: f"{dim} columns")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("source", [stored, recomputed])
def test_slices_are_those_of_the_rows(tmp_path, source, dtype, dim):
    rows = draw(0, 7, dim, dtype)  # blocks of 18 columns in a file, and of 9
    found = source(rows, tmp_path)
    assert (found.shape, len(found), found.dtype) == (rows.shape, 7, dtype)
    for start, stop in [(0, dim), (0, 1), (dim - 1, dim), (dim // 3, dim // 3 + 20), (dim // 2, dim)]:
        assert torch.equal(found.columns(slice(start, stop)), rows[:, start:stop])
    assert torch.equal(columns_of(found, slice(None)), columns_of(rows, slice(None)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("source", [stored, partial(recomputed, width=777)], ids=["stored", "recomputed"])
def test_vectors_and_derivatives_are_equal_to_those_in_memory(tmp_path, monkeypatch, source, dtype):
    monkeypatch.setattr(row_module, "_BLOCK_ELEMENTS", 1 << 14)
    concept, negatives, gradients = (draw(seed, 22 + seed, 5001, dtype) for seed in range(3))
    gradients[0] = 0  # rows without products are multiplied again in float64
    gradients[1] *= 1e-4

    def measure(place):
        rows = place(concept), place(negatives)
        draws = (torch.Generator().manual_seed(seed) for seed in range(2))
        cavs = fit_cavs(*rows, generator=next(draws), runs=4)
        null = random_cavs(rows[1], generator=next(draws), runs=3)
        yield from (cavs.weights, cavs.intercept, cavs.accuracy, cavs.norm, null.weights, null.intercept)
        for scale in ("vector", "unit", "cosine"):
            yield directional_derivatives(cavs, place(gradients), scale)
        yield exchange_derivatives(*rows, place(gradients), seed=0, permutations=5)

    in_memory = list(measure(lambda rows: rows))
    for expected, found in zip(in_memory, measure(lambda rows: source(rows, tmp_path)), strict=True):
        assert torch.equal(found, expected)
    assert all(bool(one.isfinite().all()) for one in in_memory)


def test_only_rows_beyond_the_limit_are_in_a_file(tmp_path):
    images = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(32, 3)).requires_grad_(False)
    limit = RowStorage(memory=5 * 3 * 4, folder=tmp_path)  # exactly the rows of the last layer
    expected = layer_activations(model, ["0", "2"], images, batch_size=2)
    found = layer_activations(model, ["0", "2"], images, batch_size=2, storage=limit)
    assert isinstance(found["0"], StoredRows)
    assert isinstance(found["2"], torch.Tensor)
    for layer, rows in expected.items():
        assert isinstance(rows, torch.Tensor)
        assert torch.equal(columns_of(found[layer], slice(None)), rows)

    def loss(output, rows):
        return (output**2).sum(1)

    expected = layer_gradients(model, "0", images, loss, 2)
    found = layer_gradients(model, "0", images, loss, 2, limit)
    assert isinstance(found, StoredRows)
    assert torch.equal(found.columns(slice(None)), expected)


def test_activations_are_recomputed_in_blocks():
    images = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    model, computed = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten()).requires_grad_(False), []

    def compute(rows):
        computed.append(rows)
        return layer_activations(model, ["0"], images[rows], storage=RowStorage(memory=0))["0"]

    found = RecomputedRows(compute, rows=5, memory=5 * 4 * 12, batch_size=2)
    assert torch.equal(found.columns(slice(None)), columns_of(compute(slice(0, 5)), slice(None)))
    # The first row gives the length of the rows; then three blocks of at most 12 columns are computed.
    assert computed == [slice(0, 1), *[slice(0, 2), slice(2, 4), slice(4, 5)] * 3, slice(0, 5)]
    with refused("`memory` must hold a column of 5 rows, 20 bytes, got 19"):
        RecomputedRows(compute, rows=5, memory=19)
    with refused("`rows` must be at least 1, got 0"):
        RecomputedRows(compute, rows=0, memory=19)


def test_files_have_no_name_and_are_closed_with_their_rows(tmp_path):
    found = stored(draw(0, 5, 90), tmp_path)
    assert list(tmp_path.iterdir()) == []
    handle = found._file.fileno()
    assert os.fstat(handle).st_size == 5 * 90 * 4
    del found
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


MEASURE_AND_STOP = """
import re, time
from pathlib import Path
import torch
from candlelight.evaluation.concepts.cav import fit_cavs
from candlelight.evaluation.concepts.rows import RowStorage

def fill(batches):
    whole, part = None, torch.rand(10, 1 << 18)
    for start in range(0, 10 * batches, 10):
        whole = RowStorage(memory=0).fill(whole, part.roll(start, 0), start, 80)
    return whole

def peak():  # ru_maxrss would begin at the size of the parent process
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

torch.set_num_threads(1)
fit_cavs(torch.rand(9, 9), torch.rand(9, 9), generator=torch.Generator(), runs=2)
before = peak()
fit_cavs(fill(8), fill(8), generator=torch.Generator(), runs=2)
print(peak() - before, flush=True)
incomplete = fill(7)
print("written", flush=True)
time.sleep(60)
"""


def test_memory_is_bounded_and_a_killed_process_leaves_nothing(tmp_path):
    """168 MB of rows in two files need a few batches of 10 MB and blocks of 17 MB in memory."""
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURE_AND_STOP],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with process:
        assert 10_000 < int(process.stdout.readline()) < 140_000  # kB
        assert process.stdout.readline() == b"written\n"
        open_files = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert any(name.startswith(str(tmp_path)) for name in open_files)
        process.kill()
    assert list(tmp_path.iterdir()) == []


def test_rows_that_are_not_written_are_refused(tmp_path):
    found = StoredRows((4, 3), torch.float32, CPU, tmp_path)
    found.write(torch.ones(3, 3), 0)
    with refused("1 of 4 rows are not written yet"):
        found.columns(slice(0, 1))


def test_folders_without_room_are_told_before_writing(tmp_path):
    with refused(r"^[^\n]*missing: cannot keep 2e-06 GB .*: No such file.*; use another folder[^\n]*$"):
        RowStorage(memory=0, folder=tmp_path / "missing").fill(None, torch.ones(1, 100), 0, 5)
    with refused(r"cannot keep 4e\+06 GB .*: No space left on device; use another"):
        RowStorage(folder=tmp_path).fill(None, torch.ones(1, 10**6), 0, 10**9)
    assert list(tmp_path.iterdir()) == []


class FullDisk(io.FileIO):
    """A file on a disk that becomes full: writes are short, then fail."""

    def write(self, data):
        if self.tell() > 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[:100])


def test_a_disk_that_becomes_full_gives_one_line_and_frees_its_room(tmp_path, monkeypatch):
    files = []

    def opened(dir, buffering):
        files.append(FullDisk(Path(dir) / "full", "w+"))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", opened)
    small = stored(torch.arange(50.0)[None], tmp_path)  # 200 bytes, in two short writes
    assert torch.equal(small.columns(slice(None)), torch.arange(50.0)[None])
    model = nn.Sequential(nn.Flatten())
    with refused(r"cannot keep .*: No space left on device; use another"):
        layer_activations(model, ["0"], torch.rand(4, 3, 8, 8), 2, RowStorage(memory=0, folder=tmp_path))
    assert [file.closed for file in files] == [False, True]


def test_the_folder_is_tmpdir_or_a_folder_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert row_module._temporary_folder() == tmp_path
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "/elsewhere")
    assert row_module._temporary_folder() == Path(
        "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/elsewhere"
    )
