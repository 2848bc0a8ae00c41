"""The manifest of a Hugging Face folder: its Parquet files and splits; and the names of all its files."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from candlelight.loaders.files.json_records import read_record
from candlelight.loaders.frames import DATASET
from candlelight.loaders.schema import Record
from candlelight.loaders.verification.checksums import SUMS

PACK_MANIFEST, CARD, CROISSANT = "manifest.json", "README.md", "croissant.json"


class Shard(Record):
    """One Parquet file: path in the folder, image set, split, rows, size, size in memory, SHA-256."""

    path: Annotated[str, Field(pattern=r"^\w[\w.-]*/\w+(\.\w+)*-\d{5}-of-\d{5}\.parquet$")]
    set: str
    split: Annotated[str, Field(pattern=r"^\w+(\.\w+)*$")] = "train"
    rows: int
    bytes: int
    arrow_bytes: int
    sha256: str


class SplitRecord(Record):
    """One split of an image set: number of rows, and a line on how they were chosen."""

    rows: int
    made: str


class PackManifest(Record):
    """Content of ``manifest.json``: the Parquet files in order, and the splits by image set and name."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    files: tuple[Shard, ...]
    splits: dict[str, dict[str, SplitRecord]] = Field(default_factory=dict)

    def of_set(self, set_name: str) -> list[Shard]:
        """List the files of one image set."""
        return [shard for shard in self.files if shard.set == set_name]

    def of_split(self, set_name: str, split: str) -> list[Shard]:
        """List the files of one split of an image set."""
        return [shard for shard in self.of_set(set_name) if shard.split == split]

    def splits_of(self, set_name: str) -> list[str]:
        """Name the splits of one image set, in order."""
        return list(dict.fromkeys(shard.split for shard in self.of_set(set_name)))

    def content_sha256(self, set_name: str) -> str:
        """Hash the paths and hashes of the files of one image set."""
        lines = "".join(f"{shard.sha256}  {shard.path}\n" for shard in self.of_set(set_name))
        return hashlib.sha256(lines.encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of ``manifest.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def read_pack_manifest(folder: Path) -> PackManifest:
    """Read ``manifest.json``.

    Raises:
        InputError: the file is missing or damaged.
    """
    return read_record(PackManifest, folder / PACK_MANIFEST, "make the folder with `candlelight pack`")


def pack_files(shards: Collection[Shard]) -> set[str]:
    """Name all files of a Hugging Face folder: the given Parquet files, and those that describe them."""
    pictures = (picture_path(shard.set) for shard in shards)
    return {DATASET, CARD, PACK_MANIFEST, CROISSANT, SUMS, *pictures, *(shard.path for shard in shards)}


def picture_path(set_name: str) -> str:
    """Return the path of the picture of an image set, which the card shows."""
    return f"assets/{set_name}.jpg"
