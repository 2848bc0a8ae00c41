"""Files that accompany the Parquet files of a Hugging Face folder: card, pictures, Croissant, hashes."""

import hashlib
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from loaders.frames import DATASET
from loaders.packs.pack_manifest import PackManifest, Shard
from loaders.schema import DatasetInfo
from loaders.verification.checksums import SUMS, sums_text

if TYPE_CHECKING:
    from loaders.hub.set_facts import SetFacts

CARD, MANIFEST, CROISSANT = "README.md", "manifest.json", "croissant.json"


def pack_files(shards: Collection[Shard]) -> set[str]:
    """Name all files of a Hugging Face folder: the given Parquet files and their accompanying files."""
    pictures = (_picture(shard.set) for shard in shards)
    return {DATASET, CARD, MANIFEST, CROISSANT, SUMS, *pictures, *(shard.path for shard in shards)}


def description_date(root: Path) -> date:
    """Return the day (UTC) of a folder's ``dataset.json``, which does not depend on the day of packing."""
    return datetime.fromtimestamp((root / DATASET).stat().st_mtime, UTC).date()


def write_accompanying_files(folder: Path, info: DatasetInfo, manifest: PackManifest, made: date) -> None:
    """Write all accompanying files of a pack, from its Parquet files.

    Args:
        folder: folder of the pack, with its Parquet files.
        info: description of the packed image sets.
        manifest: their Parquet files.
        made: day on which the frames were made.
    """
    from loaders.hub.card import card
    from loaders.hub.croissant import croissant

    facts = {name: _draw(folder, name, info, manifest) for name in info.sets}
    texts = {
        DATASET: info.to_json(),
        MANIFEST: manifest.to_json(),
        CARD: card(info, manifest, facts),
        CROISSANT: croissant(info, manifest, facts, made),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / SUMS).write_text(sums_text(_hashes(folder, manifest, facts, texts)), encoding="utf-8")


def _picture(set_name: str) -> str:
    return f"assets/{set_name}.jpg"


def _draw(folder: Path, set_name: str, info: DatasetInfo, manifest: PackManifest) -> "SetFacts":
    from loaders.hub.card_pictures import PackedRows, draw_picture
    from loaders.hub.set_facts import read_facts

    set_info, shards = info.sets[set_name], manifest.of_set(set_name)
    facts = read_facts(folder, set_info, shards, _picture(set_name))
    (folder / facts.picture).parent.mkdir(exist_ok=True)
    picture = draw_picture(PackedRows(folder, set_info, shards, facts.table))
    (folder / facts.picture).write_bytes(picture)
    return facts


def _hashes(
    folder: Path, manifest: PackManifest, facts: Mapping[str, "SetFacts"], texts: Mapping[str, str]
) -> dict[str, str]:
    hashes = {shard.path: shard.sha256 for shard in manifest.files}
    for name in (*texts, *(one.picture for one in facts.values())):
        hashes[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return hashes
