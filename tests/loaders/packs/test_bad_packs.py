"""Bad frames and packs: commands and readers report one clear line.

The faults of each format are in `test_frames.py`, `hdf5/test_read_hdf5.py` and `hub/test_read_hub.py`, faults
that good hashes hide in `test_edited_packs.py`.
"""

import json
import re
from contextlib import suppress

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.verification.verify_frames import verify
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.loaders.edits import edit_json, renew_hashes
from tests.refusals import refused

SHARD = "hub/free/train-00000-of-00001.parquet"


@pytest.fixture
def packs(frames_copy, stored_copy, datasets):
    """Copy the small data set in all formats."""
    frames_copy.rename(stored_copy / "folder")
    (stored_copy / "hdf5" / "grid.h5").unlink()
    return stored_copy


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def cut(name):
    def damage(packs):
        data = (packs / name).read_bytes()
        (packs / name).write_bytes(data[: int(0.6 * len(data))])

    return damage


def cut_and_forged(packs):
    cut(SHARD)(packs)
    renew_hashes(packs / "hub")


def older(packs):
    for form in ("folder", "hub"):
        edit_json(packs / form / "dataset.json", lambda text: text.update(schema=1))
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        file.attrs["dataset"] = np.bytes_(json.dumps({**json.loads(file.attrs["dataset"]), "schema": 1}))


def fewer_rows(packs):
    table = pq.read_table(packs / SHARD, partitioning=None)
    pq.write_table(table.slice(1), packs / SHARD)
    renew_hashes(packs / "hub")


def unknown_value(packs):
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        file["factors/shape"][1] = 7


CUT_JSON = "folder/samples/free/0000/000002/metadata.json"
SCHEMA = "expected schema version 3, got 1; make the frames again with `candlelight render`"


@pytest.mark.parametrize(
    ("form", "damage", "message"),
    [
        ("folder", cut(CUT_JSON), "000002/metadata.json is damaged"),
        ("hdf5", cut("hdf5/free.h5"), "free.h5 cannot be read as HDF5: .*; pack it again"),
        (
            "hdf5",
            lambda packs: (packs / "hdf5/free.h5").write_text("no HDF5"),
            "free.h5 cannot be read as HDF5",
        ),
        ("hdf5", unknown_value, "factor `shape`: expected numbers from 0 to 2"),
        ("hub", cut(SHARD), r"parquet: expected \d+ bytes, got \d+|`free` cannot be read: "),
        ("hub", cut_and_forged, "`free` cannot be read: "),
        ("hub", fewer_rows, "`free`: expected 5 rows, .*got 4"),
        *((form, older, SCHEMA) for form in ("folder", "hdf5", "hub")),
    ],
)
def test_bad_packs_are_refused_by_readers_and_commands(packs, torch, form, damage, message):
    damage(packs)
    with refused(message):
        list(open_frames(packs / form, "free"))
    result = run("info", packs / form)
    assert (result.exit_code, result.output.count("\n"), result.output[:7]) == (2, 1, "Error: ")
    assert re.search(message, result.output)
    with suppress(InputError):
        assert not (verify if form == "folder" else verify_pack)(packs / form).whole


def test_a_folder_of_foreign_files_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "train.parquet")
    result = run("info", tmp_path)
    assert (result.exit_code, "expected a folder of frames, an .h5 file" in result.output) == (2, True)


@pytest.mark.parametrize("form", ["folder", "hdf5", "hub"])
def test_unknown_factors_and_splits_are_refused(packs, tmp_path, form):
    frames = open_frames(packs / form, "free")
    with refused("factor `colour`"):
        frames.set_info.factor("colour")
    with refused("colour"):
        FactorIndex.of(frames).rows(colour="red")
    for words, message in ((["--by", "colour"], "factor `colour`"), (["--split", "test"], "split `test`")):
        result = run("info", packs / form, "--set", "free", "--sheet", tmp_path / "s.png", *words)
        assert (result.exit_code, result.output.count("\n"), message in result.output) == (2, 1, True)
