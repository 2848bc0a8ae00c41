"""Resolve the materials of objects and of the floor; read images as textures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.generators.language.colour_texts import is_colour_text
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.material_spec import (
    TEXTURES,
    BuiltMaterial,
    Material,
    RandomMaterial,
)
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.plan_records import SURFACE, PartMaterial, PlacedFloor, PlacedMaterial
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError, blaming, within
from candlelight.loaders.files.safe_decoding import open_image
from candlelight.loaders.schema import Vector

PLAIN = "rgb"  # label of a material of one colour that the plan states
OWN = "own"  # label of the material of an object whose parts have the colours in its manifest
ABSENT = "absent"  # label in place of a material: the object, or the part, is not there
LONGEST_TEXTURE_SIDE = 2048  # pixels; a larger image fills memory and shows no more detail
_Wanted = str | Material | BuiltMaterial


def choose_material(
    wanted: _Wanted | None,
    kind: str,
    i: int,
    random_material: RandomMaterial,
    inputs: LayoutInputs,
    field: str = "layout.objects.material",
) -> PlacedMaterial:
    """Choose the material of object ``i``.

    Args:
        wanted: a label, a colour as a text, "own" for the colours in the asset's manifest or the materials
            that the object's function makes, "absent" for no object, a material in numbers or of own code,
            or None for a random material.
        kind: the object's label.
        i: number of the object in the scene.
        random_material: source of a random material.
        inputs: values and streams of the sample.
        field: path of the material in the set, for messages.

    Raises:
        InputError: there is no such asset, or "own" is asked of an asset without parts.
    """
    if wanted is None:
        return draw_material(random_material, inputs, str(i))
    if is_absent(wanted, inputs):
        return PlacedMaterial(label=ABSENT)
    if not isinstance(wanted, str) or inputs.fill(wanted) != OWN:
        return _named(wanted, field, inputs)
    if not is_code_label(kind) and not inputs.library.facts("objects", kind).get("parts"):
        raise InputError(
            f"{field}: `{OWN}` stands for the colours of the parts, and the manifest names no parts of "
            f"`{kind}`; name a material"
        )
    return PlacedMaterial(label=OWN)


def is_absent(wanted: _Wanted | None, inputs: LayoutInputs) -> bool:
    """Tell whether a recipe says `ABSENT` in place of a material."""
    return isinstance(wanted, str) and bool(inputs.fill(wanted) == ABSENT)


def choose_part_materials(
    wanted: dict[str, _Wanted],
    kind: str,
    material: PlacedMaterial,
    inputs: LayoutInputs,
    field: str = "layout.objects.parts",
) -> tuple[PartMaterial, ...]:
    """Choose the material of each part of an object.

    A part that the manifest attaches to an absent part (`attached_to`) is absent, too.

    Args:
        wanted: materials by part, a label or numbers; other parts have the object's material. `$name` may
            stand for a part, and "absent" as the part for none. "own" is the colour in the manifest.
        kind: the object's label.
        material: the object's material.
        inputs: values and streams of the sample.
        field: path of the parts in the set, for messages.

    Returns:
        The parts in the order of the manifest; none for an object without parts. Of an object of own code,
        whose parts only Blender knows, those that ``wanted`` names, sorted.

    Raises:
        InputError: the object has no such part, a part is named twice, or there is no such material.
    """
    wanted = _by_part(wanted, inputs, field)
    if is_code_label(kind):
        return tuple(
            PartMaterial(name=name, material=_of_part(wanted[name], f"{field}.{name}", inputs))
            for name in sorted(wanted)
        )
    parts = inputs.library.facts("objects", kind).get("parts", [])
    names = [part["name"] for part in parts]
    if unknown := wanted.keys() - set(names):
        raise InputError(
            f"{field}: `{min(unknown)}` is no part of `{kind}`; "
            f"expected some of: {', '.join(names) or 'none, it has no parts'}"
        )
    made_of: dict[str, PlacedMaterial] = {}
    for part in parts:
        name = part["name"]
        chosen = _of_part(wanted[name], f"{field}.{name}", inputs) if name in wanted else material
        own = chosen.label == OWN
        made_of[name] = PlacedMaterial(label=PLAIN, base_color=part["color"]) if own else chosen
    bearers = {part["name"]: part["attached_to"] for part in parts if part.get("attached_to")}
    for _ in bearers:  # as often as the longest chain of attached parts
        for name, bearer in bearers.items():
            if made_of[bearer].label == ABSENT:
                made_of[name] = made_of[bearer]
    return tuple(PartMaterial(name=name, material=made) for name, made in made_of.items())


def _by_part(wanted: Mapping[str, _Wanted], inputs: LayoutInputs, field: str) -> dict[str, _Wanted]:
    """Return materials by the names of parts that ``$name`` stands for, without the part "absent"."""
    found: dict[str, _Wanted] = {}
    for key, material in wanted.items():
        name = str(inputs.fill(key))
        if name in found:
            raise InputError(f"{field}: `{key}` is `{name}`, which is named already; name each part once")
        if name != ABSENT:
            found[name] = material
    return found


def _of_part(wanted: _Wanted, field: str, inputs: LayoutInputs) -> PlacedMaterial:
    label = inputs.fill(wanted) if isinstance(wanted, str) else ""
    return PlacedMaterial(label=label) if label in (OWN, ABSENT) else _named(wanted, field, inputs)


def _named(wanted: _Wanted, field: str, inputs: LayoutInputs) -> PlacedMaterial:
    if isinstance(wanted, Material):
        return _stated(wanted, inputs, field)
    if isinstance(wanted, BuiltMaterial):
        label = inputs.asset(CODE, wanted.build, f"{field}.build")
        return PlacedMaterial(label=label, numbers=inputs.arguments(wanted.numbers))
    label = str(inputs.fill(wanted))
    if is_code_label(label):
        return PlacedMaterial(label=inputs.asset(CODE, label, field))
    if is_colour_text(label) and not inputs.library.has("materials", label):
        return PlacedMaterial(label=PLAIN, base_color=inputs.color(label, field))
    return PlacedMaterial(label=inputs.asset("materials", wanted, field))


def _stated(stated: Material, inputs: LayoutInputs, field: str) -> PlacedMaterial:
    """Return the material that a recipe states in numbers."""
    texture = None if stated.texture is None else str(inputs.fill(stated.texture))
    image = texture is not None and _find_texture(texture, inputs.library, f"{field}.texture")
    if texture is not None and image != (stated.color_a is None):
        what = "an image, which has its own colours; expected no" if image else "no image; expected"
        raise InputError(f"{field}: `{texture}` is {what} `color_a` and `color_b`")

    def color(name: str) -> Vector | None:
        wanted = getattr(stated, name)
        return None if wanted is None else inputs.color(wanted, f"{field}.{name}", highest=1.0)

    return PlacedMaterial(
        label=texture or PLAIN,
        image=image,
        base_color=color("base_color"),
        color_a=color("color_a"),
        color_b=color("color_b"),
        offset=stated.offset,
        scale=stated.scale,
        **inputs.numbers(stated, field, *(name for name in SURFACE if getattr(stated, name) is not None)),
    )


def draw_material(
    random_material: RandomMaterial,
    inputs: LayoutInputs,
    name: str,
    field: str = "layout.random_material",
) -> PlacedMaterial:
    """Draw a material: the numbered variation of the unit, the same at every call.

    Args:
        random_material: materials to draw from; without ``textures`` all textures of the user's folder, or
            else all shipped ones.
        inputs: values and streams of the sample.
        name: the number of the object, or "floor".
        field: path of the field in the set, for messages.

    Raises:
        InputError: ``texturing`` is neither "rgb" nor "textured", or there is no such texture.
    """
    texturing = str(inputs.fill(random_material.texturing))
    variation = inputs.whole(random_material.variation, f"{field}.variation")
    if texturing not in (PLAIN, "textured"):
        raise InputError(f"{field}.texturing: expected rgb or textured, got `{texturing}`")
    # The name of the stream decides the numbers: it stays.
    rng = inputs.stream(f"appearance/{texturing}/{variation}/{name}")

    def color() -> Vector:
        red, green, blue = (
            srgb_to_linear(rng.uniform(random_material.low, random_material.high, 3)).round(6).tolist()
        )
        return red, green, blue

    if texturing == PLAIN:
        return PlacedMaterial(label=PLAIN, base_color=color())
    textures = random_material.textures or _all_textures(inputs.library)
    label = textures[int(rng.integers(len(textures)))]
    image = _find_texture(label, inputs.library, f"{field}.textures")
    x, y, z = rng.uniform(-10.0, 10.0, 3).round(6).tolist()
    scale = round(float(rng.uniform(0.7, 1.8)), 6)
    if image:
        return PlacedMaterial(label=label, image=True, offset=(x, y, z), scale=scale)
    return PlacedMaterial(label=label, color_a=color(), color_b=color(), offset=(x, y, z), scale=scale)


def place_floor(layout: Scene, inputs: LayoutInputs) -> PlacedFloor | None:
    """Resolve the floor of a layout.

    Raises:
        InputError: the half width is no positive number, there is no such material, or it cannot be drawn.
    """
    spec = layout.floor
    if spec is None:
        return None
    half_width = inputs.numbers(spec, "layout.floor", "half_width")
    material = None
    if spec.random_material is not None:
        drawn = draw_material(spec.random_material, inputs, "floor", "layout.floor.random_material")
        material = drawn.model_copy(update={"specular": 0.0})
    wanted, field = inputs.chosen(spec.material, "layout.floor.material")
    if wanted is not None:
        material = _named(wanted, field, inputs)
    color = inputs.color(spec.base_color, "layout.floor.base_color", highest=1.0)
    return PlacedFloor(catcher=spec.catcher, base_color=color, material=material, **half_width)


def _find_texture(label: str, library: AssetLibrary, field: str) -> bool:
    """Look a texture up, and tell whether it is an image, which is then checked, or a .blend file."""
    with within(field):
        path = library.find("textures", label)
    if image := path.suffix != ".blend":
        check_texture_image(path)
    return image


def _all_textures(library: AssetLibrary) -> Sequence[str]:
    if not library.has_folder("textures"):
        return TEXTURES
    labels = library.labels("textures")
    if not labels:
        raise InputError(
            "assets.textures: the folder holds no texture; expected .blend files, images, or images in "
            "folders of their class (images/CLASS/NAME.jpg)"
        )
    return labels


@cache
def check_texture_image(path: Path) -> None:
    """Check that an image can be read, at a small part of the cost of reading it.

    Raises:
        InputError: it is damaged, neither JPEG nor PNG, or claims more pixels than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    with _opened(path) as image:
        image.draft("RGB", (16, 16))  # a JPEG is decoded at an eighth of its size
        image.load()


def read_texture(path: Path) -> Float32[ndarray, "side side 3"]:
    """Read the central square of an image as linear colour.

    The file is taken to be sRGB, whatever profile it carries. A side above `LONGEST_TEXTURE_SIDE` is
    divided by the smallest whole number that brings it below; each pixel is the mean of a square of encoded
    values. Transparency and the orientation in EXIF data are ignored.

    Args:
        path: a JPEG or PNG file.

    Returns:
        Scene-linear Rec.709 values in [0, 1], first row on top.

    Raises:
        InputError: it is damaged, neither JPEG nor PNG, or claims more pixels than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    with _opened(path) as image:
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        square = image.convert("RGB").crop((left, top, left + side, top + side))
        encoded = np.asarray(square.reduce(-(-side // LONGEST_TEXTURE_SIDE)), np.float32) / np.float32(255)
    return srgb_to_linear(encoded)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an image file; refuse a broken one in one line."""
    with (
        blaming(f"texture {path}: cannot be read", "replace or remove it"),
        open_image(path.read_bytes(), ("JPEG", "PNG")) as image,
    ):
        yield image
