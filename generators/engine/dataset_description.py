"""Describe a folder of frames in ``dataset.json``, ``plan.parquet`` and their ``SHA256SUMS``."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.blender_assets.asset_manifest import ASSET_MANIFEST
from candlelight.generators.engine.blender_version import blender_version
from candlelight.generators.engine.output_locks import GROUP_LOCKS_FILE, RUN_LOCK_FILE, cannot_write
from candlelight.generators.language.load_recipe import recipe_as_fields, recipe_differences, recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import (
    factor_infos,
    is_traced,
    set_graph,
    settings,
    stored_layers,
)
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.plan_table import (
    join,
    load_plan,
    planned_assets,
    planned_recipe,
    planned_traces,
    save_plan,
)
from candlelight.generators.planning.provenance import check_assets, shown_assets
from candlelight.generators.scenes.plan_records import Trace
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.files.python_files import local_files
from candlelight.loaders.files.safe_writing import is_partial
from candlelight.loaders.frames import DATASET, PLAN, read_dataset_info, read_metadata
from candlelight.loaders.schema import DatasetInfo, Metadata, RecipeRecord, SetInfo
from candlelight.loaders.verification.checksums import NEXT_SUMS, find_changed_files, replace_files
from candlelight.loaders.verification.verify_frames import CODE_FOLDER, DESCRIPTION
from candlelight.version import code_version

_FIELDS_NAMED = 3  # fields that a message names of those in which two recipes differ
_SHORT = 40  # characters of a value in a message
_Value = TypeVar("_Value")


def dataset_info(plan: Plan) -> DatasetInfo:
    """Return the content of ``dataset.json`` for the data set that a plan makes."""
    recipe = plan.recipe
    sets = {}
    for name, image_set in recipe.sets.items():
        chosen, samples = settings(recipe, name), plan.samples.of_set(name)
        sets[name] = SetInfo(
            count=len(samples),
            width=chosen.image.width,
            height=chosen.image.height,
            layers=stored_layers(recipe, name),
            factors=factor_infos(image_set),
            varies=image_set.varies,
            exposure=chosen.exposure,
            parts=_part_names(sample.trace for sample in samples),
            graph=set_graph(recipe, name),
            caption=image_set.caption,
        )
    return DatasetInfo(
        name=recipe.name,
        description=recipe.description,
        licence=recipe.licence,
        statements=recipe.statements,
        recipe=RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe)),
        recipe_fields=recipe_as_fields(recipe),
        seed=recipe.seed,
        candlelight=code_version(),
        blender=_blender(plan),
        assets=shown_assets((sample.trace for sample in plan.samples), plan.assets),
        sets={name: info for name, info in sets.items() if info.count},
    )


def _part_names(traces: Iterable[Trace]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parts of each object type that has parts, the types in alphabetical order."""
    found = {
        planned.type: tuple(part.name for part in planned.parts)
        for trace in traces
        for planned in trace.objects
        if planned.parts and not is_code_label(planned.type)  # only Blender knows all of its parts
    }
    return dict(sorted(found.items()))


def describe_folder(plan: Plan, out: Path, repair: bool = False) -> None:
    """Write ``dataset.json``, ``plan.parquet`` and ``SHA256SUMS``, unless the folder holds anything else.

    They describe all samples that this and earlier runs planned for the folder, whatever limit or filter each
    run had.

    Args:
        plan: samples to be rendered there.
        out: the folder, which exists.
        repair: whether to write damaged files again; samples that only a damaged plan named are forgotten.

    Raises:
        InputError: the folder holds other files or frames of another recipe, a file is damaged, an asset was
            edited since, or the folder cannot be written.
    """
    unlike = find_changed_files(out, DESCRIPTION)
    # A run that is killed while it describes a new folder leaves `NEXT_SUMS` and some of the files.
    lost = (out / DATASET).exists() and not (out / NEXT_SUMS).exists()
    damaged = [name for name in DESCRIPTION if name in unlike and (lost or (out / name).exists())]
    if damaged and not repair:
        raise InputError(
            f"output folder {out}: {damaged[0]} {unlike[damaged[0]]}; "
            f"`candlelight render RECIPE --repair --out {out}` writes it again"
        )
    info = _refuse_foreign(plan, out, DATASET in damaged, repair)
    planned: dict[str, Any] = {}
    if (out / PLAN).exists() and PLAN not in damaged:
        planned = _unless_repaired(lambda: planned_traces(out / PLAN), repair) or planned
    _refuse_edited(plan, out, info, planned)
    as_written = not unlike and not (out / NEXT_SUMS).exists()
    if as_written and planned.keys() >= {key.id for key in plan.samples.keys} and _same_texts(plan, info):
        return
    whole = join(load_plan(out / PLAN, plan.recipe.assets), plan) if planned else plan
    text = dataset_info(whole).to_json()
    try:
        writers: dict[str, Callable[[Path], object]] = {
            DATASET: lambda path: path.write_text(text, encoding="utf-8"),
            PLAN: lambda path: save_plan(whole, path),
        }
        replace_files(out, writers)
    except OSError as error:
        raise cannot_write(out, error) from None


