"""Run a scene function again, in reverse order and in a second process, and refuse one whose numbers change.

``python -m candlelight.generators.planning.repeat_scenes`` is that process: it reads `_Request` as JSON from
standard input, and writes the layouts by id as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.load_recipe import json_differences
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.planning.sample_values import factual_set, sample_id, sample_values, unit_indices
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.run_scene import SceneMaker
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import Record

_REPEATED = 8  # units of a set whose scenes are made twice
_REFUSED = 65  # status of the second process where a scene cannot be made
_LONGEST = 300.0  # seconds that the second process may take
# The second process has no other variables, so that a function that reads one is found out.
_ENVIRONMENT = ("PYTHON", "PATH", "HOME", "LD_", "DYLD_", "OMP_", "LANG", "LC_", "TMP", "TEMP", "SYSTEMROOT")


class _Request(Record):
    recipe: Recipe
    set_name: str


def check_scene_function(recipe: Recipe, set_name: str, library: AssetLibrary) -> None:
    """Refuse a scene function that gives other numbers when it is called in another order or process.

    Samples from all of the set are made here, and again in reverse order: in a second process with another
    current folder and environment, or in this process if the function cannot be imported from a file or its
    file is the running program. The second process comes first, so that a function that never returns or
    ends its process does no harm here.

    Raises:
        InputError: the numbers differ, or a scene cannot be made; the message names the function, and the
            sample and the field where there is one.
    """
    scene = recipe.sets[set_name].scene
    assert scene is not None
    passed = scene.passed
    here = passed is not None and (
        passed.file is None or getattr(passed.function, "__module__", "") == "__main__"
    )
    again = {} if here else _repeat(recipe, set_name)
    maker = SceneMaker(scene, library)
    first = _layouts(recipe, set_name, maker, library)
    if isinstance(again, str):
        raise InputError(
            f"{again}; this happens only in a second process, which has another current folder and few "
            "variables of the environment; name files from Path(__file__).parent"
        )
    if here:
        again = _layouts(recipe, set_name, maker, library, backwards=True)
    for (sample, one), other in zip(first.items(), again.values(), strict=True):
        if changed := json_differences(one, other):
            field, was, now = changed[0]
            raise InputError(
                f"{maker.where(sample)}: `{field}` is {was} at one call and {now} at another; take random "
                "numbers from `draw(name)`, and nothing from a clock, a global, the environment or np.random"
            )


def _layouts(
    recipe: Recipe, set_name: str, maker: SceneMaker, library: AssetLibrary, backwards: bool = False
) -> dict[str, Any]:
    """Make scenes of samples from all of a set, in their order or backwards; return them by id, sorted."""
    units = unit_indices(recipe, factual_set(recipe, set_name), library)
    chosen = {units[i * (len(units) - 1) // (_REPEATED - 1)] for i in range(_REPEATED)}
    drawn = list(sample_values(recipe, set_name, library, chosen))
    made = {}
    for one in reversed(drawn) if backwards else drawn:
        id = sample_id(set_name, one.index)
        inputs = LayoutInputs(recipe.seed, one.unit, one.values, library)
        made[id] = maker.layout(inputs, id).model_dump(mode="json")
    return dict(sorted(made.items()))


def _repeat(recipe: Recipe, set_name: str) -> dict[str, Any] | str:
    """Make the same scenes in a second process; return the error of a scene as a text."""
    scene = recipe.sets[set_name].scene
    where = f"scene {scene.code if scene is not None else ''}: the process that makes some scenes first"
    assets = {kind: folder.absolute() for kind, folder in recipe.assets.items()}
    recipe = recipe.model_copy(update={"assets": assets})
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(_ENVIRONMENT)}
    if paths := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    try:
        done = subprocess.run(
            # -P: files in the current folder are data, even if they are named like modules.
            [sys.executable, "-P", "-m", "candlelight.generators.planning.repeat_scenes"],
            input=_Request(recipe=recipe, set_name=set_name).model_dump_json(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
            cwd=Path.cwd().anchor,
            env={**kept, "TZ": "Pacific/Kiritimati"},
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{where} took more than {_LONGEST:g} s; look for a loop that never ends, or make it faster"
        ) from None
    if done.stdout:
        made: dict[str, Any] = json.loads(done.stdout)
        return made
    if done.returncode == _REFUSED:
        return (done.stderr.strip().splitlines() or [""])[-1]
    raise InputError(
        f"{where} ended with status {done.returncode}; the function returns a scene, and ends no process"
    )


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
        print(error, file=sys.stderr)
        sys.exit(_REFUSED)
