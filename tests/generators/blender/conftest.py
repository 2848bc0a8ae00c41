import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def rendering() -> None:
    """Skip the tests of this folder if packages for rendering are missing."""
    missing = [name for name in ("bpy", "OpenEXR", "pyoidn", "distributed") if find_spec(name) is None]
    if missing:
        pytest.skip(f"rendering needs {', '.join(missing)}")


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, str]]:
    """Hash every file of the samples of an output folder."""

    def hashes(root: Path) -> dict[str, str]:
        paths = sorted(path for path in (root / "samples").rglob("*") if path.is_file())
        return {
            path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
        }

    return hashes
