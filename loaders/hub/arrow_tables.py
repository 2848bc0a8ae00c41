"""Convert frames to Arrow tables that `datasets` 3.6 and newer read with the right features.

Features are written in the form of `datasets` before version 4 (``Sequence``, a list of a dict), which later
versions still read. The fields of array columns name their extension type, because `datasets` would read
nested lists otherwise.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ndarray

from candlelight.loaders.causal_columns import CausalRow
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import decode_png_bytes
from candlelight.loaders.foreign_text import as_code
from candlelight.loaders.packed_frames import CHECK
from candlelight.loaders.samples import Frame, factor_number, factor_value
from candlelight.loaders.schema import (
    FactorInfo,
    Layer,
    Metadata,
    ObjectRecord,
    PartRecord,
    Record,
    SetInfo,
    layer,
    schema_order,
)

_MASKS = ("object", "part")
_CAUSAL = ("unit", "counterfactual_of", "intervened", "intervention_kind")  # not in packs of earlier versions
_NOT_FACTORS = ("id", "index", "caption", *_CAUSAL, "step", "objects", "metadata")
_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
_ALIASES = {"string": "string", "number": "float64", "integer": "int64"}  # Arrow's names of JSON types


@dataclass(frozen=True)
class ArrowRow:
    """One sample to write: the frame, its 8-bit layers as PNG, and its caption."""

    frame: Frame
    pngs: Mapping[str, bytes]
    caption: str = ""

    @property
    def nbytes(self) -> int:
        """Size of the row in memory."""
        arrays = sum(array.nbytes for name, array in self.frame.layers.items() if name not in self.pngs)
        return arrays + sum(map(len, self.pngs.values())) + len(self.frame.metadata.to_json())


@dataclass(frozen=True)
class Column:
    """One column: its content and meaning, its `datasets` feature, and the function that encodes rows.

    ``split_bytes`` names the leaf whose bytes are stored in separate streams (exponents compress better
    without mantissas), ``plain`` the leaf that is already compressed; "" for no such leaf.
    """

    holds: str
    meaning: str
    feature: Any
    field: pa.Field
    encode: Callable[[Sequence[ArrowRow]], pa.Array]
    unit: str = ""
    colour_space: str = ""
    split_bytes: str = ""
    plain: str = ""

    @property
    def name(self) -> str:
        """Name of the column."""
        return str(self.field.name)


def arrow_columns(set_info: SetInfo, steps: bool = False) -> list[Column]:
    """List the columns of an image set.

    These are `image`, `id`, `index`, the caption, factors, the other layers, units, counterfactuals and
    interventions, propensities, objects, metadata.

    Categorical factors are class labels; if their values are numbers, they also have a column
    ``value_<name>``. `layer_column` and `factor_columns` name the columns of layers and factors.

    Args:
        set_info: the image set.
        steps: whether its units have steps.

    Raises:
        InputError: two columns would have the same name, or two values of a factor the same string.
    """
    layers = [_layer_column(name, set_info) for name in schema_order(set_info.layers)]
    starts = [_text_column("id", "text", "name of the sample", lambda metadata: metadata.id)]
    starts += [_integer_column("index", "number of the sample in its set", lambda metadata: metadata.index)]
    starts += [_caption_column()]
    everything = "all metadata of the sample: camera, lights, renderer, checks, hashes"
    ends = [_objects_column(), _text_column("metadata", "JSON text", everything, Metadata.to_json)]
    named = factor_columns(set_info)
    factors = [
        column for factor in set_info.factors for column in _factor_columns(factor, named[factor.name])
    ]
    every = [
        layers[0],
        *starts,
        *factors,
        *layers[1:],
        *_causal_columns(steps),
        *_propensities(set_info),
        *ends,
    ]
    names = [column.name for column in every]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"columns must have different names; rename the factors or lights: {', '.join(twice)}"
        )
    return every


def decode_layer(name: str, column: pa.Array, place: int, set_info: SetInfo) -> ndarray:
    """Decode a layer of one row, in the form of the schema; the array may be read-only.

    Args:
        name: name of the layer.
        column: the column in the form of `plain_array`.
        place: number of the row in the column.
        set_info: the image set.

    Raises:
        InputError: the layer is null, or is no PNG of this set.
    """
    spec, value = layer(name), column[place]
    shape = spec.shape(set_info.height, set_info.width)
    stored = value.as_py() if spec.dtype == "uint8" else value.values
    if stored is None:
        raise InputError(f"layer `{name}`: expected {spec.dtype} {list(shape)}, got null; {CHECK}")
    if spec.dtype == "uint8":
        return decode_png_bytes(stored, shape)
    for _ in shape[1:]:
        stored = stored.flatten()
    numbers = stored.to_numpy()
    if not spec.channels:
        return numbers.reshape(shape)
    return np.moveaxis(numbers.reshape((spec.channels, *shape[:2])), 0, 2)


def plain_array(column: pa.Array) -> pa.Array:
    """Return the bytes of a column of images, and other columns without the extension type of `datasets`.

    If `datasets` was imported, pyarrow gives columns of arrays this type, which is slow.
    """
    if isinstance(column, pa.StructArray):
        return column.field("bytes")
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def unfit_columns(schema: pa.Schema, set_info: SetInfo) -> list[str]:
    """Name the columns of a Parquet file that differ from those of the image set, or that only one has."""
    features = (
        json.loads((schema.metadata or {}).get(b"huggingface", "{}")).get("info", {}).get("features", {})
    )
    every = arrow_columns(set_info, steps="step" in schema.names)
    for later in (_CAUSAL, ("caption",)):
        if not {*later} & {*schema.names}:  # a pack of an earlier version
            every = [column for column in every if column.name not in later]
    due = {column.name: (column.feature, *_kind(column.field)) for column in every}
    found = {field.name: (features.get(field.name), *_kind(field)) for field in schema}
    return sorted(name for name in {*due, *found} if due.get(name) != found.get(name))


def _kind(field: pa.Field) -> tuple[pa.DataType, bool]:
    """Return the type of a field without extension, and whether it has one, known to pyarrow or not."""
    if isinstance(field.type, pa.BaseExtensionType):
        return field.type.storage_type, True
    return field.type, b"ARROW:extension:name" in (field.metadata or {})


def layer_column(name: str) -> str:
    """Name the column of a layer.

    Example:
        >>> layer_column("albedo"), layer_column("light/left")
        ('albedo', 'light_left')
    """
    return name.replace("/", "_")


def factor_columns(set_info: SetInfo) -> dict[str, str]:
    """Name the column of each factor: the factor's name, or ``factor_<name>`` if that name is taken."""
    taken = {*_NOT_FACTORS, *map(layer_column, set_info.layers)}
    names = (factor.name for factor in set_info.factors)
    return {name: f"factor_{name}" if name in taken else name for name in names}


