"""Run a scene function again, in reverse order and in a second process, and refuse one whose numbers change.

``python -m candlelight.generators.planning.repeat_scenes`` is that process: it reads `_Request` as JSON from
standard input, and writes the layouts by id as JSON.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
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
_LONGEST = 120.0  # seconds of the second process
_AT = "at "  # before the place that the second process has reached, on its standard error
# The second process has no other variables, so that a function that reads one is found out.
_ENVIRONMENT = ("PYTHON", "PATH", "HOME", "LD_", "DYLD_", "OMP_", "LANG", "LC_", "TMP", "TEMP", "SYSTEMROOT")


class _Request(Record):
    recipe: Recipe
    set_name: str


def check_scene_function(recipe: Recipe, set_name: str, library: AssetLibrary) -> None:
    """Refuse a scene function that gives other numbers when it is called in another order or process.

    The scenes of the first units and of some over the whole set are made here, and before that in reverse
    order: in a second process with another current folder and environment, or in this process if the function
    cannot be imported from a file or its file is the running program.

    Raises:
        InputError: the numbers differ, or the second process fails, ends or takes too long; the message names
            the function, the sample and the field.
    """
    scene = recipe.sets[set_name].scene
    assert scene is not None
    passed, fault = scene.passed, ""
    again: dict[str, Any] = {}
    here = passed is not None and (
        passed.file is None or getattr(passed.function, "__module__", "") == "__main__"
    )
    if not here:
        again, fault = _repeat(recipe, set_name)  # before this process, which the function might end
    maker = SceneMaker(scene, library)
    first = _layouts(recipe, set_name, maker, library)  # its own errors are plainer than those of the other
    if fault:
        raise InputError(
            f"{fault}; this happens only in a second process, which has another current folder and few "
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
    """Make the scenes of the checked units, in their order or backwards; return them by id, sorted."""
    units = unit_indices(recipe, factual_set(recipe, set_name), library)
    half = _REPEATED // 2
    checked = {*units[:half], *(units[(len(units) - 1) * k // half] for k in range(1, half + 1))}
    drawn = list(itertools.islice(sample_values(recipe, set_name, library, checked), _REPEATED))
    made = {}
    for one in reversed(drawn) if backwards else drawn:
        id = sample_id(set_name, one.index)
        if __name__ == "__main__":
            print(f"{_AT}{maker.where(id)}", file=sys.stderr, flush=True)
        inputs = LayoutInputs(recipe.seed, one.unit, one.values, library)
        made[id] = maker.layout(inputs, id).model_dump(mode="json")
    return dict(sorted(made.items()))


def _repeat(recipe: Recipe, set_name: str) -> tuple[dict[str, Any], str]:
    """Make the same scenes in a second process; return them and no fault, or none and the fault.

    Raises:
        InputError: the process ended or took too long, so that the function may not be called in this one.
    """
    assets = {kind: folder.absolute() for kind, folder in recipe.assets.items()}
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(_ENVIRONMENT)}
    if paths := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    request = _Request(recipe=recipe.model_copy(update={"assets": assets}), set_name=set_name)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            done = subprocess.run(
                # -P: files in the current folder are data, even if they are named like modules.
                [sys.executable, "-P", "-m", "candlelight.generators.planning.repeat_scenes"],
                input=request.model_dump_json(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
                cwd=Path.cwd().anchor,
                env={**kept, "TZ": "Pacific/Kiritimati"},
                timeout=_LONGEST,
            )
            ended = f"ended its process with status {done.returncode}; it may only return a scene"
        except subprocess.TimeoutExpired:
            done = None
            ended = f"took more than {_LONGEST:g} s for {_REPEATED} samples; make it faster or end its loop"
        log.seek(0)
        said = log.read().splitlines()
    if done is None or not done.stdout:
        places = [line.removeprefix(_AT) for line in said if line.startswith(_AT)]
        scene = recipe.sets[set_name].scene
        raise InputError(f"{places[-1] if places else f'scene {scene and scene.code}'}: the function {ended}")
    answer = json.loads(done.stdout)
    return answer["made"], answer["fault"]


def _answer(text: str) -> dict[str, Any]:
    request = _Request.model_validate_json(text)
    recipe = request.recipe
    scene = recipe.sets[request.set_name].scene
    assert scene is not None
    try:
        library = AssetLibrary(recipe.assets)
        maker = SceneMaker(scene, library)
        made = _layouts(recipe, request.set_name, maker, library, backwards=True)
    except InputError as error:
        return {"made": {}, "fault": str(error)}
    return {"made": made, "fault": ""}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)  # the functions may print
        json.dump(_answer(sys.stdin.read()), answer)
