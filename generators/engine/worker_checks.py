"""Whether a worker on another host can render for this run: same versions, same folder, same assets.

`Client.get_versions` does not do for the versions: it asks every worker of a scheduler, of other runs as
well, waits for hosts that are down, and leaves out in silence those that do not answer.
"""

import platform
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from blender_assets import AssetLibrary
from generators.engine.devices import choose_devices, find_devices
from generators.engine.render_process import RunSettings
from generators.language.set_settings import is_traced
from generators.planning.provenance import check_assets
from loaders.errors import InputError
from loaders.files.atomic_files import partial_name
from loaders.schema import AssetKind, AssetRecord

_ALWAYS = ("candlelight", "dask", "distributed")
_TRACING = ("bpy", "numpy", "OpenEXR", "pyoidn")  # pixels depend on these, too


@dataclass(frozen=True)
class WorkerRequirements:
    """What a worker is held to.

    ``probe`` is a file that the submitting side wrote into the output folder, and its text; None where
    samples go to a URL. ``folders`` are those of the user's own assets, ``assets`` what the plan needs.
    """

    python: str
    versions: dict[str, str | None]
    folders: Mapping[AssetKind, Path]
    assets: tuple[AssetRecord, ...]
    device: str
    probe: tuple[Path, str] | None = None


@contextmanager
def worker_requirements(job: RunSettings, assets: tuple[AssetRecord, ...]) -> Iterator[WorkerRequirements]:
    """Work out what the workers of a job are held to; the probe lies in the output folder meanwhile."""
    names = (*_ALWAYS, *_TRACING) if is_traced(job.recipe) else _ALWAYS
    own = WorkerRequirements(
        python=_python(),
        versions={name: _version(name) for name in names},
        folders=job.recipe.assets,
        assets=assets,
        device=job.device.device if is_traced(job.recipe) else "cpu",
    )
    if job.store:
        yield own
        return
    text = uuid.uuid4().hex
    probe = partial_name(job.root / "probe")
    probe.write_text(text, encoding="utf-8")
    try:
        yield replace(own, probe=(probe, text))
    finally:
        probe.unlink(missing_ok=True)


def find_unmet_requirement(standard: WorkerRequirements) -> str:
    """Say the first thing that this process falls short of, or nothing.

    Example:
        >>> find_unmet_requirement(WorkerRequirements("3.1", {}, {}, (), "cpu")).partition(",")[2]
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
    try:
        check_assets(standard.assets, AssetLibrary(standard.folders), "the plan", "plan again")
        if "bpy" in standard.versions:
            # In a process of its own, which is also how it shows whether Blender starts on that host at all.
            choose_devices(find_devices(), standard.device)
    except InputError as error:
        return str(error)
    return "" if standard.probe is None else _find_other_folder(*standard.probe)


def _find_other_folder(probe: Path, text: str) -> str:
    """Look at the output folder, which must be that of the submitting side, and write to it."""
    try:
        if probe.read_text(encoding="utf-8") != text:
            return f"its output folder {probe.parent} is another one than the submitting side's"
    except OSError:
        return f"it does not see the submitting side's output folder {probe.parent}; both must share it"
    own = partial_name(probe.with_name("probe"))
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
