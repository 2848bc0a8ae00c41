"""Rows of HDF5 datasets, of chunks written raw too: short, long, masked, or of other shapes.

HDF5 takes them all, and fills what a chunk lacks with memory of the process: a row is right or refused.
"""

import sys
import uuid
import zlib
from itertools import product

import h5py
import numpy as np
import pytest

from candlelight.loaders.errors import DAMAGED
from candlelight.loaders.hdf5.filters import dataset_filters
from candlelight.loaders.hdf5.hdf5_datasets import encode_texts, open_file, row_reader, rows_reader
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.refusals import refused

NUMBERS = np.random.default_rng(0).integers(0, 99, (10, 5, 7))


def dataset_of(data, **options):
    # A unique name, because HDF5 treats two files in memory with one name as one file. No cache of chunks.
    file = h5py.File(uuid.uuid4().hex, "w", driver="core", backing_store=False, rdcc_nbytes=0)
    return file.create_dataset("x", data=data, **options)


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_rows_equal_those_of_hdf5(dtype, filters):
    values = NUMBERS.astype(dtype)
    for chunks in (None, (1, 5, 7), (3, 2, 7), (10, 5, 3), (4, 4, 4)):
        dataset = dataset_of(values, chunks=chunks, **(filters if chunks else {}))
        for start, stop in ((0, 10), (2, 3), (3, 9), (9, 10)):
            np.testing.assert_array_equal(rows_reader(dataset)(start, stop), values[start:stop])
        if chunks in (None, (1, 5, 7)):
            found = row_reader(dataset)(2)
            assert (found.dtype, found.tolist(), found.flags.writeable) == (dtype, values[2].tolist(), True)


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip", "chunks": (1,)}], ids=["none", "gzip"])
def test_texts_are_read_without_their_padding(filters):
    read = row_reader(dataset_of(encode_texts(["one", "", "fünf"]), **filters))
    assert [read(row).item().decode() for row in (2, 0, 1)] == ["fünf", "one", ""]


def chunks_like(raw, row):
    """Change the stored bytes of a chunk whose decoded bytes are ``row``."""
    size = len(row)
    yield from (row, raw[:1], raw[: len(raw) // 2], raw[:-1], raw + b"\0", raw + raw)
    yield from (b"\1" * length for length in (16, 100, size - 1, size + 1, 2 * size))
    yield from (zlib.compress(b"\1" * length) for length in (0, 100, size - 1, size + 1, 2 * size))
    # Headers that state another size, or more compressed bytes than there are: Blosc, and Zstandard.
    for stated, stored in product((100, size, 2**31 - 1), (100, 2**20)):
        header = stated.to_bytes(4, "little") + (0).to_bytes(4, "little") + stored.to_bytes(4, "little")
        yield (b"\2\1\2\1" + header).ljust(100, b"\1")  # bit 1: stored without compression
    for stated in (100, size, 2**31 - 1):
        yield b"\x28\xb5\x2f\xfd\xa0" + stated.to_bytes(4, "little") + b"\1\0\0"


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "blosc"])
def test_raw_chunks_are_right_or_refused(tmp_path, compression, dtype):
    if compression in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    values, path = NUMBERS.repeat(20, axis=1).astype(dtype), tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        filters = dataset_filters(values.dtype, compression)
        dataset = file.create_dataset("x", data=values, chunks=(1, *values.shape[1:]), **filters)
        raw, row = dataset.id.read_direct_chunk((1, 0, 0))[1], values[1].tobytes()
        masks = range(2 ** (dataset.id.get_create_plist().get_nfilters() + 1))
    whole, found = path.read_bytes(), []
    for data, mask in product(chunks_like(raw, row), masks):
        path.write_bytes(whole)  # HDF5 keeps the mask of a chunk that is replaced by one of its size
        with h5py.File(path, "r+") as file:
            file["x"].id.write_direct_chunk((1, 0, 0), data, mask)
        with open_file(path) as file:
            for read, number in ((row_reader, (1,)), (rows_reader, (1, 2))):
                try:
                    found.append(read(file["x"])(*number).tobytes())
                except DAMAGED:
                    found.append(None)
    assert set(found) == {row, None}
    assert found.count(None) > 80


def test_a_compression_bomb_takes_no_memory():
    dataset = dataset_of(np.zeros((2, 3, 4), np.uint8), chunks=(1, 3, 4), compression="gzip")
    dataset.id.write_direct_chunk((1, 0, 0), zlib.compress(bytes(10**8)))
    with refused("row 1: expected a chunk of 12 bytes, got 13; pack it again"):
        row_reader(dataset)(1)


def test_a_missing_filter_is_named(monkeypatch):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    dataset = dataset_of(np.zeros((2, 3), np.uint8), chunks=(1, 3), **hdf5plugin.Blosc())
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with refused(r"dataset `x` has filter 32001 'blosc', which needs hdf5plugin: `pip install"):
        row_reader(dataset)


@pytest.mark.parametrize("length", [100, 5_000_000])
@pytest.mark.parametrize("name", ["image", "metadata"])
def test_unfiltered_chunks_of_a_wrong_size_show_no_memory(frames_root, tmp_path, name, length):
    """HDF5's early chunk index stores a size; read through a cache, a long chunk overwrites memory."""
    (file,) = pack_hdf5(frames_root, tmp_path, ["free"], "none", layers=["image", "depth"])
    changed = tmp_path / "new.h5"
    with h5py.File(file, "r+", libver="earliest") as opened, h5py.File(changed, "w") as new:
        for column in opened:
            opened.copy(column, new) if column != name else None
        new.attrs.update(opened.attrs)
        shape, dtype = opened[name].shape, opened[name].dtype
        dataset = new.create_dataset(name, shape, dtype, chunks=(1, *shape[1:]))
        for row in range(shape[0]):
            place = (row, *[0] * (len(shape) - 1))
            dataset.id.write_direct_chunk(place, b"1" * (length if row == 1 else 4608))
    assert not verify_pack(changed).whole
    if name != "metadata":
        assert HDF5Frames(changed).arrays(1)[name].tobytes() in changed.read_bytes()
