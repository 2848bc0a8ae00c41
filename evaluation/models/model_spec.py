"""Models by what a user types: a name, a file of weights, a callable, or a network of transformers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from torch import nn

from evaluation.inputs.check_choice import check_choice
from evaluation.models.baselines import BASELINES
from evaluation.models.retinex import ColourRetinex
from evaluation.models.user_code import make_model, user_file, user_module
from evaluation.models.vision import download_vision_model, folder_sha256, load_vision_model
from evaluation.models.weights import load_model
from loaders.errors import InputError, did_you_mean, nearest_file
from loaders.verification.checksums import file_sha256

ColourSpace = Literal["linear", "srgb"]
SHIPPED: dict[str, Callable[..., Any]] = {"retinex": ColourRetinex(), **BASELINES}
_FORMS = (
    "a file of weights, package.module:callable, file.py:callable, or hf:NAME or a folder of a vision model "
    "of transformers"
)
_NAMED = re.compile(r"([^=/\\:]+)=(.+)")  # no path and no callable before the first `=`
_HUB = "hf:"


@dataclass(frozen=True)
class ModelIdentity:
    """Which model a result is of.

    Attributes:
        name: its name in tables, unique within a run.
        source: "shipped", "weights", "callable", "transformers" or "files" of another program.
        version: what it is and in which version, as far as that can be told.
        sha256: of the file, or of the files of a folder, that it was read from; of a callable of a module, of
            the module's own file, and not of others that it imports.
    """

    name: str
    source: str
    version: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, eq=False)
class NamedModel:
    """A model, which one it is, and the colour space of the images that it takes.

    Attributes:
        identity: name, source, version and hash.
        model: anything callable with a batch of images [batch, 3, height, width], float32; or results of
            another program (`evaluation.inputs.predictions`), which are looked up by id.
        colour_space: "linear" is scene-linear Rec.709; "srgb" is sRGB-encoded in [0, 1].
    """

    identity: ModelIdentity
    model: Any
    colour_space: ColourSpace


def open_model(spec: str, device: str = "cpu", default_space: ColourSpace = "linear") -> NamedModel:
    """Open the model that a text names.

    Args:
        spec: ``[NAME=]SPEC``, and SPEC is a name of `SHIPPED`; a file that `save_model` wrote;
            ``package.module:callable`` or ``file.py:callable``, the user's own code, which is run;
            ``hf:NAME`` or a folder with the ``config.json`` of a vision model of transformers. A class, or a
            function that needs no argument, is called to make the model; any other callable is the model.
        device: torch device that a `torch.nn.Module` is put on, in evaluation mode.
        default_space: colour space that a callable takes unless it, or the model that it makes, has an attribute
            ``colour_space``.

    Returns:
        The model. Networks of transformers take sRGB; shipped models and our weights are linear.

    Raises:
        InputError: no such model; it cannot be read or imported; it is not callable.

    Example:
        >>> open_model("mine=constant-shading").identity.name
        'mine'
        >>> open_model("retinx")
        Traceback (most recent call last):
        loaders.errors.InputError: model `retinx`: expected one of retinex, constant-reflectance, \
constant-shading; or a file of weights, package.module:callable, file.py:callable, or hf:NAME or a folder of \
a vision model of transformers; did you mean `retinex`?
    """
    name, text = split_spec(spec)
    path = Path(text)
    if text in SHIPPED:
        identity = ModelIdentity(name or text, "shipped", f"candlelight {version('candlelight')}")
        return NamedModel(identity, SHIPPED[text], "linear")
    if text.startswith(_HUB):
        folder, commit = download_vision_model(text.removeprefix(_HUB))
        return _vision(name or text.removeprefix(_HUB), folder, commit, device)
    if path.is_dir():
        return _vision(name or path.resolve().name, path, None, device)
    if path.suffix == ".py" and path.is_file():
        raise InputError(f"model `{text}`: name the callable in it: {text}:CALLABLE")
    if path.is_file():
        identity = ModelIdentity(name or path.stem, "weights", None, file_sha256(path))
        return NamedModel(identity, load_model(path, device), "linear")
    if ":" in text:
        return _callable(name, text, device, default_space)
    near = did_you_mean(text, SHIPPED) or nearest_file(path)
    raise InputError(f"model `{text}`: expected one of {', '.join(SHIPPED)}; or {_FORMS}{near}")


def open_models(
    specs: Sequence[str], device: str = "cpu", default_space: ColourSpace = "linear"
) -> dict[str, NamedModel]:
    """Open several models, each under a name of its own.

    Args:
        specs: see `open_model`.
        device: see `open_model`.
        default_space: see `open_model`.

    Returns:
        The models by name, in the order given.

    Raises:
        InputError: two have one name, or see `open_model`.

    Example:
        >>> list(open_models(["retinex", "flat=constant-shading"]))
        ['retinex', 'flat']
    """
    models: dict[str, NamedModel] = {}
    for spec in specs:
        model = open_model(spec, device, default_space)
        name = model.identity.name
        if name in models:
            raise InputError(f"two models are named `{name}`; name them apart: NAME={split_spec(spec)[1]}")
        models[name] = model
    return models


def split_spec(spec: str) -> tuple[str | None, str]:
    """Split ``[NAME=]SPEC``; a file that is there may have ``=`` in its name.

    Raises:
        InputError: bytes that are no text, or control characters.

    Example:
        >>> split_spec("mine=a.pt"), split_spec("runs/lr=0.1/a.pt")
        (('mine', 'a.pt'), (None, 'runs/lr=0.1/a.pt'))
    """
    if not spec.isprintable():
        raise InputError(f"expected a printable text, got {spec!r}; rename it, or name another")
    found = _NAMED.fullmatch(spec)
    return (None, spec) if found is None or Path(spec).exists() else (found[1], found[2])


def _vision(name: str, folder: Path, commit: str | None, device: str) -> NamedModel:
    network = load_vision_model(folder, device)
    return NamedModel(ModelIdentity(name, "transformers", commit, folder_sha256(folder)), network, "srgb")


def _callable(name: str | None, text: str, device: str, default_space: ColourSpace) -> NamedModel:
    place, _, attribute = text.rpartition(":")
    sha256: str | None
    if place.endswith(".py"):
        path = Path(place)
        with user_file(path) as module:
            target, model = make_model(module, attribute, text)
        short, sha256 = f"{path.name}:{attribute}", file_sha256(path)
        what = short
    else:
        module, distribution = user_module(place, text)
        target, model = make_model(module, attribute, text)
        short, file = text, getattr(module, "__file__", None)
        sha256 = file_sha256(Path(file)) if file else None
        what = f"{text} of {distribution}" if distribution else text
    space = getattr(model, "colour_space", getattr(target, "colour_space", default_space))
    check_choice(f"{text}.colour_space", space, ColourSpace)
    if isinstance(model, nn.Module):
        model = model.to(device).eval()
    return NamedModel(ModelIdentity(name or short, "callable", what, sha256), model, space)
