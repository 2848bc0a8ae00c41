"""Open the folder of an export, so that a second call continues and never mixes two exports."""

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import is_partial, lock_file, replacing

_log = logging.getLogger("candlelight")
# Hidden, so that readers of the published layout, which list *.json, do not see it.
_MARKER = ".candlelight-export"


@dataclass(frozen=True)
class ExportCounts:
    """Number of samples that an export wrote now, and number that it found from an earlier call."""

    written: int
    found: int


def open_export_folder(out: Path, **settings: str) -> BinaryIO:
    """Open a new folder for an export, or continue in a folder that the same export started.

    Unfinished files of killed exports are removed, unless another export is writing to the folder.

    Args:
        out: the folder; made if needed.
        settings: the layout, the recipe of the frames, and every option that changes the files.

    Returns:
        An open file; close it when the export ends.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    marker = out / _MARKER
    try:
        out.mkdir(parents=True, exist_ok=True)
        if marker.is_file():
            if (there := marker.read_text(encoding="utf-8")) != _text(settings):
                raise InputError(
                    f"{out}: holds another export ({' '.join(there.split())}); name another folder"
                )
        elif not all(is_partial(path) for path in out.iterdir()):
            raise InputError(f"{out}: expected an empty folder or the folder of an export; name another")
        else:
            with replacing(marker) as partial:
                partial.write_text(_text(settings), encoding="utf-8")
        held = marker.open("r+b")
        _clean(out, held.fileno())
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; name another folder") from None
    return held


def _clean(out: Path, handle: int) -> None:
    """Remove unfinished files if this export is alone, and lock the folder as one of several exports."""
    import fcntl  # not at module level: reading works on systems without fcntl

    with suppress(BlockingIOError):
        if lock_file(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            left = [path for path in out.rglob(".*") if is_partial(path)]
            for path in left:
                path.unlink()
            if left:
                _log.warning("%s: unfinished files of a killed export were removed", out)
    lock_file(handle, fcntl.LOCK_SH)


def _text(settings: dict[str, str]) -> str:
    return json.dumps(settings, indent=1, sort_keys=True) + "\n"
