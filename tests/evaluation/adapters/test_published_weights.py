import argparse
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.models.published_weights import entry, hash_files, load_exactly, read_published
from candlelight.loaders.errors import InputError
from tests.refusals import refused


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_today_and_of_old_versions_of_torch(tmp_path: Path, zipped: bool) -> None:
    state = OrderedDict(a=torch.arange(3.0), b=torch.ones(1, 2, dtype=torch.int64))
    torch.save(state, tmp_path / "a.pth", _use_new_zipfile_serialization=zipped)
    found = read_published(tmp_path / "a.pth")
    assert list(found) == ["a", "b"]
    assert torch.equal(found["a"], state["a"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"options": argparse.Namespace(x=1)},
            r"it holds `argparse.Namespace`, and loading more than tensors",
        ),
        ({"best_result": np.float64(3)}, "it holds `numpy.*scalar`, and loading more than tensors would run"),
        (nn.Linear(1, 1), "it holds `torch.nn.modules.linear.Linear`"),
        ([torch.ones(1)], "expected a dictionary of tensors, got list"),
    ],
)
def test_files_of_more_than_tensors_are_refused(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(InputError, match=message) as caught:
        read_published(tmp_path / "a.pth")
    assert "\n" not in str(caught.value)


def test_damaged_files_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pth"
    path.write_text("<html>404</html>", encoding="utf-8")
    with refused(r"a.pth: it is no file of weights, and loading"):
        read_published(path)
    torch.save({"a": torch.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:300])
    with refused(r"a.pth: cannot be read as weights: .*; get it again"):
        read_published(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no weights")
    with refused(r"a.pth: cannot be read as weights: .*; get it again"):
        read_published(path)
    path.write_bytes(b"")
    with refused(r"a.pth: cannot be read as weights: EOFError"):
        read_published(path)
    with refused(r"there is no .*b.pth; did you mean `a.pth`"):
        read_published(tmp_path / "b.pth")


def test_counters_of_batch_normalisation_may_be_missing() -> None:
    source, target = (nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2)) for _ in range(2))
    source[1].running_mean += 3
    state = source.state_dict()
    load_exactly(target, state, "a.pth")
    assert torch.equal(target[1].running_mean, torch.full((2,), 3.0))
    source[1].running_mean += 1
    old = {name: one for name, one in source.state_dict().items() if "num_batches" not in name}
    assert len(old) == len(state) - 1
    load_exactly(target, old, "a.pth")
    assert torch.equal(target[1].running_mean, torch.full((2,), 4.0))


def test_first_names_and_shapes_are_listed() -> None:
    network = nn.Sequential(*(nn.Linear(1, 1) for _ in range(3)))
    with refused(
        r"a: expected the weights of Sequential; missing: 0.weight, 0.bias, 1.weight and 3 more; "
        r"unexpected: c, d; give"
    ):
        load_exactly(network, {"c": torch.ones(1), "d": torch.ones(1)}, "a")
    state = network.state_dict() | {"1.weight": torch.ones(2, 1)}
    with refused(r"other shapes: 1.weight \[2, 1\] instead of \[1, 1\]; give"):
        load_exactly(network, state, "a")
    state = network.state_dict() | {"0.weight": torch.ones(1, 1, dtype=torch.int64)}
    with refused(r"other kinds of numbers: 0.weight int64; give"):
        load_exactly(network, state, "a")
    state |= {"0.weight": torch.ones(1, 1, dtype=torch.complex64)}
    with refused(r"other kinds of numbers: 0.weight complex64; give"):
        load_exactly(network, state, "a")
    with refused(r"a: expected tensors by name, got 0\.weight of int"):
        load_exactly(network, {"0.weight": 3}, "a")
    with refused("a: expected tensors by name, got NoneType"):
        load_exactly(network, None, "a")
    with refused(r"a.pth: expected an entry `fs`, got i, r, s and 1 more"):
        entry(dict.fromkeys("irst"), "fs", "a.pth")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_names_of_wrapped_networks_are_recognised(prefix: str) -> None:
    source, target = nn.Linear(2, 1), nn.Linear(2, 1)
    load_exactly(target, {f"{prefix}{name}": one for name, one in source.state_dict().items()}, "a.pth")
    assert torch.equal(source.weight, target.weight)
    inner = nn.Sequential()
    inner.module = nn.Linear(2, 1)  # a network with such names of its own
    load_exactly(inner, {f"module.{name}": one for name, one in source.state_dict().items()}, "a.pth")
    load_exactly(inner, {f"{prefix}module.{name}": one + 1 for name, one in source.state_dict().items()}, "a")
    assert torch.equal(source.weight + 1, inner.module.weight)
    with refused(r"unexpected: module\.scale; give"):
        load_exactly(target, {**source.state_dict(), "module.scale": torch.ones(1)}, "a.pth")


def test_the_hash_depends_on_names_and_contents(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1", encoding="utf-8")
    first, renamed = hash_files({"a": path}), hash_files({"b": path})
    path.write_text("2", encoding="utf-8")
    assert len({first, renamed, hash_files({"a": path})}) == 3
