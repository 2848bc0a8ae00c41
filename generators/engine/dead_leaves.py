"""Dead leaves: images of opaque flat shapes of all sizes that hide one another, painted without Blender.

Dead leaves share many statistics with natural images (Lee, Mumford, Huang 2001) and show no objects, so that
they are negative examples for every concept. Run as a module, this is their render process.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int32
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.devices import CPU_REQUEST, DeviceRequest
from candlelight.generators.engine.render_server import WriteSamples, cpu_features, run_renderer
from candlelight.generators.language.dead_leaves_fields import DeadLeaves
from candlelight.generators.language.load_recipe import recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import SetSettings, settings
from candlelight.generators.planning.provenance import check_group
from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.plan_records import PLAN_FIELDS, SamplePlan
from candlelight.loaders.colour import srgb_to_linear, to_display, to_half
from candlelight.loaders.frames import write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import ChecksRecord, Metadata, RecipeRecord, RendererRecord, array_sha256

SUBSAMPLES = 3  # each way; a pixel is the mean of nine
BATCH = 16384  # leaves drawn at a time; another number gives other images
_LONGEST = 3.0  # largest ratio of the axes of an ellipse
CORNERS = (3, 8)  # of polygons
BULGE = math.sqrt(_LONGEST)  # no leaf reaches further than this times its radius


@dataclass(frozen=True)
class PaintedImage:
    """One painted image: linear albedo, and shading."""

    albedo: Float32[ndarray, "height width 3"]
    shading: Float32[ndarray, "height width 3"]


@dataclass(frozen=True)
class _Fall:
    """A batch of leaves, front to back: centres and radii in pixels, and a number for the shape."""

    x: Float[ndarray, " leaves"]
    y: Float[ndarray, " leaves"]
    radius: Float[ndarray, " leaves"]
    turn: Float[ndarray, " leaves"]
    form: Float[ndarray, " leaves"]


def draw_radii(
    rng: np.random.Generator, count: int, exponent: float, low: float, high: float
) -> Float[ndarray, " count"]:
    """Draw radii of density proportional to r^-exponent between two bounds.

    The inverse of ``F(r) = (low^(1-a) - r^(1-a)) / (low^(1-a) - high^(1-a))``, of its logarithmic limit where
    the exponent a is 1. With a = 3 the image looks alike at every scale (Lee, Mumford, Huang 2001).

    Args:
        rng: the stream; one uniform number is taken for each radius.
        count: how many.
        exponent: a.
        low: smallest radius, above 0.
        high: largest radius.

    Returns:
        Radii in the unit of the bounds.

    Example:
        >>> draw_radii(np.random.default_rng(0), 3, 3.0, 1.0, 10.0).round(2)
        array([1.65, 1.17, 1.02])
    """
    share = rng.uniform(size=count)
    power = 1.0 - exponent
    if power == 0:
        return low * (high / low) ** share
    return (low**power + share * (high**power - low**power)) ** (1.0 / power)


def paint_dead_leaves(leaves: DeadLeaves, seed: int, width: int, height: int) -> PaintedImage:
    """Paint dead leaves.

    Leaves are drawn from the front to the back until every point is covered, which gives the distribution of
    an endless fall exactly. Centres are uniform over all places from which a leaf can reach the image.

    Args:
        leaves: the numbers of the leaves.
        seed: of all draws; each property of the leaves has a random stream of its own.
        width: pixels.
        height: pixels.

    Returns:
        Albedo, anti-aliased by nine points a pixel, and shading, which is at most 1.
    """
    streams = {name: stream(seed, "leaves", name) for name in ("place", "radius", "turn", "form")}
    owner = np.full((height * SUBSAMPLES, width * SUBSAMPLES), -1, np.int32)
    falls: list[_Fall] = []
    while (owner < 0).any():
        falls.append(_draw(leaves, streams, width, height))
        _cover(owner, leaves.shape, falls[-1], BATCH * (len(falls) - 1))
    albedo = _colour(leaves, seed, owner, BATCH * len(falls), max(width, height))
    means = albedo.reshape(height, SUBSAMPLES, width, SUBSAMPLES, 3).mean(axis=(1, 3))
    light = np.repeat(_light(leaves, width, height)[..., None], 3, axis=2)
    return PaintedImage(means.astype(np.float32), light)


def _draw(leaves: DeadLeaves, streams: dict[str, np.random.Generator], width: int, height: int) -> _Fall:
    """Draw one batch of leaves over the image and its margin, as wide as leaves reach."""
    low, high = (size * max(width, height) for size in leaves.size)
    margin = high * BULGE
    place = streams["place"].uniform(size=(2, BATCH))
    return _Fall(
        x=place[0] * (width + 2 * margin) - margin,
        y=place[1] * (height + 2 * margin) - margin,
        radius=draw_radii(streams["radius"], BATCH, leaves.exponent, low, high),
        turn=streams["turn"].uniform(0.0, 2 * math.pi, BATCH),
        form=streams["form"].uniform(size=BATCH),
    )


def _cover(owner: Int32[ndarray, "rows columns"], shape: str, fall: _Fall, first: int) -> None:
    """Give every point that no leaf covers yet to the first leaf of the fall that does."""
    reach = fall.radius * _bulge(shape, fall.form)
    bounds = np.stack([fall.x - reach, fall.x + reach, fall.y - reach, fall.y + reach]) * SUBSAMPLES
    left, right = np.clip(np.ceil(bounds[:2] - 0.5), 0, owner.shape[1]).astype(int)
    top, bottom = np.clip(np.ceil(bounds[2:] - 0.5), 0, owner.shape[0]).astype(int)
    for i in (_free(owner, left, right, top, bottom) > 0).nonzero()[0].tolist():
        window = owner[top[i] : bottom[i], left[i] : right[i]]
        rows, columns = (window < 0).nonzero()
        if len(rows):
            x, y, radius, turn, form = (
                float(part[i]) for part in (fall.x, fall.y, fall.radius, fall.turn, fall.form)
            )
            across = ((np.arange(left[i], right[i], dtype=np.float32) + 0.5) / SUBSAMPLES - x)[columns]
            down = ((np.arange(top[i], bottom[i], dtype=np.float32) + 0.5) / SUBSAMPLES - y)[rows]
            hit = inside_leaf(shape, across, down, radius, turn, form)
            window[rows[hit], columns[hit]] = first + i


def _free(
    owner: Int32[ndarray, "rows columns"],
    left: Int[ndarray, " leaves"],
    right: Int[ndarray, " leaves"],
    top: Int[ndarray, " leaves"],
    bottom: Int[ndarray, " leaves"],
) -> Int[ndarray, " leaves"]:
    """Count the points without an owner in each of many windows, by a summed-area table."""
    table = np.zeros((owner.shape[0] + 1, owner.shape[1] + 1), np.int32)
    np.cumsum(np.cumsum(owner < 0, axis=0, dtype=np.int32), axis=1, out=table[1:, 1:])
    return table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]


def _bulge(shape: str, form: Float[ndarray, " leaves"]) -> Float[ndarray, " leaves"]:
    """Work out how far leaves reach from their centres, in radii of the discs of their areas."""
    if shape == "disc":
        return np.ones_like(form)
    if shape == "ellipse":
        return np.sqrt(_ratio(form))
    half = math.pi / _corners(form)
    return np.sqrt(half / np.tan(half)) / np.cos(half)


def _ratio(form: Any) -> Any:
    """Ratio of an ellipse's axes."""
    return 1.0 + (_LONGEST - 1.0) * form


