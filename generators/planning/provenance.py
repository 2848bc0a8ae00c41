"""Record the asset files that a plan needs, with hash and licence, and refuse edited ones."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.generators.scenes.object_materials import ABSENT, OWN, PLAIN
from candlelight.generators.scenes.plan_records import PlacedMaterial, SamplePlan, Trace
from candlelight.loaders.errors import InputError, argument, within
from candlelight.loaders.schema import AssetKind, AssetRecord


def used_assets(traces: Iterable[Trace], library: AssetLibrary) -> tuple[AssetRecord, ...]:
    """List the objects, materials, textures, scenes and code of some traces, by kind and label.

    Assets of lights are not listed, because a plan holds all their numbers and their files are not rendered.

    Args:
        traces: the traces.
        library: where assets are found.

    Raises:
        InputError: an asset is not found, or its manifest describes another file.

    Example:
        >>> from candlelight.generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("candle"), limit=1)
        >>> [asset.label for asset in used_assets([plan.samples[0].trace], AssetLibrary())]
        ['yellow', 'cone', 'hall']
    """
    used = {asset for trace in traces for asset in _assets(trace, partial(library.has, "materials"))}
    return tuple(_record(kind, label, library) for kind, label in sorted(used))


def shown_assets(traces: Iterable[Trace], records: Iterable[AssetRecord]) -> tuple[AssetRecord, ...]:
    """Choose the recorded assets that are used in some traces.

    Raises:
        InputError: a trace uses an asset that was not recorded.
    """
    known = {(record.kind, record.label): record for record in records}
    used = {
        asset for trace in traces for asset in _assets(trace, lambda label: ("materials", label) in known)
    }
    for kind, label in sorted(used - known.keys()):
        raise InputError(f"the plan uses `{label}` of {kind} but holds no hash of it; plan again")
    return tuple(known[asset] for asset in sorted(used))


class EditedAssetError(InputError):
    """An asset file differs from the file that a sample was planned with."""


def group_id(set_name: str, trace: Trace, library: AssetLibrary) -> str:
    """Return the id of a trace group: a hash of the numbers of its trace and the content of its assets.

    Samples of a set with equal ids share one trace. The render process computes the id again from the files
    that it reads, so that a label never stands for two contents in one folder of frames.

    Args:
        set_name: the set, whose settings the trace is rendered with.
        trace: the numbers of the trace.
        library: where assets are found.

    Returns:
        16 hexadecimal digits.

    Raises:
        InputError: an asset is not found.
    """
    is_material = partial(library.has, "materials")
    used = {f"{kind}/{label}": library.sha256(kind, label) for kind, label in _assets(trace, is_material)}
    text = json.dumps([set_name, trace.model_dump(mode="json"), used], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_group(group: Sequence[SamplePlan], library: AssetLibrary) -> None:
    """Refuse samples whose numbers or assets do not match the id of their trace group.

    Args:
        group: samples that are to share one trace.
        library: where assets are found now.

    Raises:
        ValueError: the numbers of the samples differ, because the plan was edited.
        EditedAssetError: an asset differs from the file that the samples were planned with, or is missing.
    """
    first = group[0]
    if any(
        (sample.set, sample.trace, sample.group) != (first.set, first.trace, first.group) for sample in group
    ):
        raise ValueError(f"trace group `{first.group}` has samples with different numbers; plan again")
    try:
        same = group_id(first.set, first.trace, library) == first.group
    except InputError as error:
        raise EditedAssetError(str(error)) from None
    if not same:
        raise EditedAssetError(
            f"numbers or assets of `{first.id}` differ from the plan of its trace group; restore the asset "
            "files, or plan again for another output folder"
        )


def check_assets(records: Iterable[AssetRecord], library: AssetLibrary, where: str, otherwise: str) -> None:
    """Refuse assets whose content differs from their records.

    Args:
        records: the recorded assets.
        library: where assets are found now.
        where: the plan or folder that holds the records, for the message.
        otherwise: the remedy if the asset was edited on purpose, for the message.

    Raises:
        InputError: an asset is missing, or has another content.
    """
    for record in records:
        if not library.has(record.kind, record.label):
            if record.kind == CODE:
                with within(where):
                    library.find(record.kind, record.label)  # says how to allow it
            raise InputError(
                f"{where} needs `{record.label}` of {record.kind}, which was not found; name its folder: "
                f"{argument('assets')} {record.kind}=FOLDER"
            )
        now = library.sha256(record.kind, record.label)
        if now != record.sha256:
            elsewhere = f"name its folder with {argument('assets')} {record.kind}=FOLDER, or "
            raise InputError(
                f"{where} was made with another `{record.label}` of {record.kind} (SHA-256 "
                f"{record.sha256[:12]}, the file now {now[:12]}); restore that file, "
                f"{'or ' if record.kind == CODE else elsewhere}{otherwise}"
            )


def _assets(trace: Trace, is_material: Callable[[str], bool]) -> Iterator[tuple[AssetKind, str]]:
    materials = [one.material for one in trace.objects]
    materials += [part.material for one in trace.objects for part in one.parts]
    if trace.floor is not None and trace.floor.material is not None:
        materials.append(trace.floor.material)
    for one in trace.objects:
        yield ("code" if is_code_label(one.type) else "objects"), one.type
    yield from (_kind_and_label(material, is_material) for material in materials if _is_file(material))
    if trace.environment is not None and trace.environment.scene:
        yield "scenes", trace.environment.scene


def _is_file(material: PlacedMaterial) -> bool:
    """Tell whether a material is a file, not a colour of the recipe or the object's own materials."""
    return material.image or material.label not in (PLAIN, OWN, ABSENT)


def _kind_and_label(material: PlacedMaterial, is_material: Callable[[str], bool]) -> tuple[AssetKind, str]:
    # The renderer looks assets up in the same way: images are textures, other labels materials first.
    if is_code_label(material.label):
        return "code", material.label
    plain = not material.image and is_material(material.label)
    return "materials" if plain else "textures", material.label


def _record(kind: AssetKind, label: str, library: AssetLibrary) -> AssetRecord:
    entry = library.entry(kind, label) or {}
    known = {field: entry[field] for field in ("licence", "source") if field in entry}
    return AssetRecord(kind=kind, label=label, sha256=library.sha256(kind, label), **known)
