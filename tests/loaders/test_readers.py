"""The contract of readers: from every format, the written frames, and the same tensors to the bit."""

import copy
import multiprocessing
import pickle  # noqa: TID251 - a DataLoader pickles a reader when it spawns workers
from functools import partial

import numpy as np
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame, Frames, collate, to_sample
from candlelight.loaders.schema import LAYERS, FactorInfo, PartRecord, layer
from candlelight.loaders.tensors_in_memory import load_tensors
from tests.loaders.edits import changed, write_plan, write_set
from tests.refusals import refused

# `HubFrames` uses `datasets`, so that every test needs the setup of this fixture.
pytestmark = pytest.mark.usefixtures("datasets")
FORMATS = {"folder": FrameFolder, "hdf5": HDF5Frames, "hub": HubFrames}
INDICES = {"grid": [0, 1, 2, 3, 4, 5], "free": [0, 1, 2, 4, 5]}
FACTORS = {
    "grid": [[color, size] for color in range(2) for size in range(3)],
    "free": [[index % 3, 12.5 * index] for index in INDICES["free"]],
}


@pytest.fixture(params=FORMATS)
def form(request):
    return request.param


@pytest.fixture
def path(form, frames_root, stored):
    return {"folder": frames_root, "hdf5": stored / "hdf5", "hub": stored / "hub"}[form]


def in_all_formats(root, folder, name="free", **options):
    """Pack one set twice, and open the folder and both packs."""
    pack_hdf5(root, folder / "h5", [name])
    pack_hub(root, folder / "hub", [name])
    return [open_frames(one, name, **options) for one in (root, folder / "h5", folder / "hub")]


