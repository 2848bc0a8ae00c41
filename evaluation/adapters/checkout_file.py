"""Run one file of a repository that the user has checked out; its package is not installed."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from candlelight.evaluation.models.user_code import exception_reason
from candlelight.loaders.errors import InputError, did_you_mean, nearest_file


@dataclass(frozen=True, eq=False)
class CheckoutFile:
    """A file of a checkout that has been run.

    Attributes:
        path: the file.
        module: its classes and functions.
        files: by the name in the checkout, the file and the modules of its folder that it imported.
    """

    path: Path
    module: ModuleType
    files: dict[str, Path]

    def make(self, name: str, *arguments: object) -> Any:
        """Make an object of a class of the file; the state of torch's random numbers is restored.

        Raises:
            InputError: there is no such class, or its constructor raised an exception.
        """
        kind: Callable[..., Any] | None = getattr(self.module, name, None)
        if kind is None:
            near = did_you_mean(name, vars(self.module))
            raise InputError(f"{self.path}: expected a class `{name}`, there is none{near}; {_CURE}")
        with _one_line(f"{self.path}: `{name}` cannot be made"):
            return kind(*arguments)


_CURE = "docs/others.md names the commit, and the packages that it imports"


def run_checkout_file(
    checkout: str | Path, file: str, siblings: bool = False, edit: tuple[bytes, bytes] | None = None
) -> CheckoutFile:
    """Run a file of a checkout as a module. ``sys.path`` and ``sys.modules`` end as they were.

    Args:
        checkout: folder of the repository.
        file: path of the file in the repository.
        siblings: whether the file imports modules of its own folder, as a package of the folder's name.
            Imports that a function does later are not found.
        edit: bytes of the source and their replacement, for code that today's Python cannot run. The file on
            disk is not changed.

    Raises:
        InputError: the folder or the file does not exist, or running the file raised an exception.

    Example:
        >>> run_checkout_file("nowhere", "models/networks.py")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected the folder of a checkout, there is no nowhere
    """
    folder = Path(checkout)
    path = folder / file
    if not folder.is_dir():
        raise InputError(f"expected the folder of a checkout, there is no {folder}{nearest_file(folder)}")
    if not path.is_file():
        raise InputError(f"{folder}: expected a checkout with the file {file}, there is none; {_CURE}")
    module = ModuleType(f"_checkout_{path.stem}")
    module.__file__ = str(path)
    files = {file: path}
    package = _package(path.parent.resolve()) if siblings else nullcontext(list)
    with package as imported, _one_line(f"{path}: cannot be imported"):
        source = path.read_bytes()
        exec(compile(source.replace(*edit) if edit else source, path, "exec"), vars(module))
        files |= {str(one.relative_to(folder.resolve())): one for one in imported()}
    return CheckoutFile(path, module, files)


@contextmanager
def _package(folder: Path) -> Iterator[Callable[[], list[Path]]]:
    """Make a folder the package of its name; afterwards forget it and all that was imported from it."""

    def named() -> dict[str, ModuleType]:
        return {name: one for name, one in sys.modules.items() if name.partition(".")[0] == folder.name}

    hidden = named()  # another package of this name
    for name in hidden:
        del sys.modules[name]
    spec = ModuleSpec(folder.name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[folder.name] = module_from_spec(spec)
    importlib.invalidate_caches()  # the caches may be older than the files
    try:
        yield lambda: [Path(one.__file__) for one in named().values() if one.__file__]
    finally:
        for name in named():
            del sys.modules[name]
        sys.modules.update(hidden)


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turn any exception of the checkout's code into one line; keep its random draws to itself."""
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {exception_reason(error)}; {_CURE}") from error
