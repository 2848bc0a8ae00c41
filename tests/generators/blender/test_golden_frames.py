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

# By Blender and processor, then by recipe: processors with equal vector instructions round some of them in
# other ways. Other pixels mean that frames of two versions do not fit together. A change that intends them
# changes the entries: `python test_golden_frames.py FILE` writes those of the processor at hand to a file.
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
    known = GOLDEN.get(machine, {})
    if name not in known:
        pytest.skip(f"no frame is known of {machine}")
    assert found[machine][name] == known[name]


def processor() -> str:
    """Name the processor by vendor, family and model."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines())
    facts = {name.strip(): value.strip() for name, _, value in lines}
    return " ".join(facts.get(name, "unknown") for name in ("vendor_id", "cpu family", "model"))


def main() -> None:
    from candlelight.generators.blender.renderer import Renderer

    found: dict[str, dict[str, str]] = {}
    for name in RECIPES:
        plan = make_plan(load_recipe(name, SMALL), 1)
        sample = plan.samples[len(plan) // 2]
        with TemporaryDirectory() as out:
            Renderer(Path(out), plan.recipe, threads=1).trace([sample])()
            metadata = read_metadata(frame_path(Path(out), sample.set, sample.index))
        machine = f"{metadata.renderer.blender or 'no Blender'}, {processor()}"
        layers = json.dumps(metadata.layers, sort_keys=True).encode()
        found.setdefault(machine, {})[name] = hashlib.sha256(layers).hexdigest()
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
