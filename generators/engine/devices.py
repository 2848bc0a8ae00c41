"""What Cycles traces on: the processor or a GPU, and which of a machine's GPUs each render child takes."""

import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from generators.engine import limits
from generators.engine.helper_process import ask
from loaders.errors import InputError
from loaders.files.file_locks import lock_file

GPU_KINDS = ("optix", "cuda", "hip", "oneapi", "metal")  # the best of several goes first
WISHES = ("auto", "cpu", *GPU_KINDS)
# One of these is there wherever a GPU can be used, so that others need not be asked of Blender.
_DRIVERS = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dri", "/dev/dxg")
# What batch systems narrow the GPUs that a process sees by.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")


@dataclass(frozen=True)
class Device:
    """One device as Blender lists it: kind ("CPU", "OPTIX", ...), the maker's name, and Blender's own id."""

    kind: str
    name: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """How the metadata of a sample names it; processors are told by their features instead.

        Example:
            >>> Device("OPTIX", "NVIDIA L4").label, Device("CPU", "AMD EPYC").label
            ('OPTIX NVIDIA L4', 'CPU')
        """
        return "CPU" if self.kind == "CPU" else f"{self.kind} {self.name}".strip()


@dataclass(frozen=True)
class Wish:
    """What a child is to trace on: one of `WISHES`, and which of several such devices."""

    device: str = "cpu"
    slot: int = 0


PROCESSOR = Wish()


def choose(found: Sequence[Device], device: str) -> tuple[Device, ...]:
    """Choose the devices that a wish means: those of one kind, in Blender's order.

    Args:
        found: what Blender lists.
        device: one of `WISHES`; "auto" means the best kind of GPU that there is, else the processor.

    Returns:
        At least one device.

    Raises:
        InputError: there is none of that kind.

    Example:
        >>> gpus = [Device("CUDA", "L4", "a"), Device("OPTIX", "L4", "b"), Device("CPU", "EPYC")]
        >>> [one.label for wish in ("auto", "cuda", "cpu") for one in choose(gpus, wish)]
        ['OPTIX L4', 'CUDA L4', 'CPU']
    """
    check_wish(device)
    if device == "cpu":
        return (Device("CPU"),)
    for kind in GPU_KINDS if device == "auto" else (device,):
        if chosen := tuple(one for one in found if one.kind == kind.upper()):
            return chosen
    if device == "auto":
        return (Device("CPU"),)
    there = ", ".join(dict.fromkeys(one.label for one in found)) or "none"
    raise InputError(
        f"--device {device}: expected a GPU of that kind; Blender found: {there}; take one of these, or auto"
    )


def check_wish(device: str) -> None:
    """Refuse what is not one of `WISHES`."""
    if device not in WISHES:
        raise InputError(f"device: expected one of {', '.join(WISHES)}; got {device}")


def find_devices() -> list[Device]:
    """List the devices that Cycles can use here; it is another process that asks the drivers.

    Raises:
        InputError: Blender ended over it, which some drivers cause.
    """
    try:
        answer = ask("generators.blender.cycles_devices", None, limits.PROBE_LIMIT)
    except TimeoutError:
        raise InputError(
            f"devices: Blender did not list them within {limits.PROBE_LIMIT:g} s; use --device cpu"
        ) from None
    if answer.status:
        raise InputError(
            f"devices: Blender ended with status {answer.status} listing them ({answer.last}); "
            "use --device cpu"
        )
    return [Device(*one) for one in answer.replies]


def usable_devices(device: str) -> tuple[Device, ...]:
    """List the devices of this machine that a wish means; Blender is asked only where there may be a GPU.

    Raises:
        InputError: as `choose` and `find_devices`.

    Example:
        >>> usable_devices("cpu")
        (Device(kind='CPU', name='', id=''),)
    """
    check_wish(device)
    if device == "cpu" or (device == "auto" and not may_have_gpu()):
        return (Device("CPU"),)
    return choose(find_devices(), device)


def may_have_gpu() -> bool:
    """Tell whether a driver of a GPU is there at all, without waking it up."""
    return sys.platform == "darwin" or any(Path(driver).exists() for driver in _DRIVERS)


class Slot:
    """A number that no other living holder of this user on this host has, the lowest that is free.

    It tells render children apart that share a host and its GPUs, whichever processes and runs they are of;
    the system frees it when its holder ends, however that came. Those who see other GPUs count apart.

    Args:
        folder: where the numbers are locked.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first, second = Slot(Path(folder)), Slot(Path(folder))
        ...     first.close()
        ...     third = Slot(Path(folder))
        ...     first.number, second.number, third.number
        ...     second.close()
        ...     third.close()
        (0, 1, 0)
    """

    def __init__(self, folder: Path | None = None) -> None:
        place = folder or _slots_folder()
        self.number, self._handle = 0, -1
        with suppress(OSError):  # where nothing can be locked, all are the first
            place.mkdir(mode=0o700, exist_ok=True)
            while (handle := _lock(place / str(self.number))) is None:
                self.number += 1
            self._handle = handle

    def close(self) -> None:
        """Free the number."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _slots_folder() -> Path:
    visible = "|".join(os.environ.get(name, "") for name in _VISIBLE)
    name = f"candlelight-slots-{os.getuid()}-{hashlib.sha256(visible.encode()).hexdigest()[:8]}"
    return Path(tempfile.gettempdir()) / name


def _lock(path: Path) -> int | None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError):
        lock_file(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    os.close(handle)
    return None
