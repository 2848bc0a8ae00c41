"""Chunks written raw, short, long, masked or of other shapes, in every dataset of a pack.

HDF5 takes them all, and fills what a chunk lacks with memory of the process: a row is right or refused.
"""

import shutil
import zlib
from itertools import product

import h5py
import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5.hdf5_datasets import open_file, rows_reader
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.verification.verify_pack import verify_pack

LAYERS = ("image", "depth", "radiance")
COLUMNS = ("id", "index", "factors/shape", "factors/angle")


@pytest.fixture(scope="module", params=["gzip", "zstd", "blosc"])
def packed(request, frames_root, tmp_path_factory):
    if request.param in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    folder = tmp_path_factory.mktemp(request.param)
    (path,) = pack_hdf5(frames_root, folder, ["free"], request.param, layers=LAYERS)
    return path


@pytest.fixture
def file(packed, tmp_path):
    return shutil.copy(packed, tmp_path / "free.h5")


def content(path):
    """Read everything in a file as bytes."""
    frames = HDF5Frames(path)
    rows = [frames.frame(row) for row in range(len(frames))]
    found = [(row.metadata.to_json(), *(array.tobytes() for array in row.layers.values())) for row in rows]
    ids = [frames._id(row) for row in range(len(frames))]
    return found, ids, frames.indices.tobytes(), frames.factor_table.tobytes()


def assert_right_or_refused(path, expected):
    """Expect the right content or one line, and damage from `verify_pack` in the second case."""
    try:
        found = content(path)
    except InputError as error:
        message = str(error)
    else:
        assert found == expected
        return True
    assert message.startswith(f"{path}")
    assert "\n" not in message
    assert not verify_pack(path).whole
    return False


