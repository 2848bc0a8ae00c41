"""What a folder made by `loaders.hub.pack_hub` holds."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from loaders.records import read_record
from loaders.schema import Record


class Shard(Record):
    """One Parquet file: path in the folder, image set, rows, size, size of its rows in memory, SHA-256."""

    path: Annotated[str, Field(pattern=r"^\w[\w.-]*/train-\d{5}-of-\d{5}\.parquet$")]
    set: str
    rows: int
    bytes: int
    arrow_bytes: int
    sha256: str


class Manifest(Record):
    """``manifest.json``: the Parquet files of the folder, in order."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    files: tuple[Shard, ...]

    def of_set(self, set_name: str) -> list[Shard]:
        """List the files of one image set."""
        return [shard for shard in self.files if shard.set == set_name]

    def content_sha256(self, set_name: str) -> str:
        """Hash what the files of one image set hold."""
        lines = "".join(f"{shard.sha256}  {shard.path}\n" for shard in self.of_set(set_name))
        return hashlib.sha256(lines.encode()).hexdigest()

    def to_json(self) -> str:
        """Text of ``manifest.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Read ``manifest.json``.

    Raises:
        InputError: it is missing or damaged.
    """
    return read_record(Manifest, folder / "manifest.json", "make the folder with `candlelight pack`")
