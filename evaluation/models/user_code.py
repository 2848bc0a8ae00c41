"""Import and run a user's own code, and make a model with it."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from candlelight.loaders.errors import InputError, did_you_mean, nearest_file


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


@contextmanager
def user_file(path: Path) -> Iterator[ModuleType]:
    """Import a file as a module; within the ``with`` block, modules of its folder can be imported too.

    Modules in the folder of the file take precedence over modules of the same name that were imported from
    elsewhere, except the standard library. So two files in two folders may each import their own
    ``network.py``.

    Args:
        path: the file.

    Raises:
        InputError: the file does not exist or cannot be imported.
    """
    if not path.is_file():
        raise InputError(f"model: expected a file of Python, there is no {path}{nearest_file(path)}")
    path = path.resolve()
    name = f"_model_{sha256(str(path).encode()).hexdigest()[:16]}"  # a unique module name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a file of Python")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.parent):
        sys.modules[name] = module  # dataclasses and pickle look the module up there
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # the file's code runs and may raise any exception
            del sys.modules[name]
            raise InputError(f"{path.name}: cannot be imported: {exception_reason(error)}") from error
        yield module


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


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put a folder first on the import path, and hide imported modules that have a name of its modules."""
    local = {path.stem for path in folder.glob("*.py")}
    local |= {path.parent.name for path in folder.glob("*/__init__.py")}
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in local - sys.stdlib_module_names and not _lies_in(name, folder)
    }
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # the caches may be older than the file
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.modules.update(hidden)


def _lies_in(name: str, folder: Path) -> bool:
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder)


def exception_reason(error: BaseException) -> str:
    """Describe an exception of a user's code in one line.

    Example:
        >>> exception_reason(KeyError("gain"))
        "KeyError: 'gain'"
    """
    if isinstance(error, ImportError | SyntaxError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
