"""Damage one file of a pack of `noise_packs.py`, for `fuzz_packs.py`."""

import functools
import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trials.noise_packs import FORMS, HEIGHT, SAMPLES, WIDTH

HOSTILE: tuple[Any, ...] = (
    *(None, "", "x", -1, 0, 1e300, 2**70, True, [], {}, [[]], {"a": [1]}, "../up", "/etc/passwd"),
    *("a\nb", "a\0b", "x" * 5000, "../" * 30, "__proto__", "\ud800", [0] * 500, 2**31, "train-x", "1e999"),
)


def flip(path: Path, rng: np.random.Generator) -> None:
    """Change one byte, or a few neighbouring bytes."""
    data = bytearray(path.read_bytes())
    if not data:
        return
    start = int(rng.integers(len(data)))
    for place in range(start, min(len(data), start + int(rng.integers(1, 5)))):
        data[place] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def truncate(path: Path, rng: np.random.Generator) -> None:
    """Truncate a file."""
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(len(data) + 1))])


def extend(path: Path, rng: np.random.Generator) -> None:
    """Append bytes to a file."""
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 100))))


def blank(path: Path, rng: np.random.Generator) -> None:
    """Fill a range with zeros, like a disk that lost a block."""
    data = bytearray(path.read_bytes())
    start = int(rng.integers(len(data) + 1))
    length = min(512, len(data) - start)
    data[start : start + length] = bytes(length)
    path.write_bytes(data)


def lose(path: Path, rng: np.random.Generator) -> None:
    """Remove a file, or put a folder in its place."""
    path.unlink()
    if rng.random() < 0.3:
        path.mkdir()


def swap(path: Path, rng: np.random.Generator) -> None:
    """Exchange a file with another of its kind."""
    root = next(parent for parent in path.parents if parent.name in FORMS)
    others = sorted(other for other in root.rglob(f"*{path.suffix}") if other.is_file() and other != path)
    if others:
        other = others[int(rng.integers(len(others)))]
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)


def edit(path: Path, rng: np.random.Generator) -> None:
    """Change one value in a JSON text, or in an HDF5 or Parquet file."""
    if path.suffix == ".h5":
        edit_hdf5(path, rng)
    elif path.suffix == ".json":
        path.write_text(mutated(path.read_text(), rng), encoding="utf-8", errors="surrogatepass")
    elif path.suffix == ".parquet":
        edit_parquet(path, rng)
    else:
        flip(path, rng)


def mutated(text: str, rng: np.random.Generator) -> str:
    """Replace, remove or add one value in JSON content."""
    whole = [json.loads(text)]
    holder: Any = whole
    key: Any = 0
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = keys[int(rng.integers(len(keys)))]
    value = HOSTILE[int(rng.integers(len(HOSTILE)))]
    kind = rng.random()
    if kind < 0.2 and isinstance(holder, dict):
        del holder[key]
    elif kind < 0.3 and isinstance(holder, dict):
        holder[str(value)] = holder[key]
    else:
        holder[key] = value
    return json.dumps(whole[0])


def edit_hdf5(path: Path, rng: np.random.Generator) -> None:
    """Change an attribute, a value, a type or a link of an HDF5 file."""
    import h5py

    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
        name = names[int(rng.integers(len(names)))]
        kind = int(rng.integers(6))
        if kind == 0:
            text = mutated(bytes(file.attrs["dataset"]).decode(), rng)
            file.attrs["dataset"] = np.bytes_(text.encode("utf-8", "replace"))
        elif kind == 1:
            key = list(file.attrs)[int(rng.integers(len(file.attrs)))]
            file.attrs[key] = np.array([b"x", b"3", b"test", b"../up"])[int(rng.integers(4))]
        elif kind == 2:
            texts = file["metadata"]
            row = int(rng.integers(len(texts)))
            text = mutated(texts.asstr()[row], rng)
            changed = text.replace("\\ud800", "x").encode()  # what is too long is cut off
            texts[row] = np.array(changed, texts.dtype)
        elif kind == 3 and file[name].dtype.kind in "iuf":
            rows = file[name][:]
            rows.reshape(-1)[int(rng.integers(rows.size))] += 1
            file[name][:] = rows
        elif kind == 4:
            rows = file[name][: max(0, len(file[name]) - 1)]
            del file[name]
            file[name] = rows
        else:
            del file[name]


