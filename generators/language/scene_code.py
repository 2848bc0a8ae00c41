"""Scenes made by a Python function: its name and hash in a recipe, and how planning finds the function."""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import model_validator

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.field_types import described
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.files.python_files import code_sha256, functions_of, user_file
from candlelight.loaders.schema import Record

_NO_FILE = "(no file)"  # in place of the file of a function that no other process can import


@dataclass(frozen=True)
class PassedFunction:
    """A scene function that a recipe got in Python; ``file`` is None if it cannot be imported from one."""

    function: Callable[..., Any]
    file: Path | None


# By label and hash, because a recipe is text and holds no function.
_passed: dict[tuple[str, str], PassedFunction] = {}


class SceneCode(Record):
    """The Python function that makes the scene of each sample when the plan is made."""

    code: str = described(
        ...,
        "The function, as FILE.py:FUNCTION with the file beside the recipe; in Python the function itself.",
        "scenes.py:table",
    )
    lights: tuple[str, ...] = described(
        (),
        "Names of the lights of every sample, `environment` among them, if layers `light/*` are wanted.",
        ["key", "fill"],
    )
    sha256: str = described(
        "", "Hash of the file and of the local files that it imports; filled in by planning.", ""
    )

    @model_validator(mode="before")
    @classmethod
    def _from_function(cls, data: Any) -> Any:
        fields = data if isinstance(data, dict | SceneCode) else {"code": data}
        if isinstance(fields, dict) and callable(function := fields.get("code")):
            label, sha256 = _pass(function)
            return {**fields, "code": label, "sha256": sha256}
        return fields

    @property
    def passed(self) -> PassedFunction | None:
        """The function, if a recipe of this process got it in Python."""
        return _passed.get((self.code, self.sha256))


def _pass(function: Callable[..., Any]) -> tuple[str, str]:
    """Remember a function; return its label and hash."""
    name = getattr(function, "__qualname__", type(function).__name__)
    source = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    file = None if source is None or "<" in name else Path(source).absolute()
    if file is not None and file.suffix == ".py" and file.is_file():
        label, sha256 = f"{file.name}:{name}", code_sha256(file)
    else:
        file, label, sha256 = None, f"{_NO_FILE}:{name}", hashlib.sha256(_text(function)).hexdigest()
    _passed[label, sha256] = PassedFunction(function, file)
    return label, sha256


def _text(function: Callable[..., Any]) -> bytes:
    """Return the source of a function; if there is none, its bytecode and constants."""
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(code and (code.co_code, code.co_consts, code.co_names)).encode()


def find_scene_function(scene: SceneCode, library: AssetLibrary) -> Callable[..., Any]:
    """Return the function that a recipe names.

    Args:
        scene: label and hash of the function.
        library: where code is found; it has a folder of code only if the user allowed it to run.

    Raises:
        InputError: running code is not allowed, the file is missing, cannot be imported or has changed since
            the recipe was planned, or it has no such function.
    """
    if scene.passed is not None:
        return scene.passed.function
    file, _, name = scene.code.partition(":")
    if file == _NO_FILE:
        raise InputError(
            f"scene: `{name}` was a function without a file, such as a notebook's; its plan can be rendered, "
            "not planned anew"
        )
    path = library.find("code", scene.code)
    if scene.sha256 and (now := library.sha256("code", scene.code)) != scene.sha256:
        raise InputError(
            f"scene: the recipe was planned with another `{file}` (SHA-256 {scene.sha256[:12]}, the file "
            f"now {now[:12]}); restore that file and those that it imports, or plan again"
        )
    with user_file(path) as module:
        function = getattr(module, name, None)
    if not callable(function):
        near = did_you_mean(name, functions_of(module))
        raise InputError(f"scene: expected a function `{name}` in {file}{near}")
    return function
