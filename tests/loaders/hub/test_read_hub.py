import json
import multiprocessing
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from candlelight.loaders.errors import InputError
from candlelight.loaders.files import layer_codecs
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub import arrow_tables, read_hub, shards
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame, Frames, collate, group_rows
from candlelight.loaders.schema import FactorInfo, Metadata, array_sha256

# Readers use `datasets` too, so that every test needs the setup of this fixture.
pytestmark = pytest.mark.usefixtures("datasets")


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Store the small data set in both packs."""
    folder = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, folder)
    pack_hub(frames_root, folder / "hub")
    return folder


@pytest.fixture
def hub_copy(tmp_path, stored):
    """Copy the Hugging Face folder, for tests that damage it."""
    return shutil.copytree(stored / "hub", tmp_path / "hub")


@pytest.fixture
def fresh_cache(datasets, tmp_path, monkeypatch):
    """Give `datasets` an empty cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "fresh-cache")


def in_all_stores(root: Path, packs: Path, set_name: str) -> tuple[FrameFolder, HDF5Frames, HubFrames]:
    return (
        FrameFolder(root, set_name, objects=True),
        HDF5Frames(packs / f"{set_name}.h5", objects=True),
        HubFrames(packs / "hub", set_name, objects=True),
    )


def assert_same_sample(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert type(found[name]) is type(value)
        if isinstance(value, torch.Tensor):
            assert found[name].dtype == value.dtype
            assert found[name].is_contiguous()
            assert array_sha256(found[name].numpy()) == array_sha256(value.numpy())
        else:
            assert found[name] == value
            assert repr(found[name]) == repr(value)  # 2 and 2.0 are equal, but have different types


@pytest.mark.parametrize("set_name", ["grid", "free"])
def test_all_three_readers_give_equal_samples(stored, frames_root, set_name):
    folder, file, hub = in_all_stores(frames_root, stored, set_name)
    assert isinstance(hub, Frames)
    for other in (folder, file):
        assert (hub.info, hub.set_info, hub.set_name) == (other.info, other.set_info, other.set_name)
        assert (len(hub), hub.layers) == (len(other), other.layers)
        for name in ("indices", "factor_table"):
            assert getattr(hub, name).dtype == getattr(other, name).dtype
            np.testing.assert_array_equal(getattr(hub, name), getattr(other, name))
        for row in range(len(other)):
            assert hub.metadata(row) == hub.frame(row).metadata == other.metadata(row)
            assert_same_sample(hub[row], other[row])
    assert torch.isinf(hub[0]["depth"]).any()
    factors = [factor.name for factor in hub.set_info.factors]
    assert group_rows(hub, factors).keys() == group_rows(folder, factors).keys()


def test_arrays_match_their_hashes_and_are_writable(stored):
    hub = HubFrames(stored / "hub", "grid")
    for _ in range(2):
        frame, sample = hub.frame(3), hub[3]
        assert {name: array_sha256(array) for name, array in frame.layers.items()} == frame.metadata.layers
        for name, array in frame.layers.items():
            assert array.flags.c_contiguous
            array[:] = 0
            sample[name].zero_()


def write_set(root, frames, info):
    write_dataset_info(root, info)
    for frame in frames:
        write_frame(root, frame)


def test_all_float16_values_and_special_floats_are_stored_exactly(make_frame, info, tmp_path):
    """The special floats: a NaN with payload, minus infinity, minus zero, a subnormal, the largest number."""
    halves = np.resize(np.arange(2**16, dtype=np.uint16), 29 * 24 * 32 * 3).view(np.float16)
    halves = halves.reshape(29, 24, 32, 3)
    bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1, 0x7F7FFFFF], np.uint32)
    frames = []
    for index, albedo in enumerate(halves):
        frame = make_frame("free", index, drop=("radiance", "light/left", "light/right"))
        layers = frame.layers | {"albedo": albedo, "depth": np.resize(bits, (24, 32)).view(np.float32)}
        hashes = {name: array_sha256(array) for name, array in layers.items()}
        frames.append(Frame(frame.metadata.model_copy(update={"layers": hashes}), layers))
    sets = {"free": info.sets["free"].model_copy(update={"layers": tuple(frames[0].layers)})}
    write_set(tmp_path / "frames", frames, info.model_copy(update={"sets": sets}))
    pack_hdf5(tmp_path / "frames", tmp_path)
    pack_hub(tmp_path / "frames", tmp_path / "hub")
    for reader in in_all_stores(tmp_path / "frames", tmp_path, "free"):
        read = [reader.frame(row) for row in range(len(reader))]
        for found, written in zip(read, frames, strict=True):
            hashes = {name: array_sha256(array) for name, array in found.layers.items()}
            assert hashes == written.metadata.layers


