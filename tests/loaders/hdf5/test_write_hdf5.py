import json
import multiprocessing
import os

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.hdf5.hdf5_datasets import HDF5_FORMAT
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.samples import Frame, Frames, collate
from candlelight.loaders.schema import Metadata, array_sha256
from candlelight.loaders.verification.verify_pack import verify_pack


@pytest.fixture(scope="module")
def packed(tmp_path_factory, frames_root):
    """Pack the small data set once."""
    folder = tmp_path_factory.mktemp("packed")
    assert pack_hdf5(frames_root, folder) == [folder / "grid.h5", folder / "free.h5"]
    return folder


@pytest.mark.parametrize("set_name", ["grid", "free"])
def test_both_readers_give_equal_samples(packed, frames_root, set_name):
    folder, file = FrameFolder(frames_root, set_name), HDF5Frames(packed / f"{set_name}.h5")
    assert isinstance(file, Frames)
    assert (file.info, file.set_info, file.set_name) == (folder.info, folder.set_info, folder.set_name)
    assert (len(file), file.layers) == (len(folder), folder.layers)
    np.testing.assert_array_equal(file.indices, folder.indices)
    np.testing.assert_array_equal(file.factor_table, folder.factor_table)
    for row in range(len(folder)):
        assert file.metadata(row) == folder.metadata(row)
        hashes = {name: array_sha256(array) for name, array in file.frame(row).layers.items()}
        assert hashes == folder.metadata(row).layers
        assert repr(file[row]) == repr(folder[row])


def test_rows_are_read_in_the_requested_order(packed):
    frames = HDF5Frames(packed / "free.h5", layers=["depth", "image"])
    assert frames.layers == ("image", "depth")
    assert [sample["index"] for sample in frames.__getitems__([3, 0, 3, -1])] == [4, 0, 4, 5]
    assert "albedo" not in frames[0]
    assert len(list(frames)) == 5
    with pytest.raises(IndexError):
        frames[5]
    with pytest.raises(InputError, match="layer `light/top` is not in this set"):
        HDF5Frames(packed / "free.h5", layers=["light/top"])


def test_layout_has_one_image_per_chunk_and_global_facts_in_attributes(packed, info):
    with h5py.File(packed / "grid.h5") as file:
        assert (file.attrs["format"], file.attrs["dataset"].decode()) == (HDF5_FORMAT, info.to_json())
        assert (file["image"].chunks, file["image"].compression) == ((1, 24, 32, 3), "gzip")
        assert (file["image"].shuffle, file["depth"].shuffle, file["light/left"].shuffle) == (
            False,
            True,
            True,
        )
        assert (file["depth"].attrs["unit"], file["albedo"].attrs["colour_space"]) == (
            b"metres",
            b"linear Rec.709",
        )
        assert json.loads(file["factors/size"].attrs["values"]) == [1.5, 2, 2.5]
        rows = set()
        file.visititems(lambda _, item: rows.add(item.shape[0]) if isinstance(item, h5py.Dataset) else None)
        assert rows == {6}


def test_texts_have_fixed_lengths(packed):
    """HDF5 stores texts of variable length in heaps, and loops forever if a block of a heap is lost."""
    seen = []

    def check(name, found):
        seen.append(name)
        kinds = [found.attrs.get_id(key).dtype.kind for key in found.attrs]
        if isinstance(found, h5py.Dataset):
            kinds.append(found.dtype.kind)
        assert set(kinds) <= set("Siuf"), name

    with h5py.File(packed / "grid.h5") as file:
        check("/", file)
        file.visititems(check)
        assert json.loads(file["metadata"].asstr()[3])["id"] == file["id"].asstr()[3] == "grid-000003"
    assert {"id", "metadata", "factors/size"} < set(seen)
    assert b"GCOL" not in (packed / "grid.h5").read_bytes()


def test_a_description_may_be_longer_than_64_kb(frames_copy, tmp_path, info):
    long = info.model_copy(update={"description": "ü" * 100_000})
    write_dataset_info(frames_copy, long)
    (path,) = pack_hdf5(frames_copy, tmp_path / "out", sets=["grid"], layers=["depth"])
    assert HDF5Frames(path).info.description == long.description


def test_compression_none_stores_the_same_arrays(tmp_path, frames_root, packed):
    (path,) = pack_hdf5(frames_root, tmp_path / "new" / "folder", sets=["free"], compression="none")
    with h5py.File(path) as plain, h5py.File(packed / "free.h5") as small:
        assert (plain["depth"].chunks, plain["depth"].compression) == ((1, 24, 32), None)
        for name in ("image", "depth", "light/right"):
            np.testing.assert_array_equal(plain[name][:], small[name][:])


