"""Texts of HDF5 files past h5py, and heaps at which HDF5 itself would go round for ever."""

import gc
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from loaders.errors import InputError
from loaders.hdf5.heaps import Texts, check_heaps
from loaders.hdf5.reader import HDF5Frames
from loaders.hdf5.writer import pack_hdf5
from loaders.verification.packs import verify_pack

HANDLES = Path("/proc/self/fd")
TEXTS = ["", "one", "x" * 100_000, "ünï", *(f"{number:0{number}d}" for number in range(1, 300, 7))]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w") as file:
        file["before"] = np.arange(100)
        file["x"] = TEXTS
        file.attrs["name"] = "a text"
    return path


def texts(path, name="x"):
    with h5py.File(path) as file:
        return Texts(path, file[name])


def test_texts_are_those_that_h5py_reads(path):
    read = texts(path)
    assert [read[row].decode() for row in range(len(TEXTS))] == TEXTS
    assert [text.decode() for text in read[3:9]] == TEXTS[3:9]
    assert read[-1].decode() == TEXTS[-1]
    assert read[5:5] == []
    with pytest.raises(IndexError):
        read[len(TEXTS)]


def test_no_file_is_left_open(path):
    before = len(list(HANDLES.iterdir()))
    read = texts(path)
    assert len(list(HANDLES.iterdir())) == before + 1
    del read
    gc.collect()
    assert len(list(HANDLES.iterdir())) == before


def heaps(data):
    return [place for place in range(len(data)) if data.startswith(b"GCOL\x01\x00\x00\x00", place)]


@pytest.mark.parametrize("fill", [0, 255])
def test_a_heap_that_lost_a_block_is_refused(path, fill):
    data = bytearray(path.read_bytes())
    for place in heaps(data):
        data[place + 16 : place + 528] = bytes([fill]) * 512
    path.write_bytes(data)
    with pytest.raises(InputError, match="the texts are damaged; pack it again"):
        check_heaps(path)
    read = texts(path)
    for row in range(1, len(TEXTS)):
        with pytest.raises(InputError, match="the texts are damaged; pack it again"):
            read[row]


@pytest.mark.parametrize(
    "reference",
    [
        (3, 0, 1),
        (3, 2**63 + 5, 1),
        (3, 10**9, 1),
        (2**31, None, 1),
        (3, None, 999),
    ],
    ids=["no heap there", "no such place", "past the end", "too long", "no such object"],
)
def test_a_reference_that_leads_nowhere_is_refused(path, reference):
    with h5py.File(path) as file:
        offset = file["x"].id.get_offset()
    data = bytearray(path.read_bytes())
    length, address, index = reference
    if address is None:
        address = struct.unpack_from("<IQI", data, offset + 16)[1]
    struct.pack_into("<IQI", data, offset + 16, length, address, index)
    path.write_bytes(data)
    with pytest.raises(InputError, match="the texts are damaged"):
        texts(path)[1]


def test_a_heap_may_be_larger_than_what_is_looked_at(path, monkeypatch):
    check_heaps(path)
    monkeypatch.setattr("loaders.hdf5.heaps._BEGINNING", max(heaps(path.read_bytes())) + 40)
    check_heaps(path)


@pytest.mark.parametrize("name", ["numbers", "pieces", "square"])
def test_only_a_column_of_texts_in_one_piece_is_taken(tmp_path, name):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["numbers"] = np.arange(3)
        file.create_dataset("pieces", (3,), h5py.string_dtype(), chunks=(1,))
        file.create_dataset("square", (3, 1), h5py.string_dtype())
    with pytest.raises(InputError, match=f"expected dataset `{name}` of texts in one piece; pack it again"):
        texts(path, name)


@pytest.mark.parametrize("number", [0, -1], ids=["attributes", "metadata"])
def test_a_pack_that_lost_a_block_of_texts_is_refused_and_found(frames_root, tmp_path, number):
    (path,) = pack_hdf5(frames_root, tmp_path, sets=["grid"], layers=["object"])
    data = bytearray(path.read_bytes())
    place = heaps(data)[number]
    data[place + 16 : place + 272] = bytes(256)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"grid.h5: the texts are damaged; pack it again"):
        [HDF5Frames(path).metadata(row) for row in range(6)]
    assert not verify_pack(path).whole
