"""Open models from command-line text: a name, a published method, weights, a callable, a vision model."""

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from torch import nn

from candlelight.evaluation.models.network import load_model, weights_format
from candlelight.evaluation.models.retinex import BASELINES, ColourRetinex, GrayRetinex, Weiss
from candlelight.evaluation.models.vision import download_vision_model, folder_sha256, load_vision_model
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, did_you_mean, nearest_file
from candlelight.loaders.files.python_files import exception_reason, user_file
from candlelight.loaders.verification.checksums import file_sha256
from candlelight.version import RELEASE


def user_module(name: str, text: str) -> tuple[ModuleType, str | None]:
    """Import an installed module.

    Args:
        name: name of the module.
        text: the model as the user typed it.

    Returns:
        The module, and the name and version of its distribution, or None if that is unknown.

    Raises:
        InputError: the module does not exist or cannot be imported.

    Example:
        >>> user_module("yaml", "yaml:load")[1].split()[0]
        'PyYAML'
    """
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the module's code runs and may raise any exception
        raise InputError(
            f"model `{text}`: cannot import `{name}`: {exception_reason(error)}; name a module that is "
            "installed, or a file: file.py:callable"
        ) from error
    owners = packages_distributions().get(name.partition(".")[0], ())
    return module, f"{owners[0]} {version(owners[0])}" if owners else None


def make_model(module: ModuleType, attribute: str, text: str) -> tuple[Any, Callable[..., Any]]:
    """Get a callable of a module; call it to make the model if it is a class or needs no arguments.

    Args:
        module: the module.
        attribute: name of the callable in the module.
        text: the model as the user typed it.

    Returns:
        The callable, and the model.

    Raises:
        InputError: the name does not exist, is not callable, does not make a callable, or is a class that
            needs arguments.

    Example:
        >>> import torch
        >>> make_model(torch.nn, "ReLU", "torch.nn:ReLU")[1]
        ReLU()
    """
    target = getattr(module, attribute, None)
    if not callable(target):
        public = [name for name, value in vars(module).items() if callable(value) and name[:1] != "_"]
        raise InputError(
            f"model `{text}`: expected a callable `{attribute}` in the module, found "
            f"{'none' if target is None else type(target).__name__}{did_you_mean(attribute, public)}"
        )
    if not inspect.isclass(target) and not inspect.isfunction(target):
        return target, target
    needed = _needed(target)
    if needed and inspect.isclass(target):
        raise InputError(
            f"model `{text}`: the class needs arguments ({', '.join(needed)}); write a function without "
            "parameters that returns the model, and name that function"
        )
    try:
        model = target if needed else target()
    except (Exception, SystemExit) as error:
        raise InputError(f"model `{text}`: cannot be made: {exception_reason(error)}") from error
    if not callable(model):
        raise InputError(f"model `{text}`: expected it to make a callable, it made {type(model).__name__}")
    return target, model