def test_packing_twice_gives_the_same_bytes(tmp_path, frames_root, packed):
    pack_hdf5(frames_root, tmp_path, sets=["grid"])
    pack_hdf5(frames_root, tmp_path, sets=["grid"])
    assert (tmp_path / "grid.h5").read_bytes() == (packed / "grid.h5").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["grid.h5"]


def test_a_set_without_objects_or_factors_is_packed(tmp_path, make_frame, info):
    bare = make_frame(drop=("light/left", "light/right"))
    frame = Frame(bare.metadata.model_copy(update={"objects": ()}), bare.layers)
    changed = {"factors": (), "layers": tuple(bare.layers), "varies": ()}
    sets = {"grid": info.sets["grid"].model_copy(update=changed)}
    write_dataset_info(tmp_path, info.model_copy(update={"sets": sets}))
    write_frame(tmp_path, frame)
    (path,) = pack_hdf5(tmp_path, tmp_path / "h5")
    frames = HDF5Frames(path, objects=True)
    assert (frames.factor_table.shape, frames[0]["objects"], frames[0]["factors"]) == ((1, 0), [], {})


def damage_depth(path):
    with np.load(path / "layers.npz") as layers:
        np.savez(path / "layers.npz", **{**layers, "depth": np.zeros((24, 32), np.float32)})


def move_frame(path):
    path.rename(path.with_name("000003"))


def drop_layer(path):
    text = json.loads((path / "metadata.json").read_text())
    del text["layers"]["depth"]
    (path / "metadata.json").write_text(json.dumps(text))


def add_layer(path):
    text = json.loads((path / "metadata.json").read_text())
    text["layers"]["light/top"] = "0" * 64
    (path / "metadata.json").write_text(json.dumps(text))
    (path / "SHA256SUMS").unlink()


def change_a_digit(path):
    text = (path / "metadata.json").read_text()
    (path / "metadata.json").write_text(text.replace('"size": 1.5', '"size": 2.5'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_depth, r"000005: layer `depth` has hash"),
        (move_frame, r"000003 holds sample 5 of set `free`; delete it"),
        (drop_layer, r"000005: layer `depth` is missing"),
        (
            add_layer,
            r"000005: expected the layers of its set .* light/top; delete its folder and render again",
        ),
        (
            change_a_digit,
            "000005/metadata.json differs from its line in SHA256SUMS; delete .* and render again",
        ),
        (lambda path: (path / "image.png").unlink(), "000005/image.png is missing"),
    ],
)
def test_a_damaged_frame_is_named_and_no_file_is_left(tmp_path, frames_copy, damage, message):
    damage(frame_path(frames_copy, "free", 5))
    out = tmp_path / "out"
    with pytest.raises(InputError, match=message):
        pack_hdf5(frames_copy, out, sets=["free"])
    assert not list(out.iterdir())


def test_unpackable_sets_are_named_before_any_file_is_written(tmp_path, frames_copy, info):
    later = info.model_copy(update={"sets": info.sets | {"later": info.sets["grid"]}})
    write_dataset_info(frames_copy, later)
    with pytest.raises(InputError, match="no sample of set `later` is complete"):
        pack_hdf5(frames_copy, tmp_path / "out")
    with pytest.raises(InputError, match="set `none` is not in `tiny`"):
        pack_hdf5(frames_copy, tmp_path / "out", sets=["none"])
    assert not (tmp_path / "out").exists()


def write_foreign(path):
    with h5py.File(path, "w") as file:
        file["image"] = np.zeros(3)


def change(path, edit):
    with h5py.File(path, "r+") as file:
        edit(file)


def remove_depth(file):
    del file["depth"]


def half_depth(file):
    del file["depth"]
    file["depth"] = np.zeros((5, 24, 32), np.float16)


