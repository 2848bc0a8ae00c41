"""Verification of packs: the damage found in each format, and its messages."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.frames import read_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe
from candlelight.loaders.verification.checksums import SUMS
from candlelight.loaders.verification.verify_frames import Findings
from candlelight.loaders.verification.verify_pack import is_pack, verify_pack
from tests.loaders.edits import renew_sums
from tests.refusals import refused


@pytest.fixture
def packs(stored_copy):
    return stored_copy


@pytest.fixture
def hub(stored_copy):
    return stored_copy / "hub"


def damage_reasons(pack):
    return [(damage.path.relative_to(pack).as_posix(), damage.reason) for damage in verify_pack(pack).damaged]


def test_packs_are_distinguished_from_frames(packs, frames_root, tmp_path):
    assert all(is_pack(path) for path in (packs / "hdf5", packs / "hdf5" / "free.h5", packs / "hub"))
    assert not any(is_pack(path) for path in (frames_root, tmp_path, tmp_path / "none"))


@pytest.mark.parametrize("apart", [False, True])
def test_undamaged_packs_have_no_findings(stored, apart):
    done = []
    assert verify_pack(stored / "hdf5" / "free.h5", done.append, apart=apart) == Findings(5, (), (), ())
    assert done == [1] * 5


def test_undamaged_folders_have_no_findings(stored):
    done = []
    for pack in (stored / "hdf5", stored / "hub"):
        assert verify_pack(pack, done.append) == Findings(11, (), (), ())
    assert sum(done) == 22


# ------------------------------------------------------------------------------------------- Hugging Face

SHARD = "grid/train-00000-of-00001.parquet"


def test_every_flipped_byte_of_a_hugging_face_folder_is_found(frames_root, tmp_path):
    rng, hub = np.random.default_rng(5), pack_hub(frames_root, tmp_path / "hub", ["free"], layers=["image"])
    files = sorted(path for path in hub.rglob("*") if path.is_file())
    assert len(files) == 7
    for file in files:
        whole = file.read_bytes()
        for _ in range(3):
            data = bytearray(whole)
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
            assert not verify_pack(hub).whole, file
        file.unlink()
        assert is_pack(hub)
        assert (file.relative_to(hub).as_posix(), "is missing") in damage_reasons(hub)
        file.write_bytes(whole)
    (hub / "notes").touch()
    assert verify_pack(hub).strangers == (hub / "notes",)


def test_pipes_are_reported_without_waiting_for_data(hub, frames_copy):
    (hub / SHARD).unlink()
    os.mkfifo(hub / SHARD)
    assert damage_reasons(hub)[0] == (SHARD, "cannot be read: no regular file")
    layers = next(frames_copy.rglob("layers.npz"))
    layers.unlink()
    os.mkfifo(layers)
    with refused(r"layers.npz is not a regular file"):
        read_frame(layers.parent)


def replace(name, old, new):
    def edit(hub):
        data = (hub / name).read_bytes()
        assert old in data
        (hub / name).write_bytes(data.replace(old, new))

    return edit


def drop_column(hub):
    table = pq.read_table(hub / SHARD, partitioning=None)
    pq.write_table(table.drop_columns(["albedo"]), hub / SHARD)


@pytest.mark.parametrize(
    ("edit", "name", "reason"),
    [
        (
            replace("dataset.json", b'"schema": 3', b'"schema": 9'),
            "dataset.json",
            "expected schema version 3, got 9; make the frames again with `candlelight render`, and packs of "
            "them with `candlelight pack`",
        ),
        (
            replace("manifest.json", b'"grid/train', b'"../grid/train'),
            "manifest.json",
            "is damaged at files.0",
        ),
        (
            replace("manifest.json", b'"set": "grid"', b'"set": "free"'),
            "manifest.json",
            "names no file of set",
        ),
        (drop_column, SHARD, "differs from its line in manifest.json"),
    ],
)
def test_forged_checksums_do_not_hide_invalid_packs(hub, edit, name, reason):
    edit(hub)
    renew_sums(hub)
    found, why = damage_reasons(hub)[0]
    assert (found, why[: len(reason)]) == (name, reason)


def test_names_with_line_breaks_are_reported_in_one_line(hub):
    replace("dataset.json", b'"grid": {', b'"gr\\nid": {')(hub)
    renew_sums(hub)
    (damage,) = verify_pack(hub).damaged
    assert str(damage).endswith("manifest.json: names no file of set `gr id`")
    with refused("manifest.json names no file of set `gr id`; pack it again$"):
        describe(hub)


def test_a_manifest_cannot_name_files_outside_its_folder(packs, hub):
    (packs / "secret").write_text("not ours")
    replace("manifest.json", SHARD.encode(), b"../secret")(hub)
    assert {name for name, _ in damage_reasons(hub)} == {"manifest.json"}


def test_checksums_name_missing_files_if_the_manifest_is_damaged(hub):
    (hub / "manifest.json").write_text("{")
    shutil.rmtree(hub / "grid")
    assert {name for name, _ in damage_reasons(hub)} == {"manifest.json", SHARD}
    (hub / SUMS).unlink()
    assert SUMS in dict(damage_reasons(hub))


def test_checksums_with_a_lost_block_are_damaged(hub):
    sums = hub / SUMS
    data = bytearray(sums.read_bytes())
    start = data.index(b"assets/") + 3
    data[start : start + 90] = bytes(90)
    sums.write_bytes(data)
    assert not verify_pack(hub).whole
    data[start - 3 : start + 90] = b"assets/" + bytes(86)  # a name without its end
    sums.write_bytes(data)
    assert not verify_pack(hub).whole


# --------------------------------------------------------------------------------------------------- HDF5


def test_a_changed_layer_of_an_hdf5_file_is_named(packs):
    with h5py.File(packs / "hdf5" / "grid.h5", "r+") as file:
        file["depth"][2, 0, 0] = 3.5
        file["index"][4] = 9
    assert verify_pack(packs / "hdf5").checked == 11
    assert damage_reasons(packs / "hdf5") == [
        ("grid.h5", "other columns than layers differ from their hash"),
        ("grid.h5", "row 2 (grid-000002): layer `depth` differs from its hash"),
        ("grid.h5", "row 4 (grid-000004): column `index`: expected 4, as in its metadata, got 9"),
    ]


def test_an_unreadable_hdf5_file_is_damaged_once(packs):
    file = packs / "hdf5" / "free.h5"
    with file.open("r+b") as stream:
        stream.truncate(3000)
    (damage,) = verify_pack(packs / "hdf5").damaged
    assert damage.path == file
    assert str(damage).count(str(file)) == 1


def test_a_flipped_bit_of_an_hdf5_file_is_found_or_changes_no_row(packs, stored):
    file, expected = packs / "hdf5" / "free.h5", HDF5Frames(stored / "hdf5" / "free.h5").frame(1).layers
    whole, found = file.read_bytes(), 0
    for share in (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999):
        data = bytearray(whole)
        data[int(share * len(data))] ^= 4
        file.write_bytes(data)
        if verify_pack(file).whole:  # an unused byte
            layers = HDF5Frames(file).frame(1).layers
            assert all(layers[name].tobytes() == array.tobytes() for name, array in expected.items())
        else:
            found += 1
    assert found > 3


@pytest.mark.parametrize(
    ("edit", "column"),
    [
        (lambda file: file["factors/color"].write_direct(np.zeros(6, np.int64)), "factor"),
        (lambda file: file["index"].__setitem__(0, 7), "index"),
        (lambda file: file["id"].__setitem__(3, "grid-000009"), "id"),
        (lambda file: file.attrs.__setitem__("split_made", "by hand"), "attribute"),
        (lambda file: file.attrs.__delitem__("sha256"), "hash"),
        (
            lambda file: file["metadata"].__setitem__(1, file["metadata"].asstr()[1].replace("0.25", "0.75")),
            "metadata",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_changes_outside_the_layers_of_an_hdf5_file_are_found(packs, edit, column):
    with h5py.File(packs / "hdf5" / "grid.h5", "r+") as file:
        edit(file)
    reasons = {damage.reason for damage in verify_pack(packs / "hdf5" / "grid.h5").damaged}
    assert "other columns than layers differ from their hash" in reasons, column


class Crashing(type(Path())):
    """A path that ends the process to which it is sent, as a crash of HDF5 does."""

    def __reduce__(self):
        return os.abort, ()


def test_a_file_that_crashes_its_reader_is_damaged(tmp_path):
    (tmp_path / "a.h5").touch()
    path = Crashing(tmp_path / "a.h5")
    (damage,) = verify_pack(path, apart=True).damaged
    assert str(damage) == f"{path}: crashes the library that reads it (SIGABRT)"
