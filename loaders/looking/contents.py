"""Records of the content of a folder of frames or a pack, made without reading pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.looking.frame_checks import clipped_share, unexplained_line
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
    ``bytes`` is the size of the stored samples.
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
    blender: str | None
    device: str | None
    samples: int | None
    denoiser: str | None

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


@dataclass(frozen=True, eq=False)
class StoredSet:
    """Facts of a stored image set.

    Attributes:
        set_info: the image set.
        splits: numbers of rows by split.
        bytes: size of the samples.
        compression: description in one line.
        table: factors of every row as `candlelight.loaders.samples.Frames.factor_table`; None if unknown.
        first: metadata of the first sample; None if there is no sample.
        some: metadata of the samples whose checks are told; () if unknown.
    """

    set_info: SetInfo
    splits: dict[str, int]
    bytes: int
    compression: str
    table: Float64[ndarray, "n k"] | None
    first: Metadata | None
    some: Sequence[Metadata] = ()


def build_contents(form: str, info: DatasetInfo, found: Mapping[str, StoredSet], size: int) -> Contents:
    """Build the record of a data set.

    Args:
        form: name of the storage.
        info: the data set.
        found: facts by image set.
        size: bytes of all files.
    """
    return Contents(
        form=form,
        name=info.name,
        description=info.description,
        licence=info.licence,
        recipe=info.recipe.name,
        recipe_sha256=info.recipe.sha256,
        seed=info.seed,
        candlelight=info.candlelight,
        schema_version=info.schema_version,
        assets=info.assets,
        bytes=size,
        sets={name: _set_contents(one) for name, one in found.items()},
    )


def _set_contents(found: StoredSet) -> SetContents:
    info, count = found.set_info, sum(found.splits.values())
    made = found.first.renderer if found.first else None
    specs = map(layer, info.layers)
    return SetContents(
        planned=info.count,
        splits=found.splits,
        width=info.width,
        height=info.height,
        exposure=info.exposure,
        clipped=clipped_share(found.some),
        unexplained=unexplained_line(found.some),
        bytes=found.bytes,
        bytes_per_sample=round(found.bytes / count) if count else None,
        compression=found.compression,
        layers=tuple(
            LayerContents(
                name=spec.name,
                dtype=spec.dtype,
                shape=spec.shape(info.height, info.width),
                unit=spec.unit,
                colour_space=spec.colour_space,
            )
            for spec in specs
        ),
        factors=tuple(_factor_contents(info.factors, found.table)),
        varies=info.varies,
        parts=info.parts,
        blender=made.blender if made else None,
        device=made.device if made else None,
        samples=made.samples if made else None,
        denoiser=made.denoiser if made else None,
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