def bits(value):
    """Convert a sample to values that `==` compares: arrays to dtype, shape and bytes, 2 and 2.0 to texts."""
    if isinstance(value, dict):
        return [(name, bits(part)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [bits(part) for part in value]
    if isinstance(value, Frame):
        return [value.metadata.to_json(), bits(value.layers)]
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        assert value.is_contiguous()
        value = value.numpy()
    return (str(value.dtype), value.shape, value.tobytes()) if hasattr(value, "tobytes") else repr(value)


# -------------------------------------------------------------------------------------------- one set


@pytest.mark.parametrize("name", INDICES)
def test_the_written_frames_are_read(form, path, make_frame, info, name):
    frames = open_frames(path, name)
    assert isinstance(frames, FORMATS[form])
    assert isinstance(frames, Frames)
    assert (frames.info, frames.set_info, frames.set_name) == (info, info.sets[name], name)
    assert frames.layers == info.sets[name].layers
    assert bits(frames.indices) == bits(np.array(INDICES[name]))
    assert bits(frames.factor_table) == bits(np.array(FACTORS[name], float))
    assert len(frames) == len(INDICES[name])
    for row, index in enumerate(INDICES[name]):
        written = make_frame(name, index)
        for _ in range(2):  # another reading shares no memory with the first
            frame = frames.frame(row)
            assert bits(frame) == bits(written)
            assert frames.metadata(row) == written.metadata
            for array in frame.layers.values():
                assert array.flags.c_contiguous
                array[:] = 0


def test_samples_are_tensors_of_the_frames(path, make_frame, info, torch):
    frames = open_frames(path, "free", objects=True)
    expected = [bits(to_sample(make_frame("free", i), info.sets["free"], True)) for i in INDICES["free"]]
    assert [bits(sample) for sample in frames] == expected
    rows = [3, 0, np.int64(3), torch.tensor(1), -1]
    samples = frames.__getitems__(rows)
    assert [bits(sample) for sample in samples] == [expected[int(row)] for row in rows]
    samples[0]["depth"].zero_()
    samples[0]["objects"].clear()
    assert bits(samples[2]) == bits(frames[3]) == expected[3]
    assert frames.__getitems__([]) == []
    assert bits(collate(frames.__getitems__(rows))) == bits(collate([frames[row] for row in rows]))


@pytest.mark.parametrize("row", [5, -6])
def test_rows_outside_of_a_set_raise_index_errors(path, row, torch):
    frames = open_frames(path, "free")
    for read in (
        frames.__getitem__,
        frames.metadata,
        frames.frame,
        lambda row: frames.__getitems__([0, row]),
    ):
        with pytest.raises(IndexError):
            read(row)


def test_only_chosen_layers_are_read_in_the_order_of_the_schema(path, torch):
    frames = open_frames(path, "free", layers=["depth", "image"])
    assert frames.layers == tuple(frames.frame(0).layers) == ("image", "depth")
    assert list(frames[0]) == ["id", "index", "set", "image", "depth", "factors"]
    with refused("layer `light/top` is not in this set; it has image, radiance"):
        open_frames(path, "free", layers=["light/top"])


def test_sets_and_splits_are_chosen_by_name(path):
    for name, message in ((None, r"choose a set \(`set_name`\)"), ("none", "set `none` is not there")):
        with refused(f"{message}; expected one of: (grid, free|free, grid)$"):
            open_frames(path, name)
    assert len(open_frames(path, "free", "train")) == 5
    with refused("split `val`"):
        open_frames(path, "free", "val")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # this test forks on purpose
def test_forked_workers_read_equal_batches(path, torch):
    from torch.utils.data import DataLoader

    frames = open_frames(path, "grid", layers=["image", "albedo", "depth"], objects=True)
    expected = [bits(collate(frames.__getitems__(rows))) for rows in ([0, 1, 2, 3], [4, 5])]  # opens files
    options = {"num_workers": 2, "multiprocessing_context": "fork", "collate_fn": collate}
    assert [bits(batch) for batch in DataLoader(frames, 4, **options)] == expected


def last_frame(reader):
    return bits(reader.frame(-1))


def test_spawned_processes_and_copies_read_equal_frames(frames_root, stored):
    readers = [open_frames(path, "free") for path in (frames_root, stored / "hdf5", stored / "hub")]
    expected = [last_frame(reader) for reader in readers]  # opens files, which are not sent
    assert [last_frame(pickle.loads(pickle.dumps(copy.deepcopy(reader)))) for reader in readers] == expected
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(last_frame, readers) == expected


def test_a_set_is_loaded_completely(path, monkeypatch, torch):
    monkeypatch.setattr("candlelight.loaders.tensors_in_memory._BLOCK", 4)  # the last block is not full
    frames = open_frames(path, "free", layers=["image", "albedo", "depth"])
    data, batch = load_tensors(frames), collate(frames.__getitems__(range(5)))
    assert list(data) == ["image", "albedo", "depth", "index", "factors"]
    assert bits(data["factors"]) == bits(frames.factor_table)
    assert all(bits(data[name]) == bits(batch[name]) for name in list(data)[:4])
    data["factors"].zero_()
    assert frames.factor_table.any()


# ------------------------------------------------------------------------------------------ other sets


def test_a_set_may_lack_objects_and_factors(make_frame, info, tmp_path, torch):
    bare = changed(make_frame("free"), factors={}, objects=())
    root = write_set(tmp_path / "frames", info, [bare], factors=(), varies=())
    for frames in in_all_formats(root, tmp_path, objects=True):
        assert (frames.factor_table.shape, frames[0]["objects"], frames[0]["factors"]) == ((1, 0), [], {})


def test_factors_may_have_the_names_of_columns(make_frame, info, tmp_path, torch):
    factors = (
        FactorInfo(name="object", kind="categorical", values=(3, 2.5)),
        FactorInfo(name="index", kind="continuous", low=0, high=1),
    )
    frame = changed(make_frame("free", 4), factors={"object": 2.5, "index": 0.1})
    for frames in in_all_formats(write_set(tmp_path / "frames", info, [frame], factors=factors), tmp_path):
        assert frames.factor_table.tolist() == [[1, 0.1]]
        assert frames.indices.tolist() == [4]
        assert frames[0]["factors"] == {"object": 1, "index": 0.1}


def test_splits_of_packs_are_opened_by_name(frames_root, tmp_path):
    plan = SplitPlan(factor="color", values={"test": ("blue",)})
    pack_hdf5(frames_root, tmp_path / "h5", ["grid"], plan=plan)
    pack_hub(frames_root, tmp_path / "hub", ["grid"], plan=plan)
    for pack in (tmp_path / "h5", tmp_path / "hub"):
        train, test = open_frames(pack), open_frames(pack, split="test", layers=["image"])
        assert (train.split, train.indices.tolist()) == ("train", [0, 1, 2])
        assert (test.split, test.indices.tolist(), test.layers) == ("test", [3, 4, 5], ("image",))
        assert test.factor_table[:, 0].tolist() == [1, 1, 1]
        with refused("split `val` is not there; expected one of: t"):
            open_frames(pack, split="val")


# ------------------------------------------------------------------------------------------ random bits


def random_layer(rng, name, height, width):
    spec = layer(name)
    shape = spec.shape(height, width)
    if spec.dtype == "uint8":
        return rng.integers(0, 256, shape, np.uint8)
    # Random bits are floats of all kinds: subnormals, infinities, minus zero and not-a-numbers too.
    kind = np.dtype(spec.dtype)
    return rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]


def random_frame(rng, frame, names, height, width):
    layers = {name: random_layer(rng, name, height, width) for name in names}
    part = PartRecord(name="lid", index=1, material="matte", base_color=(0.1, 0.2, 1 / 3), area=7)
    objects = tuple(
        record.model_copy(update={"size": rng.random(), "parts": (part,) * int(rng.integers(3))})
        for record in frame.metadata.objects[: int(rng.integers(4))]
    )
    return changed(frame, layers, objects=objects)


# The pictures of the card overflow at depths of 10^38 metres.
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize(
    ("seed", "compression", "objects"), [(0, "gzip", True), (1, "none", True), (2, "gzip", False)]
)
def test_random_bits_are_the_same_from_every_format(
    make_frame, info, tmp_path, torch, seed, compression, objects
):
    rng = np.random.default_rng(seed)
    height, width = (int(size) for size in rng.integers(1, 30, 2))
    optional = [*LAYERS, "light/left", "light/right"][1:]
    names = ["image", *(name for name in optional if rng.random() < 0.6)]
    written = [random_frame(rng, make_frame("free", i), names, height, width) for i in (0, 2, 3, 7)]
    write_set(tmp_path, info, written, layers=tuple(names), height=height, width=width)
    (file,) = pack_hdf5(tmp_path, tmp_path / "h5", compression=compression)
    hub = pack_hub(tmp_path, tmp_path / "hub")
    opens = partial(FrameFolder, tmp_path, "free"), partial(HDF5Frames, file), partial(HubFrames, hub, "free")
    rows = [int(row) for row in rng.integers(-4, 4, 9)]
    samples = [bits(to_sample(frame, open_frames(hub).set_info, objects)) for frame in written]
    for reader in [open_reader(objects=objects) for open_reader in opens]:
        assert [bits(frame) for frame in map(reader.frame, rows)] == [bits(written[row]) for row in rows]
        assert [bits(sample) for sample in reader.__getitems__(rows)] == [samples[row] for row in rows]
    last = [bits(open_reader(layers=[names[-1]])[0][names[-1]]) for open_reader in opens]
    assert last == [dict(samples[0])[names[-1]]] * 3


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_all_float16_values_and_special_floats_are_stored_exactly(make_frame, info, tmp_path):
    """The special floats: a NaN with payload, minus infinity, minus zero, a subnormal, the largest number."""
    side = 148  # the first whose pixels hold all 2^16 values
    special = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1, 0x7F7FFFFF], np.uint32)
    layers = {
        "image": np.zeros((side, side, 3), np.uint8),
        "albedo": np.resize(np.arange(2**16, dtype=np.uint16), (side, side, 3)).view(np.float16),
        "depth": np.resize(special, (side, side)).view(np.float32),
    }
    frame = changed(make_frame("free"), layers)
    root = write_set(tmp_path / "frames", info, [frame], layers=tuple(layers), width=side, height=side)
    for reader in in_all_formats(root, tmp_path):
        assert bits(reader.frame(0).layers) == bits(layers)


def test_missing_samples_of_the_plan_are_told(frames_copy, caplog):
    write_plan(frames_copy, [("grid", index) for index in range(6)] + [("free", index) for index in range(6)])
    FrameFolder(frames_copy, "grid")
    assert not caplog.messages
    FrameFolder(frames_copy, "free")
    (message,) = caplog.messages
    assert "`free` lacks 1 of its 6 samples" in message
