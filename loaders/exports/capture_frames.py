"""Find the frames of one object under its lights, and make its intrinsic images from them in two ways."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.intrinsic_images import (
    Captures,
    Intrinsic,
    ObjectMask,
    difference,
    from_captures,
    from_passes,
)
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.samples import Frame, Frames
from candlelight.loaders.schema import Record, array_sha256

_FACTORS = ("item", "light", "material")
MAIN, SECOND = "main", "second"  # the fixed lights: of all images, and the second light of equation 5
OWN, UNIFORM = "own", "uniform"  # materials: the object's own, and uniform reflectance
_NEEDED_LAYERS = ("albedo", "shading", "residual", "object")

CaptureRows = dict[tuple[str, str, str], int]  # by item, light and paint
CaptureFrames = dict[tuple[str, str], Frame]  # by light and paint


class IntrinsicDifferences(Record):
    """Differences between intrinsic images by the paper's equations and from passes, within the outline.

    Each number is `candlelight.loaders.exports.intrinsic_images.difference`. ``reflectance_direct`` and
    ``shading_direct`` count only light that comes straight from a light source; ``bounced`` is the share of
    all other light in the shading. The last three are None where the frames have no ``shading_direct``.
    """

    reflectance: float
    shading: float
    reflectance_direct: float | None = None
    shading_direct: float | None = None
    bounced: float | None = None


def items_and_lights(frames: Frames) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the items and the lights other than the two fixed ones; each is a valid file name.

    Raises:
        InputError: a factor or layer is missing, or a label cannot name a file.
    """
    factors = {
        factor.name: [str(value) for value in factor.values or ()] for factor in frames.set_info.factors
    }
    if lacking := [name for name in _FACTORS if not factors.get(name)]:
        raise InputError(
            f"set `{frames.set_name}`: expected the categorical factors {', '.join(_FACTORS)}, got no "
            f"{', '.join(lacking)}; export frames of the recipe `captures`"
        )
    if lacking := [name for name in _NEEDED_LAYERS if name not in frames.layers]:
        raise InputError(
            f"set `{frames.set_name}` has no layer {', '.join(lacking)}; name it in `layers` and render"
        )
    further = tuple(light for light in factors["light"] if light not in (MAIN, SECOND))
    for light in further:
        if not re.fullmatch(r"light\d\d", light, re.ASCII):
            raise InputError(f"light `{light}`: expected {MAIN}, {SECOND} or light01, light02 and so on")
    for name in factors["item"]:
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise InputError(
                f"item `{name}`: expected letters, digits, `_`, `-` and `.`, because it names a folder"
            )
    return tuple(factors["item"]), further


def find_captures(frames: Frames, items: Sequence[str], lights: Sequence[str]) -> CaptureRows:
    """Find the rows of each item: its own paint in every light, the uniform paint in the two fixed lights.

    Raises:
        InputError: a frame is missing; the message names it.
    """
    rows: CaptureRows = {}
    for row in range(len(frames)):
        item, light, paint = (str(frames.metadata(row).factors[factor]) for factor in _FACTORS)
        rows[item, light, paint] = row
    own = [(light, OWN) for light in (MAIN, SECOND, *lights)]
    needed = [(item, *key) for item in items for key in (*own, (MAIN, UNIFORM), (SECOND, UNIFORM))]
    for item, light, paint in needed:
        if (item, light, paint) not in rows:
            raise InputError(
                f"set `{frames.set_name}`: `{item}` has no complete frame with light `{light}` and material "
                f"`{paint}`; render the whole set, or fewer objects with "
                f"--set sets.{frames.set_name}.factors.item.values=[...]"
            )
    return {key: rows[key] for key in needed}


