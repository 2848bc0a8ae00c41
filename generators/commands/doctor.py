"""Check whether this machine can render and evaluate."""

import ctypes
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from candlelight.generators.engine.blender_version import (
    BLENDER_OF_PYTHON,
    how_to_render,
    pythons_with_blender,
)
from candlelight.generators.engine.devices import find_devices
from candlelight.loaders.errors import InputError

# Libraries that Blender needs beyond glibc and libstdc++, and the Debian package of each.
_SYSTEM_LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libSM.so.6": "libsm6",
    "libICE.so.6": "libice6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXfixes.so.3": "libxfixes3",
    "libXi.so.6": "libxi6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libXrender.so.1": "libxrender1",
}
_ENOUGH_DISK = 5e9  # bytes: the packages take about 3, the demo 0.1


@dataclass(frozen=True)
class Finding:
    """One checked item: its name, whether it is usable, its state, and how to get it.

    ``needed`` tells that rendering does not work without the item.
    """

    item: str
    ok: bool
    state: str
    remedy: str = ""
    needed: bool = True


def examine() -> list[Finding]:
    """Check Python, packages, system libraries, the devices of Blender and of torch, and disk space.

    Example:
        >>> examine()[0].item
        'Python'
    """
    return [_python(), *_packages(), _libraries(), *_devices(), _gpu(), _disk()]


def _python() -> Finding:
    return Finding(
        "Python",
        "{}.{}".format(*sys.version_info) in BLENDER_OF_PYTHON,
        ".".join(map(str, sys.version_info[:3])),
        f"rendering needs {pythons_with_blender()}; loaders and evaluation run on Python 3.11 to 3.13",
    )


def _packages() -> Iterator[Finding]:
    rendering = dict.fromkeys(("bpy", "OpenEXR", "pyoidn", "distributed"), how_to_render())
    extras = {"torch": "evaluate", "sklearn": "evaluate", "datasets": "hub"}
    others = {name: f'run `pip install "candlelight[{extra}]"`' for name, extra in extras.items()}
    for name, remedy in (rendering | others).items():
        there = find_spec(name) is not None
        yield Finding(name, there, "installed" if there else "not installed", remedy, name in rendering)


def _libraries() -> Finding:
    absent = [package for name, package in _SYSTEM_LIBRARIES.items() if not _loads(name)]
    if sys.platform != "linux" or not absent:
        return Finding("system libraries", True, "complete")
    remedy = f"sudo apt-get install -y {' '.join(absent)}"
    return Finding("system libraries", False, f"missing {', '.join(absent)}", remedy)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _devices() -> Iterator[Finding]:
    """Let Blender list its devices, if bpy is installed."""
    if find_spec("bpy") is None:
        return
    try:
        named = dict.fromkeys(f"{device.kind} {device.name}" for device in find_devices())
        yield Finding("Blender's devices", True, ", ".join(named) or "none listed")
    except InputError as error:
        yield Finding("Blender's devices", False, str(error), "check the driver, or use the processor")


def _gpu() -> Finding:
    if find_spec("torch") is None:
        state, remedy = "not checked, because torch is missing", "install torch first"
        return Finding("GPU", False, state, remedy, needed=False)
    import torch

    if torch.cuda.is_available():
        return Finding("GPU", True, torch.cuda.get_device_name(0), needed=False)
    remedy = "evaluation is faster with a GPU: install a CUDA build of torch on a machine with an NVIDIA GPU"
    return Finding("GPU", False, "none that torch can use; everything runs on the processor", remedy, False)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    state = f"{free / 1e9:.0f} GB free here"
    return Finding("disk", free >= _ENOUGH_DISK, state, "free some space, or use another disk")