def test_rows_are_read_in_the_requested_order(stored):
    frames = HubFrames(stored / "hub", "free", layers=["depth", "image"])
    assert frames.layers == ("image", "depth")
    rows = [3, 0, np.int64(3), -1]
    batch = frames.__getitems__(rows)
    assert [sample["index"] for sample in batch] == [4, 0, 4, 5]
    for row, sample in zip(rows, batch, strict=True):
        assert_same_sample(sample, frames[row])
    assert frames.__getitems__([]) == []
    assert len(list(frames)) == 5
    for row in (5, -6):
        with pytest.raises(IndexError):
            frames[row]
        with pytest.raises(IndexError):
            frames.metadata(row)
        with pytest.raises(IndexError):
            frames.__getitems__([0, row])
    with pytest.raises(InputError, match="layer `light/top` is not in this set"):
        HubFrames(stored / "hub", "free", layers=["light/top"])


def test_only_requested_values_are_decoded(stored, monkeypatch):
    depth, image = (HubFrames(stored / "hub", "grid", layers=[name]) for name in ("depth", "image"))

    def refuse(*_):
        raise AssertionError("decoded")

    monkeypatch.setattr(arrow_tables, "decode_png_bytes", refuse)
    assert set(depth[0]) == {"id", "index", "set", "depth", "factors"}
    with pytest.raises(AssertionError, match="decoded"):
        image[0]
    monkeypatch.setattr(read_hub, "parse_record", refuse)
    assert depth[0]["factors"] == {"color": 0, "size": 0}
    assert depth.factor_table.shape == (6, 2)
    assert depth.indices.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(AssertionError, match="decoded"):
        depth.metadata(0)


def test_factors_may_have_the_names_of_columns(make_frame, info, tmp_path):
    thing = FactorInfo(name="object", kind="categorical", values=(3, 2.5))
    turn = FactorInfo(name="index", kind="continuous", low=0, high=1)
    frame = make_frame("grid", 4)
    metadata = frame.metadata.model_copy(update={"factors": {"object": 2.5, "index": 0.1}})
    sets = {"grid": info.sets["grid"].model_copy(update={"factors": (thing, turn), "varies": ()})}
    write_set(tmp_path / "frames", [Frame(metadata, frame.layers)], info.model_copy(update={"sets": sets}))
    hub = HubFrames(pack_hub(tmp_path / "frames", tmp_path / "hub"), "grid")
    assert hub.factor_table.tolist() == [[1, 0.1]]
    assert hub.indices.tolist() == [4]
    assert hub[0]["factors"] == {"object": 1, "index": 0.1}


def test_a_set_without_objects_or_factors_is_read(make_frame, info, tmp_path):
    bare = make_frame()
    frame = Frame(bare.metadata.model_copy(update={"objects": ()}), bare.layers)
    sets = {"grid": info.sets["grid"].model_copy(update={"factors": (), "varies": ()})}
    write_set(tmp_path / "frames", [frame], info.model_copy(update={"sets": sets}))
    hub = HubFrames(pack_hub(tmp_path / "frames", tmp_path / "hub"), "grid", objects=True)
    assert (hub.factor_table.shape, hub[0]["objects"], hub[0]["factors"]) == ((1, 0), [], {})


# Python 3.12 and newer warn of forking after torch has started threads; this test forks on purpose.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_worker_processes_read_equal_samples(stored, frames_root, method, workers):
    frames = HubFrames(stored / "hub", "grid", layers=["image", "albedo", "depth"], objects=True)
    frames[0]  # opens the tables before the workers start
    loader = DataLoader(
        frames,
        3,
        collate_fn=collate,
        num_workers=workers,
        multiprocessing_context=multiprocessing.get_context(method),
    )
    folder = FrameFolder(frames_root, "grid", ["image", "albedo", "depth"], objects=True)
    expected = [collate([folder[row] for row in rows]) for rows in ([0, 1, 2], [3, 4, 5])]
    for found, wanted in zip(loader, expected, strict=True):
        for name in frames.layers:
            assert torch.equal(found[name], wanted[name])
        assert found["id"] == wanted["id"]
        assert found["objects"] == wanted["objects"]