def _corners(form: Any) -> Any:
    """Count a polygon's corners."""
    return CORNERS[0] + np.floor(form * (CORNERS[1] - CORNERS[0] + 1))


def inside_leaf(
    shape: str,
    x: Float[ndarray, " points"],
    y: Float[ndarray, " points"],
    radius: float,
    turn: float,
    form: float,
) -> Bool[ndarray, " points"]:
    """Tell which points lie inside a leaf; each shape has the area of the disc.

    Args:
        shape: "disc", "ellipse" or "polygon" (regular).
        x: to the right of the leaf's centre, pixels.
        y: below it, pixels.
        radius: of the disc, pixels.
        turn: of the others, radians.
        form: from 0 to less than 1: an ellipse's ratio of axes, from 1 to `_LONGEST`, or a polygon's number
            of corners, within `CORNERS`.

    Returns:
        True inside.

    Example:
        >>> inside_leaf("disc", np.arange(-2.0, 3), np.zeros(5), 1.5, 0.0, 0.0)
        array([False,  True,  True,  True, False])
    """
    if shape == "disc":
        return x**2 + y**2 <= radius**2
    cos, sin = math.cos(turn), math.sin(turn)
    if shape == "ellipse":
        ratio = _ratio(form)
        return (x * cos + y * sin) ** 2 / ratio + (y * cos - x * sin) ** 2 * ratio <= radius**2
    corners = int(_corners(form))
    half = math.pi / corners
    within = np.ones(len(x), bool)
    for angle in (turn + 2 * half * corner for corner in range(corners)):
        within &= x * math.cos(angle) + y * math.sin(angle) <= radius * math.sqrt(half / math.tan(half))
    return within