def chunks_like(raw, size):
    """Change the stored bytes of a chunk whose decoded bytes are ``size``."""
    yield from (raw[:1], raw[: len(raw) // 2], raw[:-1], raw + b"\0", raw + raw)
    yield from (b"\1" * length for length in (16, 100, size - 1, size + 1, 2 * size))
    yield from (zlib.compress(b"\1" * length) for length in (0, 100, size - 1, size + 1, 2 * size))
    # Headers that state another size, or more compressed bytes than there are: Blosc, and Zstandard.
    for stated, stored in product((100, size, 2**31 - 1), (100, 2**20)):
        header = stated.to_bytes(4, "little") + (0).to_bytes(4, "little") + stored.to_bytes(4, "little")
        yield (b"\2\1\2\1" + header).ljust(100, b"\1")  # bit 1: stored without compression
    for stated in (100, size, 2**31 - 1):
        yield b"\x28\xb5\x2f\xfd\xa0" + stated.to_bytes(4, "little") + b"\1\0\0"


@pytest.mark.parametrize("name", [*LAYERS, "metadata"])
def test_raw_chunks_are_right_or_refused(file, name):
    expected, whole = content(file), file.read_bytes()
    with open_file(file) as opened:
        dataset = opened[name]
        place = (1, *[0] * (dataset.ndim - 1))
        raw = dataset.id.read_direct_chunk(place)[1]
        size = dataset.dtype.itemsize * dataset[0].size
        filters = dataset.id.get_create_plist().get_nfilters()
    refused = 0
    for data, mask in product(chunks_like(raw, size), range(2 ** (filters + 1))):
        file = file.with_name(f"{refused}.h5")  # a refused file stays open until its error is collected
        file.write_bytes(whole)
        with h5py.File(file, "r+") as opened:
            opened[name].id.write_direct_chunk(place, data, mask)
        refused += not assert_right_or_refused(file, expected)
    assert refused > 40


def test_a_short_chunk_that_skips_its_filters_is_refused(file):
    """The chunk read as the memory of the process."""
    with h5py.File(file, "r+") as opened:
        filters = opened["radiance"].id.get_create_plist().get_nfilters()
        opened["radiance"].id.write_direct_chunk((1, 0, 0, 0), bytes(100), (1 << filters) - 1)
    message = r"free.h5: row 1: expected a chunk of 4608 bytes, got 100; pack it again$"
    with pytest.raises(InputError, match=message):
        HDF5Frames(file).arrays(1)


@pytest.mark.parametrize("packed", ["none"], indirect=True)
@pytest.mark.parametrize("length", [100, 50_000_000])
@pytest.mark.parametrize("name", [*LAYERS, "metadata"])
def test_unfiltered_chunks_of_a_wrong_size_show_no_memory(file, name, length):
    """HDF5's early chunk index stores a size; read through a cache, a long chunk overwrites memory."""
    with h5py.File(file, "r+", libver="earliest") as opened, h5py.File(file.with_name("n"), "w") as new:
        for column in opened:
            opened.copy(column, new) if column != name else None
        new.attrs.update(opened.attrs)
        shape, dtype = opened[name].shape, opened[name].dtype
        dataset = new.create_dataset(name, shape, dtype, chunks=(1, *shape[1:]))
        for row in range(shape[0]):
            dataset.id.write_direct_chunk(
                (row, *[0] * (len(shape) - 1)), b"1" * (length if row == 1 else 4608)
            )
    file = file.with_name("n").rename(file.with_name("new.h5"))
    assert not verify_pack(file).whole
    stored, frames = file.read_bytes(), HDF5Frames(file)
    if name != "metadata":
        assert frames.arrays(1)[name].tobytes() in stored


def test_a_whole_chunk_that_skips_its_filters_is_read(file):
    expected = HDF5Frames(file).arrays(1)["image"]
    with h5py.File(file, "r+") as opened:
        filters = opened["image"].id.get_create_plist().get_nfilters()
        opened["image"].id.write_direct_chunk((1, 0, 0, 0), expected.tobytes(), (1 << filters) - 1)
    np.testing.assert_array_equal(HDF5Frames(file).arrays(1)["image"], expected)


def stored_anew(opened, name, chunks, **filters):
    values = opened[name][:]
    del opened[name]
    limits = (None,) * values.ndim  # so that chunks may be larger than the data
    opened.create_dataset(name, data=values, chunks=chunks, maxshape=limits, **filters)


@pytest.mark.parametrize("packed", ["gzip"], indirect=True)
@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}], ids=["none", "gzip"])
@pytest.mark.parametrize("name", [*LAYERS, *COLUMNS, "metadata"])
def test_chunks_of_other_shapes_are_refused(file, name, filters):
    whole = file.read_bytes()
    with h5py.File(file) as opened:
        shape = opened[name].shape
    many = [(rows, *shape[1:]) for rows in (1, 2, 5, 1000)]
    for chunks in {*many, (1, *(max(1, length // 2) for length in shape[1:]))}:
        if chunks == (1, *shape[1:]) and name not in COLUMNS:
            continue  # the layout of a pack
        file.write_bytes(whole)
        with h5py.File(file, "r+") as opened:
            stored_anew(opened, name, chunks, **filters)
        expected = "in one piece" if name in COLUMNS else "one row per chunk"
        message = rf"dataset `{name}`: expected (it )?{expected}, got chunks of \[.*\]; pack it again$"
        with pytest.raises(InputError, match=message):
            HDF5Frames(file)
        assert not verify_pack(file).whole


@pytest.mark.parametrize("packed", ["gzip"], indirect=True)
@pytest.mark.parametrize("name", [*LAYERS, *COLUMNS, "metadata"])
def test_data_in_one_piece_are_read_if_they_are_in_the_file(file, name):
    expected = content(file)
    with h5py.File(file, "r+") as opened:
        values, dtype = opened[name][:], opened[name].dtype
        del opened[name]
        opened[name] = values.astype(dtype)
    assert content(file) == expected
    with h5py.File(file, "r+") as opened:
        del opened[name]
        opened.create_dataset(name, values.shape, dtype)  # never written
    with pytest.raises(InputError, match=rf"dataset `{name}`: expected \d+ bytes in the file, but they are "):
        HDF5Frames(file)


@pytest.mark.parametrize("packed", ["gzip"], indirect=True)
@pytest.mark.parametrize(
    "filters",
    [
        {"compression": "lzf"},
        {"compression": "gzip", "fletcher32": True},
        {"scaleoffset": 0},
        {"shuffle": True},
    ],
    ids=["lzf", "fletcher32", "scaleoffset", "shuffle alone"],
)
def test_other_filters_are_refused(file, filters):
    with h5py.File(file, "r+") as opened:
        stored_anew(opened, "image", (1, 24, 32, 3), **filters)
    with pytest.raises(InputError, match=r"`image` has filters? .*; expected .*; pack it again$"):
        HDF5Frames(file)


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip", "shuffle": True}], ids=["none", "gzip"])
@pytest.mark.parametrize("chunks", [None, (1, 5, 7), (3, 2, 7), (10, 5, 3), (4, 4, 4)], ids=str)
def test_rows_of_chunks_of_any_shape_equal_those_of_hdf5(filters, chunks):
    values = np.random.default_rng(0).integers(0, 2**15, (10, 5, 7)).astype(np.int16)
    with h5py.File(f"{chunks}{len(filters)}", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("x", data=values, chunks=chunks, **(filters if chunks else {}))
        read = rows_reader(dataset)
        for start, stop in ((0, 10), (2, 3), (3, 9), (9, 10)):
            np.testing.assert_array_equal(read(start, stop), values[start:stop])
