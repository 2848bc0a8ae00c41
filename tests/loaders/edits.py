"""Changes of frames and packs that tests of several files make."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ndarray

from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, array_sha256
from candlelight.loaders.verification.checksums import SUMS, file_sha256, parse_sums, replace_files, sums_text


def contents(folder: Path) -> dict[str, bytes]:
    """Read all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def changed(frame: Frame, layers: dict[str, ndarray] | None = None, **metadata: Any) -> Frame:
    """Change fields of the metadata of a frame; if layers are given, they replace its layers."""
    layers = frame.layers if layers is None else layers
    hashes = {name: array_sha256(array) for name, array in layers.items()}
    return Frame(frame.metadata.model_copy(update={"layers": hashes, **metadata}), layers)


def write_set(root: Path, info: DatasetInfo, frames: Iterable[Frame], **changes: Any) -> Path:
    """Write frames of one set, and its description with some changes."""
    frames = list(frames)
    name = frames[0].metadata.set
    sets = {name: info.sets[name].model_copy(update=changes)}
    write_dataset_info(root, info.model_copy(update={"sets": sets}))
    for frame in frames:
        write_frame(root, frame)
    return root


def write_plan(root: Path, samples: list[tuple[str, int]]) -> None:
    """Describe a folder like `render`: write a plan, of which tests use four columns, and its checksums."""
    text = (root / "dataset.json").read_bytes()
    rows = [
        {
            "id": f"{name}-{index:06d}",
            "set": name,
            "index": index,
            "group": f"group-{index // 2}",
            "gain": 1.0,
        }
        for name, index in samples
    ]
    table = pa.Table.from_pylist(rows)
    writers = {
        "dataset.json": lambda path: path.write_bytes(text),
        "plan.parquet": lambda path: pq.write_table(table, path),
    }
    replace_files(root, writers)


def edit_json(path: Path, edit: Callable[[Any], object]) -> None:
    """Edit a JSON file in place."""
    text = json.loads(path.read_text())
    edit(text)
    path.write_text(json.dumps(text))


def renew_sums(folder: Path) -> None:
    """Renew the lines of SHA256SUMS, so that only the content of files tells that they were changed."""
    sums = folder / SUMS
    sums.write_text(sums_text({name: file_sha256(folder / name) for name in parse_sums(sums.read_bytes())}))


def renew_hashes(pack: Path) -> None:
    """Renew all hashes of a Hugging Face folder, so that only its readers can find a change."""

    def renew(manifest: Any) -> None:
        for shard in manifest["files"]:
            file = pack / shard["path"]
            shard |= {"sha256": file_sha256(file), "bytes": file.stat().st_size}

    edit_json(pack / "manifest.json", renew)
    renew_sums(pack)
