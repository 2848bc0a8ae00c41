"""Folders of assets: list them, scan them for the manifests that plans need, open them to check a plan."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from candlelight.blender_assets import ASSET_SUFFIXES, AssetLibrary, shipped
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    manifest_entry,
    read_asset_manifest,
    write_asset_manifest,
)
from candlelight.generators.engine.blender_version import how_to_render
from candlelight.generators.engine.helper_process import run_helper
from candlelight.generators.planning.plan import Plan
from candlelight.generators.scenes.plan_records import Trace
from candlelight.loaders.errors import InputError
from candlelight.loaders.licences import is_known

_UNKNOWN = "the user's own; not stated"  # licence of an asset without a stated one

_Assets = dict[str, Path]  # files by label
_Label = tuple[str, str]  # kind and label
_Use = tuple[_Label, tuple[int | str, ...]]  # an asset, and how a plan uses it


@dataclass(frozen=True)
class ScannedAssets:
    """One written manifest: its path, its entries, and notes as lines ``file: note``."""

    manifest: Path
    entries: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def scan_assets(
    folder: Path,
    kind: str | None = None,
    time_limit: float = 600.0,
    *,
    licence: str | None = None,
    source: str | None = None,
) -> tuple[ScannedAssets, ...]:
    """Open the assets of folders as `render` would, and write their manifests.

    The .blend files hold one asset each, named like the file, and follow the convention of CANDLE's generator
    (Reddy et al., AAAI 2022, supplement section 3): an object of one metre width with its origin at its base;
    a material whose surface is a Principled BSDF; a point light at its location; a scene with a world and
    optionally a camera called ``Camera``. Scenes may also be environment maps, and textures images. The files
    do not change. Blender reads them in a process of its own and runs none of their scripts.

    Args:
        folder: a folder with one folder for each kind, or the folder of one kind.
        kind: kind of the assets in ``folder``, if the folder's name does not say it.
        time_limit: seconds for the files of one kind.
        licence: licence, such as "CC-BY-4.0", of the assets whose licence is not known yet.
        source: source of the assets whose source is not stated yet.

    Returns:
        A manifest for each kind. Known licences and sources of a previous manifest are kept, and the turn and
        strength of environment maps.

    Raises:
        InputError: there is no file, Blender is not installed, or a file cannot be rendered; then no manifest
            is written.

    Example:
        >>> scan_assets(Path("nowhere"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: there is no such folder
    """
    folders = _folders(folder, kind)
    found = {name: _assets(name, path) for name, path in folders.items()}
    if not any(found.values()):
        kinds = "; ".join(f"{name}: {', '.join(_suffixes(name))}" for name in folders)
        raise InputError(f"{folder}: there is no asset in it; expected files of {kinds}")
    answers = {name: _scan_files(name, assets, time_limit) for name, assets in found.items() if assets}
    stated = {"licence": licence, "source": source}
    return tuple(_write_manifest(name, folders[name], found[name], answers[name], stated) for name in answers)


def _folders(folder: Path, kind: str | None) -> dict[str, Path]:
    """Map kinds to the folders to scan."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    if kind is not None:
        return {kind: folder}
    found = {name: folder / name for name in ASSET_SUFFIXES if (folder / name).is_dir()}
    return found or {_only_kind(folder): folder}


def _only_kind(folder: Path) -> str:
    """Tell the kind of the assets in the folder of one kind, by its manifest or by its name."""
    manifest = folder / ASSET_MANIFEST
    stated = {kind for kind, _ in read_asset_manifest(manifest)} if manifest.is_file() else set()
    own = stated.pop() if len(stated) == 1 else folder.absolute().name
    if own not in ASSET_SUFFIXES:
        raise InputError(
            f"{folder}: expected folders {', '.join(ASSET_SUFFIXES)} in it, found none; "
            "if it holds assets itself, name their kind with --kind"
        )
    return own


def _suffixes(kind: str) -> tuple[str, ...]:
    return (*ASSET_SUFFIXES[kind], ".jpg", ".png") if kind == "textures" else ASSET_SUFFIXES[kind]


def _assets(kind: str, folder: Path) -> _Assets:
    library = AssetLibrary({kind: folder})
    return {label: library.find(kind, label) for label in library.labels(kind)}


def _scan_files(kind: str, assets: _Assets, time_limit: float) -> list[dict[str, Any]]:
    """Scan files in a process of its own; raise an error for the first file that cannot be used."""
    if find_spec("bpy") is None:
        raise InputError(f"scanning assets needs bpy, not installed here; {how_to_render()}")
    paths = list(assets.values())
    request = [(kind, label, str(path.absolute())) for label, path in assets.items()]
    late = f"{paths[0].parent}: not scanned within {time_limit:g} s"
    answer = run_helper("candlelight.generators.blender.scan_file", request, time_limit, late)
    errors = [reply["error"] for reply in answer.replies if "error" in reply]
    if errors:
        rest = f" (and {len(errors) - 1} more files)" if len(errors) > 1 else ""
        raise InputError(f"{kind}/{errors[0]}{rest}; no manifest was written")
    if len(answer.replies) < len(paths):
        raise InputError(
            f"{kind}/{paths[len(answer.replies)].name}: Blender ended with status {answer.status} "
            f"({answer.last}); no manifest was written"
        )
    return list(answer.replies)


def _write_manifest(
    kind: str,
    folder: Path,
    assets: _Assets,
    answers: list[dict[str, Any]],
    stated: dict[str, str | None],
) -> ScannedAssets:
    target = folder / ASSET_MANIFEST
    try:
        before = read_asset_manifest(target) if target.exists() else {}
    except InputError:
        before = {}  # a malformed manifest is replaced
    # Entries of other files stay, except those of .blend files that are gone.
    others = {key: entry for key, entry in before.items() if not entry["file"].endswith(".blend")}
    entries = [entry for (_, label), entry in others.items() if label not in assets]
    for (label, path), answer in zip(assets.items(), answers, strict=True):
        known = before.get((kind, label), {})
        # A map keeps the turn and strength that its manifest states.
        facts = answer["facts"] if path.suffix == ".blend" else {**known.get("facts", {}), **answer["facts"]}
        entry = manifest_entry(
            kind, path, folder, **_stated(known, stated), blender=answer["blender"], facts=facts
        )
        entries.append({**entry, "name": label})
    write_asset_manifest(target, entries)
    notes = [
        f"{kind}/{path.name}: {note}"
        for path, answer in zip(assets.values(), answers, strict=True)
        for note in answer["notes"]
    ]
    return ScannedAssets(target, tuple(entries), tuple(notes))


def _stated(known: dict[str, Any], stated: dict[str, str | None]) -> dict[str, str]:
    """Choose licence and source of an asset: those of its previous entry if they say something."""
    licence, source = known.get("licence", _UNKNOWN), known.get("source", "")
    return {
        "licence": licence if is_known(licence) else stated["licence"] or licence,
        "source": stated["source"] or source if source in ("", _UNKNOWN) else source,
    }


def open_assets(plan: Plan, time_limit: float = 600.0) -> int | None:
    """Open in Blender the files of the user's folders that a plan uses, as `render` does before it traces.

    Functions of own code are called, with the arguments of one sample.

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
    late = f"assets: not opened within {time_limit:g} s; use smaller files"
    answer = run_helper("candlelight.generators.blender.show_traces", request, time_limit, late)
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
        if kind == CODE or (path.parent != shipped() / kind and path.suffix in ASSET_SUFFIXES[kind])
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
    uses: set[_Use] = {
        ((CODE if is_code_label(one.type) else "objects", one.type), (len(one.parts),))
        for one in trace.objects
    }
    for material in materials:
        surface = (*material.surface(),)
        uses |= {((kind, material.label), surface) for kind in ("materials", "textures", CODE)}
    if trace.environment is not None:
        uses.add((("scenes", trace.environment.scene), (trace.environment.modelled,)))
    return {use for use in uses if use[0] in own}


def list_assets(folder: Path | None = None, kind: str | None = None) -> Iterator[str]:
    """Describe assets as lines of text: a heading for each kind, and a line for each asset.

    Args:
        folder: a folder that holds a folder for each kind, or the folder of one kind; by default the shipped
            library.
        kind: the only kind to list, one of `candlelight.blender_assets.ASSET_SUFFIXES`; by default all.

    Yields:
        Headings, and the label of each asset with its facts, licence and source. Dimensions of objects are in
        metres at size 1.

    Raises:
        InputError: the folder does not exist or holds no assets of these kinds, or a manifest is malformed or
            describes another file.

    Example:
        >>> next(line for line in list_assets() if line.startswith("  arch"))
        '  arch       1.00 x 0.35 x 0.80 m  CC0-1.0  built by scripts/assets/build.py'
    """
    for name, path in _folders_by_kind(folder, kind).items():
        library = AssetLibrary({name: path} if folder else {})
        labels = library.labels(name)
        width = max(map(len, labels), default=0)
        yield f"{name}: {len(labels)} in {path}"
        yield from (f"  {label:{width}}  {_describe(library.entry(name, label))}" for label in labels)


def _folders_by_kind(folder: Path | None, kind: str | None) -> dict[str, Path]:
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    kinds = tuple(ASSET_SUFFIXES) if kind is None else (kind,)
    found = {name: (folder or shipped()) / name for name in kinds}
    found = {name: path for name, path in found.items() if path.is_dir()}
    if folder is not None and not found:
        found = {kind or _only_kind(folder): folder}
    return found


def _describe(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "not in a manifest"
    facts = ", ".join(_facts(entry["facts"]))
    return "  ".join(text for text in (facts, entry["licence"], entry["source"]) if text)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the facts of `asset_manifest.AssetFacts` that are recorded, with their units."""
    if "dimensions" in facts:
        yield " x ".join(f"{side:.2f}" for side in facts["dimensions"]) + " m"
    if "parts" in facts:
        yield f"parts {' '.join(part['name'] for part in facts['parts'])}"
    if "location" in facts:
        yield f"at {_numbers(facts['location'])} m"
    for name, unit in (("power", " W"), ("radius", " m"), ("rotation", " degrees"), ("strength", "")):
        if name in facts:
            yield f"{name} {facts[name]:g}{unit}"
    for name in ("color", "base_color"):
        if name in facts:
            yield f"{name} {_numbers(facts[name])}"
    if "modelled" in facts:
        yield "modelled" if facts["modelled"] else "environment map"


def _numbers(values: list[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)})"
