"""Describe a pack in ``croissant.json``: Croissant 1.1 (MLCommons) with its RAI and provenance fields.

The code does not need the package ``mlcroissant``; a test validates the file with it if it is installed.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from loaders.hub.croissant_fields import croissant_fields
from loaders.hub.croissant_rai import rai_fields
from loaders.hub.set_facts import SetFacts
from loaders.licences import is_known, licence_url
from loaders.packs.pack_manifest import PackManifest, Shard
from loaders.schema import AssetRecord, DatasetInfo, SetInfo

_PARQUET = "application/x-parquet"
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


def croissant(info: DatasetInfo, manifest: PackManifest, facts: Mapping[str, SetFacts], made: date) -> str:
    """Describe a pack: a file object with its hash for each Parquet file, a record set for each image set.

    Args:
        info: description of the packed image sets.
        manifest: their Parquet files.
        facts: facts of each image set, read from its files.
        made: day on which the frames were made; also written as the day of publication, which is not known.

    Returns:
        JSON-LD text.
    """
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
        **rai_fields(info, facts),
        "prov:wasGeneratedBy": _activity(info, facts),
        "prov:wasDerivedFrom": [_asset(asset) for asset in info.assets],
        "distribution": [part for name in info.sets for part in _files(name, manifest.of_set(name))],
        "recordSet": [_records(name, one, manifest.of_set(name)) for name, one in info.sets.items()],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


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


def _files(set_name: str, shards: Sequence[Shard]) -> list[dict[str, Any]]:
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


def _records(set_name: str, set_info: SetInfo, shards: Sequence[Shard]) -> dict[str, Any]:
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
        "field": list(croissant_fields(set_name, set_info, source)),
    }
