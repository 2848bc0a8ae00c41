"""How samples should lie on disk: a folder each, one file each, or shards of a thousand.

    python benchmarks/frame_layout.py [--samples 10000] [--folder DIR] [--layouts folder bare]

Writes, lists and reads that many tiny samples in each layout, in one run on one disk, and prints a table of
ratios. Only the file system is compared: the bytes of a sample are a few hundred here, so that a million of
them fit. `bare` is a folder without SHA256SUMS; `synced` and `synced-bare` call fsync for each file and
folder, as rendering does, the others never.
"""

import argparse
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loaders.disk import sync

FILES = {
    **{"image.png": b"i" * 200, "layers.npz": b"l" * 400, "metadata.json": b"m" * 200},
    "SHA256SUMS": b"s" * 232,
}
READS = 2000


def folder_write(root: Path, index: int) -> None:
    """Write a sample as a folder of four files, built aside and renamed, as `loaders.frames` does."""
    _write_folder(root, index, list(FILES))


def bare_write(root: Path, index: int) -> None:
    """Write a sample as a folder without its checksums."""
    _write_folder(root, index, [name for name in FILES if name != "SHA256SUMS"])


def synced_write(root: Path, index: int) -> None:
    """Write a sample as a folder of four files that survive a power failure."""
    _write_folder(root, index, list(FILES), synced=True)


def synced_bare_write(root: Path, index: int) -> None:
    """Write a sample as a folder without its checksums that survives a power failure."""
    _write_folder(root, index, [name for name in FILES if name != "SHA256SUMS"], synced=True)


def _write_folder(root: Path, index: int, names: list[str], synced: bool = False) -> None:
    partial, final = root / ".partial" / str(index), folder_path(root, index)
    partial.mkdir(parents=True)
    for name in names:
        (partial / name).write_bytes(FILES[name])
        if synced:
            sync(partial / name)
    if synced:
        sync(partial)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial.rename(final)
    if synced:
        sync(final.parent)


def folder_path(root: Path, index: int) -> Path:
    """Place of a sample that is a folder."""
    return root / f"{index // 1000:04d}" / f"{index:06d}"


def folder_list(root: Path) -> int:
    """Count complete samples: a thousand-folder holds none but complete ones, so their names are enough."""
    return sum(sum(1 for _ in part.iterdir()) for part in root.iterdir() if part.name != ".partial")


def folder_read(root: Path, index: int) -> bytes:
    """Read a sample's metadata."""
    return (folder_path(root, index) / "metadata.json").read_bytes()


def file_write(root: Path, index: int) -> None:
    """Write a sample as one zip file, built aside and renamed."""
    partial, final = root / f".{index}", file_path(root, index)
    with zipfile.ZipFile(partial, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial.rename(final)


def file_path(root: Path, index: int) -> Path:
    """Place of a sample that is one file."""
    return root / f"{index // 1000:04d}" / f"{index:06d}.zip"


def file_list(root: Path) -> int:
    """Count complete samples."""
    return sum(sum(1 for _ in part.iterdir()) for part in root.iterdir())


def file_read(root: Path, index: int) -> bytes:
    """Read a sample's metadata."""
    with zipfile.ZipFile(file_path(root, index)) as archive:
        return archive.read("metadata.json")


def shard_write(root: Path, index: int) -> None:
    """Append a sample to the zip file of its thousand: one writer per shard, and a crash costs its index."""
    with zipfile.ZipFile(root / f"{index // 1000:04d}.zip", "a") as archive:
        for name, data in FILES.items():
            archive.writestr(zipfile.ZipInfo(f"{index:06d}/{name}"), data)


def shard_list(root: Path) -> int:
    """Count complete samples."""
    count = 0
    for path in root.iterdir():
        with zipfile.ZipFile(path) as archive:
            count += len(archive.namelist()) // len(FILES)
    return count


def shard_read(root: Path, index: int) -> bytes:
    """Read a sample's metadata."""
    with zipfile.ZipFile(root / f"{index // 1000:04d}.zip") as archive:
        return archive.read(f"{index:06d}/metadata.json")


LAYOUTS = {
    "folder": (folder_write, folder_list, folder_read),
    "bare": (bare_write, folder_list, folder_read),
    "synced": (synced_write, folder_list, folder_read),
    "synced-bare": (synced_bare_write, folder_list, folder_read),
    "file": (file_write, file_list, file_read),
    "shard": (shard_write, shard_list, shard_read),
}


def measure(
    root: Path,
    samples: int,
    write: Callable[[Path, int], None],
    count: Callable[[Path], int],
    read: Callable[[Path, int], bytes],
) -> dict[str, float]:
    """Time one layout.

    Returns:
        Seconds to write a thousand, to list all, to read a thousand at random, to delete a thousand; and
        bytes on disk and inodes per sample.
    """
    free = os.statvfs(root)
    started = time.perf_counter()
    for index in range(samples):
        write(root, index)
    wrote = time.perf_counter() - started
    now = os.statvfs(root)
    started = time.perf_counter()
    found = count(root)
    listed = time.perf_counter() - started
    if found != samples:
        raise RuntimeError(f"expected {samples} samples, found {found}")
    order = np.random.default_rng(0).integers(samples, size=READS).tolist()
    started = time.perf_counter()
    for index in order:
        read(root, index)
    got = time.perf_counter() - started
    started = time.perf_counter()
    for path in list(root.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    deleted = time.perf_counter() - started
    return {
        "write s/1000": wrote / samples * 1000,
        "list s": listed,
        "read s/1000": got / READS * 1000,
        "delete s/1000": deleted / samples * 1000,
        "kB each": (free.f_bfree - now.f_bfree) * now.f_frsize / samples / 1000,
        "inodes each": (free.f_ffree - now.f_ffree) / samples,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    options = parser.parse_args()
    results = {}
    for name in options.layouts:
        with tempfile.TemporaryDirectory(dir=options.folder) as root:
            results[name] = measure(Path(root), options.samples, *LAYOUTS[name])
    print(f"{options.samples} samples; in brackets the ratio to {options.layouts[0]}")
    first = results[options.layouts[0]]
    for quantity in first:
        cells = [
            f"{r[quantity]:10.3f} ({r[quantity] / max(first[quantity], 1e-9):5.2f})" for r in results.values()
        ]
        print(f"{quantity:14}", *cells)
    print(" " * 14, *(f"{name:>18}" for name in results))


if __name__ == "__main__":
    main()
