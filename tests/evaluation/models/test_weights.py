import errno
from pathlib import Path

import pytest
import torch
from torch import nn

from candlelight.evaluation.models.network import IntrinsicNet, load_model, save_model, weights_format
from candlelight.loaders.errors import InputError


def test_round_trip(tmp_path: Path) -> None:
    network = IntrinsicNet(width=3, seed=5)
    path = save_model(network, tmp_path / "network.pt")
    found = load_model(str(path))
    image = torch.rand(1, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(network(image), found(image), strict=True))
    assert not found.training
    assert [file.name for file in tmp_path.iterdir()] == ["network.pt"]


def test_file_that_exists_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    for width in (2, 3):
        save_model(IntrinsicNet(width=width, seed=0), path)
    assert load_model(path).width == 3


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    path = save_model(IntrinsicNet(width=2, seed=0), tmp_path / "network.pt")

    def fail(content: object, file) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device; give"):
        save_model(IntrinsicNet(width=3, seed=0), path)
    assert [file.name for file in tmp_path.iterdir()] == ["network.pt"]
    assert load_model(path).width == 2


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"cannot write .*No such file or directory; give a file in a folder"
    ):
        save_model(IntrinsicNet(width=2, seed=0), tmp_path / "none" / "network.pt")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file of weights, there is no"):
        load_model(tmp_path / "network.pt")


def saved(width: int) -> dict[str, object]:
    state = IntrinsicNet(width=2, seed=0).state_dict()
    return {"format": "candlelight intrinsic network 1", "architecture": {"width": width}, "state": state}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param([1, 2], id="a list"),
        pytest.param({"state": {}}, id="no format"),
        pytest.param({**saved(2), "format": "candlelight intrinsic network 2"}, id="another version"),
        pytest.param({**saved(2), "architecture": {}}, id="no width"),
        pytest.param({**saved(2), "architecture": {"width": "2"}}, id="width as text"),
        pytest.param(saved(3), id="weights of another width"),
        pytest.param(saved(10**9), id="width out of range"),
        pytest.param({**saved(2), "state": {}}, id="no weights"),
        pytest.param({**saved(2), "state": 3}, id="weights as a number"),
        pytest.param({**saved(2), "extra": Path("object")}, id="an object that would have to be executed"),
    ],
)
def test_other_content(tmp_path: Path, content: object) -> None:
    path = tmp_path / "network.pt"
    torch.save(content, path)
    told = r"was not written by `save_model`, or is damaged: |: expected a dictionary of|: it holds `pathlib"
    with pytest.raises(InputError, match=rf"network.pt ?(?:{told})[^\n]+$") as caught:
        load_model(path)
    assert "weights_only" not in str(caught.value)  # the message does not advise to run code in the file


def test_weights_without_our_format_and_of_other_names_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    torch.save({"module.conv.weight": torch.ones(1)}, path)
    with pytest.raises(InputError, match=r"format is not `.*`; it holds module\.conv\.weight; load other"):
        load_model(path)
    torch.save({**saved(2), "state": {"conv.weight": torch.ones(1)}}, path)
    with pytest.raises(InputError, match=r"missing: .* and \d+ more; unexpected: conv\.weight; give"):
        load_model(path)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_truncated_file(tmp_path: Path, size: int) -> None:
    path = save_model(IntrinsicNet(width=2, seed=0), tmp_path / "network.pt")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"network.pt: cannot be read as weights: [^\n]+$"):
        load_model(path)


def test_text_file(tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    path.write_text("not a network")
    with pytest.raises(InputError, match=r"network.pt: it is no file of weights, and loading more than"):
        load_model(path)


def test_a_torchscript_archive_is_refused_in_one_line(tmp_path: Path, recwarn) -> None:
    path = tmp_path / "network.pt"
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.ones(1)), path)
    recwarn.clear()
    with pytest.raises(InputError, match=r"network.pt: it is a TorchScript archive, and loading"):
        load_model(path)
    assert weights_format(path) is None
    assert not recwarn.list


def test_weights_that_their_type_cannot_hold_are_refused(tmp_path) -> None:
    network = IntrinsicNet(width=2, seed=0)
    with torch.no_grad():
        network.reflectance.head.bias[0] = 1e6
    save_model(network, tmp_path / "whole.pt")
    with pytest.raises(
        InputError, match=r"half\.pt: a weight is nan, infinite, or too large for float16; train"
    ):
        save_model(network, tmp_path / "half.pt", torch.float16)
    assert [path.name for path in tmp_path.iterdir()] == ["whole.pt"]