def _colour(
    leaves: DeadLeaves, seed: int, owner: Int32[ndarray, "rows columns"], count: int, longest: int
) -> Float[ndarray, "rows columns 3"]:
    """Return the albedo of every point, with waves if the leaves have contrast."""
    channels = 3 if leaves.colors == "rgb" else 1
    encoded = stream(seed, "leaves", "color").uniform(leaves.low, leaves.high, (count, channels))
    colors = np.repeat(srgb_to_linear(encoded), 3 // channels, axis=1).astype(np.float32)
    albedo = colors[owner]
    if leaves.contrast == 0:
        return albedo
    rng = stream(seed, "leaves", "waves")
    angle, phase = rng.uniform(0.0, 2 * math.pi, (2, count)).astype(np.float32)
    # Wave lengths from 1/64 of the longer side to 1/8, as many in every octave.
    length = (longest / 8 * 0.125 ** rng.uniform(size=count)).astype(np.float32)
    turns = 2 * np.pi / length / SUBSAMPLES
    y, x = (np.arange(n, dtype=np.float32) for n in owner.shape)
    across, down = (turns * np.cos(angle))[owner], (turns * np.sin(angle))[owner]
    wave = np.cos(x * across + y[:, None] * down + phase[owner])
    # Never brighter than the leaf's own colour, so that albedo stays below 1.
    return albedo * (1.0 - np.float32(leaves.contrast) * (0.5 - 0.5 * wave))[..., None]


def _light(leaves: DeadLeaves, width: int, height: int) -> Float32[ndarray, "height width"]:
    """Light that falls off linearly: 1 in the brightest pixel, 1 - falloff in the darkest."""
    angle = math.radians(leaves.azimuth)
    x = (np.arange(width) + 0.5 - width / 2) * math.cos(angle)
    y = (np.arange(height) + 0.5 - height / 2) * -math.sin(angle)
    ramp = x[None, :] + y[:, None]
    span = np.ptp(ramp)
    return (1.0 - leaves.falloff * (ramp.max() - ramp) / span).astype(np.float32)


def develop_painting(painting: PaintedImage, exposure: float) -> tuple[dict[str, ndarray], ChecksRecord]:
    """Make the layers of a painted image, so that ``radiance = float16(albedo * shading + residual)`` holds.

    Args:
        painting: linear albedo and shading; the residual is 0, because no leaf is glossy.
        exposure: factor on radiance before the sRGB curve.

    Returns:
        The layers by name, in the order of the schema, and the checks of the metadata.

    Example:
        >>> flat = np.full((1, 1, 3), 0.5, np.float32)
        >>> develop_painting(PaintedImage(flat, flat), 1.0)[0]["radiance"]
        array([[[0.25, 0.25, 0.25]]], dtype=float16)
    """
    albedo, shading = to_half(painting.albedo), to_half(painting.shading)
    total = albedo.astype(np.float32) * shading.astype(np.float32)
    radiance = to_half(total)
    exposed = radiance.astype(np.float32) * np.float32(exposure)
    layers = {
        "image": to_display(exposed),
        "radiance": radiance,
        "albedo": albedo,
        "shading": shading,
        "residual": np.zeros_like(radiance),
    }
    checks = ChecksRecord(
        identity_error=None,
        stored_error=float(np.abs(total - radiance).max()),
        clipped=float((exposed > 1.0).any(axis=-1).mean()),
    )
    return layers, checks


class DeadLeavesRenderer:
    """Renders the dead-leaves samples of one recipe into one folder.

    Args:
        root: folder of the data set.
        recipe: the recipe.
        threads: not used; this renderer has one thread.
        device: not used; this renderer uses the processor.
    """

    def __init__(
        self, root: Path, recipe: Recipe, threads: int = 1, device: DeviceRequest = CPU_REQUEST
    ) -> None:
        del threads, device
        self._root, self._recipe = root, recipe
        self._recipe_record = RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe))

    def trace(self, group: Sequence[SamplePlan]) -> WriteSamples:
        """Paint one image for all samples of ``group``, which show the same leaves.

        Returns:
            A function that writes the samples and returns their ids.
        """
        check_group(group, AssetLibrary())
        chosen = settings(self._recipe, group[0].set)
        leaves = group[0].trace.dead_leaves
        assert leaves is not None
        painting = paint_dead_leaves(
            leaves, group[0].trace.cycles_seed, chosen.image.width, chosen.image.height
        )
        return partial(self._write, group, chosen, painting)

    def _write(self, group: Sequence[SamplePlan], chosen: SetSettings, painting: PaintedImage) -> list[str]:
        made, checks = develop_painting(painting, chosen.exposure)
        layers = {name: made[name] for name in made if name in chosen.layers}
        for sample in group:
            metadata = Metadata(
                **sample.model_dump(include=PLAN_FIELDS),
                recipe=self._recipe_record,
                objects=(),
                environment=None,
                camera=None,
                exposure=chosen.exposure,
                renderer=RendererRecord(
                    blender=None,
                    device="CPU",
                    cpu_features=cpu_features(),
                    samples=SUBSAMPLES**2,
                    denoiser="none",
                    cycles_seed=sample.trace.cycles_seed,
                ),
                checks=checks,
                layers={name: array_sha256(array) for name, array in layers.items()},
            )
            write_frame(self._root, Frame(metadata, layers))
        return [sample.id for sample in group]


if __name__ == "__main__":
    run_renderer(DeadLeavesRenderer)