def store(path: Path, rng: np.random.Generator) -> None:
    """Store a dataset of an HDF5 file otherwise: a raw chunk of any bytes and mask, or other chunks."""
    import h5py

    if path.suffix != ".h5":
        return flip(path, rng)
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
        dataset = file[names[int(rng.integers(len(names)))]]
        if dataset.chunks and rng.random() < 0.7:
            place = (int(rng.integers(len(dataset))), *[0] * (dataset.ndim - 1))
            raw = dataset.id.read_direct_chunk(place)[1]
            size = int(rng.choice([len(raw) // 2, len(raw) - 1, len(raw) + 1, 100, 2**20]))
            data = (raw + rng.bytes(2**20))[: max(1, size)]
            dataset.id.write_direct_chunk(place, data, int(rng.integers(4)))
        else:
            name, values = dataset.name, dataset[:]
            chunks = (int(rng.choice([1, 2, 10_000])), *values.shape[1:])
            del file[name]
            filters = {"compression": "gzip"} if rng.random() < 0.5 else {}
            file.create_dataset(name, data=values, chunks=chunks, maxshape=(None,) * values.ndim, **filters)
    return None


def edit_parquet(path: Path, rng: np.random.Generator) -> None:
    """Write a Parquet file again with one column, row or text changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read()
    place = int(rng.integers(table.num_columns))
    kind = int(rng.integers(4))
    if kind == 0:
        table = table.remove_column(place)
    elif kind == 1:
        table = table.slice(1)
    elif kind == 2:
        table = table.take(list(reversed(range(len(table)))))
    elif "metadata" in table.column_names:
        texts = table["metadata"].to_pylist()
        row = int(rng.integers(len(texts)))
        texts[row] = mutated(texts[row], rng).replace("\\ud800", "x")
        table = table.set_column(table.column_names.index("metadata"), "metadata", pa.array(texts))
    pq.write_table(table, path)


def replace(path: Path, rng: np.random.Generator) -> None:
    """Replace a file by a file of the same kind that this package did not write."""
    if path.suffix == ".png":
        path.write_bytes(png_bomb(bool(rng.integers(2))))
    elif path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": int(rng.integers(2, 9))}))
    elif path.suffix == ".h5":
        replace_hdf5(path)
    elif path.suffix == ".parquet":
        replace_images(path, png_bomb(bool(rng.integers(2))))
    else:
        flip(path, rng)


@functools.cache
def png_bomb(large: bool) -> bytes:
    """Make a small black PNG of 12 000 x 12 000 pixels, or one that unpacks to more than its header says."""
    from candlelight.loaders.files.layer_codecs import png_file

    height, width = (12_000, 12_000) if large else (HEIGHT, WIDTH)
    return png_file(width, height, 8, 2, zlib.compress(bytes(12_000 * (1 + 3 * 12_000))))


def replace_hdf5(path: Path) -> None:
    """Write an HDF5 file that another program might write."""
    import h5py

    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((SAMPLES, HEIGHT, WIDTH, 3), np.uint8)
        file["labels"] = np.zeros((SAMPLES + 1, 6))


def replace_images(path: Path, png: bytes) -> None:
    """Replace every image of a Parquet file by a PNG bomb; without images, make a table without rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read()
    if "image" not in table.column_names:
        table = table.slice(len(table))
    else:
        place = table.column_names.index("image")
        images = pa.array([{"bytes": png, "path": None}] * len(table), table.schema.field(place).type)
        table = table.set_column(place, table.schema.field(place), images)
    pq.write_table(table, path)


DAMAGES: tuple[Callable[[Path, np.random.Generator], None], ...] = (
    *(flip, flip, flip, truncate, extend, blank, lose, swap, edit, edit, edit, store, replace, replace),
)


def damage(pack: Path, rng: np.random.Generator) -> tuple[str, str]:
    """Damage one file, drawn uniformly or in proportion to its size; return the file and the damage."""
    files = sorted(path for path in pack.rglob("*") if path.is_file())
    sizes = np.array([path.stat().st_size for path in files], float)
    chances = 0.5 / len(files) + 0.5 * sizes / sizes.sum()
    path = files[int(np.searchsorted(np.cumsum(chances), rng.random()).clip(max=len(files) - 1))]
    how = DAMAGES[int(rng.integers(len(DAMAGES)))]
    how(path, rng)
    forged = rng.random() < 0.25
    if forged:
        forge(pack)
    return path.relative_to(pack).as_posix(), how.__name__ + (", forged" if forged else "")


def forge(pack: Path) -> None:
    """Recompute the hashes of files, to hide the damage."""
    from candlelight.loaders.verification.checksums import SUMS, parse_sums, sums_text

    for sums in pack.rglob(SUMS):
        if not sums.is_file():
            continue
        listed = parse_sums(sums.read_bytes())
        for name in listed:
            if (file := sums.parent / name).is_file():
                listed[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        sums.write_text(sums_text(listed))