def arrow_schema(every: Sequence[Column]) -> pa.Schema:
    """Make the Arrow schema, with the features of `datasets` in its metadata."""
    features = {column.name: column.feature for column in every}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([column.field for column in every], metadata=metadata)


def arrow_table(every: Sequence[Column], rows: Sequence[ArrowRow]) -> pa.Table:
    """Turn rows into a table."""
    return pa.table([column.encode(rows) for column in every], schema=arrow_schema(every))


def writer_options(every: Sequence[Column]) -> dict[str, Any]:
    """Choose compression and encoding of each leaf, as arguments of `pyarrow.parquet.ParquetWriter`."""
    # pyarrow chooses the names of the leaves, so read them from an empty file.
    file = io.BytesIO()
    pq.write_table(arrow_schema(every).empty_table(), file)
    parquet = pq.read_metadata(file).schema
    leaves = [parquet.column(place).path for place in range(len(parquet))]
    split = {column.split_bytes for column in every}
    plain = {column.plain for column in every}
    return {
        "compression": {leaf: "none" if leaf in plain else "zstd" for leaf in leaves},
        "use_dictionary": [leaf for leaf in leaves if leaf not in split | plain],
        "column_encoding": {leaf: "BYTE_STREAM_SPLIT" for leaf in leaves if leaf in split},
    }


