"""Describe a pack in ``croissant.json``: Croissant 1.1 (MLCommons) with its RAI and provenance fields.

The code does not need the package ``mlcroissant``; a test validates the file with it if it is installed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote

from candlelight.loaders.causal_graphs import CausalGraph, exclusion_text
from candlelight.loaders.frames import DATASET
from candlelight.loaders.hub.arrow_tables import Column, arrow_columns
from candlelight.loaders.hub.set_facts import SetFacts, count_values
from candlelight.loaders.licences import is_known, licence_url
from candlelight.loaders.packs.pack_manifest import PackManifest, Shard
from candlelight.loaders.schema import AssetRecord, DatasetInfo, SetInfo

# The context that the specification prescribes, and the provenance vocabulary.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_PARQUET = "application/x-parquet"
_TYPES = {
    "string": "sc:Text",
    "uint8": "cr:UInt8",
    "int64": "cr:Int64",
    "float16": "cr:Float16",
    "float32": "cr:Float32",
    "float64": "cr:Float64",
}
_DATASET_HOLDS = "The recipe that the samples were planned from, and each set's factors and causal graph."
_LIST = {"isArray": True, "arrayShape": "-1"}
_NODE_FIELDS = {
    "name": "Name of a factor, of a hidden variable, or of a selection.",
    "kind": "factor, hidden, or selection: it throws away samples with some values of its parents.",
    "intervened": "The samples whose intervention sets it: none, some or all.",
    "mechanism": "How its value comes about.",
    "parents": "Names that its mechanism or a rule makes it depend on.",
    "previous": "Names whose value at the previous step of the unit its mechanism reads.",
    "rules": "Values that its mechanism avoids together with values of its parents.",
}


def croissant(info: DatasetInfo, manifest: PackManifest, facts: Mapping[str, SetFacts], made: date) -> str:
    """Describe a pack: a file object with its hash for each file, a record set for each image set and graph.

    Args:
        info: description of the packed image sets.
        manifest: their Parquet files.
        facts: facts of each image set, read from its files.
        made: day on which the frames were made; also written as the day of publication, which is not known.

    Returns:
        JSON-LD text.
    """
    dataset = info.to_json().encode()
    sha256 = hashlib.sha256(dataset).hexdigest()
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": info.name,
        "description": info.description or info.name,
        "conformsTo": [
            "http://mlcommons.org/croissant/1.1",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        **({"license": licence_url(info.licence)} if info.licence else {}),
        "version": _version(manifest),
        "dateCreated": made.isoformat(),
        "datePublished": made.isoformat(),
        "citeAs": _citation(info, made),
        "keywords": ["synthetic", "causal representation learning", "disentanglement", "intrinsic images"],
        "isLiveDataset": False,
        **_responsible_use(info, facts),
        "prov:wasGeneratedBy": _activity(info, facts),
        "prov:wasDerivedFrom": [_asset(asset) for asset in info.assets],
        "distribution": [
            *(part for name in info.sets for part in _distribution(name, manifest.of_set(name))),
            {**_file(DATASET, len(dataset), "application/json", sha256), "description": _DATASET_HOLDS},
        ],
        "recordSet": [
            *(
                _record_set(name, one, manifest.of_set(name), facts[name].first.step is not None)
                for name, one in info.sets.items()
            ),
            *(_graph_set(name, one.graph) for name, one in info.sets.items() if one.graph is not None),
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _responsible_use(info: DatasetInfo, facts: Mapping[str, SetFacts]) -> dict[str, Any]:
    """Return the fields of vocabulary RAI: facts always, judgements only if the recipe states them."""
    said = info.statements
    stated = {
        "rai:personalSensitiveInformation": said.personal_information,
        "rai:dataUseCases": said.use_cases,
        "rai:dataSocialImpact": said.social_impact,
        "rai:dataReleaseMaintenancePlan": said.maintenance,
    }
    return {
        "rai:hasSyntheticData": True,
        "rai:dataCollection": "Nothing was photographed or collected: every sample was rendered, and its "
        f"factors, geometry and light are those of recipe {info.recipe.name}.",
        "rai:dataCollectionType": "Software Collection",
        "rai:dataAnnotationProtocol": "Labels and layers are inputs or results of the renderer; nobody "
        "labelled anything.",
        "rai:machineAnnotationTools": f"candlelight {info.candlelight}",
        "rai:dataLimitations": [*filter(None, [said.limitations]), *_noise(facts)],
        "rai:dataBiases": [
            "The recipe sets the frequencies of factor values; other data have other frequencies.",
            *(text for name, one in info.sets.items() for text in _frequencies(name, one, facts[name])),
        ],
        **{name: text for name, text in stated.items() if text},
    }


def _noise(facts: Mapping[str, SetFacts]) -> Iterator[str]:
    for name, one in facts.items():
        made = one.first.renderer
        if made is not None and made.blender is not None:
            yield (
                f"Set {name}: light is traced with {made.samples} samples per pixel (first sample; denoiser: "
                f"{made.denoiser}), so layers of light contain residual noise and errors of the denoiser."
            )


def _frequencies(name: str, set_info: SetInfo, facts: SetFacts) -> Iterator[str]:
    for factor, column in zip(set_info.factors, facts.table.T, strict=True):
        if factor.kind == "categorical":
            counts = count_values(factor, column)
            pairs = zip(factor.values or (), counts, strict=True)
            found = ", ".join(f"{value} {count}" for value, count in pairs)
        else:
            found = f"{column.min():.4g} to {column.max():.4g} {factor.unit}".rstrip()
        yield f"Set {name}, factor {factor.name}: {found}."


def _version(manifest: PackManifest) -> str:
    """Return the semantic version: the manifest's schema version, with a content hash as build metadata."""
    hashes = "".join(manifest.content_sha256(name) for name in dict.fromkeys(s.set for s in manifest.files))
    return f"{manifest.schema_version}.0.0+{hashes[:12]}"


