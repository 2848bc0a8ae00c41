"""Number the render processes of one host, so that each takes another GPU."""

import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from candlelight.loaders.files.safe_writing import lock_file

# Environment variables by which batch systems limit the GPUs that a process sees.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")


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