def _needed(target: Callable[..., Any]) -> list[str]:
    """List the parameters of a function or class that have no default."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(target).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind not in variable]


ColourSpace = Literal["linear", "srgb"]
SHIPPED: dict[str, Callable[..., Any]] = {
    "retinex": ColourRetinex(),
    "gray-retinex": GrayRetinex(),
    "weiss": Weiss(),
    **BASELINES,
}
NETWORKS = {  # trained by `candlelight train intrinsic` on the recipe `relit`, see docs/training.md
    name: Path(__file__).parent / "networks" / f"{name}.pt"
    for name in ("net-supervised", "net-multi-illumination", "net-unsupervised")
}
PUBLISHED_METHODS = (
    "cgintrinsics",
    "bigtime",
    "usi3d",
    "niid-net",
    "marigold",
)  # opened by `candlelight.evaluation.models.open_method`
_FORMS = (
    "a weights file, package.module:callable, file.py:callable, hf:NAME, a folder of a transformers vision "
    f"model, marigold:FOLDER, or METHOD:CHECKOUT:WEIGHTS with METHOD {', '.join(PUBLISHED_METHODS[:-1])}"
)
_NAMED = re.compile(r"([^=/\\:]+)=(.+)")  # a name has none of the characters of a path or a callable
_HUB = "hf:"


@dataclass(frozen=True)
class ModelIdentity:
    """Identity of the model of a result.

    Attributes:
        name: name in tables, unique within a run.
        source: "shipped", "weights", "callable", "transformers", "adapter" for a published method, "files"
            for results of another program, "planted" for decompositions made of the ground truth, or
            "control" for a control of an evaluation.
        version: package, callable, commit or method, with its version if it is known.
        sha256: hash of the file or folder that the model was read from; for a published method, of its code
            and weights; for a callable, hash of the module's own file, without the modules that it imports.
    """

    name: str
    source: str
    version: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, eq=False)
class NamedModel:
    """A model, its identity, and the colour space of its input images.

    Attributes:
        identity: name, source, version and hash.
        model: a callable that takes a batch of images [batch, 3, height, width], float32; or results of
            another program (`candlelight.evaluation.run.predictions`), which are looked up by id.
        colour_space: "linear" for scene-linear Rec.709; "srgb" for sRGB-encoded values in [0, 1].
    """

    identity: ModelIdentity
    model: Any
    colour_space: ColourSpace


def open_model(spec: str, device: str = "cpu", default_space: ColourSpace = "linear") -> NamedModel:
    """Open the model that a text names.

    Args:
        spec: ``[NAME=]SPEC``. SPEC is a name of `SHIPPED` or `NETWORKS`; a file that `save_model`,
            `save_classifier` or `save_autoencoder` wrote; ``package.module:callable`` or
            ``file.py:callable``, the user's own code, which is run; ``hf:NAME``; a folder with the
            ``config.json`` of a transformers vision model; or ``METHOD:CHECKOUT:WEIGHTS``, one of
            `PUBLISHED_METHODS` from a checkout of its repository, whose code is run (``marigold:FOLDER`` or
            ``marigold:OWNER/NAME``). A class, or a function without required arguments, is called to make the
            model; any other callable is the model.
        device: torch device of a `torch.nn.Module`, which is put into evaluation mode.
        default_space: colour space of the images for a callable, unless the callable, or the model that it
            makes, has an attribute ``colour_space``.

    Returns:
        The model. Classifiers, autoencoders, transformers models and published methods take sRGB images;
        shipped models and weights of `save_model` take scene-linear images.

    Raises:
        InputError: the model does not exist, cannot be read or imported, or is not callable.

    Example:
        >>> open_model("mine=constant-shading").identity.name
        'mine'
        >>> open_model("retinx")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: model `retinx`: expected one of retinex, gray-retinex, weiss, \
