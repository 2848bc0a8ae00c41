"""Whether a worker on another host can render for this run: same versions, same folder, same assets.

`Client.get_versions` does not do for the versions: it asks every worker of a scheduler, of other runs as
well, waits for hosts that are down, and leaves out in silence those that do not answer.
"""

import hashlib
import platform
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from generators.child import Job
from generators.devices import choose, find_devices
from generators.settings import is_traced
from loaders.errors import InputError

_ALWAYS = ("candlelight", "dask", "distributed")
_TRACING = ("bpy", "numpy", "OpenEXR", "pyoidn")  # pixels depend on these, too


@dataclass(frozen=True)
class Standard:
    """What a worker is held to.

    ``probe`` is a file that the submitting side wrote into the output folder, and its text; None where
    samples go to a URL. ``folders`` are those of the user's own assets with `folder_digest` of each.
    """

    python: str
    versions: dict[str, str | None]
    folders: dict[Path, str]
    device: str
    probe: tuple[Path, str] | None = None


@contextmanager
def standard_of(job: Job) -> Iterator[Standard]:
    """Work out what the workers of a job are held to; the probe lies in the output folder meanwhile."""
    names = (*_ALWAYS, *_TRACING) if is_traced(job.recipe) else _ALWAYS
    own = Standard(
        python=_python(),
        versions={name: _version(name) for name in names},
        folders={folder: folder_digest(folder) for folder in job.recipe.assets.values()},
        device=job.device.device if is_traced(job.recipe) else "cpu",
    )
    if job.store:
        yield own
        return
    text = uuid.uuid4().hex
    probe = job.root / f".{text}.probe.partial"
    probe.write_text(text, encoding="utf-8")
    try:
        yield Standard(own.python, own.versions, own.folders, own.device, (probe, text))
    finally:
        probe.unlink(missing_ok=True)


def find_shortcoming(standard: Standard) -> str:
    """Say the first thing that this process falls short of, or nothing.

    Example:
        >>> find_shortcoming(Standard("3.1", {}, {}, "cpu")).partition(",")[2]
        ' the submitting side has 3.1'
    """
    if _python() != standard.python:
        return f"it has Python {_python()}, the submitting side has {standard.python}"
    for name, wanted in standard.versions.items():
        there = _version(name)
        if there is None:
            return f"it has no {name}"
        if wanted is not None and there != wanted:
            return f"it has {name} {there}, the submitting side has {wanted}"
    for folder, digest in standard.folders.items():
        if not folder.is_dir():
            return f"it does not see the asset folder {folder}"
        if folder_digest(folder) != digest:
            return f"the asset folder {folder} holds other files there"
    try:
        if "bpy" in standard.versions:
            # In a process of its own, which is also how it shows whether Blender starts on that host at all.
            choose(find_devices(), standard.device)
    except InputError as error:
        return str(error)
    return "" if standard.probe is None else _find_other_folder(*standard.probe)


def folder_digest(folder: Path) -> str:
    """Hash the names and sizes of the files of a folder.

    Example:
        >>> folder_digest(Path(__file__).parent) == folder_digest(Path(__file__).parent / "..")
        False
    """
    files = sorted(
        (path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()
    )
    listed = "\n".join(f"{name}\t{path.stat().st_size}" for name, path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def _find_other_folder(probe: Path, text: str) -> str:
    """Look at the output folder, which must be that of the submitting side, and write to it."""
    try:
        if probe.read_text(encoding="utf-8") != text:
            return f"its output folder {probe.parent} is another one than the submitting side's"
    except OSError:
        return f"it does not see the submitting side's output folder {probe.parent}; both must share it"
    own = probe.with_name(f".{uuid.uuid4().hex}.probe.partial")
    try:
        own.write_text(text, encoding="utf-8")
        own.unlink()
    except OSError as error:
        return f"it cannot write to the output folder {probe.parent}: {error.strerror}"
    return ""


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
