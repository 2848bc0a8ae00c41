"""What a folder of frames, an HDF5 file, a Hugging Face folder or a URL holds, without reading pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from loaders.errors import InputError
from loaders.schema import AssetRecord, DatasetInfo, FactorInfo, FactorValue, Metadata, Record, SetInfo, layer


class LayerContents(Record):
    """One layer of an image set, as `loaders.schema.Layer` says."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    unit: str
    colour_space: str


class FactorContents(Record):
    """One factor of an image set, and which of its values the rows that are there have.

    ``counts`` are rows for each of ``values``; ``least`` and ``greatest`` the ends of what is there of a
    continuous factor; all None where the rows' factors are not known without reading every sample.
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
    """One image set: ``splits`` are rows by name, ``planned`` how many samples were to be made.

    ``blender``, ``device``, ``samples`` and ``denoiser`` are those of the first sample; ``bytes`` is what the
    samples take where they lie.
    """

    planned: int
    splits: dict[str, int]
    width: int
    height: int
    exposure: float
    clipped: float | None
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
        """Number of samples that are there."""
        return sum(self.splits.values())


class Contents(Record):
    """All that is there: ``form`` says how it is stored, ``bytes`` what its files take together."""

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
        """Write it as JSON, with a final newline."""
        return self.model_dump_json(indent=2) + "\n"


@dataclass(frozen=True, eq=False)
class StoredSet:
    """What a reader of one form found of an image set.

    Attributes:
        set_info: the image set.
        splits: rows by name.
        bytes: what the samples take.
        compression: one line.
        table: factors of every row as `loaders.samples.Frames.factor_table`; None where they are not known.
        first: what is known of the first sample; None where there is none.
        clipped: share of pixels that are over-exposed; None where it was not looked at.
    """

    set_info: SetInfo
    splits: dict[str, int]
    bytes: int
    compression: str
    table: Float64[ndarray, "n k"] | None
    first: Metadata | None
    clipped: float | None = None


def build_contents(form: str, info: DatasetInfo, found: Mapping[str, StoredSet], size: int) -> Contents:
    """Put together what was found.

    Args:
        form: how it is stored, in words.
        info: the data set.
        found: what is there, by image set.
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
        clipped=found.clipped,
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
    size = len(factor.values or ())
    if len(column) and not np.isin(column, np.arange(size)).all():
        raise InputError(f"factor `{factor.name}`: expected numbers from 0 to {size - 1}; pack it again")
    return {"counts": tuple(np.bincount(column.astype(np.int64), minlength=size).tolist())}


def bytes_below(path: Path) -> int:
    """Add up the sizes of a file, or of all files below a folder; links are not followed."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())
