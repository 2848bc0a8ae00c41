"""The captures of one object: the frames that its intrinsic images are made from, and both ways to do it."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from loaders.errors import InputError
from loaders.exports.intrinsic_images import Captures, Intrinsic, Mask, difference, from_captures, from_passes
from loaders.mixed_edges import mixed_edges
from loaders.samples import Frame, Frames
from loaders.schema import Record, array_sha256

FACTORS = ("item", "light", "material")
MAIN, SECOND = "main", "second"  # the fixed lights: that of all images, and the other one of equation 5
OWN, UNIFORM = "own", "uniform"  # paints: the object's, and its twin's
NEEDED = ("albedo", "shading", "residual", "object")

Rows = dict[tuple[str, str, str], int]  # by item, light and paint
Views = dict[tuple[str, str], Frame]  # by light and paint


class Comparison(Record):
    """How far the images made as the paper makes them are from those of the passes, within the outline.

    `loaders.exports.intrinsic_images.difference` of reflectance and of shading, and the same with nothing but
    the light that comes straight from the lamp; ``bounced`` is the share of all other light in the shading.
    The last three are None where the frames have no ``shading_direct``.
    """

    reflectance: float
    shading: float
    reflectance_direct: float | None = None
    shading_direct: float | None = None
    bounced: float | None = None


def labels(frames: Frames) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the items and the lights beside the fixed ones, all of them file names.

    Raises:
        InputError: a factor or layer is missing, or a label is no file name.
    """
    factors = {
        factor.name: [str(value) for value in factor.values or ()] for factor in frames.set_info.factors
    }
    if lacking := [name for name in FACTORS if not factors.get(name)]:
        raise InputError(
            f"set `{frames.set_name}`: expected the categorical factors {', '.join(FACTORS)}, got no "
            f"{', '.join(lacking)}; export frames of the recipe `captures`"
        )
    if lacking := [name for name in NEEDED if name not in frames.layers]:
        raise InputError(
            f"set `{frames.set_name}` has no layer {', '.join(lacking)}; render with `layers` that do"
        )
    further = tuple(light for light in factors["light"] if light not in (MAIN, SECOND))
    for light in further:
        if not re.fullmatch(r"light\d\d", light, re.ASCII):
            raise InputError(f"light `{light}`: expected {MAIN}, {SECOND} or light01, light02 and so on")
    for name in factors["item"]:
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise InputError(
                f"item `{name}`: expected letters, digits, `_`, `-` and `.`, for it names a folder"
            )
    return tuple(factors["item"]), further


def find_views(frames: Frames, items: Sequence[str], lights: Sequence[str]) -> Rows:
    """Find the frames that are needed: each item in each light, and its twin in the two fixed ones.

    Raises:
        InputError: one is missing; the message names it.
    """
    rows: Rows = {}
    for row in range(len(frames)):
        item, light, paint = (str(frames.metadata(row).factors[factor]) for factor in FACTORS)
        rows[item, light, paint] = row
    own = [(light, OWN) for light in (MAIN, SECOND, *lights)]
    needed = [(item, *view) for item in items for view in (*own, (MAIN, UNIFORM), (SECOND, UNIFORM))]
    for item, light, paint in needed:
        if (item, light, paint) not in rows:
            raise InputError(
                f"set `{frames.set_name}`: `{item}` has no complete frame with light `{light}` and material "
                f"`{paint}`; render the whole set, or fewer objects with "
                f"--set sets.{frames.set_name}.factors.item.values=[...]"
            )
    return {key: rows[key] for key in needed}


def read_views(frames: Frames, rows: Rows, item: str) -> Views:
    """Read the frames of one item, comparing each layer with its hash.

    Raises:
        InputError: one is damaged, or they do not have the same outline.
    """
    views = {(light, paint): frames.frame(row) for (name, light, paint), row in rows.items() if name == item}
    for frame in views.values():
        for name, array in frame.layers.items():
            if array_sha256(array) != frame.metadata.layers.get(name):
                raise InputError(
                    f"`{frame.metadata.id}`: layer `{name}` differs from its hash; render or pack it again"
                )
    outline = views[MAIN, OWN].layers["object"]
    for (light, paint), frame in views.items():
        if not np.array_equal(frame.layers["object"], outline):
            raise InputError(
                f"set `{frames.set_name}`: `{item}` has another outline with light `{light}` and material "
                f"`{paint}`; name `item` alone in the recipe's `unit_factors`, and "
                "let nothing else change within it"
            )
    return views


def by_paper(views: Views, mask: Mask, shading: str = "shading") -> Intrinsic:
    """Derive the intrinsic images of an item as `from_captures` does.

    No polariser exists in a render: with diffuse light D and gloss G the original is D + 2 G, so that
    equation 4 returns G.
    """

    def captures(light: str) -> Captures:
        own, twin = views[light, OWN], views[light, UNIFORM]
        lambertian = diffuse(own, mask, shading)
        return Captures(
            original=lambertian + 2 * _linear(own, "residual", mask),
            lambertian=lambertian,
            uniform=diffuse(twin, mask, shading),
        )

    return from_captures(captures(MAIN), captures(SECOND))


def by_passes(views: Views, mask: Mask, shading: str = "shading") -> Intrinsic:
    """Take the intrinsic images of an item from its frame in the main light, as `from_passes` does."""
    frame = views[MAIN, OWN]
    return from_passes(*(_linear(frame, layer, mask) for layer in ("albedo", shading, "residual")))


def diffuse(frame: Frame, mask: Mask, shading: str = "shading") -> Float64[ndarray, "height width 3"]:
    """Return the diffuse radiance of a frame, 0 outside the mask."""
    return _linear(frame, "albedo", mask) * _linear(frame, shading, mask)


def _linear(frame: Frame, layer: str, mask: Mask) -> Float64[ndarray, "height width 3"]:
    return np.where(mask[..., None], frame.layers[layer].astype(np.float64).clip(min=0), 0.0)


def compare(views: Views, mask: Mask, paper: Intrinsic, passes: Intrinsic) -> Comparison:
    """Say how far the two ways are apart within the outline.

    Args:
        views: the frames of an item.
        mask: its pixels.
        paper: what `by_paper` made of them.
        passes: what `by_passes` made of them.
    """
    # Along the outline a pixel also shows the ground, which the two ways count differently.
    inside = mask & ~mixed_edges(views[MAIN, OWN].layers["object"])
    inside = inside if inside.any() else mask

    def differences(paper: Intrinsic, passes: Intrinsic) -> tuple[float, float]:
        lit = inside & paper.reflectance.any(axis=-1)
        return (
            difference(paper.reflectance, passes.reflectance, lit),
            difference(paper.shading, passes.shading, inside),
        )

    reflectance, shading = differences(paper, passes)
    if "shading_direct" not in views[MAIN, OWN].layers:
        return Comparison(reflectance=reflectance, shading=shading)
    straight = by_passes(views, mask, "shading_direct")
    light, direct = (float(image.shading[inside].sum()) for image in (passes, straight))
    reflectance_direct, shading_direct = differences(by_paper(views, mask, "shading_direct"), straight)
    return Comparison(
        reflectance=reflectance,
        shading=shading,
        reflectance_direct=reflectance_direct,
        shading_direct=shading_direct,
        bounced=1 - direct / light if light > 0 else 0.0,
    )
