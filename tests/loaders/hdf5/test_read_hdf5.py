import copy
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from candlelight.loaders.hdf5 import read_hdf5 as reader
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.refusals import refused


@pytest.fixture
def packed(stored):
    return stored / "hdf5" / "free.h5"


@pytest.fixture
def file(packed, tmp_path):
    """Copy the file, for tests that change it."""
    return shutil.copy(packed, tmp_path / "free.h5")


def change(path, edit):
    with h5py.File(path, "r+") as file:
        edit(file)


# ------------------------------------------------------------------------------------------------ reading


def test_repeated_rows_are_read_once(packed, monkeypatch, torch):
    frames = HDF5Frames(packed, layers=["depth"])
    read = []
    views = frames._views
    monkeypatch.setattr(frames, "_views", lambda numbers: read.extend(numbers) or views(numbers))
    batch = frames.__getitems__([3, 1, 4, 1, -1, 0])
    assert read == [0, 1, 3, 4]
    assert [sample["index"] for sample in batch] == [4, 1, 5, 1, 5, 0]


def test_h5py_is_never_indexed_by_a_list_of_rows(packed, monkeypatch, torch):
    """h5py reads a list of rows two hundred times slower than single rows."""
    asked, getitem = [], h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, key: asked.append(key) or getitem(self, key)
    )
    HDF5Frames(packed).__getitems__([4, 0, 2, 4])
    keys = [part for key in asked for part in (key if isinstance(key, tuple) else (key,))]
    assert {type(part) for part in keys} <= {int, slice, str, type(...)}
    assert keys


def test_metadata_are_read_for_objects_only(packed, monkeypatch, torch):
    frames, asked = (HDF5Frames(packed, layers=["depth"], objects=objects) for objects in (False, True))
    monkeypatch.setattr(reader, "parse_record", None)
    sample = frames[3]
    assert (sample["id"], sample["index"], sample["factors"]) == ("free-000004", 4, {"shape": 1, "angle": 50})
    with pytest.raises(TypeError, match="not callable"):
        asked[3]


def test_locking_is_passed_on(packed, monkeypatch):
    asked, opened = [], h5py.File
    monkeypatch.setattr(
        h5py, "File", lambda *args, **named: asked.append(named["locking"]) or opened(*args, **named)
    )
    HDF5Frames(packed, locking=False).arrays(0)
    HDF5Frames(packed, locking="best-effort")
    HDF5Frames(packed)
    assert asked == [False, False, "best-effort", None]


def test_a_file_being_written_is_reported_as_locked(file):
    code = f"import h5py; file = h5py.File({str(file)!r}, 'r+'); print('open', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, text=True) as writer:
        assert writer.stdout.readline() == "open\n"
        with refused(r"free.h5 is locked: wait for the process that writes it, or"):
            HDF5Frames(file)
        writer.kill()


def test_a_replaced_file_is_read_by_open_readers_and_refused_by_others(file):
    frames = HDF5Frames(file, layers=["depth"])
    late = copy.copy(frames)
    expected = frames.arrays(3)["depth"]
    new = shutil.copy(file, file.with_name("new.h5"))
    change(new, lambda other: other["depth"].__setitem__(3, 0))
    new.replace(file)
    np.testing.assert_array_equal(frames.arrays(3)["depth"], expected)
    for read in (late.arrays, late.metadata, late.frame):
        with refused(r"free.h5: was replaced after it was opened here; open it again"):
            read(3)


def test_data_in_one_piece_are_read(file, packed):
    def store(opened):
        for name in ("image", "depth", "metadata"):
            values = opened[name][:].astype(opened[name].dtype)
            del opened[name]
            opened[name] = values

    change(file, store)
    found, expected = HDF5Frames(file), HDF5Frames(packed)
    for row in range(5):
        assert found.metadata(row) == expected.metadata(row)
        assert all(
            (found.arrays(row)[name] == expected.arrays(row)[name]).all() for name in ("image", "depth")
        )


def test_foreign_datasets_are_not_read(file, tmp_path):
    """One dataset claims 32 TiB without using space in the file; the other refers to another file."""
    elsewhere = [(str(tmp_path / "pipe"), 0, 2**45)]
    os.mkfifo(tmp_path / "pipe")
    change(file, lambda opened: opened.create_dataset("mine", (2**45,), "u1", chunks=(2**20,)))
    change(file, lambda opened: opened.create_dataset("there", (2**45,), "u1", external=elsewhere))
    assert verify_pack(file).whole
    HDF5Frames(file).frame(0)


