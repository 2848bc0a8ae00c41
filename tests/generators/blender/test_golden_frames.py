"""The layers of one small frame of each shipped recipe never change, on a known Blender and processor."""

import hashlib
import json
from pathlib import Path

import pytest

from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.loaders.frames import frame_path, read_metadata

# By Blender and features of the processor, then by recipe. Other pixels mean that frames of two versions do
# not fit together. A change that intends them changes the entries, and this file as a program prints them.
GOLDEN = json.loads((Path(__file__).parent / "golden_frames.json").read_text())
RECIPES = [name for name in shipped_recipes() if name != "concepts-scans"]  # its objects are not shipped
SMALL = ["image.width=64", "image.height=48", "render.preset=draft"]


def layer_hash(name: str, out: Path) -> tuple[str, str]:
    """Render the middle sample of a recipe; return the machine, and one hash of all its layers."""
    plan = make_plan(load_recipe(name, SMALL), 1)
    sample = plan.samples[len(plan) // 2]
    outcome = render(
        type(plan)(plan.recipe, plan.samples.take([len(plan) // 2]), plan.assets), out, device="cpu"
    )
    assert (outcome.written, outcome.failed) == (1, {})
    metadata = read_metadata(frame_path(out, sample.set, sample.index))
    layers = hashlib.sha256(json.dumps(metadata.layers, sort_keys=True).encode()).hexdigest()
    return f"{metadata.renderer.blender or 'no Blender'}, {metadata.renderer.cpu_features}", layers


@pytest.mark.blender
@pytest.mark.parametrize("name", RECIPES)
def test_layers_are_those_of_before(name, tmp_path):
    machine, layers = layer_hash(name, tmp_path / "frames")
    if machine not in GOLDEN:
        pytest.skip(f"no frames are known of {machine}")
    assert layers == GOLDEN[machine][name]


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    found: dict[str, dict[str, str]] = {}
    for recipe in RECIPES:
        with TemporaryDirectory() as folder:
            machine, layers = layer_hash(recipe, Path(folder))
            found.setdefault(machine, {})[recipe] = layers
    print(json.dumps(found, indent=1))
