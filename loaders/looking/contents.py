"""Records of the content of a folder of frames or a pack, made without reading pixels, and their text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.captions import caption
from candlelight.loaders.frames import frame_path, read_metadata
from candlelight.loaders.schema import (
    AssetRecord,
    DatasetInfo,
    FactorInfo,
    FactorValue,
    Metadata,
    Record,
    SetInfo,
    layer,
)
from candlelight.loaders.unexplained_light import unexplained_light

LOOKED_AT = 64  # frames
MUCH = 0.03  # share of pixels
_SHOWN = 24  # values of a factor that are written out
_OF_DATASET = {"name", "description", "licence", "seed", "candlelight", "schema_version", "assets"}
_OF_SET = {"width", "height", "exposure", "varies", "parts"}
_OF_RENDERER = {"blender", "device", "samples", "denoiser"}


class LayerContents(Record):
    """One layer of an image set, from `candlelight.loaders.schema.Layer`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    unit: str
    colour_space: str


class FactorContents(Record):
    """One factor of an image set, and its values in the stored rows.

    ``counts`` are the numbers of rows with each of ``values``; ``least`` and ``greatest`` are the range of a
    continuous factor. All three are None if the factors of rows are not known without reading every sample.
    """

    name: str
    kind: str
    unit: str
    values: tuple[FactorValue, ...] | None
    low: float | None
    high: float | None
    counts: tuple[int, ...] | None = None
    least: float | None = None
    greatest: float | None = None


class SetContents(Record):
    """One image set: ``splits`` are numbers of rows by split, ``planned`` is the planned number of samples.

    ``blender``, ``device``, ``samples`` and ``denoiser`` are the renderer's settings for the first sample;
    ``caption`` is the caption of this sample, ``bytes`` the size of the stored samples.
    """

    planned: int
    splits: dict[str, int]
    width: int
    height: int
    exposure: float
    clipped: float | None
    unexplained: str
    bytes: int
    bytes_per_sample: int | None
    compression: str
    layers: tuple[LayerContents, ...]
    factors: tuple[FactorContents, ...]
    varies: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    blender: str | None = None
    device: str | None = None
    samples: int | None = None
    denoiser: str | None = None
    caption: str | None = None

    @property
    def count(self) -> int:
        """Number of stored samples."""
        return sum(self.splits.values())


class Contents(Record):
    """Content of a data set: ``form`` names its storage, ``bytes`` is the size of all files."""

    form: str
    name: str
    description: str
    licence: str
    recipe: str
    recipe_sha256: str
    seed: int
    candlelight: str
    schema_version: int
    assets: tuple[AssetRecord, ...]
    bytes: int
    sets: dict[str, SetContents]

    def to_json(self) -> str:
        """Return the record as JSON, with a final newline."""
        return self.model_dump_json(indent=2) + "\n"


def make_contents(form: str, info: DatasetInfo, sets: dict[str, SetContents], size: int) -> Contents:
    """Make the record of a data set.

    Args:
        form: name of the storage.
        info: the data set.
        sets: records of its image sets.
        size: bytes of all files.
    """
    recipe = info.recipe
    about = info.model_dump(include=_OF_DATASET)
    return Contents(
        form=form, recipe=recipe.name, recipe_sha256=recipe.sha256, bytes=size, sets=sets, **about
    )