# ----------------------------------------------------------------------------------------------- refusals


def missing(name):
    return lambda file: file.__delitem__(name)


def stored_anew(name, **options):
    """Store a dataset in another way: with its values, or those of `data`, or with none if it has a shape."""

    def edit(file):
        values = file[name][:]
        del file[name]
        file.create_dataset(name, **({} if "shape" in options else {"data": values}) | options)

    return edit


def in_chunks(name, *chunks, **filters):
    limits = (None,) * len(chunks)  # so that chunks may be larger than the data
    return stored_anew(name, chunks=chunks, maxshape=limits, **filters)


def linked(name, link):
    def edit(file):
        del file[name]
        file[name] = link

    return edit


def virtual(file):
    del file["depth"]
    layout = h5py.VirtualLayout((5, 24, 32), np.float32)
    layout[...] = h5py.VirtualSource("secret.h5", "depth", (5, 24, 32))
    file.create_virtual_dataset("depth", layout)


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def description(edit):
    def change(file):
        text = json.loads(file.attrs["dataset"])
        edit(text)
        file.attrs["dataset"] = np.bytes_(json.dumps(text))

    return change


ONE_ROW = r"expected one row per chunk, got chunks of \[.*\]; pack it again$"
ONE_PIECE = r"expected it in one piece, got chunks of \[.*\]; pack it again$"
FILTERS = r"`image` has filters? .*; expected .*; pack it again$"
FORMAT = "expected an HDF5 file of format 3 .*, got an earlier format .* again with `candlelight pack`$"
LINK, ELSEWHERE = (
    "in the file itself, got a link; pack it again",
    "in the file itself, got bytes of another file",
)
EDITS = [
    (missing("index"), "expected dataset `index` of int64"),
    (missing("factors"), "expected dataset `factors/shape` of int64"),
    (missing("depth"), r"expected dataset `depth` of float32 \[5, 24, 32\]; pack it again$"),
    (stored_anew("depth", dtype="f2"), "expected dataset `depth` of float32"),
    (stored_anew("depth", data=np.zeros((4, 24, 32), "f4")), r"expected dataset `depth` of .* \[5, 24, 32\]"),
    (stored_anew("id", data=np.zeros(4, "S9")), r"expected dataset `id` of strings \[5\]; pack it again$"),
    # Shapes and filters of chunks, which decide how many bytes are read.
    (in_chunks("image", 2, 24, 32, 3), f"dataset `image`: {ONE_ROW}"),
    (in_chunks("depth", 1, 12, 16, compression="gzip"), f"dataset `depth`: {ONE_ROW}"),
    (in_chunks("metadata", 1000, compression="gzip"), f"dataset `metadata`: {ONE_ROW}"),
    (in_chunks("index", 5), f"dataset `index`: {ONE_PIECE}"),
    (in_chunks("factors/shape", 1000, compression="gzip"), f"dataset `factors/shape`: {ONE_PIECE}"),
    (in_chunks("image", 1, 24, 32, 3, compression="lzf"), FILTERS),
    (in_chunks("image", 1, 24, 32, 3, compression="gzip", fletcher32=True), FILTERS),
    (in_chunks("image", 1, 24, 32, 3, shuffle=True), FILTERS),
    # Sizes that would fill memory.
    (stored_anew("metadata", shape=(5,), dtype="S100000000", chunks=(1,)), r"`metadata` of strings \[5\]"),
    (stored_anew("id", shape=(5,), dtype="S10000000"), "`id`: expected 50000000 bytes in the file, but they"),
    (stored_anew("depth", shape=(5, 24, 32), dtype="f4"), r"`depth`: expected \d+ bytes in the file, but"),
    (stored_anew("index", shape=(10**12,), dtype="i8", chunks=(1024,)), f"`index`: {ONE_PIECE}"),
    (
        description(lambda text: text["sets"]["free"].update(width=2**20, height=2**20)),
        "expected at most 67108864 pixels, got 1048576 x 1048576",
    ),
    # Links to other files, and to other datasets.
    (linked("depth", h5py.ExternalLink("secret.h5", "depth")), f"expected `depth` {LINK}"),
    (linked("factors", h5py.ExternalLink("secret.h5", "/")), f"expected `factors` {LINK}"),
    (linked("depth", h5py.SoftLink("/position")), f"expected `depth` {LINK}"),
    (virtual, f"expected `depth` {ELSEWHERE}"),
    (
        stored_anew("depth", shape=(5, 24, 32), dtype="f4", external=[("secret.bin", 0, 15360)]),
        f"expected `depth` {ELSEWHERE}; pack it again",
    ),
    # Attributes. Texts of variable length, in heaps, are not read.
    (attribute("format", 2), FORMAT),
    (lambda file: file.attrs.__delitem__("format"), FORMAT),  # format 2 had no such attribute
    (attribute("split", "train"), FORMAT),
    (attribute("set", np.full(2, b"free")), FORMAT),
    (attribute("set", np.bytes_("x")), "set `x` is not in `tiny`"),
    (attribute("dataset", np.bytes_("{")), "attribute `dataset` is damaged"),
    (description(lambda text: text.update(schema=5)), "expected schema version 3, got 5; make the frames"),
]