def _layer_column(name: str, set_info: SetInfo) -> Column:
    spec = layer(name)
    column = layer_column(name)
    if name == "image" or name in _MASKS:
        return _image_column(column, spec)
    return _array_column(column, spec, [set_info.height, set_info.width])


def _image_column(column: str, spec: Layer) -> Column:
    return Column(
        holds="PNG, 8-bit RGB" if spec.channels else "PNG, 8-bit gray",
        meaning=spec.meaning,
        feature={"_type": "Image"},
        field=pa.field(column, _IMAGE),
        encode=lambda rows: pa.array([{"bytes": row.pngs[spec.name], "path": None} for row in rows], _IMAGE),
        unit=spec.unit,
        colour_space=spec.colour_space,
        plain=f"{column}.bytes",
    )


def _array_column(column: str, spec: Layer, size: list[int]) -> Column:
    shape = [spec.channels, *size] if spec.channels else size
    kind, kept = f"Array{len(shape)}D", pa.from_numpy_dtype(np.dtype(spec.dtype))
    for _ in shape:
        kept = pa.list_(kept)
    extension = {
        "ARROW:extension:name": f"datasets.features.features.{kind}ExtensionType",
        "ARROW:extension:metadata": json.dumps([shape, spec.dtype]),
    }
    return Column(
        holds=f"{spec.dtype} {shape}",
        meaning=spec.meaning,
        feature={"shape": shape, "dtype": spec.dtype, "_type": kind},
        field=pa.field(column, kept, metadata=extension),
        encode=lambda rows: _nested([row.frame.layers[spec.name] for row in rows]),
        unit=spec.unit,
        colour_space=spec.colour_space,
        split_bytes=column + ".list.element" * len(shape),
    )


def _nested(layers: Sequence[ndarray]) -> pa.Array:
    """Wrap arrays as nested Arrow lists, channels first, without copying single numbers."""
    arrays = np.stack(layers)
    if arrays.ndim == 4:
        arrays = np.moveaxis(arrays, 3, 1)
    nested = pa.array(np.ascontiguousarray(arrays).reshape(-1))
    for length in reversed(arrays.shape[1:]):
        offsets = np.arange(0, len(nested) + 1, length, dtype=np.int32)
        nested = pa.ListArray.from_arrays(pa.array(offsets), nested)
    return nested


def _factor_columns(factor: FactorInfo, name: str) -> list[Column]:
    if factor.kind == "continuous":
        return [_number_column(name, factor)]
    names = [str(value) for value in factor.values or ()]
    if len(set(names)) != len(names):
        raise InputError(f"factor `{factor.name}`: its values must differ as text, got {', '.join(names)}")
    label = Column(
        holds="class label",
        meaning=f"factor {as_code(factor.name)}, number of its value",
        feature={"names": names, "_type": "ClassLabel"},
        field=pa.field(name, pa.int64()),
        encode=lambda rows: pa.array([factor_number(factor, row.frame.metadata) for row in rows], pa.int64()),
    )
    if any(isinstance(value, str) for value in factor.values or ()):
        return [label]
    return [label, _number_column(f"value_{factor.name}", factor)]


def _number_column(name: str, factor: FactorInfo) -> Column:
    return Column(
        holds="float64",
        meaning=f"factor {as_code(factor.name)}, its value",
        feature=_value("float64"),
        field=pa.field(name, pa.float64()),
        encode=lambda rows: pa.array([_number(factor, row.frame.metadata) for row in rows]),
        unit=factor.unit,
    )


def _number(factor: FactorInfo, metadata: Metadata) -> float:
    return float(factor_value(factor, factor_number(factor, metadata)))


def _text_column(name: str, holds: str, meaning: str, text: Callable[[Metadata], str]) -> Column:
    return Column(
        holds=holds,
        meaning=meaning,
        feature=_value("string"),
        field=pa.field(name, pa.string()),
        encode=lambda rows: pa.array([text(row.frame.metadata) for row in rows]),
    )