def make_set_contents(
    info: SetInfo,
    splits: dict[str, int],
    size: int,
    compression: str,
    table: Float64[ndarray, "n k"] | None,
    some: Sequence[Metadata] = (),
    first: Metadata | None = None,
) -> SetContents:
    """Make the record of an image set.

    Args:
        info: the image set.
        splits: numbers of rows by split.
        size: bytes of the samples.
        compression: description in one line.
        table: factors of every row as `candlelight.loaders.samples.Frames.factor_table`; None if unknown.
        some: metadata of the samples whose checks are told, the first sample first; () if unknown.
        first: metadata of the first sample if ``some`` is (); None if there is no sample.
    """
    count, made = sum(splits.values()), some[0] if some else first
    return SetContents(
        planned=info.count,
        splits=splits,
        clipped=clipped_share(some),
        unexplained=unexplained_line(some),
        caption=caption(made, info) if made else None,
        bytes=size,
        bytes_per_sample=round(size / count) if count else None,
        compression=compression,
        layers=tuple(
            LayerContents(
                name=spec.name,
                dtype=spec.dtype,
                shape=spec.shape(info.height, info.width),
                unit=spec.unit,
                colour_space=spec.colour_space,
            )
            for spec in map(layer, info.layers)
        ),
        factors=tuple(_factor_contents(info.factors, table)),
        **info.model_dump(include=_OF_SET),
        **(made.renderer.model_dump(include=_OF_RENDERER) if made and made.renderer else {}),
    )


def _factor_contents(
    factors: Sequence[FactorInfo], table: Float64[ndarray, "n k"] | None
) -> list[FactorContents]:
    made = []
    for place, factor in enumerate(factors):
        seen = {} if table is None else _seen(factor, table[:, place])
        made.append(FactorContents.model_validate(factor.model_dump() | seen))
    return made


def _seen(factor: FactorInfo, column: Float64[ndarray, " n"]) -> dict[str, object]:
    if factor.kind == "continuous":
        ends = (float(column.min()), float(column.max())) if len(column) else (None, None)
        return dict(zip(("least", "greatest"), ends, strict=True))
    return {
        "counts": tuple(np.bincount(column.astype(np.int64), minlength=len(factor.values or ())).tolist())
    }


def bytes_below(path: Path) -> int:
    """Add up the sizes of a file, or of all files below a folder; links are not followed."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())


def spread_rows(count: int) -> list[int]:
    """Choose at most `LOOKED_AT` of ``count`` rows, spread evenly, the first among them.

    Example:
        >>> spread_rows(3), len(spread_rows(1000)), spread_rows(0)
        ([0, 1, 2], 64, [])
    """
    return np.unique(np.linspace(0, count - 1, LOOKED_AT).round().astype(int)).tolist() if count else []


def some_metadata(root: Path, set_name: str, indices: Int[ndarray, " n"]) -> list[Metadata]:
    """Read the metadata of at most `LOOKED_AT` frames of an image set.

    Args:
        root: folder of frames.
        set_name: the image set.
        indices: numbers of the complete samples; the chosen frames are spread evenly over them.

    Raises:
        InputError: metadata are damaged.
    """
    return [read_metadata(frame_path(root, set_name, int(indices[row]))) for row in spread_rows(len(indices))]


def clipped_share(found: Sequence[Metadata]) -> float | None:
    """Average the share of over-exposed pixels over frames; None if there is none."""
    return float(np.mean([metadata.checks.clipped for metadata in found])) if found else None


def clipping_line(share: float | None) -> str:
    """Return a warning if more than `MUCH` of the pixels are over-exposed, "" otherwise.

    Example:
        >>> clipping_line(0.36)
        '36% of the pixels of image are over-exposed; lower `exposure` or the lights'
        >>> clipping_line(0.01)
        ''
    """
    if share is None or share <= MUCH:
        return ""
    return f"{share:.0%} of the pixels of image are over-exposed; lower `exposure` or the lights"


def unexplained_line(found: Sequence[Metadata]) -> str:
    """Return `unexplained_light` of the worst of some frames, "" if all are right."""
    worst = max(found, key=lambda metadata: metadata.checks.identity_error or 0.0, default=None)
    return "" if worst is None else unexplained_light(worst)


def content_lines(contents: Contents) -> Iterator[str]:
    """Describe a data set as lines of text: its origin, and its image sets with their layers and factors."""
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
    if one.caption is not None:
        yield f"  first caption: {one.caption}"
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