@pytest.mark.usefixtures("fresh_cache")
def test_opening_prints_nothing_and_uses_no_network(datasets, stored, monkeypatch, capfd):
    def refuse(*_, **__):
        raise AssertionError("network")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    datasets.enable_progress_bars()
    try:
        HubFrames(stored / "hub", "free")[0]
        assert not datasets.are_progress_bars_disabled()
    finally:
        datasets.disable_progress_bars()
    HubFrames(stored / "hub", "grid")
    assert datasets.are_progress_bars_disabled()
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("fresh_cache")
def test_the_card_and_foreign_files_are_not_read(hub_copy):
    (hub_copy / "README.md").unlink()
    shutil.copy(shard(hub_copy, "grid"), hub_copy / "free" / "train-00001-of-00001.parquet")
    assert HubFrames(hub_copy, "free").indices.tolist() == [0, 1, 2, 4, 5]


def test_a_replaced_pack_is_read_anew(hub_copy, frames_copy, make_frame):
    """Packs differ by content, even with the same path, file times and card."""
    before = HubFrames(hub_copy, "free")
    times, card = shard(hub_copy).stat().st_mtime_ns, (hub_copy / "README.md").read_bytes()
    write_frame(frames_copy, make_frame("free", 3))
    pack_hub(frames_copy, hub_copy)
    os.utime(shard(hub_copy), ns=(times, times))
    (hub_copy / "README.md").write_bytes(card)
    assert HubFrames(hub_copy, "free").indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert before.indices.tolist() == [0, 1, 2, 4, 5]


def test_a_folder_may_be_named_like_a_builder_of_datasets(hub_copy, monkeypatch):
    hub_copy.rename(hub_copy.with_name("parquet"))
    monkeypatch.chdir(hub_copy.parent)
    assert len(HubFrames(Path("parquet"), "free")) == 5


def shard(folder: Path, set_name: str = "free") -> Path:
    return folder / set_name / "train-00000-of-00001.parquet"


def cut_short(folder):
    shard(folder).write_bytes(shard(folder).read_bytes()[:-100])


def flip_bytes(folder):
    data = bytearray(shard(folder).read_bytes())
    start = len(data) // 2
    data[start : start + 2000] = bytes(2000)
    shard(folder).write_bytes(data)


def forge_rows(folder):
    text = json.loads((folder / "manifest.json").read_text())
    for file in text["files"]:
        file["rows"] = 7
    (folder / "manifest.json").write_text(json.dumps(text))


def edit_info(folder, change):
    text = json.loads((folder / "dataset.json").read_text())
    change(text["sets"]["free"])
    (folder / "dataset.json").write_text(json.dumps(text))


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, r"hub/manifest.json is missing; make the folder with `candlelight pack`"),
        (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing; make the folder with"),
        (lambda f: (f / "dataset.json").unlink(), "dataset.json is missing"),
        (lambda f: shard(f).unlink(), r"free/train-00000-of-00001.parquet is missing; copy it anew or pack"),
        (lambda f: shutil.rmtree(f / "grid"), r"grid/train-00000-of-00001.parquet is missing"),
        (cut_short, r"free/train-00000-of-00001.parquet: expected \d+ bytes, got \d+; copy it anew or pack"),
        (
            flip_bytes,
            r"train-00000-of-00001.parquet differs from its hash in .*; check it with `candlelight info",
        ),
        (forge_rows, r"set `free`: expected 7 rows, as manifest.json says, got 5; check it with"),
        (
            lambda f: edit_info(f, lambda free: free["layers"].remove("depth")),
            "set `free`: columns do not fit dataset.json: depth; pack it again",
        ),
        (
            lambda f: edit_info(f, lambda free: free.update(width=24, height=32, layers=["image", "depth"])),
            "columns do not fit dataset.json: albedo, depth, light_left",
        ),
    ],
)
def test_foreign_and_damaged_folders_are_refused(hub_copy, damage, message):
    damage(hub_copy)
    with pytest.raises(InputError, match=message) as caught:
        HubFrames(hub_copy, "free")
    assert "\n" not in str(caught.value)
    assert str(hub_copy) in str(caught.value)