def copy_code(out: Path, recipe: Recipe) -> None:
    """Copy the code that the plan of a folder of frames needs to its ``code``, with what the code imports.

    The frames can be planned and rendered again from the folder's plan and this code. Code of scenes, which a
    render does not need, is copied if it may run and is as it was planned.

    Args:
        out: the folder of frames, described.
        recipe: the recipe of the plan.

    Raises:
        InputError: the folder cannot be written.
    """
    folder = recipe.assets.get("code")
    library = AssetLibrary({} if folder is None else {CODE: folder})
    labels = [one.label for one in planned_assets(out / PLAN) if one.kind == CODE]
    for scene in (one.scene for one in recipe.sets.values() if one.scene is not None):
        if library.has(CODE, scene.code) and library.sha256(CODE, scene.code) == scene.sha256:
            labels.append(scene.code)
    files = {
        file.resolve().relative_to(folder.resolve()).as_posix(): file.read_bytes()
        for label in labels
        if folder is not None
        for file in local_files(library.find(CODE, label))
    }
    if not files or not find_changed_files(out / CODE_FOLDER, files):
        return
    try:
        for name in files:
            (out / CODE_FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        replace_files(
            out / CODE_FOLDER, {name: partial(Path.write_bytes, data=data) for name, data in files.items()}
        )
    except OSError as error:
        raise cannot_write(out, error) from None


def _refuse_foreign(plan: Plan, out: Path, damaged: bool, repair: bool) -> DatasetInfo | None:
    """Refuse a folder of other files or of another recipe; return the content of its ``dataset.json``."""
    info = found = None
    if (out / DATASET).exists() and not damaged:
        info = _unless_repaired(lambda: read_dataset_info(out), repair)
        found = (info.recipe, info.blender) if info else _source_of_samples(out)
    elif repair:
        found = _source_of_samples(out)
    elif foreign := sorted(path.name for path in out.iterdir() if not _is_ours(path)):
        lost = (
            f"; if these are frames without their {DATASET}, add {argument('repair')}"
            if "samples" in foreign
            else ""
        )
        raise InputError(
            f"output folder {out}: expected an empty folder or a folder of frames; name another{lost}"
        )
    if found is None:
        return info
    recipe, blender = found
    if recipe.sha256 != recipe_sha256(plan.recipe):
        raise InputError(
            f"output folder {out}: holds frames of another recipe ({recipe.name}, {recipe.sha256[:12]})"
            + _unlike_there(plan.recipe, out)
        )
    if blender != _blender(plan):
        known = f"Blender {blender}" if blender else "an unknown Blender"
        raise InputError(
            f"output folder {out}: holds frames of {known}, and this is Blender {_blender(plan)}; "
            "name another folder, or render with that version"
        )
    return info


def _unlike_there(recipe: Recipe, out: Path) -> str:
    """Say which fields of a recipe differ from the recipe of a folder of frames, and what to do."""
    there = _unless_repaired(lambda: planned_recipe(out / PLAN), repair=True)
    if there is None or there.name != recipe.name:
        return "; name another folder, or render that recipe"
    found = recipe_differences(there, recipe)
    fields = [
        f"the Python file of {field.removesuffix('.sha256')}, or a file that it imports, was changed since"
        if field.endswith(".scene.sha256")
        else f"{field} is {_short(old)} there and {_short(new)} here"
        for field, old, new in found[:_FIELDS_NAMED]
    ]
    more = [f"and {len(found) - _FIELDS_NAMED} more"] if len(found) > _FIELDS_NAMED else []
    return f": {', '.join([*fields, *more])}; name another folder, or undo the change"


def _short(value: Any) -> str:
    text = "not given" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def _refuse_edited(plan: Plan, out: Path, info: DatasetInfo | None, planned: Mapping[str, Any]) -> None:
    """Refuse a folder whose frames were made from other numbers, or other files under the same labels."""
    where = f"output folder {out}"
    library = AssetLibrary(plan.recipe.assets)
    if info is not None:
        check_assets(info.assets, library, where, "name another output folder")
    elif planned:
        check_assets(planned_assets(out / PLAN), library, where, "name another output folder")
    for sample in plan.samples:
        if planned.get(sample.id, (sample.group, sample.gain)) != (sample.group, sample.gain):
            raise InputError(
                f"{where}: the same recipe planned `{sample.id}` there with other numbers or files: a "
                f"light, a texture or a {ASSET_MANIFEST} was changed since; undo that or name another output "
                "folder"
            )


def _same_texts(plan: Plan, info: DatasetInfo | None) -> bool:
    recipe = plan.recipe
    if info is None or any(one.caption != recipe.sets[name].caption for name, one in info.sets.items()):
        return False
    return all(
        getattr(info, field) == getattr(recipe, field) for field in ("description", "licence", "statements")
    )


def _is_ours(path: Path) -> bool:
    return path.name in (RUN_LOCK_FILE, GROUP_LOCKS_FILE, NEXT_SUMS) or is_partial(path)


def _unless_repaired(read: Callable[[], _Value], repair: bool) -> _Value | None:
    """Read a file; return None if it is damaged and ``repair`` is true."""
    try:
        return read()
    except InputError:
        if not repair:
            raise
        return None


def _blender(plan: Plan) -> str | None:
    return blender_version() if is_traced(plan.recipe) else None


def _source_of_samples(out: Path) -> tuple[RecipeRecord, str | None] | None:
    """Return recipe and version of Blender of the samples in a folder; None if no sample can be read."""
    found = list(_first_samples(out))
    versions = [metadata.renderer.blender for metadata in found if metadata.renderer is not None]
    return (found[0].recipe, next(filter(None, versions), None)) if found else None


def _first_samples(out: Path) -> Iterator[Metadata]:
    """Yield metadata of the first sample of each set that can be read."""
    for path in sorted(out.glob("samples/*")):
        readable = (
            _unless_repaired(partial(read_metadata, sample), repair=True) for sample in path.glob("*/*")
        )
        if metadata := next(filter(None, readable), None):
            yield metadata
