"""Section of a report on image sets: contact sheets, factors with counts, rendering and checks."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from candlelight.evaluation.report.blocks import (
    UNDEFINED,
    Block,
    Picture,
    PicturesBlock,
    Section,
    TableBlock,
    TextBlock,
    number,
    png_picture,
)
from candlelight.loaders.looking.sheet import contact_sheet
from candlelight.loaders.looking.sheet_rows import pick_rows, value_text
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import ChecksRecord, FactorInfo, Metadata, RendererRecord

_ROWS, _COLUMNS = 2, 4  # maximal size of one contact sheet, so that it is legible on a phone
_LAYERS = TextBlock(
    "How the sheets show layers: radiance, shading, residual and single lights are multiplied by the "
    "exposure, albedo is not; all are sRGB-encoded, and values above 1 are white. Depth is brightest at the "
    "nearest point of each frame, darkest at the farthest point, and black in the background. Normals are "
    "(n + 1) / 2 as red (x right), green (y down) and blue (z away from the camera), and gray in the "
    "background. Objects and parts have one colour per index, and the background is black.",
    quiet=True,
)


_CHECKS = TextBlock(
    "Checks of the rendering: the identity error is the largest difference of the sum of the light passes "
    "of a frame from its image, relative to max(1, radiance), and should be below 0.001; the stored error "
    "is the same for the stored layers, which are rounded.",
    quiet=True,
)


def sets_section(sets: Sequence[Frames]) -> Section:
    """Show image sets and describe each data set once; this reads all metadata and a few frames.

    Args:
        sets: at least one image set.

    Raises:
        InputError: a frame is missing or damaged.
    """
    blocks: list[Block] = [_LAYERS, _CHECKS]
    previous = ""
    for frames in sets:
        description = f"{frames.info.name}: {frames.info.description} Licence {frames.info.licence}."
        blocks.append(TextBlock("" if description == previous else description, heading=frames.set_name))
        blocks += _blocks(frames)
        previous = description
    return Section("sets", "Image sets", tuple(blocks))


def _blocks(frames: Frames) -> Iterable[Block]:
    known = [frames.metadata(row) for row in range(len(frames))]
    caption = f"Samples of {frames.set_name} in rows, their layers in columns."
    yield PicturesBlock(tuple(_sheets(frames)), caption)
    if frames.set_info.factors:
        yield _factor_table(frames)
    facts = tuple(_facts(frames, known))
    yield TableBlock("Rendering and checks", ("", ""), facts)


def _sheets(frames: Frames) -> Iterable[Picture]:
    """Make several sheets of the same samples for many layers, or sheets of more samples for few layers."""
    layers = np.array_split(frames.layers, math.ceil(len(frames.layers) / _COLUMNS))
    rows = pick_rows(frames, _ROWS * max(1, _COLUMNS // len(frames.layers)))
    for start in range(0, len(rows), _ROWS):
        for some in layers:
            yield _sheet(frames, rows[start : start + _ROWS], some.tolist())


def _sheet(frames: Frames, rows: Sequence[int], layers: Sequence[str]) -> Picture:
    ids = ", ".join(frames.metadata(row).id for row in rows)
    alt = f"Contact sheet of set {frames.set_name}: samples {ids}; layers {', '.join(layers)}."
    return png_picture(contact_sheet(frames, rows, layers), alt)


def _facts(frames: Frames, known: Sequence[Metadata]) -> Iterable[tuple[str, str]]:
    info, set_info = frames.info, frames.set_info
    checks = [metadata.checks for metadata in known]
    clipped = [check.clipped for check in checks]
    yield "samples", f"{len(frames)} of {set_info.count}"
    yield "size", f"{set_info.width} × {set_info.height} pixels"
    yield "exposure", f"{set_info.exposure:g}, the same for all samples"
    yield "layers", ", ".join(frames.layers)
    yield "recipe", f"{info.recipe.name}, SHA-256 {info.recipe.sha256[:12]}…, seed {info.seed}"
    yield "rendered by", "; ".join(sorted({_renderer(metadata.renderer) for metadata in known}))
    yield (
        "largest identity error",
        _largest(checks, "identity_error", "with a shadow catcher, the passes do not add up to the image"),
    )
    yield "largest stored error", _largest(checks, "stored_error", "")
    yield (
        "largest light sum error",
        _largest(checks, "light_sum_error", "the set has no layers of single lights"),
    )
    yield "clipped pixels", f"{np.mean(clipped):.2%} on average, {max(clipped):.2%} at most"


def _renderer(record: RendererRecord | None) -> str:
    if record is None:
        return "none: image files"
    tool = "dead-leaves renderer" if record.blender is None else f"Blender {record.blender}"
    return f"{tool}, {record.samples} samples, denoiser {record.denoiser}, {record.device}"


def _largest(checks: Sequence[ChecksRecord], name: str, why_none: str) -> str:
    """Write the largest error over the samples that recorded it."""
    measured = [value for check in checks if (value := getattr(check, name)) is not None]
    if not measured:
        return f"{UNDEFINED}: {why_none}"
    count = "" if len(measured) == len(checks) else f" (in {len(measured)} samples that recorded it)"
    return number(max(measured)) + count


def _factor_table(frames: Frames) -> TableBlock:
    varies = frames.set_info.varies
    rows = []
    for factor, column in zip(frames.set_info.factors, frames.factor_table.T, strict=True):
        name = f"{factor.name} ({factor.unit})" if factor.unit else factor.name
        within = ("changes" if factor.name in varies else "fixed",) if varies else ()
        rows.append((name, factor.kind, _values(factor, column.tolist()), *within))
    head = ("factor", "kind", "values (samples)", *(("in a concept set",) if varies else ()))
    return TableBlock("Factors", head, tuple(rows))


def _values(factor: FactorInfo, column: Sequence[float]) -> str:
    """Write the values of a categorical factor with their counts, or the range of a continuous factor."""
    if factor.kind == "continuous":
        sampled = f"{value_text(min(column))} to {value_text(max(column))}"
        return f"{sampled} (planned: {factor.low} to {factor.high})"
    counts, same = Counter(column), defaultdict(list)
    for index, value in enumerate(factor.values or ()):
        same[counts[index]].append(value_text(value))
    shown = sorted(same.items(), key=lambda item: item[0] == 0)
    return "; ".join(f"{', '.join(values)} ({_each(count, len(values))})" for count, values in shown)


def _each(count: int, values: int) -> str:
    if not count:
        return "none"
    return f"{count} each" if values > 1 else str(count)
