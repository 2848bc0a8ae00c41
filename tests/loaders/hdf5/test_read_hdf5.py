import copy
import os
import shutil
import subprocess
import sys
import uuid
import zlib
from itertools import product

import h5py
import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5 import read_hdf5 as reader
from candlelight.loaders.hdf5.hdf5_datasets import encode_texts, row_reader
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.schema import array_sha256

pytest.importorskip("torch", exc_type=ImportError)


@pytest.fixture(scope="module", params=["gzip", "none"])
def packed(request, tmp_path_factory, frames_root):
    """Pack one set of six frames, with and without compression."""
    folder = tmp_path_factory.mktemp(request.param)
    pack_hdf5(frames_root, folder, sets=["grid"], compression=request.param)
    return folder / "grid.h5"


@pytest.fixture
def file(packed, tmp_path):
    """Copy the file, for tests that change it."""
    return shutil.copy(packed, tmp_path / "grid.h5")


def test_arrays_match_their_hashes_and_are_writable(packed):
    frames = HDF5Frames(packed)
    for _ in range(2):
        arrays = frames.arrays(-2)
        assert {name: array_sha256(array) for name, array in arrays.items()} == frames.metadata(4).layers
        for array in arrays.values():
            assert array.flags.c_contiguous
            array[:] = 0
    with pytest.raises(IndexError):
        frames.arrays(6)


def test_repeated_rows_are_read_once(packed, monkeypatch):
    frames = HDF5Frames(packed, layers=["depth"])
    read = []
    views = frames._views
    monkeypatch.setattr(frames, "_views", lambda numbers: read.extend(numbers) or views(numbers))
    batch = frames.__getitems__([4, 1, 5, np.int64(1), -1, 0])
    assert read == [0, 1, 4, 5]
    assert [sample["index"] for sample in batch] == [4, 1, 5, 1, 5, 0]
    batch[1]["depth"].zero_()
    assert batch[3]["depth"].any()
    assert frames.__getitems__([]) == []
    for outside in ([0, 6], [-7]):
        with pytest.raises(IndexError):
            frames.__getitems__(outside)


def test_metadata_are_read_for_objects_only(packed, monkeypatch):
    def refuse(*_):
        raise AssertionError("parsed")

    frames, asked = (HDF5Frames(packed, layers=["depth"], objects=objects) for objects in (False, True))
    monkeypatch.setattr(reader, "parse_record", refuse)
    sample = frames[4]
    assert (sample["id"], sample["index"], sample["factors"]) == ("grid-000004", 4, {"color": 1, "size": 1})
    with pytest.raises(AssertionError, match="parsed"):
        asked[4]


def test_each_process_opens_the_file_once(packed, monkeypatch):
    frames = HDF5Frames(packed)
    first = frames._open()
    assert frames._open() is first
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert frames._open() is not first
    assert frames.__getstate__()["_opened"] is None


def test_locking_is_passed_on(packed, monkeypatch):
    asked, h5py_file = [], h5py.File
    monkeypatch.setattr(
        reader.h5py,
        "File",
        lambda *args, **named: asked.append(named["locking"]) or h5py_file(*args, **named),
    )
    HDF5Frames(packed, locking=False)[0]
    HDF5Frames(packed, locking="best-effort")
    HDF5Frames(packed)
    assert asked == [False, False, "best-effort", None]


