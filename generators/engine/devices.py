"""Devices that Cycles can trace on: list them, choose the kind that a user asks for, and share them out."""

import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from candlelight.generators.engine import retry_limits
from candlelight.generators.engine.helper_process import run_helper
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.files.safe_writing import lock_file

GPU_KINDS = ("optix", "cuda", "hip", "oneapi", "metal")  # best first
DEVICE_CHOICES = ("auto", "cpu", *GPU_KINDS)
# Environment variables by which batch systems limit the GPUs that a process sees.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")
# A machine with a usable GPU has at least one of these files; without them Blender need not be started.
_DRIVERS = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dri", "/dev/dxg")


@dataclass(frozen=True)
class Device:
    """A device as Blender lists it: kind ("CPU", "OPTIX", ...), product name, and Blender's own id."""

    kind: str
    name: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """Name of the device in the metadata of a sample; for processors ``cpu_features`` says more.

        Example:
            >>> Device("OPTIX", "NVIDIA L4").label, Device("CPU", "AMD EPYC").label
            ('OPTIX NVIDIA L4', 'CPU')
        """
        return "CPU" if self.kind == "CPU" else f"{self.kind} {self.name}".strip()


@dataclass(frozen=True)
class DeviceRequest:
    """The device of a render process: one of `DEVICE_CHOICES`, and a number if there are several of them."""

    device: str = "cpu"
    slot: int = 0


CPU_REQUEST = DeviceRequest()


def choose_devices(found: Sequence[Device], device: str) -> tuple[Device, ...]:
    """Choose all devices of the kind that the user asks for, in Blender's order.

    Args:
        found: devices that Blender lists.
        device: one of `DEVICE_CHOICES`; "auto" means the best kind of GPU in ``found``, else the processor.

    Returns:
        At least one device.

    Raises:
        InputError: no device of that kind was found.

    Example:
        >>> gpus = [Device("CUDA", "L4", "a"), Device("OPTIX", "L4", "b"), Device("CPU", "EPYC")]
        >>> [one.label for kind in ("auto", "cuda", "cpu") for one in choose_devices(gpus, kind)]
        ['OPTIX L4', 'CUDA L4', 'CPU']
    """
    check_device_choice(device)
    if device == "cpu":
        return (Device("CPU"),)
    for kind in GPU_KINDS if device == "auto" else (device,):
        if chosen := tuple(one for one in found if one.kind == kind.upper()):
            return chosen
    if device == "auto":
        return (Device("CPU"),)
    names = ", ".join(dict.fromkeys(one.label for one in found)) or "none"
    raise InputError(
        f"{argument('device')} {device}: expected a GPU of that kind; Blender found: {names}; take one of "
        "these, or auto"
    )


def check_device_choice(device: str) -> None:
    """Refuse any text that is not one of `DEVICE_CHOICES`."""
    if device not in DEVICE_CHOICES:
        raise InputError(f"{argument('device')}: expected one of {', '.join(DEVICE_CHOICES)}; got {device}")


def find_devices() -> list[Device]:
    """List the devices that Cycles can use on this machine; a helper process asks the drivers.

    Raises:
        InputError: Blender crashed or took too long, as some drivers cause.
    """
    limit, cpu = retry_limits.PROBE_LIMIT, f"use {argument('device')} cpu"
    late = f"devices: Blender did not list them within {limit:g} s; {cpu}"
    output = run_helper("candlelight.generators.blender.cycles_devices", None, limit, late)
    if output.status:
        raise InputError(
            f"devices: Blender ended with status {output.status} listing them ({output.last}); {cpu}"
        )
    return [Device(*one) for one in output.replies]


def usable_devices(device: str) -> tuple[Device, ...]:
    """List the devices of this machine of the kind asked for; start Blender only if there may be a GPU.

    Raises:
        InputError: see `choose_devices` and `find_devices`.

    Example:
        >>> usable_devices("cpu")
        (Device(kind='CPU', name='', id=''),)
    """
    check_device_choice(device)
    if device == "cpu" or (device == "auto" and not may_have_gpu()):
        return (Device("CPU"),)
    return choose_devices(find_devices(), device)


def may_have_gpu() -> bool:
    """Tell whether this machine has a GPU driver, without starting the driver."""
    return sys.platform == "darwin" or any(Path(driver).exists() for driver in _DRIVERS)


class GpuSlot:
    """The lowest number that no other living holder of this user on this host has.

    Holders may be in any process and any run. The system frees the number when its holder ends, even if the
    holder is killed. Processes that see different GPUs are numbered separately.

    Args:
        folder: folder for the lock files; by default a folder among the temporary files.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first, second = GpuSlot(Path(folder)), GpuSlot(Path(folder))
        ...     first.close()
        ...     third = GpuSlot(Path(folder))
        ...     first.number, second.number, third.number
        ...     second.close()
        ...     third.close()
        (0, 1, 0)
    """

    def __init__(self, folder: Path | None = None) -> None:
        locks = folder or _slots_folder()
        self.number, self._handle = 0, -1
        with suppress(OSError):  # without locks every number is 0
            locks.mkdir(mode=0o700, exist_ok=True)
            while (handle := _lock(locks / str(self.number))) is None:
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