def read_captures(frames: Frames, rows: CaptureRows, item: str) -> CaptureFrames:
    """Read the frames of one item, and compare each layer with its hash.

    Raises:
        InputError: a frame is damaged, or the frames do not share one outline.
    """
    captured = {
        (light, paint): frames.frame(row) for (name, light, paint), row in rows.items() if name == item
    }
    for frame in captured.values():
        for name, array in frame.layers.items():
            if array_sha256(array) != frame.metadata.layers.get(name):
                raise InputError(
                    f"`{frame.metadata.id}`: layer `{name}` differs from its hash; render or pack it again"
                )
    outline = captured[MAIN, OWN].layers["object"]
    for (light, paint), frame in captured.items():
        if not np.array_equal(frame.layers["object"], outline):
            raise InputError(
                f"set `{frames.set_name}`: `{item}` has another outline with light `{light}` and material "
                f"`{paint}`; name `item` alone in the recipe's `unit_factors`, and "
                "let nothing else change within it"
            )
    return captured


def by_paper(captured: CaptureFrames, mask: ObjectMask, shading: str = "shading") -> Intrinsic:
    """Derive the intrinsic images of an item by `from_captures`.

    A render has no polariser. Its original is D + 2 G of diffuse light D and gloss G, so that equation 4
    returns G.
    """

    def captures(light: str) -> Captures:
        own, uniform = captured[light, OWN], captured[light, UNIFORM]
        lambertian = diffuse(own, mask, shading)
        return Captures(
            original=lambertian + 2 * _linear(own, "residual", mask),
            lambertian=lambertian,
            uniform=diffuse(uniform, mask, shading),
        )

    return from_captures(captures(MAIN), captures(SECOND))


def by_passes(captured: CaptureFrames, mask: ObjectMask, shading: str = "shading") -> Intrinsic:
    """Take the intrinsic images of an item from its frame in the main light, by `from_passes`."""
    frame = captured[MAIN, OWN]
    return from_passes(*(_linear(frame, layer, mask) for layer in ("albedo", shading, "residual")))


def diffuse(frame: Frame, mask: ObjectMask, shading: str = "shading") -> Float64[ndarray, "height width 3"]:
    """Return the diffuse radiance of a frame, 0 outside the mask."""
    return _linear(frame, "albedo", mask) * _linear(frame, shading, mask)


def _linear(frame: Frame, layer: str, mask: ObjectMask) -> Float64[ndarray, "height width 3"]:
    return np.where(mask[..., None], frame.layers[layer].astype(np.float64).clip(min=0), 0.0)


def measure_differences(
    captured: CaptureFrames, mask: ObjectMask, paper: Intrinsic, passes: Intrinsic
) -> IntrinsicDifferences:
    """Measure the differences between the two ways within the outline.

    Args:
        captured: the frames of an item.
        mask: its pixels.
        paper: intrinsic images from `by_paper`.
        passes: intrinsic images from `by_passes`.
    """
    # A pixel on the outline also shows the ground, which the two ways count differently.
    inside = mask & ~mixed_edges(captured[MAIN, OWN].layers["object"])
    inside = inside if inside.any() else mask

    def differences(paper: Intrinsic, passes: Intrinsic) -> tuple[float, float]:
        lit = inside & paper.reflectance.any(axis=-1)
        return (
            difference(paper.reflectance, passes.reflectance, lit),
            difference(paper.shading, passes.shading, inside),
        )

    reflectance, shading = differences(paper, passes)
    if "shading_direct" not in captured[MAIN, OWN].layers:
        return IntrinsicDifferences(reflectance=reflectance, shading=shading)
    straight = by_passes(captured, mask, "shading_direct")
    light, direct = (float(image.shading[inside].sum()) for image in (passes, straight))
    reflectance_direct, shading_direct = differences(by_paper(captured, mask, "shading_direct"), straight)
    return IntrinsicDifferences(
        reflectance=reflectance,
        shading=shading,
        reflectance_direct=reflectance_direct,
        shading_direct=shading_direct,
        bounced=1 - direct / light if light > 0 else 0.0,
    )
