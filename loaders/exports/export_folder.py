"""The folder of an export: taken once, gone on in later, and never mixed with anything else."""

import json
from pathlib import Path

from loaders.errors import InputError
from loaders.files.atomic_files import is_partial, replacing

# Hidden, so that readers of the published layout, which list *.json, do not see it.
MARKER = ".candlelight-export"


def open_export_folder(out: Path, **what: str) -> None:
    """Take a folder for an export, or go on in one that the same export was started in.

    Args:
        out: the folder; made if need be.
        what: the export: its layout, the recipe of its frames, and every option that changes what is written.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    marker = out / MARKER
    try:
        out.mkdir(parents=True, exist_ok=True)
        if marker.is_file():
            if (there := marker.read_text(encoding="utf-8")) != _text(what):
                raise InputError(
                    f"{out}: holds another export ({' '.join(there.split())}); name another folder"
                )
        elif not all(is_partial(path) for path in out.iterdir()):
            raise InputError(f"{out}: expected an empty folder or one of an export; name another")
        else:
            with replacing(marker) as partial:
                partial.write_text(_text(what), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; name another folder") from None


def _text(what: dict[str, str]) -> str:
    return json.dumps(what, indent=1, sort_keys=True) + "\n"
