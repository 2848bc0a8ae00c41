"""Save the scene of a sample as a .blend file, in a process of its own."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.helper_process import run_helper
from candlelight.generators.engine.render_plan import require_rendering
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.plan_table import load_plan
from candlelight.generators.planning.provenance import check_assets, shown_assets
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frames import PLAN, read_dataset_info


def save_blend(
    frames: Plan | Path | str,
    id: str,
    out: Path | str,
    *,
    assets: Mapping[Any, Path | str] | None = None,
    replace: bool = False,
    time_limit: float = 300.0,
) -> Path:
    """Save the scene of a sample as a .blend file, which Blender opens and renders.

    The file holds objects, lights, camera, environment and render settings of the sample, and all images that
    they need. Rendered in Blender (F12), it gives the layer `image` within noise: Blender denoises the whole
    image and not its parts. Two files of one sample have the same content, but not the same bytes.

    Args:
        frames: folder of frames, plan file, or plan that has the sample; the sample need not be rendered.
        id: id of the sample.
        out: the .blend file to write.
        assets: the user's own folders of assets, by kind; needed if the sample uses some, because neither
            frames nor plan files hold the paths of such folders.
        replace: whether to replace an existing file.
        time_limit: seconds after which Blender is stopped.

    Returns:
        The file.

    Raises:
        InputError: there is no such sample, it has no scene (dead leaves), an asset is missing or was edited
            since, the file exists or cannot be written, or rendering is not installed.

    Example:
        >>> save_blend("frames", "candle-000412", "scene.png")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `out`: expected FILE.blend, got scene.png
    """
    out = Path(out)
    if out.suffix != ".blend":
        raise InputError(f"{argument('out')}: expected FILE.blend, got {out}")
    if out.exists() and not replace:
        raise InputError(f"{out} already exists; give another {argument('out')}, or {argument('replace')} it")
    plan = frames if isinstance(frames, Plan) else _read_plan(local_folder(frames), id)
    if assets:
        own = {kind: Path(folder).absolute() for kind, folder in assets.items()}
        folders = {**plan.recipe.assets, **own}
        plan = changed(plan, recipe=plan.recipe.model_copy(update={"assets": folders}))
    alone = plan[id]
    _check_sample(alone)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Blender leaves temporary files beside its own if it is stopped.
    with tempfile.TemporaryDirectory(prefix="candlelight-") as scratch:
        made = Path(scratch) / "scene.blend"
        _save_in_process(alone, made, time_limit)
        with replacing(out) as partial:
            shutil.copyfile(made, partial)
    return out


def _read_plan(source: Path, id: str) -> Plan:
    """Read one sample of a plan; all samples if it has none of that id, to name those that it has."""
    if source.is_dir():
        read_dataset_info(source)
        source /= PLAN
    found = load_plan(source, ids=[id])
    return found if len(found) else load_plan(source)


def _check_sample(plan: Plan) -> None:
    """Refuse a sample that Blender does not render, or not as planned."""
    (sample,) = plan.samples
    if sample.trace.dead_leaves is not None:
        raise InputError(
            f"sample `{sample.id}` shows dead leaves, which are painted without a scene; expected a sample "
            "that Blender renders"
        )
    require_rendering(plan.recipe)
    check_assets(
        shown_assets([sample.trace], plan.assets),
        AssetLibrary(plan.recipe.assets),
        f"sample `{sample.id}`",
        "plan again",
    )


def _save_in_process(plan: Plan, file: Path, time_limit: float) -> None:
    (sample,) = plan.samples
    request = {
        "recipe": plan.recipe.model_dump(mode="json"),
        "sample": sample.model_dump(mode="json"),
        "file": str(file),
    }
    late = f"sample `{sample.id}`: not saved within {time_limit:g} s; use smaller assets"
    answer = run_helper("candlelight.generators.blender.save_scene", request, time_limit, late)
    if not answer.replies:
        raise InputError(
            f"sample `{sample.id}`: Blender ended with status {answer.status} ({answer.last}); replace the "
            "assets of your own"
        )
    if error := answer.replies[0]["error"]:
        raise InputError(f"sample `{sample.id}`: {error}")
