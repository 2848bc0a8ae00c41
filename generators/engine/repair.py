"""Damaged samples: put aside, so that a run renders them again, and dropped once that is done."""

import shutil
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from generators.planning.plan import Plan
from loaders.errors import InputError
from loaders.frames import METADATA
from loaders.verification.verify_frames import verify

DAMAGED_FOLDER = ".damaged"


def move_damaged_samples(plan: Plan, out: Path) -> tuple[int, int]:
    """Check a folder of frames, and move the damaged samples of a plan to `DAMAGED_FOLDER`.

    There they stay until their replacement is complete (`remove_replaced_samples`), whoever is killed in between.

    Args:
        plan: the samples that are about to be rendered, if they are not there.
        out: folder of the data set.

    Returns:
        How many samples were moved, and how many are damaged besides, which the plan does not hold.

    Raises:
        InputError: `DAMAGED_FOLDER` is a link, or holds one where samples are put aside.
    """
    # disable=None: no bar where standard error is no terminal, so that logs stay readable.
    with tqdm(desc="verify", unit="frame", disable=None) as bar:
        findings = verify(out, bar.update)
    planned = {(key.set, key.index) for key in plan.samples.keys}
    damaged = {damage.folder for damage in findings.damaged if damage.folder != out}
    mine = {folder for folder in damaged if (folder.parents[1].name, int(folder.name)) in planned}
    for folder in sorted(mine):
        target = out / DAMAGED_FOLDER / folder.relative_to(out)
        if _leads_elsewhere(out, target.parent):
            raise InputError(
                f"{out / DAMAGED_FOLDER}: expected a folder without links, for damaged samples; move it"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(target)
        with suppress(FileNotFoundError):  # another run was faster
            folder.rename(target)
    return len(mine), len(damaged - mine)


def remove_replaced_samples(out: Path) -> None:
    """Remove from `DAMAGED_FOLDER` what has been rendered again, and its folders in which nothing is left."""
    aside = out / DAMAGED_FOLDER
    for old in aside.glob("samples/*/*/*"):
        if not _leads_elsewhere(out, old.parent) and (out / old.relative_to(aside) / METADATA).is_file():
            _remove(old)
    for pattern in ("samples/*/*", "samples/*", "samples", ""):
        for folder in out.glob(f"{DAMAGED_FOLDER}/{pattern}"):
            if not _leads_elsewhere(out, folder):
                with suppress(OSError):  # something is left
                    folder.rmdir()


def _leads_elsewhere(out: Path, folder: Path) -> bool:
    """Tell whether a folder below another is a link, or lies in one."""
    while folder != out and not folder.is_symlink():
        folder = folder.parent
    return folder != out


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
