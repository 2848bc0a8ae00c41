import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import Plan, make_plan


@pytest.fixture(scope="session", autouse=True)
def rendering() -> None:
    """Skip the tests of this folder if packages for rendering are missing."""
    missing = [name for name in ("bpy", "OpenEXR", "pyoidn", "distributed") if find_spec(name) is None]
    if missing:
        pytest.skip(f"rendering needs {', '.join(missing)}")


@pytest.fixture(scope="session")
def render_recipe() -> Callable[..., Plan]:
    """Render every sample of a recipe, given as text, into ``frames`` in a folder, and return the plan."""

    def run(folder: Path, recipe: str, workers: int = 1) -> Plan:
        (folder / "recipe.yaml").write_text(recipe)
        plan = make_plan(load_recipe(folder / "recipe.yaml"))
        outcome = render(plan, folder / "frames", workers=workers)
        assert (outcome.written, outcome.failed) == (len(plan.samples), {})
        return plan

    return run


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, str]]:
    """Hash every file of the samples of an output folder."""

    def hashes(root: Path) -> dict[str, str]:
        paths = sorted(path for path in (root / "samples").rglob("*") if path.is_file())
        return {
            path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
        }

    return hashes
