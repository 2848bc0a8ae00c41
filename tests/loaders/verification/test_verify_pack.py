"""Verification of packs: the damage found in each format, and its messages."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import read_frame
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import look
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import read_split_plan
from candlelight.loaders.verification.checksums import SUMS, file_sha256, parse_sums, sums_text
from candlelight.loaders.verification.verify_frames import Findings
from candlelight.loaders.verification.verify_pack import is_pack, verify_pack


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    folder = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, folder / "h5")
    pack_hub(frames_root, folder / "hub")
    return folder


@pytest.fixture
def packs(stored, tmp_path):
    return shutil.copytree(stored, tmp_path / "packs")


def test_packs_are_distinguished_from_frames(packs, frames_root, tmp_path):
    assert [is_pack(path) for path in (packs / "h5", packs / "h5" / "free.h5", packs / "hub")] == [True] * 3
    assert not any(is_pack(path) for path in (frames_root, tmp_path, tmp_path / "none"))


def test_undamaged_packs_have_no_findings(packs):
    done = []
    assert verify_pack(packs / "h5", done.append) == Findings(11, (), (), ())
    assert verify_pack(packs / "h5" / "free.h5") == Findings(5, (), (), ())
    assert verify_pack(packs / "hub", done.append) == Findings(11, (), (), ())
    assert sum(done) == 22


def test_every_flipped_byte_of_a_hugging_face_folder_is_found(packs):
    rng = np.random.default_rng(5)
    files = sorted(path for path in (packs / "hub").rglob("*") if path.is_file())
    assert len(files) == 9
    for file in files:
        whole = file.read_bytes()
        for _ in range(5):
            data = bytearray(whole)
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
            assert not verify_pack(packs / "hub").whole, file
        file.unlink()
        assert is_pack(packs / "hub")
        assert (file, "is missing") in {(d.path, d.reason) for d in verify_pack(packs / "hub").damaged}
        file.write_bytes(whole)
    (packs / "hub" / "notes").touch()
    assert verify_pack(packs / "hub").strangers == (packs / "hub" / "notes",)


def test_pipes_are_reported_without_waiting_for_data(packs, frames_copy):
    shard = packs / "hub" / "grid" / "train-00000-of-00001.parquet"
    shard.unlink()
    os.mkfifo(shard)
    damage, *_ = verify_pack(packs / "hub").damaged
    assert str(damage).endswith("train-00000-of-00001.parquet: cannot be read: no regular file")
    layers = next(frames_copy.rglob("layers.npz"))
    layers.unlink()
    os.mkfifo(layers)
    with pytest.raises(InputError, match=r"layers.npz is not a regular file"):
        read_frame(layers.parent)


def test_a_manifest_cannot_name_files_outside_its_folder(packs):
    (packs / "secret").write_text("not ours")
    manifest = packs / "hub" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("grid/train-00000-of-00001.parquet", "../secret"))
    damaged = verify_pack(packs / "hub").damaged
    assert {damage.path.name for damage in damaged} == {"manifest.json"}
    assert all(packs / "hub" in damage.path.parents for damage in damaged)


def test_forged_checksums_do_not_hide_invalid_packs(packs):
    hub = packs / "hub"
    whole = {file: file.read_bytes() for file in hub.rglob("*") if file.is_file()}

    def changed(name, old, new):
        for file, data in whole.items():
            file.write_bytes(data)
        data = whole[hub / name]
        (hub / name).write_bytes(data.replace(old, new) if old else new)
        assert (hub / name).read_bytes() != data
        sums = parse_sums(whole[hub / SUMS]) | {name: file_sha256(hub / name)}
        (hub / SUMS).write_text(sums_text(sums))
        damage, *_ = verify_pack(hub).damaged
        assert "\n" not in damage.reason
        return damage.path.relative_to(hub).as_posix(), damage.reason

    manifest, shard = "manifest.json", "grid/train-00000-of-00001.parquet"
    assert changed("dataset.json", b'"schema": 3', b'"schema": 9') == (
        "dataset.json",
        "expected schema version 3, got 9; make the frames again with `candlelight render`, and packs of "
        "them with `candlelight pack`",
    )
    name, reason = changed(manifest, b'"grid/train', b'"../grid/train')
    assert name == manifest
    assert reason.startswith("is damaged at files.0.path")
    assert changed(manifest, b'"set": "grid"', b'"set": "free"') == (manifest, "names no file of set `grid`")
    table = pq.read_table(hub / shard)
    pq.write_table(table.drop_columns(["albedo"]), packs / "other.parquet")
    other = (packs / "other.parquet").read_bytes()
    assert changed(shard, b"", other) == (shard, f"differs from its line in {manifest}")


def test_a_forged_file_without_metadata_is_damaged(packs):
    hub, name = packs / "hub", "grid/train-00000-of-00001.parquet"
    table = pq.read_table(hub / name)
    column = table.schema.get_field_index("metadata")
    pq.write_table(table.set_column(column, "metadata", pa.array(["{}"] * len(table))), hub / name)
    sums, manifest = parse_sums((hub / SUMS).read_bytes()), hub / "manifest.json"
    manifest.write_text(manifest.read_text().replace(sums[name], file_sha256(hub / name)))
    forged = {file: file_sha256(hub / file) for file in (name, "manifest.json")}
    (hub / SUMS).write_text(sums_text(sums | forged))
    damage, *others = verify_pack(hub).damaged
    assert str(damage) == f"{hub / name}: row 0: metadata is damaged at id: Field required"
    assert len(others) == 5


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.h5 is missing; make it with `candlelight pack`"):
        verify_pack(tmp_path / "none.h5")


def test_a_foreign_hdf5_file_is_reported_once(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = np.zeros((3, 4, 4, 3), np.uint8)
    (damage,) = verify_pack(tmp_path).damaged
    assert damage.path == tmp_path / "a.h5"
    assert damage.reason.startswith("expected an HDF5 file of format 3 made by `candlelight pack`, got ")


def test_a_changed_layer_of_an_hdf5_file_is_named(packs):
    with h5py.File(packs / "h5" / "grid.h5", "r+") as file:
        file["depth"][2, 0, 0] = 3.5
        file["index"][4] = 9
    findings = verify_pack(packs / "h5")
    assert findings.checked == 11
    assert [(damage.path.name, damage.reason) for damage in findings.damaged] == [
        ("grid.h5", "other columns than layers differ from their hash"),
        ("grid.h5", "row 2 (grid-000002): layer `depth` differs from its hash"),
        ("grid.h5", "row 4 (grid-000004): column `index`: expected 4, as in its metadata, got 9"),
    ]


def test_an_unreadable_hdf5_file_is_damaged(packs):
    file = packs / "h5" / "free.h5"
    with file.open("r+b") as stream:
        stream.truncate(3000)
    (damage,) = verify_pack(packs / "h5").damaged
    assert damage.path == file
    assert "\n" not in str(damage)
    assert str(damage).count(str(file)) == 1


def test_checksums_name_missing_files_if_the_manifest_is_damaged(packs):
    (packs / "hub" / "manifest.json").write_text("{")
    shutil.rmtree(packs / "hub" / "grid")
    names = {d.path.relative_to(packs / "hub").as_posix() for d in verify_pack(packs / "hub").damaged}
    assert names == {"manifest.json", "grid/train-00000-of-00001.parquet"}
    (packs / "hub" / SUMS).unlink()
    assert SUMS in {d.path.name for d in verify_pack(packs / "hub").damaged}


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
    with h5py.File(packs / "h5" / "grid.h5", "r+") as file:
        edit(file)
    findings = verify_pack(packs / "h5" / "grid.h5")
    reasons = {damage.reason for damage in findings.damaged}
    assert "other columns than layers differ from their hash" in reasons, column


def test_hdf5_files_are_checked_in_processes_of_their_own(packs):
    done = []
    assert verify_pack(packs / "h5", done.append, apart=True) == Findings(11, (), (), ())
    assert done == [1] * 11


class Crashing(type(Path())):
    """A path that ends the process to which it is sent, as a crash of HDF5 does."""

    def __reduce__(self):
        return os.abort, ()


def test_a_file_that_crashes_its_reader_is_damaged(tmp_path):
    (tmp_path / "a.h5").touch()
    path = Crashing(tmp_path / "a.h5")
    (damage,) = verify_pack(path, apart=True).damaged
    assert str(damage) == f"{path}: crashes the library that reads it (SIGABRT)"


def test_a_missing_file_of_a_split_is_reported(frames_root, tmp_path):
    plan = read_split_plan(("train=red", "test=blue"), 0, "color", ())
    pack_hdf5(frames_root, tmp_path, sets=["grid"], plan=plan)
    pack_hdf5(frames_root, tmp_path, sets=["free"])
    assert verify_pack(tmp_path).whole
    (tmp_path / "grid-test.h5").unlink()
    (damage,) = verify_pack(tmp_path).damaged
    assert str(damage) == f"{tmp_path}/grid-test.h5: is missing"
    assert verify_pack(tmp_path / "grid-train.h5").whole


def test_files_of_different_packs_in_one_folder_are_reported(frames_root, tmp_path):
    for name, split in (("one", ("train=red", "test=blue")), ("two", ("train=blue", "test=red"))):
        plan = read_split_plan(split, 0, "color", ())
        pack_hdf5(frames_root, tmp_path / name, sets=["grid"], plan=plan)
    shutil.copy(tmp_path / "two" / "grid-test.h5", tmp_path / "one")
    (damage,) = verify_pack(tmp_path / "one").damaged
    assert "both hold sample" in damage.reason
    with pytest.raises(InputError, match="both hold sample"):
        open_frames(tmp_path / "one")


def test_names_with_line_breaks_are_reported_in_one_line(packs):
    path = packs / "hub" / "dataset.json"
    path.write_text(path.read_text().replace('"grid": {', '"gr\\nid": {'))
    (packs / "hub" / SUMS).write_text(
        sums_text(parse_sums((packs / "hub" / SUMS).read_bytes()) | {"dataset.json": file_sha256(path)})
    )
    (damage,) = verify_pack(packs / "hub").damaged
    assert str(damage).endswith("manifest.json: names no file of set `gr id`")
    with pytest.raises(InputError) as caught:
        look(packs / "hub")
    assert str(caught.value).endswith("manifest.json names no file of set `gr id`; pack it again")


def test_checksums_with_a_lost_block_are_damaged(packs):
    sums = packs / "hub" / SUMS
    data = bytearray(sums.read_bytes())
    start = data.index(b"assets/") + 3
    data[start : start + 90] = bytes(90)
    sums.write_bytes(data)
    assert not verify_pack(packs / "hub").whole
    data[start - 3 : start + 90] = b"assets/" + bytes(86)  # a name without its end
    sums.write_bytes(data)
    assert not verify_pack(packs / "hub").whole
