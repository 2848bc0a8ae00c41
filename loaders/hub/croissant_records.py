"""Describe the files of a pack for Croissant, and their columns as record sets."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from candlelight.loaders.hub.arrow_tables import Column, arrow_columns
from candlelight.loaders.packs.pack_manifest import Shard
from candlelight.loaders.schema import SetInfo

_PARQUET = "application/x-parquet"
_TYPES = {
    "string": "sc:Text",
    "uint8": "cr:UInt8",
    "int64": "cr:Int64",
    "float16": "cr:Float16",
    "float32": "cr:Float32",
    "float64": "cr:Float64",
}


def distribution(set_name: str, shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """Describe each file of an image set, and several files also as one file set."""
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": shard.path,
            "name": shard.path,
            "contentUrl": shard.path,
            "contentSize": f"{shard.bytes} B",
            "encodingFormat": _PARQUET,
            "sha256": shard.sha256,
        }
        for shard in shards
    ]
    if len(shards) > 1:
        every = {
            "@type": "cr:FileSet",
            "@id": f"{set_name}-files",
            "name": f"{set_name}-files",
            "encodingFormat": _PARQUET,
            "includes": f"{set_name}/*.parquet",
        }
        files.append(every)
    return files


def record_set(set_name: str, set_info: SetInfo, shards: Sequence[Shard]) -> dict[str, Any]:
    """Describe the samples of an image set: a record set with one field for each column."""
    # Readers check the hash of a file object; a file set has no hash. So a single file is named as an object.
    source = {"fileSet": {"@id": f"{set_name}-files"}}
    if len(shards) == 1:
        source = {"fileObject": {"@id": shards[0].path}}
    rows = sum(shard.rows for shard in shards)
    return {
        "@type": "cr:RecordSet",
        "@id": set_name,
        "name": set_name,
        "description": f"{rows} samples of {set_info.width} x {set_info.height} pixels.",
        "key": {"@id": f"{set_name}/id"},
        "field": list(_fields(set_name, set_info, source)),
    }


def _fields(set_name: str, set_info: SetInfo, source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Describe the columns of an image set, and the split, which file names contain."""
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
