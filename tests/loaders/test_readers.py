"""All readers return the same tensors to the bit, from every kind of storage."""

import numpy as np
import pytest
import torch

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.samples import Frame, collate
from candlelight.loaders.schema import LAYERS, PartRecord, array_sha256, layer
from candlelight.loaders.tensors_in_memory import load_tensors

# Readers use `datasets` too, so that every test needs the setup of this fixture.
pytestmark = pytest.mark.usefixtures("datasets")


def bits(value):
    """Convert a sample to values that `==` compares: tensors to dtype, shape and bytes."""
    if isinstance(value, torch.Tensor):
        assert value.is_contiguous()
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return [(name, bits(part)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [bits(part) for part in value]
    return repr(value)


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
    hashes = {name: array_sha256(array) for name, array in layers.items()}
    return Frame(frame.metadata.model_copy(update={"layers": hashes, "objects": objects}), layers)


# The pictures of the card overflow at depths of 10^38 metres.
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("compression", "objects"), [("gzip", True), ("none", False)])
def test_all_readers_give_the_same_bits(make_frame, info, tmp_path, seed, compression, objects):
    rng = np.random.default_rng(seed)
    height, width = (int(size) for size in rng.integers(1, 30, 2))
    optional = [*LAYERS, "light/left", "light/right"][1:]
    names = ["image", *(name for name in optional if rng.random() < 0.6)]
    changed = {"layers": tuple(names), "height": height, "width": width}
    write_dataset_info(
        tmp_path, info.model_copy(update={"sets": {"free": info.sets["free"].model_copy(update=changed)}})
    )
    for index in (0, 2, 3, 7):
        write_frame(tmp_path, random_frame(rng, make_frame("free", index), names, height, width))
    (file,) = pack_hdf5(tmp_path, tmp_path / "h5", compression=compression)
    hub = pack_hub(tmp_path, tmp_path / "hub")
    readers = [
        FrameFolder(tmp_path, "free", objects=objects),
        HDF5Frames(file, objects=objects),
        HubFrames(hub, "free", objects=objects),
    ]
    assert ("objects" in readers[0][0]) == objects
    whole = [bits(load_tensors(reader)) for reader in readers]
    assert whole[0] == whole[1] == whole[2]
    rows = [int(row) for row in rng.integers(-4, 4, 9)]
    first, *others = ([bits(reader[row]) for row in rows] for reader in readers)
    for samples in others:
        assert samples == first
    for reader in readers:
        assert bits(reader.__getitems__(rows)) == first
        assert bits(collate(reader.__getitems__(rows))) == bits(collate([readers[0][row] for row in rows]))
        hashes = [reader.frame(row).metadata.layers for row in rows]
        assert [
            {name: array_sha256(array) for name, array in reader.frame(row).layers.items()} for row in rows
        ] == hashes
        chosen = type(reader)(*where(reader), layers=[names[-1]])
        assert [bits(sample[names[-1]]) for sample in chosen.__getitems__(rows)] == [
            bits(reader[row][names[-1]]) for row in rows
        ]


def where(reader):
    """Return the arguments that open the data of a reader again."""
    if isinstance(reader, FrameFolder):
        return reader.root, reader.set_name
    return (reader.path,) if isinstance(reader, HDF5Frames) else (reader.path, reader.set_name)