def break_index(file):
    del file["index"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), r"free.h5 is missing; make it with `candlelight pack`"),
        (lambda path: path.write_bytes(b""), "cannot be read as HDF5: .*; pack it again"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be read as HDF5: .*truncated"),
        (write_foreign, r"free.h5: expected an HDF5 file of format 3 made by .*, got .* another file; pack"),
        (lambda path: change(path, remove_depth), r"expected dataset `depth` of float32 \[5, 24, 32\]"),
        (lambda path: change(path, half_depth), r"expected dataset `depth` of float32"),
        (lambda path: change(path, break_index), "expected dataset `index` of int64"),
        (lambda path: change(path, lambda f: f.attrs.update(set=np.bytes_("x"))), "set `x` is not in `tiny`"),
        (lambda path: change(path, lambda f: f.attrs.update(set=np.full(2, b"free"))), "of format 3"),
        (
            lambda path: change(path, lambda f: f.attrs.update(dataset=np.bytes_("{"))),
            "attribute `dataset` is damaged",
        ),
        (
            lambda path: change(path, lambda f: f.attrs.update(dataset=np.bytes_('{"schema": 5}'))),
            "schema version 3, got 5",
        ),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, packed, damage, message):
    path = tmp_path / "free.h5"
    path.write_bytes((packed / "free.h5").read_bytes())
    damage(path)
    with pytest.raises(InputError, match=message) as caught:
        HDF5Frames(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_pipe_is_refused_without_waiting(tmp_path):
    path = tmp_path / "free.h5"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)  # otherwise opening it for reading would wait
    with pytest.raises(InputError, match=r"free.h5: expected an HDF5 file .*, got no regular file"):
        HDF5Frames(path)
    os.close(held)


def test_unwritten_rows_are_named(tmp_path, packed):
    path = tmp_path / "free.h5"
    path.write_bytes((packed / "free.h5").read_bytes())

    def empty(file):
        filters = {"chunks": (1,), "compression": "gzip"}
        del file["metadata"]
        file.create_dataset("metadata", (5,), "S9999", **filters)

    change(path, empty)
    told = r"row 0( is damaged|: its bytes are not in the file)|storage is not initialized"
    with pytest.raises(InputError, match=told):
        HDF5Frames(path).metadata(0)


def test_foreign_datasets_are_not_read(tmp_path, packed):
    """One dataset claims 32 TiB without using space in the file; the other refers to another file."""
    path = tmp_path / "free.h5"
    path.write_bytes((packed / "free.h5").read_bytes())
    elsewhere = [(str(tmp_path / "pipe"), 0, 2**45)]
    os.mkfifo(tmp_path / "pipe")
    change(path, lambda file: file.create_dataset("mine", (2**45,), "u1", chunks=(2**20,)))
    change(path, lambda file: file.create_dataset("there", (2**45,), "u1", external=elsewhere))
    assert verify_pack(path).whole
    assert len(HDF5Frames(path)[0]) == len(HDF5Frames(packed / "free.h5")[0])


def test_a_damaged_chunk_is_found_on_reading(tmp_path, packed):
    path = tmp_path / "free.h5"
    with h5py.File(packed / "free.h5") as file:
        chunk = file["depth"].id.get_chunk_info(0)
    data = bytearray((packed / "free.h5").read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(data)
    frames = HDF5Frames(path)
    with pytest.raises(InputError, match="cannot be read as HDF5"):
        frames[0]


def test_damaged_metadata_is_named_with_its_row(tmp_path, packed):
    path = tmp_path / "free.h5"
    path.write_bytes((packed / "free.h5").read_bytes())
    change(path, lambda file: file["metadata"].__setitem__(1, "{}"))
    with pytest.raises(InputError, match=r"free.h5, row 1 is damaged at id: Field required; pack it again"):
        HDF5Frames(path).metadata(1)


# Python 3.12 and newer warn of forking after torch has started threads; this test forks on purpose.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_open_the_file_themselves(packed, frames_root, method):
    frames = HDF5Frames(packed / "grid.h5", layers=["image", "depth"])
    expected = collate([FrameFolder(frames_root, "grid", ["image", "depth"])[row] for row in range(6)])
    frames[0]  # opens a handle, which must not be sent to the workers
    loader = DataLoader(
        frames,
        3,
        collate_fn=collate,
        num_workers=1,
        multiprocessing_context=multiprocessing.get_context(method),
    )
    batches = list(loader)
    assert torch.equal(torch.cat([batch["image"] for batch in batches]), expected["image"])
    assert torch.equal(torch.cat([batch["depth"] for batch in batches]), expected["depth"])


def test_datasets_reads_the_same_file(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", minversion="4.0")
    loaded = datasets.load_dataset(
        "hdf5", data_files=str(packed / "grid.h5"), split="train", cache_dir=str(tmp_path / "cache")
    )
    frames = HDF5Frames(packed / "grid.h5")
    row = loaded.with_format("numpy")[4]
    np.testing.assert_array_equal(row["depth"], frames.frame(4).layers["depth"])
    np.testing.assert_array_equal(row["light"]["left"], frames.frame(4).layers["light/left"])
    assert (row["id"], row["factors"]["size"]) == (b"grid-000004", 1)
    assert Metadata.model_validate_json(row["metadata"]) == frames.metadata(4)
