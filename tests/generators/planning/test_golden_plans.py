"""The hashes of the shipped recipes and the numbers of their samples never change."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators import load_recipe, make_plan
from candlelight.generators.language.load_recipe import recipe_sha256
from candlelight.generators.language.recipe_files import shipped_recipes

# Another hash of a recipe refuses folders of frames that were begun with the old one, and another hash of its
# samples means other images. A change that intends either changes the entry:
# `python tests/generators/planning/test_golden_plans.py` prints all.
GOLDEN = json.loads((Path(__file__).parent / "golden_plans.json").read_text())
SCANS = (
    "happy",
    "homer",
    "max-planck",
    "nefertiti",
    "spot",
    "stanford-bunny",
)  # objects that are not shipped
COUNT = 20


def hashes(name: str, scans: Path) -> dict[str, str]:
    """Hash a recipe, and the JSON of twenty of its samples, spread over all sets."""
    for label in SCANS:
        (scans / f"{label}.blend").touch()
    recipe = load_recipe(name, assets={"objects": scans} if name == "concepts-scans" else None)
    samples = make_plan(recipe, COUNT).samples
    some = samples.take(np.linspace(0, len(samples) - 1, COUNT).round().astype(int).tolist())
    lines = b"\n".join(line for _, line in some.lines())
    return {"recipe": recipe_sha256(recipe), "samples": hashlib.sha256(lines).hexdigest()}


@pytest.mark.parametrize("name", shipped_recipes())
def test_hashes_of_recipe_and_samples_are_those_of_before(name, tmp_path):
    assert hashes(name, tmp_path) == GOLDEN[name]


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        print(json.dumps({name: hashes(name, Path(folder)) for name in shipped_recipes()}, indent=1))