constant-reflectance, constant-shading, net-supervised, net-multi-illumination, net-unsupervised; or a \
weights file, package.module:callable, file.py:callable, hf:NAME, a folder of a transformers vision model, \
marigold:FOLDER, or METHOD:CHECKOUT:WEIGHTS with METHOD \
cgintrinsics, bigtime, usi3d, niid-net; did you mean `retinex`?
    """
    name, text = split_spec(spec)
    path = Path(text)
    method, colon, place = text.partition(":")
    if text in SHIPPED:
        identity = ModelIdentity(name or text, "shipped", f"candlelight {RELEASE}")
        return NamedModel(identity, SHIPPED[text], "linear")
    if text in NETWORKS:
        file = NETWORKS[text]
        identity = ModelIdentity(name or text, "shipped", f"candlelight {RELEASE}", file_sha256(file))
        return NamedModel(identity, load_model(file, device), "linear")
    if text.startswith(_HUB):
        folder, commit = download_vision_model(text.removeprefix(_HUB))
        return _vision(name or text.removeprefix(_HUB), folder, commit, device)
    if colon and method in PUBLISHED_METHODS:
        return _published(name or method, method, place, device)
    if path.is_dir():
        return _vision(name or path.resolve().name, path, None, device)
    if path.suffix == ".py" and path.is_file():
        raise InputError(f"model `{text}`: name a callable of this file: {text}:CALLABLE")
    if path.is_file():
        return _weights(name or path.stem, path, device)
    if ":" in text:
        return open_callable(name, text, device, default_space)
    names = (*SHIPPED, *NETWORKS)
    near = did_you_mean(text, names) or nearest_file(path)
    raise InputError(f"model `{text}`: expected one of {', '.join(names)}; or {_FORMS}{near}")


def open_models(
    specs: Sequence[str],
    device: str = "cpu",
    default_space: ColourSpace = "linear",
    open_one: Callable[[str, str, ColourSpace], NamedModel] | None = None,
) -> dict[str, NamedModel]:
    """Open several models; their names must differ.

    Args:
        specs: see `open_model`.
        device: see `open_model`.
        default_space: see `open_model`.
        open_one: opens one of them; None for `open_model`.

    Returns:
        The models by name, in the order given.

    Raises:
        InputError: two models have the same name, or see `open_model`.

    Example:
        >>> list(open_models(["retinex", "flat=constant-shading"]))
        ['retinex', 'flat']
    """
    models: dict[str, NamedModel] = {}
    for spec in specs:
        model = (open_one or open_model)(spec, device, default_space)
        name = model.identity.name
        if name in models:
            raise InputError(f"two models are named `{name}`; give another name: NAME={split_spec(spec)[1]}")
        models[name] = model
    return models


def split_spec(spec: str) -> tuple[str | None, str]:
    """Split ``[NAME=]SPEC``; the path of an existing file may contain ``=``.

    Raises:
        InputError: the text has bytes that are not UTF-8, or control characters.

    Example:
        >>> split_spec("mine=a.pt"), split_spec("runs/lr=0.1/a.pt")
        (('mine', 'a.pt'), (None, 'runs/lr=0.1/a.pt'))
    """
    if not spec.isprintable():
        raise InputError(f"expected a printable text, got {spec!r}; rename the file, or give another one")
    match = _NAMED.fullmatch(spec)
    return (None, spec) if match is None or Path(spec).exists() else (match[1], match[2])


def _weights(name: str, path: Path, device: str) -> NamedModel:
    from candlelight.evaluation.models.autoencoders import AUTOENCODER_FORMAT, load_autoencoder
    from candlelight.evaluation.models.classifiers import is_classifier, load_classifier

    identity = ModelIdentity(name, "weights", None, file_sha256(path))
    if is_classifier(path):
        return NamedModel(identity, load_classifier(path, device).network, "srgb")
    if weights_format(path) == AUTOENCODER_FORMAT:
        return NamedModel(identity, load_autoencoder(path, device).network, "srgb")
    return NamedModel(identity, load_model(path, device), "linear")


def _vision(name: str, folder: Path, commit: str | None, device: str) -> NamedModel:
    network = load_vision_model(folder, device)
    return NamedModel(ModelIdentity(name, "transformers", commit, folder_sha256(folder)), network, "srgb")


def _published(name: str, method: str, place: str, device: str) -> NamedModel:
    from candlelight.evaluation.models.open_method import open_method

    network = open_method(method, place, device)
    identity = ModelIdentity(name, "adapter", network.version, network.sha256)
    return NamedModel(identity, network, network.colour_space)


def open_callable(name: str | None, text: str, device: str, default_space: ColourSpace) -> NamedModel:
    """Open the user's own code, which is run.

    Args:
        name: name in tables; None for the name of the callable.
        text: ``package.module:callable`` or ``file.py:callable``.
        device: see `open_model`.
        default_space: see `open_model`.

    Raises:
        InputError: the module cannot be imported, or makes no callable.

    Example:
        >>> open_callable(None, "torch.nn:ReLU", "cpu", "srgb").colour_space
        'srgb'
    """
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
