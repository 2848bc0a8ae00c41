"""Run a scene function again, in reverse order and in a second process, and refuse one whose numbers change.

``python -m candlelight.generators.planning.repeat_scenes`` is that process: it reads `_Request` as JSON from
standard input, and writes the layouts by id as JSON.
"""

import itertools
import json
import os
import subprocess
import sys
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import json_differences
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning.sample_values import sample_id, sample_values
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.run_scene import SceneMaker
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import Record

_REPEATED = 8  # samples of a set whose scenes are made twice


class _Request(Record):
    recipe: Recipe
    set_name: str


def check_scene_function(recipe: Recipe, set_name: str, library: AssetLibrary) -> None:
    """Refuse a scene function that gives other numbers when it is called in another order or process.

    The first samples of the set are made here, and again in reverse order: in a second process, or in this
    process if the function cannot be imported from a file or its file is the running program.

    Raises:
        InputError: the numbers differ; the message names the function, the sample and the field.
    """
    scene = recipe.sets[set_name].scene
    assert scene is not None
    maker = SceneMaker(scene, library)
    first = _layouts(recipe, set_name, maker, library)
    here = scene.passed is not None and (
        scene.passed.file is None or getattr(maker.function, "__module__", "") == "__main__"
    )
    again = _layouts(recipe, set_name, maker, library, backwards=True) if here else _repeat(recipe, set_name)
    for (sample, one), other in zip(first.items(), again.values(), strict=True):
        if changed := json_differences(one, other):
            field, was, now = changed[0]
            raise InputError(
                f"{maker.where(sample)}: `{field}` is {was} at one call and {now} at another; take random "
                "numbers from `draw(name)`, and nothing from a clock, a global or np.random"
            )


def _layouts(
    recipe: Recipe, set_name: str, maker: SceneMaker, library: AssetLibrary, backwards: bool = False
) -> dict[str, Any]:
    """Make the scenes of the first samples, in their order or backwards; return them by id, sorted."""
    drawn = list(itertools.islice(sample_values(recipe, set_name, library), _REPEATED))
    made = {}
    for one in reversed(drawn) if backwards else drawn:
        id = sample_id(set_name, one.index)
        inputs = LayoutInputs(recipe.seed, one.unit, one.values, library)
        made[id] = maker.layout(inputs, id).model_dump(mode="json")
    return dict(sorted(made.items()))


def _repeat(recipe: Recipe, set_name: str) -> dict[str, Any]:
    """Make the same scenes in a second process."""
    done = subprocess.run(
        # -P: files in the current folder are data, even if they are named like modules.
        [sys.executable, "-P", "-m", "candlelight.generators.planning.repeat_scenes"],
        input=_Request(recipe=recipe, set_name=set_name).model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout:
        said = (done.stderr.strip().splitlines() or [""])[-1]
        raise InputError(said or f"scene: the process that repeats it ended with status {done.returncode}")
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def _answer(text: str) -> str:
    request = _Request.model_validate_json(text)
    recipe, library = request.recipe, AssetLibrary(request.recipe.assets)
    scene = recipe.sets[request.set_name].scene
    assert scene is not None
    maker = SceneMaker(scene, library)
    return json.dumps(_layouts(recipe, request.set_name, maker, library, backwards=True))


if __name__ == "__main__":
    try:
        with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
            os.dup2(2, 1)  # the functions may print
            answer.write(_answer(sys.stdin.read()))
    except InputError as error:
        sys.exit(str(error))
