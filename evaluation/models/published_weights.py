"""Read files of published weights without running code in them, and load them into a network key by key."""

import re
import warnings
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch
from torch import Tensor, nn

from candlelight.loaders.errors import DAMAGED, InputError, blame, nearest_file
from candlelight.loaders.verification.checksums import file_sha256, sums_text

# Networks of torch 0.3 and earlier were saved without these counters; evaluation does not read them.
_COUNTER = "num_batches_tracked"
# Prefixes that DataParallel and torch.compile put before every name.
_WRAPPERS = ("module.", "_orig_mod.")


def read_published(path: str | Path, mmap: bool = False) -> dict[str, Any]:
    """Read a file of `torch.save` that holds a dictionary; code in the file is never run.

    Args:
        path: the file, with tensors of any device.
        mmap: whether tensors are read when they are used.

    Raises:
        InputError: the file does not exist, is damaged, holds no dictionary, or holds objects whose loading
            would run code.

    Example:
        >>> read_published("final.pth")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no final.pth
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"expected a file of weights, there is no {path}{nearest_file(path)}")
    try:
        with warnings.catch_warnings():  # TorchScript is refused below
            warnings.filterwarnings("ignore", ".*TorchScript", UserWarning)
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (*DAMAGED, UnpicklingError) as error:  # torch's own messages recommend to run the code
        script, named = "TorchScript" in str(error), re.search(r"GLOBAL (\S+)", str(error))
        if not script and not isinstance(error, UnpicklingError):
            raise blame(f"{path}: cannot be read as weights", error, "get it again") from error
        held = "it is a TorchScript archive" if script else "it is no file of weights"
        raise InputError(
            f"{path}: {f'it holds `{named[1]}`' if named else held}, and loading more than tensors would run "
            "code in the file; docs/others.md shows how to save its tensors alone"
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a dictionary of tensors, got {type(content).__name__}")
    return content


def load_exactly(network: nn.Module, state: object, source: str) -> None:
    """Load weights whose names and shapes have to be those of the network.

    Args:
        network: the network.
        state: tensors by name, also of a network in ``DataParallel`` or of ``torch.compile``; counters of
            batch normalisation may be missing.
        source: beginning of messages: the file, and the entry in it.

    Raises:
        InputError: a name, a shape or the kind of numbers differs (integers or complex numbers), or ``state``
            is no dictionary of tensors.

    Example:
        >>> load_exactly(nn.Linear(2, 1), {"weight": torch.ones(1, 2), "scale": torch.ones(1)}, "a.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: a.pt: expected the weights of Linear; missing: bias; \
unexpected: scale; give the weights of this method
    """
    if not isinstance(state, Mapping):
        raise InputError(f"{source}: expected tensors by name, got {type(state).__name__}")
    others = [name for name, one in state.items() if not isinstance(one, Tensor)]
    if others:
        listed = _first([f"{name} of {type(state[name]).__name__}" for name in others])
        raise InputError(f"{source}: expected tensors by name, got {listed}")
    own = network.state_dict()
    state = without_wrappers(state, own)
    missing = [name for name in own if name not in state and not name.endswith(_COUNTER)]
    lists = {"missing": missing, "unexpected": [str(name) for name in state if name not in own]}
    found = "".join(f"; {what}: {_first(names)}" for what, names in lists.items() if names)
    if not found:
        shapes = [
            f"{name} {list(one.shape)} instead of {list(own[name].shape)}"
            for name, one in state.items()
            if one.shape != own[name].shape
        ]
        found = f"; other shapes: {_first(shapes)}" if shapes else ""
        # torch would convert them without a word, or with a warning that half of the number is lost.
        kinds = [
            f"{name} {str(one.dtype).removeprefix('torch.')}"
            for name, one in state.items()
            if (one.is_floating_point(), one.is_complex())
            != (own[name].is_floating_point(), own[name].is_complex())
        ]
        found += f"; other kinds of numbers: {_first(kinds)}" if kinds else ""
    if found:
        raise InputError(
            f"{source}: expected the weights of {type(network).__name__}{found}; give the weights of this "
            "method"
        )
    network.load_state_dict(state, strict=False)


def without_wrappers(state: Mapping[Any, Any], own: Collection[str] = ()) -> dict[Any, Any]:
    """Remove the prefixes that wrappers put before every name: ``module.`` and ``_orig_mod.``.

    Args:
        state: tensors by name.
        own: names of the network, where they are known; nothing is removed once one of them is there.

    Example:
        >>> without_wrappers({"module._orig_mod.bias": 1, "module._orig_mod.weight": 2})
        {'bias': 1, 'weight': 2}
    """
    for prefix in () if not state or set(own) & state.keys() else _WRAPPERS:
        if all(isinstance(name, str) and name.startswith(prefix) for name in state):
            return without_wrappers({name.removeprefix(prefix): one for name, one in state.items()}, own)
    return dict(state)


def wrong_format(content: object, expected: str) -> str:
    """Say that a file does not have a format of ours, and what it holds; "" if it has it.

    Example:
        >>> wrong_format({"conv.weight": 1}, "candlelight classifier 1")
        'its format is not `candlelight classifier 1`; it holds conv.weight'
    """
    if isinstance(content, Mapping) and content.get("format") == expected:
        return ""
    names = _first([*map(str, content)]) if isinstance(content, Mapping) else f"a {type(content).__name__}"
    return f"its format is not `{expected}`; it holds {names or 'nothing'}"


def entry(content: Mapping[str, Any], name: str, path: str | Path) -> Any:
    """Return an entry of a file of weights.

    Raises:
        InputError: there is no such entry.

    Example:
        >>> entry({"r": {}}, "r", "gen.pt")
        {}
    """
    if name not in content:
        raise InputError(f"{path}: expected an entry `{name}`, got {_first([*map(str, content)]) or 'none'}")
    return content[name]


def hash_files(files: Mapping[str, Path]) -> str:
    """Hash files by name and content.

    Example:
        >>> hash_files({})[:8]
        'e3b0c442'
    """
    return sha256(sums_text({name: file_sha256(path) for name, path in files.items()}).encode()).hexdigest()


def _first(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