def test_a_file_being_written_is_reported_as_locked(file):
    code = (
        f"import h5py, time; file = h5py.File({str(file)!r}, 'r+'); print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout.readline() == "open\n"
            with pytest.raises(
                InputError, match=r"grid.h5 is locked: wait for the process that writes it, or"
            ):
                HDF5Frames(file)
        finally:
            writer.kill()


def test_a_replaced_file_is_read_by_open_readers_and_refused_by_others(file, make_frame):
    frames = HDF5Frames(file, layers=["depth"])
    late = copy.copy(frames)
    expected = frames.arrays(3)["depth"]
    new = file.with_name("new.h5")
    shutil.copy(file, new)
    with h5py.File(new, "r+") as other:
        other["depth"][3] = 0
    new.replace(file)
    np.testing.assert_array_equal(frames.arrays(3)["depth"], expected)
    for read in (late.arrays, late.metadata, late.frame, lambda row: late.__getitems__([row])):
        with pytest.raises(
            InputError, match=r"grid.h5: was replaced after it was opened here; open it again"
        ):
            read(3)


def test_a_removed_file_is_named(file):
    frames = HDF5Frames(file)
    file.unlink()
    with pytest.raises(InputError, match=r"grid.h5 is missing; make it with `candlelight pack`"):
        frames[0]


def test_splits_are_listed_if_the_whole_set_is_missing(frames_root, tmp_path):
    pack_hdf5(frames_root, tmp_path, ["grid"], plan=SplitPlan(factor="color", values={"test": ("blue",)}))
    for use in (HDF5Frames, open_frames):
        with pytest.raises(InputError, match=r"grid.h5 is missing; there are grid-test.h5, grid-train.h5$"):
            use(tmp_path / "grid.h5")


def test_an_earlier_format_is_refused_with_advice(file):
    with h5py.File(file, "r+") as opened:
        opened.attrs["format"] = 2
    message = r"expected an HDF5 file of format 3 .*, got an earlier format .* again with `candlelight pack`$"
    with pytest.raises(InputError, match=message):
        HDF5Frames(file)
    with h5py.File(file, "r+") as opened:
        del opened.attrs["format"]  # format 2 had no such attribute
    with pytest.raises(InputError, match=message):
        HDF5Frames(file)


def test_texts_of_variable_length_are_never_read(file):
    with h5py.File(file, "r+") as opened:
        opened.attrs["split"] = "train"
    with pytest.raises(InputError, match="expected an HDF5 file of format 3"):
        HDF5Frames(file)


def test_huge_text_types_are_refused(file):
    with h5py.File(file, "r+") as opened:
        del opened["metadata"]
        opened.create_dataset("metadata", (6,), "S100000000", chunks=(1,), compression="gzip")
    with pytest.raises(InputError, match=r"expected dataset `metadata` of strings \[6\]; pack it again"):
        HDF5Frames(file)


def test_missing_ids_take_no_memory(file):
    with h5py.File(file, "r+") as opened:
        del opened["id"]
        opened.create_dataset("id", (6,), "S10000000")
    with pytest.raises(InputError, match="`id`: expected 60000000 bytes in the file, but they are missing"):
        HDF5Frames(file)


@pytest.mark.parametrize("packed", ["gzip"], indirect=True)  # uncompressed chunks have no checksum
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-10], lambda data: data[: len(data) // 2], lambda data: b"\0", lambda data: data[:2]],
    ids=["checksum", "half", "foreign", "head"],
)
def test_a_damaged_chunk_is_named(file, damage):
    with h5py.File(file, "r+") as opened:
        dataset = opened["image"].id
        dataset.write_direct_chunk((2, 0, 0, 0), damage(dataset.read_direct_chunk((2, 0, 0, 0))[1]))
    frames = HDF5Frames(file)
    frames.frame(1)
    for read in (frames.frame, frames.arrays, lambda row: frames.__getitems__([row])):
        with pytest.raises(InputError, match=r"grid.h5(: row 2: .*| is damaged .*); pack it again") as caught:
            read(2)
        assert "\n" not in str(caught.value)


def dataset_of(data, **filters):
    # A unique name, because HDF5 treats two files in memory with one name as one file.
    file = h5py.File(uuid.uuid4().hex, "w", driver="core", backing_store=False)
    return file.create_dataset("x", data=data, **filters)


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}], ids=["none", "gzip"])
def test_rows_equal_the_rows_that_hdf5_reads(filters):
    numbers = np.random.default_rng(0).integers(0, 255, (4, 5, 7, 3))
    for dtype, shuffle in product(("uint8", "float16", "float32", "float64"), (False, True)):
        shuffled = {"shuffle": shuffle} if filters else {}
        dataset = dataset_of(numbers.astype(dtype), chunks=(1, 5, 7, 3), **filters, **shuffled)
        read = row_reader(dataset)
        for row in (3, 0, 2):
            found = read(row)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, numbers[row])
            assert found.flags.writeable
    np.testing.assert_array_equal(row_reader(dataset_of(numbers))(1), numbers[1])


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip", "chunks": (1,)}], ids=["none", "gzip"])
def test_texts_are_read_without_their_padding(filters):
    read = row_reader(dataset_of(encode_texts(["one", "", "fünf"]), **filters))
    assert [read(row).item().decode() for row in (2, 0, 1)] == ["fünf", "one", ""]


def test_a_compression_bomb_takes_no_memory():
    dataset = dataset_of(np.zeros((2, 3, 4), np.uint8), chunks=(1, 3, 4), compression="gzip")
    dataset.id.write_direct_chunk((1, 0, 0), zlib.compress(bytes(10**8)))
    with pytest.raises(InputError, match="row 1: expected a chunk of 12 bytes, got 13; pack it again"):
        row_reader(dataset)(1)


def test_a_missing_filter_is_named(monkeypatch):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    dataset = dataset_of(np.zeros((2, 3), np.uint8), chunks=(1, 3), **hdf5plugin.Blosc())
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    message = r"dataset `x` has filter 32001 'blosc', which needs hdf5plugin: `pip install"
    with pytest.raises(InputError, match=message):
        row_reader(dataset)


@pytest.mark.parametrize("compression", ["zstd", "blosc"])
def test_packs_with_plugin_compression_are_read(frames_root, tmp_path, packed, compression):
    pytest.importorskip("hdf5plugin")
    (path,) = pack_hdf5(frames_root, tmp_path, sets=["grid"], compression=compression)
    frames, expected = HDF5Frames(path), HDF5Frames(packed)
    for row in range(6):
        for name, array in frames.arrays(row).items():
            np.testing.assert_array_equal(array, expected.arrays(row)[name])
