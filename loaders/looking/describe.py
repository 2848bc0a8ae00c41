"""Describe the content of a folder of frames or a pack as text."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from candlelight.loaders.foreign_text import printable
from candlelight.loaders.looking.contents import Contents, FactorContents, LayerContents, SetContents
from candlelight.loaders.looking.frame_checks import clipping_line
from candlelight.loaders.looking.look import look

_SHOWN = 24  # values of a factor that are written out


def describe(path: Path | str) -> str:
    """Describe a data set: origin, image sets with their samples, layers and factors, bytes on disk.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made; or
            the URL of a folder of frames.

    Returns:
        Several lines of text.

    Raises:
        InputError: the path holds no image set, or is damaged.
    """
    return "\n".join(map(printable, _lines(look(path))))


def _lines(contents: Contents) -> Iterator[str]:
    yield f"{contents.name} ({contents.form}, {human_bytes(contents.bytes)})"
    if contents.description:
        yield contents.description
    yield (
        f"licence {contents.licence or 'not stated'}; made by candlelight {contents.candlelight}, "
        f"schema {contents.schema_version}"
    )
    yield f"recipe {contents.recipe} (SHA-256 {contents.recipe_sha256}), seed {contents.seed}"
    if contents.assets:
        licences = Counter(asset.licence or "licence unknown" for asset in contents.assets)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(licences.items()))
        yield f"assets: {counts}"
    for name, one in contents.sets.items():
        yield ""
        yield from _set_lines(name, one)


def _set_lines(name: str, one: SetContents) -> Iterator[str]:
    yield (
        f"set {name}: {one.count} of {one.planned} samples, {one.width} x {one.height} pixels, "
        f"exposure {one.exposure:g}"
    )
    yield from (f"  {warning}" for warning in (clipping_line(one.clipped), one.unexplained) if warning)
    if one.splits.keys() != {"train"}:
        yield f"  splits: {', '.join(f'{split} {rows}' for split, rows in one.splits.items())}"
    if one.bytes_per_sample is not None:
        yield f"  {human_bytes(one.bytes_per_sample)} a sample; compression: {one.compression}"
    if one.samples is not None:
        traced = f"Blender {one.blender}" if one.blender else "painted"
        denoised = "not denoised" if one.denoiser == "none" else f"denoised by {one.denoiser}"
        yield f"  {traced} on {one.device}, {one.samples} samples a pixel, {denoised}"
    yield "  layers:"
    yield from (f"    {_layer(spec)}" for spec in one.layers)
    yield from (f"  factor {factor.name}: {_values(factor)}" for factor in one.factors)
    if one.varies:
        yield f"  changes within a concept set: {', '.join(one.varies)}"
    yield from (f"  parts of {owner}: {', '.join(names)}" for owner, names in one.parts.items())


def _layer(spec: LayerContents) -> str:
    shape = " x ".join(map(str, spec.shape))
    return ", ".join(
        text for text in (f"{spec.name}: {spec.dtype} {shape}", spec.unit, spec.colour_space) if text
    )


def _values(factor: FactorContents) -> str:
    unit = f" {factor.unit}" if factor.unit else ""
    if factor.kind == "continuous":
        ends = (factor.low, factor.high)
        planned = ("depends on others" if None in ends else f"{factor.low} to {factor.high}") + unit
        there = (factor.least, factor.greatest)
        return planned if None in there else f"{planned}; there {factor.least:.6g} to {factor.greatest:.6g}"
    values = [str(value) for value in factor.values or ()]
    if factor.counts is not None:
        values = [f"{value} ({count})" for value, count in zip(values, factor.counts, strict=True)]
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more + unit


def human_bytes(size: int) -> str:
    """Write a size with three digits.

    Example:
        >>> human_bytes(0), human_bytes(1536), human_bytes(3 * 10**9)
        ('0 B', '1.54 kB', '3 GB')
    """
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
