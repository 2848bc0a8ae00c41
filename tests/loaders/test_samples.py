import inspect

import numpy as np
import pytest
import torch

from candlelight.loaders.errors import InputError
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


def test_to_sample_keeps_dtypes_and_puts_channels_first(make_frame, info):
    frame = make_frame("free", 4)
    sample = to_sample(frame, info.sets["free"], objects=True)
    assert (sample["id"], sample["index"], sample["set"]) == ("free-000004", 4, "free")
    assert sample["factors"] == {"shape": 1, "angle": 50.0}
    assert list(map(type, sample["factors"].values())) == [int, float]
    for name, array in frame.layers.items():
        expected = array.transpose(2, 0, 1) if array.ndim == 3 else array
        assert sample[name].is_contiguous()
        assert sample[name].numpy().dtype == array.dtype
        np.testing.assert_array_equal(sample[name].numpy(), expected)
    assert sample["objects"][1]["base_color"] is None
    assert sample["objects"][0]["bbox"] == (3, 4, 20, 18)


def test_tensors_do_not_share_memory_with_the_frame(make_frame, info):
    frame = make_frame()
    sample = to_sample(frame, info.sets["grid"])
    sample["depth"].zero_()
    sample["image"].zero_()
    assert frame.layers["depth"].any()
    assert frame.layers["image"].any()


def test_collate_stacks_tensors_and_keeps_ragged_objects(make_frame, info):
    samples = [to_sample(make_frame("free", index), info.sets["free"], objects=True) for index in (1, 2, 5)]
    batch = collate(samples)
    assert batch.keys() == samples[0].keys()
    assert batch["image"].shape == (3, 3, 24, 32)
    assert batch["light/left"].dtype == torch.float16
    assert batch["depth"].shape == (3, 24, 32)
    assert torch.equal(batch["index"], torch.tensor([1, 2, 5]))
    assert torch.equal(batch["factors"]["shape"], torch.tensor([1, 2, 2]))
    assert torch.equal(batch["factors"]["angle"], torch.tensor([12.5, 25, 62.5], dtype=torch.float64))
    assert batch["id"] == ["free-000001", "free-000002", "free-000005"]
    assert [len(objects) for objects in batch["objects"]] == [2, 3, 3]


def test_collate_names_samples_that_differ(make_frame, info):
    first = to_sample(make_frame(), info.sets["grid"])
    other_set = to_sample(make_frame("free"), info.sets["free"])
    with pytest.raises(InputError, match="`grid-000000` and `free-000000` differ in layers or factors"):
        collate([first, other_set])
    with pytest.raises(InputError, match="differ in layers"):
        collate([first, {name: value for name, value in first.items() if name != "depth"}])
    with pytest.raises(
        InputError, match=r"layer `depth` has several sizes in one batch, \[\(20, 32\), \(24, 32\)\]"
    ):
        collate([first, first | {"depth": first["depth"][:20]}])


def test_factor_number_names_wrong_values(make_frame, info):
    metadata = make_frame("free", 1).metadata
    shape, angle = info.sets["free"].factors

    def changed(**factors):
        return metadata.model_copy(update={"factors": metadata.factors | factors})

    assert factor_value(shape, factor_number(shape, metadata)) == "cone"
    assert factor_value(angle, factor_number(angle, metadata)) == 12.5
    with pytest.raises(InputError, match=r"factor `shape`: expected one of \('cube', .*got 'ball'"):
        factor_number(shape, changed(shape="ball"))
    with pytest.raises(InputError, match="factor `angle`: expected a number, got 'steep'"):
        factor_number(angle, changed(angle="steep"))
    with pytest.raises(InputError, match="sample `grid-000000` has no factor `shape`, which its set lists"):
        factor_number(shape, make_frame("grid").metadata)


def test_readers_are_frames(frames_root):
    assert isinstance(FrameFolder(frames_root, "grid"), Frames)
    assert not isinstance(Frame, Frames)


def as_lists(groups):
    return {values: rows.tolist() for values, rows in groups.items()}


def test_group_rows_by_values(frames_root):
    grid = FrameFolder(frames_root, "grid")
    assert as_lists(group_rows(grid, ["color"])) == {("red",): [0, 1, 2], ("blue",): [3, 4, 5]}
    assert as_lists(group_rows(grid, ["size", "color"]))[(2, "blue")] == [4]
    assert as_lists(group_rows(grid, [])) == {(): [0, 1, 2, 3, 4, 5]}
    free = FrameFolder(frames_root, "free")
    assert as_lists(group_rows(free, ["shape"])) == {("cube",): [0], ("cone",): [1, 3], ("torus",): [2, 4]}
    assert as_lists(group_rows(free, ["angle"]))[(50.0,)] == [3]
    with pytest.raises(InputError, match="factor `hue` is not in this set; expected one of: shape, angle"):
        group_rows(free, ["hue"])


def test_group_rows_partitions_in_order(frames_root):
    groups = group_rows(FrameFolder(frames_root, "free"), ["shape"])
    assert list(groups) == [("cube",), ("cone",), ("torus",)]
    assert sorted(np.concatenate(list(groups.values()))) == [0, 1, 2, 3, 4]


def test_rows_are_numbered_like_list_items():
    assert [row_number(row, 3) for row in (0, np.int64(2), torch.tensor(1), -3)] == [0, 2, 1, 0]
    for row in (3, -4):
        with pytest.raises(IndexError):
            row_number(row, 3)
    plain = inspect.unwrap(row_number)  # the type checks of the tests would raise first
    for odd in (slice(0, 2), [0], np.array([0, 1]), 1.0, "1"):
        with pytest.raises(
            TypeError, match=r"cannot be interpreted as an integer|only integer scalar arrays"
        ):
            plain(odd, 3)


def test_collate_takes_samples_of_public_sets():
    samples = [
        {"id": name, "image": torch.zeros(3, 2, 2), "number": number, "mos": 0.5, "parts": {"head": number}}
        for number, name in enumerate("ab")
    ]
    batch = collate(samples)
    assert batch.keys() == samples[0].keys()
    assert batch["image"].shape == (2, 3, 2, 2)
    assert torch.equal(batch["number"], torch.tensor([0, 1]))
    assert batch["mos"].dtype == torch.float64
    assert (batch["id"], batch["parts"]) == (["a", "b"], [{"head": 0}, {"head": 1}])


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


def test_numbers_of_any_kind_are_batched_without_loss():
    samples = [{"id": "a", "x": 1, "y": np.float32(0.5)}, {"id": "b", "x": 16777217.5, "y": None}]
    batch = collate(samples)
    assert batch["x"].tolist() == [1.0, 16777217.5]
    assert batch["y"] == [np.float32(0.5), None]
    with pytest.raises(InputError, match="differ in layers or factors"):
        collate([{"x": 1}, {"y": 1}])
