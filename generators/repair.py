"""Damaged samples: put aside, so that a run renders them again, and dropped once that is done."""

import shutil
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from generators.plan import Plan
from loaders.frames import METADATA
from loaders.verification.verify import verify

ASIDE = ".damaged"


def set_aside(plan: Plan, out: Path) -> tuple[int, int]:
    """Check a folder of frames, and move the damaged samples of a plan to `ASIDE`.

    There they stay until their replacement is complete (`drop_replaced`), whoever is killed in between.

    Args:
        plan: the samples that are about to be rendered, if they are not there.
        out: folder of the data set.

    Returns:
        How many samples were moved, and how many are damaged besides, which the plan does not hold.
    """
    # disable=None: no bar where standard error is no terminal, so that logs stay readable.
    with tqdm(desc="verify", unit="frame", disable=None) as bar:
        findings = verify(out, bar.update)
    planned = {(key.set, key.index) for key in plan.samples.keys}
    damaged = {damage.folder for damage in findings.damaged if damage.folder != out}
    mine = {folder for folder in damaged if (folder.parents[1].name, int(folder.name)) in planned}
    for folder in sorted(mine):
        target = out / ASIDE / folder.relative_to(out)
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(target)
        with suppress(FileNotFoundError):  # another run was faster
            folder.rename(target)
    return len(mine), len(damaged - mine)


def drop_replaced(out: Path) -> None:
    """Remove from `ASIDE` what has been rendered again, and the folder when nothing is left in it."""
    aside = out / ASIDE
    left = False
    for old in aside.glob("samples/*/*/*"):
        if (out / old.relative_to(aside) / METADATA).is_file():
            _remove(old)
        else:
            left = True
    if not left:
        shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
