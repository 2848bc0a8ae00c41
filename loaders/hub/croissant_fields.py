"""Fields of a Croissant record set, one for each column of an image set."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from loaders.hub.arrow_tables import Column, arrow_columns
from loaders.schema import SetInfo

_TYPES = {
    "string": "sc:Text",
    "uint8": "cr:UInt8",
    "int64": "cr:Int64",
    "float16": "cr:Float16",
    "float32": "cr:Float32",
    "float64": "cr:Float64",
}


def croissant_fields(set_name: str, set_info: SetInfo, source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Describe the columns of an image set, and the split, which file names contain.

    Args:
        set_name: name of the image set.
        set_info: the image set.
        source: source of the columns, as ``fileObject`` or ``fileSet``.

    Yields:
        Croissant fields.
    """
    yield {
        **_named(f"{set_name}/split", "split", "Name of the split."),
        "dataType": ["sc:Text", "cr:Split"],
        "source": {
            **source,
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": r"^(?:.*/)?(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\.parquet$"},
        },
    }
    for column in arrow_columns(set_info):
        yield _field(f"{set_name}/{quote(column.name, safe='')}", column, source)


def _field(place: str, column: Column, source: dict[str, Any]) -> dict[str, Any]:
    from_column = {**source, "extract": {"column": column.name}}
    field = _named(place, column.name, _describe(column))
    if isinstance(column.feature, list):
        parts = _parts(place, column.feature[0], from_column)
        return {**field, "isArray": True, "arrayShape": "-1", "subField": list(parts)}
    kind = column.feature["_type"]
    if kind == "Image":
        return {
            **field,
            "dataType": "sc:ImageObject",
            "source": {**from_column, "transform": {"jsonPath": "bytes"}},
        }
    if kind == "ClassLabel":
        return {**field, "dataType": "cr:Int64", "source": from_column}
    field |= {"dataType": _TYPES[column.feature["dtype"]], "source": from_column}
    if kind == "Value":
        return field
    return {**field, "isArray": True, "arrayShape": ",".join(map(str, column.feature["shape"]))}


def _describe(column: Column) -> str:
    text = ", ".join(part for part in (column.meaning, column.unit, column.colour_space) if part)
    names = column.feature.get("names") if isinstance(column.feature, dict) else None
    if names is None:
        return text
    return f"{text}: " + "; ".join(f"{number} {name}" for number, name in enumerate(names))


def _parts(place: str, record: dict[str, Any], source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, feature in record.items():
        several = isinstance(feature, dict) and feature["_type"] == "Sequence"
        one = feature["feature"] if several else feature
        # Croissant has no type for records within records; column `metadata` holds their content too.
        if not isinstance(one, dict) or one.get("_type") != "Value":
            continue
        field = _named(f"{place}/{name}", name, f"{name} of each object, as metadata states it.")
        field |= {"dataType": _TYPES[one["dtype"]], "source": {**source, "transform": {"jsonPath": name}}}
        yield {**field, "isArray": True, "arrayShape": "-1"} if several else field


def _named(place: str, name: str, description: str) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": place, "name": name, "description": description}
