"""Units, steps, counterfactuals and interventions are columns of both kinds of packs."""

import json
import shutil

import h5py
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.causal_columns import INTERVENTION_KINDS, causal_columns
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hdf5.hdf5_datasets import columns_sha256, write_attribute
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.loaders.conftest import CAUSAL
from tests.loaders.edits import edit_json, renew_hashes
from tests.refusals import refused

FORMS = ("folder", "hdf5", "hub", "load_dataset", "load_dataset hdf5")


@pytest.fixture
def opened(causal_root, causal_packs, datasets):
    """Open a set in one of the forms."""

    def open_set(form, name):
        if form == "folder":
            return FrameFolder(causal_root, name)
        if form == "load_dataset":
            return datasets.load_dataset(str(causal_packs / "hub"), name, split="train")
        if form == "load_dataset hdf5":
            pytest.importorskip("datasets.packaged_modules.hdf5", reason="this version reads no HDF5")
            file = str(causal_packs / "hdf5" / f"{name}.h5")
            return datasets.load_dataset("hdf5", data_files=file, split="train")
        return open_frames(causal_packs / form, name)

    return open_set


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CAUSAL)
def test_every_form_has_the_columns(opened, form, name):
    found, rows = causal_columns(opened(form, name)), CAUSAL[name]
    assert list(found.ids) == [f"{name}-{row:06d}" for row in range(len(rows))]
    assert found.indices.tolist() == list(range(len(rows)))
    assert list(found.units) == [unit for unit, *_ in rows]
    assert list(found.counterfactual_of) == [factual or "" for _, _, factual, _ in rows]
    steps = [step for _, step, *_ in rows]
    assert (steps[0] is None) == (found.steps is None)
    assert found.steps is None or found.steps.tolist() == steps
    for variable in ("shape", "angle", "mood"):
        due = [INTERVENTION_KINDS.index(kinds.get(variable, "")) for *_, kinds in rows]
        assert found.table([variable])[:, 0].tolist() == due


def test_packs_do_not_parse_metadata(opened, monkeypatch):
    for form in FORMS[1:3]:
        frames = opened(form, "changed")
        monkeypatch.setattr(type(frames), "metadata", None)
        assert causal_columns(frames).units[0] == "u-0"


def test_card_and_croissant_list_the_columns(causal_packs):
    card = (causal_packs / "hub" / "README.md").read_text()
    for name in ("unit", "counterfactual_of", "intervened", "intervention_kind"):
        assert card.count(f"| `{name}` |") == len(CAUSAL)
    stepped = sum(rows[0][1] is not None for rows in CAUSAL.values())
    assert card.count("| `step` |") == stepped
    croissant = json.loads((causal_packs / "hub" / "croissant.json").read_text())
    fields = [field for one in croissant["recordSet"] for field in one["field"]]
    assert sum(field["name"] == "step" for field in fields) == stepped
    (kinds, *_) = (field for field in fields if field["name"] == "intervention_kind")
    assert (kinds["isArray"], kinds["arrayShape"], kinds["dataType"]) == (True, "-1", "sc:Text")


@pytest.mark.parametrize("form", ["hdf5", "hub"])
def test_verified_packs_fit_their_metadata(causal_packs, form):
    assert not verify_pack(causal_packs / form).damaged


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("unit", b"u-9", "column `unit`: expected b'u-0', as in its metadata, got b'u-9'"),
        ("counterfactual_of", b"x", "column `counterfactual_of`: expected b'train-000000'"),
        ("intervened/shape", 3, "column `intervened/shape`: expected 1, as in its metadata, got 3"),
    ],
)
def test_edited_columns_are_damage(causal_packs, tmp_path, column, value, message):
    path = shutil.copy(causal_packs / "hdf5" / "changed.h5", tmp_path)
    set_info = HDF5Frames(path).set_info
    with h5py.File(path, "r+") as file:
        file[column][0] = value
    hashed, row = verify_pack(tmp_path / "changed.h5").damaged
    assert hashed.reason == "other columns than layers differ from their hash"
    assert message in row.reason
    with h5py.File(path, "r+") as file:
        del file.attrs["sha256"]
        write_attribute(file, "sha256", columns_sha256(file, set_info))
    assert verify_pack(tmp_path / "changed.h5").damaged == (row,)


def test_packs_of_earlier_versions_are_read(causal_packs, tmp_path):
    """Without the columns, units come from the metadata."""
    old = shutil.copytree(causal_packs, tmp_path / "old")
    path = old / "hdf5" / "changed.h5"
    set_info = HDF5Frames(path).set_info
    with h5py.File(path, "r+") as file:
        for name in ("unit", "counterfactual_of", "intervened"):
            del file[name]
        del file.attrs["sha256"]
        write_attribute(file, "sha256", columns_sha256(file, set_info))
    (shard,) = (old / "hub" / "changed").glob("*.parquet")
    lost = ["unit", "counterfactual_of", "intervened", "intervention_kind"]
    table = pq.read_table(shard)
    features = json.loads(table.schema.metadata[b"huggingface"])
    for name in lost:
        del features["info"]["features"][name]
    table = table.drop_columns(lost).replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, shard)
    edit_json(old / "hub" / "manifest.json", lambda text: None)
    renew_hashes(old / "hub")
    for frames in (HDF5Frames(path), HubFrames(old / "hub", "changed")):
        found = causal_columns(frames)
        assert found.counterfactual_of[3] == "train-000002"
        assert found.table(["angle", "shape"]).tolist() == [[0, 1], [2, 0], [3, 0], [1, 2], [1, 0]]
    assert not verify_pack(path).damaged
    assert not verify_pack(old / "hub").damaged


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("intervened", "expected group `intervened` in the file itself, got none; pack it again"),
        ("counterfactual_of", "expected dataset `counterfactual_of` of strings"),
    ],
)
def test_files_with_some_of_the_columns_are_refused(causal_packs, tmp_path, lost, message):
    path = shutil.copy(causal_packs / "hdf5" / "changed.h5", tmp_path)
    with h5py.File(path, "r+") as file:
        del file[lost]
    with refused(message):
        HDF5Frames(path)


def test_other_data_are_refused(opened):
    with refused("expected columns counterfactual_of, id, index, intervened, unit, got none named unit"):
        causal_columns(opened("load_dataset", "changed").remove_columns("unit"))
    with refused("expected frames, a pack, or a `datasets.Dataset` read from a pack, got list"):
        causal_columns([1, 2])
