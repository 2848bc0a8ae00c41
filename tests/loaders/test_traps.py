"""Known pitfalls of `datasets`, HDF5 and the Hub that concern several writers of packs."""

import json

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub

pytest.importorskip("torch", exc_type=ImportError)

# Types that `datasets` before version 4 knows: no List, LargeList, Json.
OLD_TYPES = {"Image", "Value", "ClassLabel", "Sequence", "Array2D", "Array3D"}


@pytest.fixture(scope="module")
def packs(tmp_path_factory, frames_root):
    """Pack one set as HDF5 and as a Hugging Face folder."""
    root = tmp_path_factory.mktemp("packs")
    pack_hdf5(frames_root, root / "h5", ["grid"])
    pack_hub(frames_root, root / "hub", ["grid"])
    return root


def load_hdf5(datasets, path, cache):
    return datasets.load_dataset("hdf5", data_files=str(path), split="train", cache_dir=str(cache))


def one_frame(make_frame, info, root, seed):
    write_dataset_info(root, info)
    write_frame(root, make_frame("grid", 0, seed))
    return root


@pytest.mark.parametrize("how", ["packed anew", "two folders"])
def test_load_dataset_of_hdf5_reads_no_stale_rows(datasets, make_frame, info, tmp_path, how):
    pytest.importorskip("datasets", minversion="4.0")
    for seed in (1, 2):
        root = one_frame(make_frame, info, tmp_path / f"frames-{seed}", seed)
        home = tmp_path / (str(seed) if how == "two folders" else "one")
        (path,) = pack_hdf5(root, home / "out", ["grid"], layers=["image"])
        (row,) = load_hdf5(datasets, path, tmp_path / "cache").with_format("numpy")
        np.testing.assert_array_equal(row["image"], make_frame("grid", 0, seed).layers["image"])


def types(feature):
    """Name the types in a feature, a list of records among them."""
    if isinstance(feature, list):
        return set().union(*map(types, feature))
    if not isinstance(feature, dict):
        return set()
    found = {feature["_type"]} if isinstance(feature.get("_type"), str) else set()
    return found.union(*(types(part) for part in feature.values() if isinstance(part, dict | list)))


def test_features_use_types_of_every_version_of_datasets(packs):
    (path,) = (packs / "hub" / "grid").glob("*.parquet")
    features = json.loads(pq.read_schema(path).metadata[b"huggingface"])["info"]["features"]
    assert types(features) == OLD_TYPES
    assert isinstance(features["objects"], list)


def test_the_cache_of_datasets_is_hardly_larger_than_the_arrays(datasets, packs, tmp_path):
    """Channels last would cost an offset of 4 bytes for every pixel: 1.7 times the size of half floats."""
    rows = datasets.load_dataset(str(packs / "hub"), "grid", split="train", cache_dir=str(tmp_path))
    for name, size in (("albedo", 6 * 24 * 32 * 3 * 2), ("depth", 6 * 24 * 32 * 4)):
        assert size <= rows.data.column(name).nbytes < 1.15 * size


def test_hdf5_files_have_a_layout_that_datasets_reads(packs):
    """Arrays have six rows, one to six axes, no axis of length 0, and plain types, in the file itself."""
    found = []

    def check(name, item):
        if isinstance(item, h5py.Dataset):
            found.append(name)
            assert 1 <= item.ndim <= 6, name
            assert item.shape[0] == 6, name
            assert 0 not in item.shape, name
            assert not item.is_virtual, name
            assert item.external is None, name
            text = h5py.check_string_dtype(item.dtype) is not None
            assert text or (item.dtype.kind in "iuf" and h5py.check_vlen_dtype(item.dtype) is None), name

    with h5py.File(packs / "h5" / "grid.h5") as file:
        file.visititems(check)
        assert all(isinstance(file.get(name, getlink=True), h5py.HardLink) for name in found)
    assert {"image", "light/left", "factors/size", "metadata"} <= set(found)


def test_h5py_is_never_indexed_by_a_list_of_rows(packs, monkeypatch):
    """h5py reads a list of rows two hundred times slower than single rows."""
    asked = []
    getitem = h5py.Dataset.__getitem__

    def watch(dataset, key, *rest, **more):
        asked.append(key)
        return getitem(dataset, key, *rest, **more)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", watch)
    frames = HDF5Frames(packs / "h5" / "grid.h5")
    assert [sample["index"] for sample in frames.__getitems__([4, 0, 2, 4])] == [4, 0, 2, 4]
    keys = [part for key in asked for part in (key if isinstance(key, tuple) else (key,))]
    assert keys
    assert all(isinstance(part, int | slice | str | type(...)) for part in keys), keys


def test_a_pack_is_readable_by_hdf5_1_10(packs):
    """HDF5 includes gzip and shuffle, and reads superblock version 3 since version 1.10 of 2016."""
    path = packs / "h5" / "grid.h5"
    assert path.read_bytes()[:9] == b"\x89HDF\r\n\x1a\n\x03"
    with h5py.File(path) as file:
        for name in HDF5Frames(path).layers:
            filters = file[name].id.get_create_plist()
            codes = {filters.get_filter(place)[0] for place in range(filters.get_nfilters())}
            assert codes <= {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}
