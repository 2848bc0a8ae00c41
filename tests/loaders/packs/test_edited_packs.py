"""Packs that somebody edited and hashed anew: `--verify` names each fault, readers refuse or ignore it."""

import json
import shutil

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.hdf5.hdf5_datasets import columns_sha256, write_attribute
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.arrow_tables import arrow_columns, arrow_schema
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.verification.checksums import SUMS, file_sha256, parse_sums, sums_text

pytest.importorskip("torch", exc_type=ImportError)


@pytest.fixture(scope="module")
def good_packs(tmp_path_factory, frames_root):
    folder = tmp_path_factory.mktemp("whole")
    pack_hdf5(frames_root, folder / "hdf5", sets=["free"], compression="none")
    pack_hub(frames_root, folder / "hub", sets=["free"])
    return folder


@pytest.fixture
def packs(good_packs, tmp_path, datasets):
    return shutil.copytree(good_packs, tmp_path / "packs")


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
    hash_anew(folder, path, len(columns["id"]))


def hash_anew(folder, path, rows):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0] |= {"sha256": file_sha256(path), "bytes": path.stat().st_size, "rows": rows}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    names = parse_sums((folder / SUMS).read_bytes())
    (folder / SUMS).write_text(sums_text({name: file_sha256(folder / name) for name in names}))


def edit_hdf5(folder, edit):
    """Edit the columns of an HDF5 file, and renew its hash."""
    path = folder / "free.h5"
    set_info = HDF5Frames(path).set_info
    with h5py.File(path, "r+") as file:
        edit(file)
        del file.attrs["sha256"]
        write_attribute(file, "sha256", columns_sha256(file, set_info))


def put(name, row, value):
    def edit(columns):
        columns[name][row] = value

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


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def read_all(pack):
    frames = open_frames(pack, "free", objects=True)
    return frames.__getitems__(range(len(frames)))


CHECK = "; check it with `candlelight info --verify`, and pack it again"
NUMBERS = "factor `shape`: expected numbers from 0 to 2, got {} in row 1" + CHECK
# By fault: the edit, what `--verify` says of the row, and what readers say; "" where each row can be read.
HUB = {
    "id twice": (
        put("id", 1, "free-000000"),
        "1 (free-000001): column `id`: expected 'free-000001', as in",
        "",
    ),
    "code": (
        put("shape", 1, 7),
        "1 (free-000001): column `shape`: expected 1, as in its metadata, got 7",
        NUMBERS.format(7),
    ),
    "row twice": (
        add_row,
        "5 (free-000001): expected each sample once, got it in train-00000-of-00001.parquet, row 1 too",
        "column `index`: expected each sample once, got 1 in rows 1 and 5" + CHECK,
    ),
    "images": (swap("image"), "0 (free-000000): layer `image` differs from its hash", ""),
    "depths": (swap("depth"), "1 (free-000001): layer `depth` differs from its hash", ""),
    "null id": (
        put("id", 1, None),
        "1 (free-000001): column `id`: expected 'free-000001', as in its",
        "`id`: exp",
    ),
    "null index": (
        put("index", 1, None),
        "as in its metadata, got null",
        "`index`: expected int64, got float64",
    ),
    "null code": (put("shape", 1, None), "as in its metadata, got null", NUMBERS.format("nan")),
    "null value": (put("angle", 1, None), "as in its metadata, got null", "`angle`: expected finite numbers"),
    "null image": (
        put("image", 1, None),
        "1: layer `image`: expected uint8 [24, 32, 3], got null",
        "row 1: layer `image`: expected uint8 [24, 32, 3], got null" + CHECK,
    ),
    "null depth": (
        put("depth", 1, None),
        "1: layer `depth`: expected float32 [24, 32], got null",
        "row 1: layer `depth`: expected float32 [24, 32], got null" + CHECK,
    ),
    "null objects": (put("objects", 1, None), "as in its metadata, got null", ""),
    "null metadata": (
        put("metadata", 1, None),
        "1: metadata: expected a JSON text, got null",
        "row 1: expected a JSON text, got null" + CHECK,
    ),
}


def swap_rows(name):
    def edit(file):
        file[name][:2] = file[name][:2][::-1]

    return edit


HDF5 = {
    "id twice": (
        put("id", 1, b"free-000000"),
        "1 (free-000001): column `id`: expected b'free-000001', as",
        "",
    ),
    "code": (
        put("factors/shape", 1, 7),
        "1 (free-000001): column `factors/shape`: expected 1, as in its metadata, got 7",
        NUMBERS.format(7),
    ),
    "null": (
        put("factors/angle", 1, np.nan),
        "as in its metadata, got nan",
        "`angle`: expected finite numbers",
    ),
    "row twice": (
        double_row,
        "column `index`: expected each sample once, got 1 in rows 0 and 1",
        "column `index`: expected each sample once, got 1 in rows 0 and 1" + CHECK,
    ),
    "images": (swap_rows("image"), "1 (free-000001): layer `image` differs from its hash", ""),
    "metadata": (
        swap_rows("metadata"),
        "0 (free-000001): column `id`: expected b'free-000001', as in its",
        "",
    ),
}


@pytest.mark.parametrize(
    ("kind", "fault"), [*(("hub", fault) for fault in HUB), *(("hdf5", fault) for fault in HDF5)]
)
def test_faults_behind_good_hashes_are_named(packs, tmp_path, kind, fault):
    edit, verdict, message = (HUB if kind == "hub" else HDF5)[fault]
    pack = packs / kind
    (edit_hub if kind == "hub" else edit_hdf5)(pack, edit)
    done = run("info", pack, "--verify")
    assert done.exit_code == 1
    damaged = [line for line in done.output.splitlines() if line.startswith("damaged: ")]
    assert len(damaged) == (2 if fault in ("images", "depths", "metadata") else 1)
    assert verdict in done.output
    for words in ((), ("--set", "free", "--sheet", tmp_path / "sheet.png")):
        done = run("info", pack, *words)
        assert done.exit_code == 0 or (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    if message:
        with pytest.raises(InputError) as caught:
            read_all(pack)
        assert message in str(caught.value)
    else:
        read_all(pack)


def test_types_that_pandas_drops_are_named(packs):
    pandas = pytest.importorskip("pandas")
    (path,) = (packs / "hub" / "free").glob("*.parquet")
    rows = pandas.read_parquet(path, columns=["id", "index", "shape", "angle", "objects", "metadata"])
    rows.to_parquet(path)
    hash_anew(packs / "hub", path, len(rows))
    (line, *_) = run("info", packs / "hub", "--verify").output.splitlines()
    assert "train-00000-of-00001.parquet: columns do not fit dataset.json: albedo, angle, depth, " in line