def test_unknown_sets_and_unusable_folders_are_refused(stored, hub_copy, frames_root):
    with pytest.raises(InputError, match="hub: set `none` is not there; expected one of: grid, free"):
        HubFrames(stored / "hub", "none")
    with pytest.raises(InputError, match=r"hub: choose a set \(`set_name`\); expected one of: grid, free"):
        HubFrames(stored / "hub")
    with pytest.raises(
        InputError, match=r"manifest.json is missing; make the folder with `candlelight pack`"
    ):
        HubFrames(frames_root, "grid")
    for name in ("run[1]", "run*", "run?", "run::1"):
        hub_copy = hub_copy.rename(hub_copy.with_name(name))
        with pytest.raises(InputError, match=r"`::` in a path as a pattern; rename the folder"):
            HubFrames(hub_copy, "grid")


def test_an_unwritable_cache_is_named(datasets, stored, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "file" / "cache")
    with pytest.raises(
        InputError, match=r"the cache .*file/cache cannot be written: Not a directory; set HF_HOME"
    ):
        HubFrames(stored / "hub", "grid")


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (b"no picture", "row 1 cannot be read: it is none of PNG"),
        (layer_codecs.encode_png(np.zeros((24, 32), np.uint8))[:60], "row 1 cannot be read: .*pack it again"),
        (
            layer_codecs.encode_png(np.zeros((32, 24), np.uint8)),
            "row 1: expected a PNG of 24 x 32 pixels, L, got 32 x 24, L",
        ),
        (
            layer_codecs.encode_png(np.zeros((24, 32, 3), np.uint8)),
            "row 1: expected a PNG .*, L, got 24 x 32, RGB",
        ),
    ],
    ids=["foreign", "cut", "size", "colour"],
)
def test_a_damaged_picture_is_named_with_its_row(frames_root, tmp_path, monkeypatch, mask, reason):
    monkeypatch.setattr(shards, "encode_png", lambda _: mask)
    hub = HubFrames(pack_hub(frames_root, tmp_path / "hub", sets=["grid"]), "grid", layers=["object"])
    for read in (hub.frame, lambda row: hub.__getitems__([row])):
        with pytest.raises(InputError, match=reason) as caught:
            read(1)
        assert str(caught.value).startswith(f"{tmp_path / 'hub'}, set `grid`, row 1")
        assert "\n" not in str(caught.value)


def test_damaged_metadata_is_named_with_its_row(frames_root, tmp_path, monkeypatch):
    whole = Metadata.to_json  # for the first sample, which the card describes
    monkeypatch.setattr(Metadata, "to_json", lambda self: "{}" if self.index else whole(self))
    monkeypatch.setattr(
        "candlelight.loaders.hub.card_pictures.draw_picture", lambda _: b""
    )  # the picture shows other samples too
    hub = HubFrames(pack_hub(frames_root, tmp_path / "hub", sets=["free"]), "free", objects=True)
    for read in (hub.metadata, hub.frame, hub.__getitem__):
        with pytest.raises(InputError, match=r"set `free`, row 4 is damaged at id: Field required; check it"):
            read(-1)


def test_splits_are_read_by_name(frames_root, tmp_path):
    plan = SplitPlan(factor="color", values={"test": ("blue",)})
    hub = pack_hub(frames_root, tmp_path / "hub", sets=["grid"], plan=plan)
    train, test = HubFrames(hub, "grid"), HubFrames(hub, "grid", layers=["image"], split="test")
    assert (train.split, train.indices.tolist()) == ("train", [0, 1, 2])
    assert (test.split, test.indices.tolist(), test.layers) == ("test", [3, 4, 5], ("image",))
    assert test[1]["factors"]["color"] == 1
    with pytest.raises(InputError, match="split `val` is not there; expected one of: train, test"):
        HubFrames(hub, "grid", split="val")
    assert HubFrames(hub).set_name == "grid"
