"""Find damaged samples, move them out of the way, and remove them once they have been rendered again."""

import shutil
from contextlib import suppress
from pathlib import Path

from candlelight.generators.planning.plan import Plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import METADATA
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.verification.verify_frames import verify

DAMAGED_FOLDER = ".damaged"


def move_damaged_samples(plan: Plan, out: Path) -> tuple[int, int]:
    """Check a folder of frames, and move the damaged samples of a plan to `DAMAGED_FOLDER`.

    A moved sample stays there until its replacement is complete (`remove_replaced_samples`), even if the run
    is killed before.

    Args:
        plan: samples that are about to be rendered.
        out: folder of the data set.

    Returns:
        The number of moved samples, and the number of damaged samples that are not in the plan.

    Raises:
        InputError: `DAMAGED_FOLDER` is a link, or holds a link in the path of a damaged sample.
    """
    with progress_bar(desc="verify", unit="frame") as bar:
        findings = verify(out, bar.update)
    planned = {(key.set, key.index) for key in plan.samples.keys}
    damaged = {damage.folder for damage in findings.damaged if damage.folder != out}
    mine = {folder for folder in damaged if (folder.parents[1].name, int(folder.name)) in planned}
    for folder in mine:
        target = out / DAMAGED_FOLDER / folder.relative_to(out)
        if _has_link(out, target.parent):
            raise InputError(
                f"{out / DAMAGED_FOLDER}: expected a folder without links, for damaged samples; move it"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(target)
        with suppress(FileNotFoundError):  # another run has moved the sample
            folder.rename(target)
    return len(mine), len(damaged - mine)


def remove_replaced_samples(out: Path) -> None:
    """Remove samples from `DAMAGED_FOLDER` that have been rendered again, and then its empty folders."""
    moved = out / DAMAGED_FOLDER
    for old in moved.glob("samples/*/*/*"):
        if not _has_link(out, old.parent) and (out / old.relative_to(moved) / METADATA).is_file():
            _remove(old)
    for pattern in ("samples/*/*", "samples/*", "samples", ""):
        for folder in out.glob(f"{DAMAGED_FOLDER}/{pattern}"):
            if not _has_link(out, folder):
                with suppress(OSError):  # the folder is not empty
                    folder.rmdir()


def _has_link(out: Path, folder: Path) -> bool:
    """Return whether a folder below ``out``, or a folder between the two, is a link."""
    while folder != out and not folder.is_symlink():
        folder = folder.parent
    return folder != out


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
