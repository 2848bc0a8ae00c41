"""Check whether a worker on another host has the versions, the output folder and the assets of a run.

`Client.get_versions` is not used for the versions: it asks all workers of a scheduler, also those of other
runs, waits for hosts that are down, and silently leaves out workers that do not answer.
"""

import platform
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.devices import choose_devices, find_devices
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.language.set_settings import is_traced
from candlelight.generators.planning.provenance import check_assets
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import partial_name
from candlelight.loaders.schema import AssetKind, AssetRecord
from candlelight.version import code_version

_ALWAYS = ("candlelight", "dask", "distributed")
_TRACING = ("bpy", "numpy", "OpenEXR", "pyoidn")  # pixels depend on these as well


@dataclass(frozen=True)
class WorkerRequirements:
    """Properties that a worker must have in order to render for a run.

    Attributes:
        python: Python version, as in "3.11".
        versions: version of each package; None if the submitting side does not have the package.
        folders: folders of the user's own assets.
        assets: assets that the plan needs.
        device: device to trace on.
        probe: a file that the submitting side wrote into the output folder, and its text.
    """

    python: str
    versions: dict[str, str | None]
    folders: Mapping[AssetKind, Path]
    assets: tuple[AssetRecord, ...]
    device: str
    probe: tuple[Path, str]


@contextmanager
def worker_requirements(
    settings: RunSettings, assets: tuple[AssetRecord, ...]
) -> Iterator[WorkerRequirements]:
    """Collect the requirements of a run; the probe file exists in the output folder until the block ends."""
    names = (*_ALWAYS, *_TRACING) if is_traced(settings.recipe) else _ALWAYS
    text = uuid.uuid4().hex
    probe = partial_name(settings.root / "probe")
    probe.write_text(text, encoding="utf-8")
    try:
        yield WorkerRequirements(
            python=_python(),
            versions={name: _version(name) for name in names},
            folders=settings.recipe.assets,
            assets=assets,
            device=settings.device.device if is_traced(settings.recipe) else "cpu",
            probe=(probe, text),
        )
    finally:
        probe.unlink(missing_ok=True)


def find_unmet_requirement(requirements: WorkerRequirements) -> str:
    """Describe the first requirement that this process does not meet; return an empty text if there is none.

    Example:
        >>> probe = Path("frames/.probe"), "text"
        >>> find_unmet_requirement(WorkerRequirements("3.1", {}, {}, (), "cpu", probe)).partition(",")[2]
        ' the submitting side has 3.1'
    """
    if _python() != requirements.python:
        return f"it has Python {_python()}, the submitting side has {requirements.python}"
    for name, required in requirements.versions.items():
        own = _version(name)
        if own is None:
            return f"it has no {name}"
        if required is not None and not _same_version(own, required):
            return f"it has {name} {own}, the submitting side has {required}"
    try:
        check_assets(requirements.assets, AssetLibrary(requirements.folders), "the plan", "plan again")
        if "bpy" in requirements.versions:
            # The helper process of `find_devices` also shows whether Blender starts on this host.
            choose_devices(find_devices(), requirements.device)
    except InputError as error:
        return str(error)
    return _find_folder_difference(*requirements.probe)


def _find_folder_difference(probe: Path, text: str) -> str:
    """Compare the output folder with that of the submitting side, and try to write to it."""
    try:
        if probe.read_text(encoding="utf-8") != text:
            return f"its output folder {probe.parent} is not the folder of the submitting side"
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


def _same_version(own: str, required: str) -> bool:
    """Compare two versions; a build of candlelight that does not know its commit has that of its release."""
    if ("+g" in own) == ("+g" in required):
        return own == required
    return own.partition(".dev")[0] == required.partition(".dev")[0]


def _version(name: str) -> str | None:
    try:
        return code_version() if name == "candlelight" else version(name)
    except PackageNotFoundError:
        return None