@pytest.mark.parametrize(("edit", "message"), EDITS)
def test_edited_files_are_refused(file, edit, message):
    change(file, edit)
    with refused(f"^{file}: .*{message}"):
        HDF5Frames(file)


def of_another_program(path):
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((5, 24, 32, 3), np.uint8)
        file.attrs["set"] = "free"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), r"free.h5 is missing; make it with `candlelight pack`"),
        (lambda path: path.write_bytes(b""), "cannot be read as HDF5: .*; pack it again"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be read as HDF5: .*truncated"),
        (of_another_program, FORMAT),
    ],
    ids=["missing", "empty", "truncated", "foreign"],
)
def test_damaged_and_foreign_files_are_refused(file, damage, message):
    damage(file)
    with refused(message):
        HDF5Frames(file)


def test_a_pipe_is_refused_without_waiting(tmp_path):
    path = tmp_path / "free.h5"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)  # otherwise opening it for reading would wait
    with refused(r"free.h5: expected an HDF5 file .*, got no regular file"):
        HDF5Frames(path)
    os.close(held)


def test_a_file_removed_later_is_named(file):
    frames = HDF5Frames(file)
    file.unlink()
    with refused(r"free.h5 is missing; make it with `candlelight pack`"):
        frames.arrays(0)


def test_splits_are_listed_if_the_whole_set_is_missing(frames_root, tmp_path):
    plan = SplitPlan(factor="color", values={"test": ("blue",)})
    pack_hdf5(frames_root, tmp_path, ["grid"], layers=["image"], plan=plan)
    for use in (HDF5Frames, open_frames):
        with refused(r"grid.h5 is missing; there are grid-test.h5, grid-train.h5$"):
            use(tmp_path / "grid.h5")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-10], "row 2: .*; pack it again"),
        (lambda data: data[: len(data) // 2], "row 2: .*; pack it again"),
        (lambda data: bytes(len(data)), "cannot be read as HDF5|row 2: .*; pack it again"),
    ],
    ids=["checksum", "half", "zeros"],
)
def test_a_damaged_chunk_is_found_on_reading(file, damage, message):
    def edit(opened):
        dataset = opened["image"].id
        dataset.write_direct_chunk((2, 0, 0, 0), damage(dataset.read_direct_chunk((2, 0, 0, 0))[1]))

    change(file, edit)
    frames = HDF5Frames(file)
    frames.frame(1)
    with refused(f"^{file}.*{message}"):
        frames.arrays(2)


def test_a_short_chunk_that_skips_its_filters_is_named(file):
    """The chunk read as the memory of the process."""
    change(file, lambda opened: opened["radiance"].id.write_direct_chunk((1, 0, 0, 0), bytes(100), 3))
    reason = "row 1: expected a chunk of 4608 bytes, got 100; pack it again"
    with refused(f"free.h5: {reason}$"):
        HDF5Frames(file).arrays(1)
    (damage,) = verify_pack(file).damaged
    assert damage.reason == reason


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda file: file["metadata"].__setitem__(1, "{}"),
            "row 1 is damaged at id: Field required; pack it",
        ),
        (
            stored_anew("metadata", shape=(5,), dtype="S9999", chunks=(1,), compression="gzip"),
            "row 1( is damaged|: its bytes are not in the file)|storage is not initialized",
        ),
    ],
    ids=["empty", "unwritten"],
)
def test_damaged_metadata_are_named_with_their_row(file, edit, message):
    change(file, edit)
    with refused(message):
        HDF5Frames(file).metadata(1)
