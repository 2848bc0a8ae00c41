"""Open the user's assets of a plan as `render` does, and refuse files that `render` would refuse."""

from collections.abc import Container
from importlib.util import find_spec

from candlelight.blender_assets import ASSET_SUFFIXES, AssetLibrary, shipped
from candlelight.generators.engine.helper_process import run_helper
from candlelight.generators.planning.plan import Plan
from candlelight.generators.scenes.plan_records import Trace
from candlelight.loaders.errors import InputError

_Label = tuple[str, str]  # kind and label
_Use = tuple[_Label, tuple[int, ...]]  # an asset, and how a plan uses it


def open_assets(plan: Plan, time_limit: float = 600.0) -> int | None:
    """Open in Blender the files of the user's folders that a plan uses, as `render` does before it traces.

    Blender runs in a process of its own and renders nothing. Neither shipped assets are opened nor images of
    textures, which planning has read.

    Args:
        plan: the plan.
        time_limit: seconds for all files.

    Returns:
        The number of opened files; None if there are some and Blender is not installed.

    Raises:
        InputError: a file cannot be rendered; the message is that of `render`.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> open_assets(make_plan(load_recipe("candle"), limit=1))
        0
    """
    own = _own_files(plan)
    if not own:
        return 0
    if find_spec("bpy") is None:
        return None
    traces = _covering_traces(plan, own)
    request = {
        "folders": {kind: str(folder) for kind, folder in plan.recipe.assets.items()},
        "traces": [trace.model_dump(mode="json") for trace in traces],
    }
    try:
        answer = run_helper("candlelight.generators.blender.show_traces", request, time_limit)
    except TimeoutError:
        raise InputError(f"assets: not opened within {time_limit:g} s; use smaller files") from None
    errors = list(dict.fromkeys(reply["error"] for reply in answer.replies if reply["error"]))
    if errors:
        raise InputError(errors[0] + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""))
    if len(answer.replies) < len(traces):
        labels = sorted({label for (_, label), _ in _uses(traces[len(answer.replies)], own)})
        raise InputError(
            f"assets: Blender ended with status {answer.status} ({answer.last}) while it opened "
            f"{', '.join(labels)}; replace the file"
        )
    return len(own)


def _own_files(plan: Plan) -> set[_Label]:
    """List the assets of a plan that Blender reads from the user's folders."""
    library = AssetLibrary(plan.recipe.assets)
    files = {(one.kind, one.label): library.find(one.kind, one.label) for one in plan.assets}
    return {
        (kind, label)
        for (kind, label), path in files.items()
        if path.parent != shipped() / kind and path.suffix in ASSET_SUFFIXES[kind]
    }


def _covering_traces(plan: Plan, own: Container[_Label]) -> list[Trace]:
    """Choose traces that use each of the user's files in each way that may fail, without shipped scenes."""
    seen: set[_Use] = set()
    chosen = []
    for sample in plan.samples:
        uses = _uses(sample.trace, own)
        if not uses <= seen:
            seen |= uses
            scene = sample.trace.environment
            kept = scene if scene is not None and ("scenes", scene.scene) in own else None
            chosen.append(sample.trace.model_copy(update={"environment": kept}))
    return chosen


def _uses(trace: Trace, own: Container[_Label]) -> set[_Use]:
    """Describe how a trace uses the user's files, by all that may not fit a file."""
    materials = [one.material for one in trace.objects]
    materials += [part.material for one in trace.objects for part in one.parts]
    if trace.floor is not None and trace.floor.material is not None:
        materials.append(trace.floor.material)
    uses: set[_Use] = {(("objects", one.type), (len(one.parts),)) for one in trace.objects}
    for material in materials:
        gloss = (material.roughness is None, material.specular is None)
        uses |= {((kind, material.label), gloss) for kind in ("materials", "textures")}
    if trace.environment is not None:
        uses.add((("scenes", trace.environment.scene), (trace.environment.modelled,)))
    return {use for use in uses if use[0] in own}
