"""The layers of one small frame of each shipped recipe never change, on a known Blender and processor."""

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from candlelight.generators import load_recipe, make_plan
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.loaders.frames import frame_path, read_metadata

# By Blender and features of the processor, then by recipe. Other pixels mean that frames of two versions do
# not fit together. A change that intends them changes the entries: `python test_golden_frames.py FILE` writes
# those of the processor at hand to a file.
GOLDEN = json.loads((Path(__file__).parent / "golden_frames.json").read_text())
RECIPES = [name for name in shipped_recipes() if name != "concepts-scans"]  # its objects are not shipped
SMALL = ["image.width=64", "image.height=48", "render.preset=draft"]


@pytest.fixture(scope="module")
def found(ask_blender, tmp_path_factory):
    """Render the middle sample of each recipe, all in one process."""
    file = tmp_path_factory.mktemp("golden") / "found.json"
    ask_blender("run_path", __file__, "", file)
    return json.loads(file.read_text())


@pytest.mark.blender
@pytest.mark.parametrize("name", RECIPES)
def test_layers_are_those_of_before(found, name):
    [machine] = [machine for machine, hashes in found.items() if name in hashes]
    if name not in GOLDEN.get(machine, {}):
        pytest.skip(f"no frame is known of {machine}")
    assert found[machine][name] == GOLDEN[machine][name]


def main() -> None:
    from candlelight.generators.blender.renderer import Renderer

    found: dict[str, dict[str, str]] = {}
    for name in RECIPES:
        plan = make_plan(load_recipe(name, SMALL), 1)
        sample = plan.samples[len(plan) // 2]
        with TemporaryDirectory() as out:
            Renderer(Path(out), plan.recipe, threads=1).trace([sample])()
            metadata = read_metadata(frame_path(Path(out), sample.set, sample.index))
        machine = f"{metadata.renderer.blender or 'no Blender'}, {metadata.renderer.cpu_features}"
        layers = json.dumps(metadata.layers, sort_keys=True).encode()
        found.setdefault(machine, {})[name] = hashlib.sha256(layers).hexdigest()
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
