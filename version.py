"""The version of this code: the release, and in a checkout also the commit."""

import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

RELEASE = "0.2.0"  # the next release; the only place that says a version


@cache
def code_version() -> str:
    """Return the version of the code that runs, which `pip` also takes as the version to build.

    - a checkout: the release, the number of commits since `RELEASE` was changed, and the commit, as in
      ``0.2.0.dev12+gabc1234``; ``.dirty`` at the end if files differ from the commit. The number is 0 where
      the history is not there, as in a shallow clone;
    - an unpacked source distribution, or an installed package: the version it was built as;
    - other copies, and a checkout where git is not installed: the release.

    Example:
        >>> code_version().startswith(RELEASE)
        True
    """
    root = Path(__file__).resolve().parent
    if (root / ".git").exists():
        return _version_of_commit(root)
    unpacked = root.parents[1] / "PKG-INFO"  # in a source distribution src/candlelight is no link
    if unpacked.exists():
        lines = unpacked.read_text(encoding="utf-8").splitlines()
        return next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    try:
        installed = distribution("candlelight")
    except PackageNotFoundError:
        return RELEASE
    # Another copy may be installed than the one that runs.
    here = Path(str(installed.locate_file("candlelight"))).resolve() == root
    return installed.version if here else RELEASE


def _version_of_commit(root: Path) -> str:
    commit = _git(root, "describe", "--always", "--exclude=*", "--abbrev=7", "--dirty").replace("-", ".")
    if not commit:
        return RELEASE
    count = "0"
    if _git(root, "rev-parse", "--is-shallow-repository") == "false":
        begun = _git(root, "log", "-1", "--format=%H", "-G^RELEASE = ", "--", "version.py")
        count = (begun and _git(root, "rev-list", "--count", f"{begun}..HEAD")) or count
    return f"{RELEASE}.dev{count}+g{commit}"


def _git(root: Path, *words: str) -> str:
    """Run git on this checkout; "" if it fails or takes long, as where a partial clone has no network."""
    command = ["git", f"--git-dir={root / '.git'}", f"--work-tree={root}", *words]
    # A hook of another repository runs with variables such as GIT_INDEX_FILE, which name its files.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, cwd=root, env=own, capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