def _citation(info: DatasetInfo, made: date) -> str:
    note = (
        f"Rendered by candlelight {info.candlelight}, recipe SHA-256 {info.recipe.sha256}, seed {info.seed}"
    )
    return f"@misc{{{info.name}, title = {{{info.name}}}, year = {{{made.year}}}, note = {{{note}}}}}"


def _activity(info: DatasetInfo, facts: Mapping[str, SetFacts]) -> dict[str, Any]:
    makers = (one.first.renderer for one in facts.values())
    versions = sorted({maker.blender for maker in makers if maker is not None and maker.blender})
    blender = f" with Blender {', '.join(versions)}" if versions else ""
    return {
        "@type": "prov:Activity",
        "name": f"candlelight {info.candlelight}{blender}",
        "description": f"Recipe {info.recipe.name}, SHA-256 {info.recipe.sha256}, seed {info.seed}.",
    }


def _asset(asset: AssetRecord) -> dict[str, Any]:
    known = is_known(asset.licence)
    said = f"stated as `{asset.licence}`" if asset.licence else "not stated"
    return {
        "@type": ["prov:Entity", "sc:CreativeWork"],
        "name": f"{asset.kind}/{asset.label}",
        "description": (asset.source or "Source not stated")
        + ("" if known else f"; licence unknown: {said}"),
        "license": licence_url(asset.licence) if known else "unknown",
        "sha256": asset.sha256,
    }


def _distribution(set_name: str, shards: Sequence[Shard]) -> list[dict[str, Any]]:
    """Describe each file of an image set, and several files also as one file set."""
    files = [_file(shard.path, shard.bytes, _PARQUET, shard.sha256) for shard in shards]
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


def _file(path: str, size: int, kind: str, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{size} B",
        "encodingFormat": kind,
        "sha256": sha256,
    }


def _graph_set(set_name: str, graph: CausalGraph) -> dict[str, Any]:
    """Describe a causal graph: a record set that holds its nodes and selections itself."""
    place = f"{set_name}-graph"
    nodes = [
        {**node.model_dump(mode="json", include={*_NODE_FIELDS}), "rules": [*map(exclusion_text, node.rules)]}
        for node in graph.nodes
    ]
    chosen = [
        {"name": f"selection {i}", "kind": "selection", "intervened": "none", "previous": [], "rules": []}
        | {"parents": [*excluded], "mechanism": f"never {exclusion_text(excluded)}"}
        for i, excluded in enumerate(graph.selections, 1)
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": place,
        "name": place,
        "description": f"Causal graph of set {set_name}, parents first; {DATASET} has all values and tables.",
        "key": {"@id": f"{place}/name"},
        "field": [
            {**_named(f"{place}/{name}", name, text), "dataType": "sc:Text"}
            | (_LIST if name in ("parents", "previous", "rules") else {})
            for name, text in _NODE_FIELDS.items()
        ],
        "data": [{f"{place}/{name}": row[name] for name in _NODE_FIELDS} for row in (*nodes, *chosen)],
    }


def _record_set(set_name: str, set_info: SetInfo, shards: Sequence[Shard], steps: bool) -> dict[str, Any]:
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
        "field": list(_fields(set_name, arrow_columns(set_info, steps), source)),
    }


def _fields(set_name: str, columns: Sequence[Column], source: dict[str, Any]) -> Iterator[dict[str, Any]]:
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
    for column in columns:
        yield _field(f"{set_name}/{quote(column.name, safe='')}", column, source)


def _field(place: str, column: Column, source: dict[str, Any]) -> dict[str, Any]:
    from_column = {**source, "extract": {"column": column.name}}
    field = _named(place, column.name, _describe(column))
    if isinstance(column.feature, list):
        parts = _parts(place, column.feature[0], from_column)
        return {**field, **_LIST, "subField": list(parts)}
    kind = column.feature["_type"]
    if kind == "Image":
        return {
            **field,
            "dataType": "sc:ImageObject",
            "source": {**from_column, "transform": {"jsonPath": "bytes"}},
        }
    if kind == "ClassLabel":
        return {**field, "dataType": "cr:Int64", "source": from_column}
    if kind == "Sequence":
        text = {"dataType": _TYPES[column.feature["feature"]["dtype"]], "source": from_column}
        return {**field, **text, **_LIST}
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
        yield {**field, **_LIST} if several else field


def _named(place: str, name: str, description: str) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": place, "name": name, "description": description}
