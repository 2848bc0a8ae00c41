"""Python files of a user: import a file with the modules beside it, and hash all of its local code."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from candlelight.loaders.errors import InputError, nearest_file

_IMPORTERS = ("import_module", "__import__")


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
        raise InputError(f"expected a file of Python, there is no {path}{nearest_file(path)}")
    path = path.resolve()
    name = f"_user_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"  # a unique module name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a file of Python")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.parent):
        sys.modules[name] = module  # dataclasses and pickle look the module up there
        try:
            spec.loader.exec_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the file's code runs and may raise any exception
            del sys.modules[name]
            raise InputError(f"{path.name}: cannot be imported: {exception_reason(error)}") from error
        yield module


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
    if isinstance(error, ImportError | SyntaxError | InputError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def functions_of(module: ModuleType) -> list[str]:
    """List the names of the functions and classes that a module defines, without private ones, for messages.

    Example:
        >>> import colorsys
        >>> functions_of(colorsys)[:2]
        ['rgb_to_yiq', 'yiq_to_rgb']
    """
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and name[0] != "_" and getattr(value, "__module__", "") == module.__name__
    ]


def local_files(path: Path) -> list[Path]:
    """List a Python file and every file below its folder that it imports, directly or not, sorted.

    Imports are read from the text, without running it: ``import`` and ``from`` statements anywhere in the
    file, and names in quotes after ``import_module``. Files that are read or imported in other ways are not
    found.

    Raises:
        InputError: a file cannot be read, or is no Python.
    """
    folder = path.parent
    found: set[Path] = set()
    left = [path]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += _imported(file, folder)
    return sorted(found)


def _imported(file: Path, folder: Path) -> list[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file.name}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{file.name}: expected Python: {error}") from None
    package = file.parent.relative_to(folder).parts
    names: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [tuple(one.name.split(".")) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module or "").split("."))
            names += [tuple(filter(None, (*base, one.name))) for one in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _IMPORTERS:
            for first in node.args[:1]:
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    above = package if first.value.startswith(".") else ()
                    names.append((*above, *first.value.lstrip(".").split(".")))
    files: list[Path] = []
    for name in names:
        for length in range(1, len(name) + 1):
            place = folder.joinpath(*name[:length])
            files += [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()]
    return files


def code_sha256(path: Path) -> str:
    """Hash a Python file together with the files that `local_files` finds.

    Raises:
        InputError: as `local_files`.
    """
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(path.parent).as_posix()}\n"
        for file in local_files(path)
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
