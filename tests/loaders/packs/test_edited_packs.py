"""Packs that somebody edited and hashed anew: `--verify` names each fault, readers refuse or ignore it."""

import shutil
from contextlib import suppress

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png, png_file
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.hdf5.hdf5_datasets import columns_sha256, write_attribute
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.arrow_tables import arrow_columns, arrow_schema
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.loaders.edits import edit_json, renew_hashes


@pytest.fixture(scope="module")
def small(tmp_path_factory, frames_root):
    """Pack one set with the layers that are edited, because writing a column of arrays again takes long."""
    root = tmp_path_factory.mktemp("small")
    for form, pack in (("hdf5", pack_hdf5), ("hub", pack_hub)):
        pack(frames_root, root / form, ["free"], layers=["image", "depth", "object"])
    return root


@pytest.fixture
def packs(small, tmp_path, datasets):
    return shutil.copytree(small, tmp_path / "packs")


def edit_hub(folder, edit):
    """Edit the columns of a Parquet file as lists, and renew all hashes."""
    (path,) = (folder / "free").glob("*.parquet")
    with pq.ParquetFile(path) as file:
        table = file.read()
    columns = {
        name: [value.as_py() for chunk in column.chunks for value in getattr(chunk, "storage", chunk)]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    edit(columns)
    schema = arrow_schema(arrow_columns(read_dataset_info(folder).sets["free"]))
    pq.write_table(pa.table(columns, schema), path)
    edit_json(folder / "manifest.json", lambda text: text["files"][0].update(rows=len(columns["id"])))
    renew_hashes(folder)


def edit_hdf5(path, edit):
    """Edit the columns of an HDF5 file, and renew its hash."""
    set_info = HDF5Frames(path).set_info
    with h5py.File(path, "r+") as file:
        edit(file)
        del file.attrs["sha256"]
        write_attribute(file, "sha256", columns_sha256(file, set_info))


def put(name, value):
    """Put a value into row 1."""

    def edit(columns):
        columns[name][1] = value

    return edit


def swap(name):
    def edit(columns):
        first, second = columns[name][0], columns[name][1]
        columns[name][0], columns[name][1] = second, first

    return edit


def add_row(columns):
    for values in columns.values():
        values.append(values[1])


def double_row(file):
    file.visititems(lambda _, node: node.__setitem__(0, node[1]) if isinstance(node, h5py.Dataset) else None)


def picture(array, size=None):
    return put("object", {"bytes": encode_png(array)[:size], "path": None})


CHECK = "; check it with `candlelight info --verify`, and pack it again"
NUMBERS = "factor `shape`: expected numbers from 0 to 2, got {} in row 1" + CHECK
PNG = "row 1: expected a PNG of 24 x 32 pixels, L, got "
NULL, FIXED = "as in its metadata, got null", "row 1 (free-000001): column "
# The edit, what `--verify` says of a row, and what readers say; "" where each row can be read.
HUB = [
    (put("id", "free-000000"), FIXED + "`id`: expected 'free-000001', as in", ""),
    (put("shape", 7), FIXED + "`shape`: expected 1, as in its metadata, got 7", NUMBERS.format(7)),
    (
        add_row,
        "5 (free-000001): expected each sample once, got it in train-00000-of-00001.parquet, row 1 too",
        "column `index`: expected each sample once, got 1 in rows 1 and 5" + CHECK,
    ),
    (swap("image"), "0 (free-000000): layer `image` differs from its hash", ""),
    (swap("depth"), "1 (free-000001): layer `depth` differs from its hash", ""),
    (
        put("id", None),
        FIXED + "`id`: expected 'free-000001', as in its",
        "`id`: expected a name, got null" + CHECK,
    ),
    (put("index", None), NULL, "`index`: expected int64, got float64"),
    (put("shape", None), NULL, NUMBERS.format("nan")),
    (put("angle", None), NULL, "`angle`: expected finite numbers"),
    (put("objects", None), NULL, ""),
    *(
        (put(name, None), text := f"row 1: layer `{name}`: expected {due}, got null", text + CHECK)
        for name, due in (("image", "uint8 [24, 32, 3]"), ("depth", "float32 [24, 32]"))
    ),
    (
        put("metadata", None),
        "row 1: metadata: expected a JSON text, got null",
        "row 1: expected a JSON text, got null" + CHECK,
    ),
    (
        put("metadata", "{}"),
        "row 1: metadata is damaged at id: Field required",
        "row 1 is damaged at id: Field required; check it",
    ),
    (
        put("object", {"bytes": b"no picture", "path": None}),
        "row 1: it is none of PNG",
        "row 1 cannot be read: it is none of PNG",
    ),
    (picture(np.zeros((24, 32), np.uint8), 60), "row 1: Truncated File Read", "row 1 cannot be read: "),
    (picture(np.zeros((32, 24), np.uint8)), PNG + "32 x 24, L", PNG + "32 x 24, L"),
    (picture(np.zeros((24, 32, 3), np.uint8)), PNG + "24 x 32, RGB", PNG + "24 x 32, RGB"),
    (put("object", {"bytes": png_file(2**16, 2**16, 8, 0, b""), "path": None}), "row 1: ", "row 1"),
]
HDF5 = [
    (put("id", b"free-000000"), FIXED + "`id`: expected b'free-000001', as", ""),
    (
        put("factors/shape", 7),
        FIXED + "`factors/shape`: expected 1, as in its metadata, got 7",
        NUMBERS.format(7),
    ),
    (put("factors/angle", np.nan), "as in its metadata, got nan", "`angle`: expected finite numbers"),
    (
        double_row,
        "column `index`: expected each sample once, got 1 in rows 0 and 1",
        "column `index`: expected each sample once, got 1 in rows 0 and 1" + CHECK,
    ),
    (swap("image"), "1 (free-000001): layer `image` differs from its hash", ""),
    (swap("metadata"), "0 (free-000001): column `id`: expected b'free-000001', as in its", ""),
]


@pytest.mark.parametrize(
    ("kind", "edit", "verdict", "message"),
    [*(("hub", *row) for row in HUB), *(("hdf5", *row) for row in HDF5)],
)
def test_faults_behind_good_hashes_are_named(packs, torch, kind, edit, verdict, message):
    pack = packs / "hub" if kind == "hub" else packs / "hdf5" / "free.h5"
    (edit_hub if kind == "hub" else edit_hdf5)(pack, edit)
    damaged = [damage.reason for damage in verify_pack(pack).damaged]
    assert len(damaged) == (2 if edit.__qualname__.startswith("swap") else 1)
    assert verdict in " ".join(damaged)
    with suppress(InputError):
        describe(pack)
    found = ""
    try:
        list(open_frames(pack, "free", objects=True))
    except InputError as error:
        found = str(error)
    assert message in found if message else not found


def test_types_that_pandas_drops_are_named(stored_copy):
    pandas = pytest.importorskip("pandas")
    (path,) = (stored_copy / "hub" / "free").glob("*.parquet")
    rows = pandas.read_parquet(path, columns=["id", "index", "shape", "angle", "objects", "metadata"])
    rows.to_parquet(path)
    renew_hashes(stored_copy / "hub")
    (damage,) = verify_pack(stored_copy / "hub").damaged
    assert damage.path == path
    assert damage.reason.startswith("columns do not fit dataset.json: albedo, angle, depth, ")
