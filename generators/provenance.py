"""Which files of the libraries show in the pictures of a plan, and under what licence."""

from collections.abc import Iterable, Iterator

from blender_assets import AssetLibrary
from generators.appearance import OWN, PLAIN
from generators.scene import Material, Trace
from loaders.schema import AssetRecord
from loaders.verification.checksums import file_sha256


def used_assets(traces: Iterable[Trace], library: AssetLibrary) -> tuple[AssetRecord, ...]:
    """List the objects, materials, textures and scenes of some traces, by kind and label.

    Lamps are not among them: a plan holds their numbers, and nothing of a file is rendered.

    Args:
        traces: what is traced.
        library: where assets are found.

    Raises:
        InputError: an asset is not to be found, or is not what the manifest beside it says.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("candle"), limit=1)
        >>> [asset.label for asset in used_assets([plan.samples[0].trace], AssetLibrary())]
        ['yellow', 'cone', 'hall']
    """
    used = {asset for trace in traces for asset in _assets(trace, library)}
    return tuple(_record(kind, label, library) for kind, label in sorted(used))


def _assets(trace: Trace, library: AssetLibrary) -> Iterator[tuple[str, str]]:
    materials = [thing.material for thing in trace.objects]
    materials += [part.material for thing in trace.objects for part in thing.parts]
    if trace.floor is not None and trace.floor.material is not None:
        materials.append(trace.floor.material)
    yield from (("objects", thing.type) for thing in trace.objects)
    yield from (_kind_and_label(material, library) for material in materials if _is_file(material))
    if trace.environment is not None and trace.environment.map:
        yield "scenes", trace.environment.map


def _is_file(material: Material) -> bool:
    """Tell a file of a library from a stated colour, and from "own", which stands for those of the parts."""
    return material.image or material.label not in (PLAIN, OWN)


def _kind_and_label(material: Material, library: AssetLibrary) -> tuple[str, str]:
    # As the renderer looks them up: a picture is a texture, and any other label a material first.
    plain = not material.image and library.has("materials", material.label)
    return "materials" if plain else "textures", material.label


def _record(kind: str, label: str, library: AssetLibrary) -> AssetRecord:
    path, entry = library.find(kind, label), library.entry(kind, label)
    if entry is None:
        return AssetRecord(kind=kind, label=label, sha256=file_sha256(path))
    known = {field: entry[field] for field in ("licence", "source", "sha256")}
    return AssetRecord(kind=kind, label=label, **known)
