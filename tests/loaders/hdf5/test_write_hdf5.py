import json
import sys

import h5py
import numpy as np
import pytest

from candlelight.loaders.frames import frame_path, write_dataset_info
from candlelight.loaders.hdf5.filters import dataset_filters, encode_chunk
from candlelight.loaders.hdf5.hdf5_datasets import HDF5_FORMAT
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from tests.loaders.edits import edit_json
from tests.refusals import refused


@pytest.fixture
def packed(stored):
    return stored / "hdf5" / "grid.h5"


def test_layout_has_one_image_per_chunk_and_global_facts_in_attributes(packed, info, frames_root, tmp_path):
    with h5py.File(packed) as file:
        assert (file.attrs["format"], file.attrs["dataset"].decode()) == (HDF5_FORMAT, info.to_json())
        assert (file["image"].chunks, file["image"].compression) == ((1, 24, 32, 3), "gzip")
        shuffled = [file[name].shuffle for name in ("image", "depth", "light/left")]
        assert shuffled == [False, True, True]
        assert file["depth"].attrs["unit"] == b"metres"
        assert file["albedo"].attrs["colour_space"] == b"linear Rec.709"
        assert json.loads(file["factors/size"].attrs["values"]) == [1.5, 2, 2.5]
        assert json.loads(file["metadata"].asstr()[3])["id"] == file["id"].asstr()[3] == "grid-000003"
    (plain,) = pack_hdf5(frames_root, tmp_path / "new" / "folder", ["free"], "none", layers=["depth"])
    with h5py.File(plain) as file:
        assert (file["depth"].chunks, file["depth"].compression) == ((1, 24, 32), None)


def test_other_programs_can_read_every_dataset(packed):
    """`datasets` and HDF5 1.10 of 2016 read these types, shapes, filters, and this superblock.

    HDF5 stores texts of variable length in heaps, and loops forever if a block of a heap is lost.
    """
    nodes = {}

    def keep(name, node):
        nodes[name] = node

    with h5py.File(packed) as file:
        file.visititems(keep)
        arrays = {name: node for name, node in nodes.items() if isinstance(node, h5py.Dataset)}
        kinds = {node.attrs.get_id(key).dtype.kind for node in (file, *nodes.values()) for key in node.attrs}
        assert kinds | {array.dtype.kind for array in arrays.values()} <= set("Siuf")
        for name, array in arrays.items():
            assert (array.shape[0], 1 <= array.ndim <= 6, 0 in array.shape) == (6, True, False), name
            assert (array.is_virtual, array.external) == (False, None), name
            assert isinstance(file.get(name, getlink=True), h5py.HardLink), name
            plist = array.id.get_create_plist()
            codes = {plist.get_filter(place)[0] for place in range(plist.get_nfilters())}
            assert codes <= {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}, name
    assert {"image", "light/left", "factors/size", "metadata"} < arrays.keys()
    assert packed.read_bytes()[:9] == b"\x89HDF\r\n\x1a\n\x03"
    assert b"GCOL" not in packed.read_bytes()


def test_a_description_may_be_longer_than_64_kb(frames_copy, tmp_path, info):
    long = info.model_copy(update={"description": "ü" * 100_000})
    write_dataset_info(frames_copy, long)
    (path,) = pack_hdf5(frames_copy, tmp_path / "out", sets=["grid"], layers=["depth"])
    assert HDF5Frames(path).info.description == long.description


# ------------------------------------------------------------------------------------------------ filters

RNG = np.random.default_rng(2)
ARRAYS = [
    RNG.integers(0, 9, (24, 32, 3), np.uint8),
    RNG.random((24, 32, 6)).astype(np.float16)[:, :, ::2],
    RNG.random((24, 32)).astype(np.float32),
    np.full((1, 1), np.inf, np.float32),
    RNG.integers(0, 256, (8, 8), np.uint8),  # Blosc skips its filter if it saves nothing
]


@pytest.mark.parametrize("compression", ["gzip", "none", "zstd", "blosc"])
def test_hdf5_reads_encoded_chunks(tmp_path, compression):
    if compression in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    for number, array in enumerate(ARRAYS):
        mask, chunk = encode_chunk(array, compression)
        filters = dataset_filters(array.dtype, compression)
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            dataset = file.create_dataset(
                "x", (1, *array.shape), array.dtype, chunks=(1, *array.shape), **filters
            )
            dataset.id.write_direct_chunk((0,) * dataset.ndim, chunk, mask)
        with h5py.File(tmp_path / f"{number}.h5") as file:
            assert file["x"][0].tobytes() == array.tobytes()


def test_unknown_and_missing_compressions_are_refused(monkeypatch):
    with refused("compression: expected one of gzip, none, zstd, blosc, got lzf"):
        dataset_filters(np.dtype("uint8"), "lzf")
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with refused(r"zstd needs hdf5plugin: `pip install hdf5plugin`, or choose"):
        dataset_filters(np.dtype("uint8"), "zstd")


# ------------------------------------------------------------------------------------------------ refusals


def damage_depth(path):
    with np.load(path / "layers.npz") as layers:
        np.savez(path / "layers.npz", **{**layers, "depth": np.zeros((24, 32), np.float32)})


def add_layer(path):
    edit_json(path / "metadata.json", lambda text: text["layers"].update({"light/top": "0" * 64}))
    (path / "SHA256SUMS").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_depth, r"000005: layer `depth` has hash"),
        (
            lambda path: path.rename(path.with_name("000003")),
            r"000003 holds sample 5 of set `free`; delete it",
        ),
        (
            lambda path: edit_json(path / "metadata.json", lambda text: text["layers"].pop("depth")),
            "000005: layer `depth` is missing",
        ),
        (
            add_layer,
            "000005: expected the layers of its set .* light/top; delete its folder and render again",
        ),
        (
            lambda path: edit_json(path / "metadata.json", lambda text: text.update(exposure=2.5)),
            "000005/metadata.json differs from its line in SHA256SUMS; mend it: candlelight render --repair",
        ),
        (lambda path: (path / "image.png").unlink(), "000005/image.png is missing"),
    ],
)
def test_a_damaged_frame_is_named_and_no_file_is_left(tmp_path, frames_copy, damage, message):
    damage(frame_path(frames_copy, "free", 5))
    out = tmp_path / "out"
    with refused(message):
        pack_hdf5(frames_copy, out, sets=["free"])
    assert not list(out.iterdir())


def test_files_are_not_written_among_frames(frames_root):
    with refused("holds frames or a Hugging Face folder; name another"):
        pack_hdf5(frames_root, frames_root, ["grid"])
