import numpy as np
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.samples import (
    Frame,
    Frames,
    collate,
    factor_number,
    factor_value,
    group_rows,
    row_number,
    to_sample,
    to_tensors,
)
from tests.loaders.edits import changed
from tests.refusals import refused

torch = pytest.importorskip("torch")


def test_to_sample_keeps_dtypes_and_puts_channels_first(make_frame, info):
    frame = make_frame("free", 4)
    sample = to_sample(frame, info.sets["free"], objects=True)
    assert (sample["id"], sample["index"], sample["set"]) == ("free-000004", 4, "free")
    assert repr(sample["factors"]) == "{'shape': 1, 'angle': 50.0}"
    for name, array in frame.layers.items():
        expected = array.transpose(2, 0, 1) if array.ndim == 3 else array
        assert sample[name].is_contiguous()
        assert sample[name].numpy().dtype == array.dtype
        np.testing.assert_array_equal(sample[name].numpy(), expected)
        sample[name].zero_()
        assert array.any()  # memory is not shared
    assert sample["objects"][1]["base_color"] is None
    assert sample["objects"][0]["bbox"] == (3, 4, 20, 18)


def test_collate_stacks_tensors_and_keeps_ragged_objects(make_frame, info):
    samples = [to_sample(make_frame("free", index), info.sets["free"], objects=True) for index in (1, 2, 5)]
    batch = collate(samples)
    assert batch.keys() == samples[0].keys()
    assert batch["image"].shape == (3, 3, 24, 32)
    assert (batch["light/left"].dtype, batch["depth"].shape) == (torch.float16, (3, 24, 32))
    assert torch.equal(batch["index"], torch.tensor([1, 2, 5]))
    assert torch.equal(batch["factors"]["shape"], torch.tensor([1, 2, 2]))
    assert torch.equal(batch["factors"]["angle"], torch.tensor([12.5, 25, 62.5], dtype=torch.float64))
    assert batch["id"] == ["free-000001", "free-000002", "free-000005"]
    assert [len(objects) for objects in batch["objects"]] == [2, 3, 3]


def test_samples_that_differ_are_named(make_frame, info):
    first = to_sample(make_frame(), info.sets["grid"])
    other_set = to_sample(make_frame("free"), info.sets["free"])
    with refused("`grid-000000` and `free-000000` differ in layers or factors"):
        collate([first, other_set])
    with refused("differ in layers"):
        collate([first, {name: value for name, value in first.items() if name != "depth"}])
    with refused(r"layer `depth` has several sizes in one batch, \[\(20, 32\), \(24, 32\)\]"):
        collate([first, first | {"depth": first["depth"][:20]}])


def test_samples_of_public_sets_are_batched_without_loss():
    samples = [
        {
            "id": "a",
            "image": torch.zeros(3, 2, 2),
            "mos": 0.5,
            "x": 1,
            "y": np.float32(0.5),
            "parts": {"head": 0},
        },
        {"id": "b", "image": torch.ones(3, 2, 2), "mos": 1, "x": 16777217.5, "y": None, "parts": {"head": 1}},
    ]
    batch = collate(samples)
    assert batch.keys() == samples[0].keys()
    assert batch["image"].shape == (2, 3, 2, 2)
    assert (batch["mos"].dtype, batch["x"].tolist()) == (torch.float64, [1.0, 16777217.5])
    assert collate([{"x": 1}, {"x": 2}])["x"].dtype == torch.int64
    assert (batch["id"], batch["y"]) == (["a", "b"], [np.float32(0.5), None])
    assert batch["parts"] == [{"head": 0}, {"head": 1}]
    with refused("differ in layers or factors"):
        collate([{"x": 1}, {"y": 1}])


def test_tensors_have_their_own_memory_for_any_array_layout():
    stored = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    frozen = np.moveaxis(stored, 0, 2)  # like arrays of `datasets`, which have channels first
    frozen.flags.writeable = False
    plain = np.ascontiguousarray(frozen)
    for arrays in ([frozen], [plain], [plain[:, ::-1]], [frozen] * 2, [plain] * 2):
        tensors = to_tensors(arrays)
        for array, tensor in zip(arrays, tensors, strict=True):
            assert tensor.is_contiguous()
            np.testing.assert_array_equal(tensor, np.moveaxis(array, 2, 0))
        tensors[0].zero_()
        assert arrays[-1].any()
        assert all(tensor.any() for tensor in tensors[1:])


def test_factor_values_are_numbered_and_wrong_values_named(make_frame, info):
    frame, (shape, angle) = make_frame("free", 1), info.sets["free"].factors
    assert factor_value(shape, factor_number(shape, frame.metadata)) == "cone"
    assert factor_value(angle, factor_number(angle, frame.metadata)) == 12.5
    wrong = changed(frame, factors={"shape": "ball", "angle": "steep"}).metadata
    with refused(r"factor `shape`: expected one of \('cube', .*got 'ball'"):
        factor_number(shape, wrong)
    with refused("factor `angle`: expected a number, got 'steep'"):
        factor_number(angle, wrong)
    with refused("sample `grid-000000` has no factor `shape`, which its set lists"):
        factor_number(shape, make_frame("grid").metadata)


def test_rows_are_grouped_by_values(frames_root):
    def groups(name, factors):
        frames = FrameFolder(frames_root, name)
        return {values: rows.tolist() for values, rows in group_rows(frames, factors).items()}

    assert groups("grid", ["color"]) == {("red",): [0, 1, 2], ("blue",): [3, 4, 5]}
    assert groups("grid", ["size", "color"])[2, "blue"] == [4]
    assert groups("grid", []) == {(): [0, 1, 2, 3, 4, 5]}
    shapes = groups("free", ["shape"])
    assert list(shapes.items()) == [(("cube",), [0]), (("cone",), [1, 3]), (("torus",), [2, 4])]
    assert groups("free", ["angle"])[(50.0,)] == [3]
    with refused("factor `hue` is not in this set; expected one of: shape, angle"):
        groups("free", ["hue"])


def test_rows_are_numbered_like_list_items():
    assert [row_number(row, 3) for row in (0, np.int64(2), torch.tensor(1), -3)] == [0, 2, 1, 0]
    for row in (3, -4):
        with pytest.raises(IndexError):
            row_number(row, 3)
    for odd in (slice(0, 2), [0], np.array([0, 1]), 1.0, "1"):
        with refused("cannot be interpreted as an integer|only integer scalar arrays", TypeError):
            row_number(odd, 3)


def test_frames_are_no_readers():
    assert not isinstance(Frame, Frames)
