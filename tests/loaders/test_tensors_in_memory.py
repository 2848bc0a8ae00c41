import numpy as np
import torch

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.samples import collate
from candlelight.loaders.tensors_in_memory import load_tensors


def test_a_set_is_loaded_completely(frames_root, monkeypatch):
    monkeypatch.setattr(
        "candlelight.loaders.tensors_in_memory._BLOCK", 4
    )  # six rows, so that the last block is not full
    frames = FrameFolder(frames_root, "grid", ["image", "albedo", "depth"])
    data = load_tensors(frames)
    batch = collate(frames.__getitems__(range(6)))
    assert list(data) == ["image", "albedo", "depth", "index", "factors"]
    for name in ("image", "albedo", "depth", "index"):
        assert data[name].dtype == batch[name].dtype
        assert torch.equal(data[name], batch[name])
    assert data["factors"].dtype == torch.float64
    np.testing.assert_array_equal(data["factors"], frames.factor_table)
    data["factors"].zero_()
    assert frames.factor_table.any()