def _caption_column() -> Column:
    return Column(
        holds="text",
        meaning="the sample in words",
        feature=_value("string"),
        field=pa.field("caption", pa.string()),
        encode=lambda rows: pa.array([row.caption for row in rows], pa.string()),
    )


def _integer_column(name: str, meaning: str, number: Callable[[Metadata], int | None]) -> Column:
    return Column(
        holds="int64",
        meaning=meaning,
        feature=_value("int64"),
        field=pa.field(name, pa.int64()),
        encode=lambda rows: pa.array([number(row.frame.metadata) for row in rows], pa.int64()),
    )


def _propensities(set_info: SetInfo) -> Iterator[Column]:
    return map(_propensity_column, set_info.propensity_names)


def _propensity_column(name: str) -> Column:
    return Column(
        holds="float64",
        meaning=f"probability (or density) of the value of {as_code(name)} given its parents",
        feature=_value("float64"),
        field=pa.field(f"propensity.{name}", pa.float64()),
        encode=lambda rows: pa.array([row.frame.metadata.propensity[name] for row in rows], pa.float64()),
    )


def _causal_columns(steps: bool) -> list[Column]:
    unit = "samples of one unit share their exogenous draws"
    step = _integer_column("step", "number of the step within the unit", lambda metadata: metadata.step)
    return [
        _text_column("unit", "text", unit, lambda metadata: metadata.unit),
        *([step] if steps else []),
        _text_column(
            "counterfactual_of",
            "text",
            "id of the sample that this is a counterfactual of, empty for none",
            lambda metadata: CausalRow.of(metadata).counterfactual_of,
        ),
        _texts_column(
            "intervened",
            "names of all that an intervention set",
            lambda metadata: [*CausalRow.of(metadata).kinds],
        ),
        _texts_column(
            "intervention_kind",
            "kind of each of these interventions: hard (a number), soft (a mechanism with parents) or drawn "
            "(a mechanism without parents)",
            lambda metadata: [*CausalRow.of(metadata).kinds.values()],
        ),
    ]


def _texts_column(name: str, meaning: str, texts: Callable[[Metadata], list[str]]) -> Column:
    kind = pa.list_(pa.string())
    return Column(
        holds="list of texts",
        meaning=meaning,
        feature={"feature": _value("string"), "_type": "Sequence"},
        field=pa.field(name, kind),
        encode=lambda rows: pa.array([texts(row.frame.metadata) for row in rows], kind),
    )


def _objects_column() -> Column:
    part, part_feature = _struct(PartRecord)
    one, feature = _struct(ObjectRecord)
    kind = pa.list_(pa.struct([*one, pa.field("parts", pa.list_(pa.struct(part)))]))
    return Column(
        holds="list of records",
        meaning=f"{', '.join(feature)} of each object, and `parts`: {', '.join(part_feature)} of each part "
        "of it",
        feature=[{**feature, "parts": [part_feature]}],
        field=pa.field("objects", kind),
        encode=lambda rows: pa.array(
            [[record.model_dump() for record in row.frame.metadata.objects] for row in rows], kind
        ),
    )


def _struct(record: type[Record]) -> tuple[list[pa.Field], dict[str, Any]]:
    """Describe the fields of a record, except its lists of records, for Arrow and for `datasets`."""
    kept, feature = [], {}
    for name, spec in record.model_json_schema()["properties"].items():
        spec = spec.get("anyOf", [spec])[0]  # the second is null
        element = (spec.get("prefixItems") or [spec.get("items", spec)])[0]
        if element.get("type") in _ALIASES:
            dtype = _ALIASES[element["type"]]
            one, several = pa.type_for_alias(dtype), spec["type"] == "array"
            kept.append(pa.field(name, pa.list_(one) if several else one))
            feature[name] = {"feature": _value(dtype), "_type": "Sequence"} if several else _value(dtype)
    return kept, feature


def _value(dtype: str) -> dict[str, str]:
    return {"dtype": dtype, "_type": "Value"}
