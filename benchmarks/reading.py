"""Compare our pack readers with bare h5py and with readers of PNG files, as ratios within one run.

    python -m benchmarks.reading FRAMES [--set NAME] [--rows 2000] [--all-rows 200] [--keep FOLDER]
    python -m benchmarks.reading FRAMES --small --rows 5000

FRAMES is a folder of a few rendered frames, 320 x 240 for the stated limits, 64 x 64 with ``--small``. More
frames are made from them (rolled, mirrored and dimmed, so that they compress like renders), written as frames
and packed: first with the layer `image` alone, then with all layers and fewer rows. Every file is read once
to fill the cache, then in random order on one core, by all readers in turn, one block each. A ratio is the
median over rounds of the other reader's CPU time over ours. `datasets` reads files of its own writer, Pillow
reads files of Pillow; batches hold the image, or all layers, and the factors. The last table is the memory of
a reader's own process over an epoch. ``--small`` measures only `image`, and also sets loaded into memory.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
from PIL import Image

from benchmarks.processes import print_table

Reader = Callable[[Sequence[int]], object]
BATCH = 32
MIB = 2**20
_PEER, _WHOLE = "batches: datasets, torch", "batches: in memory"
# Required ratio for `image`, by reader and other reader: the other reader's time over ours.
WANTED = {
    ("HDF5Frames.arrays, none", "h5py, none"): 0.8,
    ("HDF5Frames.frame, gzip", "datasets, numpy"): 1.6,
    ("HDF5Frames.frame, gzip", "PNG folder and PIL"): 1.6,
    ("batches: HDF5Frames, none", _PEER): 4.0,
    ("batches: HDF5Frames, gzip", _PEER): 1.6,
    ("batches: HubFrames", _PEER): 1.0,
}
# Required ratios for small images.
WANTED_SMALL = {
    ("batches: HDF5Frames, none", _PEER): 5.0,
    ("batches: HDF5Frames, gzip", _PEER): 2.0,
    ("batches: HDF5Frames, gzip", "h5py, gzip"): 1 / 1.2,
    ("batches: HubFrames", _PEER): 1.0,
    (_WHOLE, _PEER): 50.0,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frames", type=Path)
    parser.add_argument("--set", default=None, help="image set; needed if there are several")
    parser.add_argument("--rows", type=int, default=2000, help="number of frames with `image` alone")
    parser.add_argument("--all-rows", type=int, default=200, help="number of frames with all layers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder that keeps the packs for the next run")
    parser.add_argument("--small", action="store_true", help="the frames are small: measure images alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.keep or Path(scratch)
        os.environ["HF_HUB_OFFLINE"], os.environ["HF_DATASETS_CACHE"] = "1", str(work / "cache")
        import torch

        tables = [("image", ["image"], options.rows), ("all layers", None, options.all_rows)]
        for name, layers, rows in tables[:1] if options.small else tables:
            folder = work / f"{name.replace(' ', '-')}-{rows}"
            if not folder.exists():
                make(options.frames, options.set, folder, layers, rows)
            # Packing has used all cores; reading is measured on one.
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            torch.set_num_threads(1)
            print(f"\n{name}, {rows} rows\n", flush=True)
            wanted = WANTED_SMALL if options.small else WANTED if layers else {}
            measure(folder, rows, wanted, options.rounds)
            os.sched_setaffinity(0, range(os.cpu_count() or 1))


def make(source: Path, set_name: str | None, folder: Path, layers: list[str] | None, rows: int) -> None:
    """Write frames similar to the frames of a folder, and pack them in every format."""
    from candlelight.loaders import open_frames, pack_hdf5, pack_hub, write_dataset_info, write_frame

    frames = open_frames(source, set_name, layers=layers)
    changed = frames.set_info.model_copy(update={"count": rows, "layers": frames.layers})
    root = folder / "frames"
    write_dataset_info(root, frames.info.model_copy(update={"sets": {"made": changed}}))
    for frame in alike(frames, rows):
        write_frame(root, frame)
    for compression in ("none", "gzip"):
        pack_hdf5(root, folder / compression, compression=compression)
    pack_hub(root, folder / "hub")
    write_peer(folder)


def alike(frames: Any, rows: int) -> Iterator[Any]:
    """Make rows from a few frames: rolled, mirrored, and `image` dimmed."""
    from candlelight.loaders import Frame
    from candlelight.loaders.schema import array_sha256

    originals = [frames.frame(row) for row in range(min(len(frames), 32))]
    rng = np.random.Generator(np.random.PCG64(0))
    for index in range(rows):
        frame = originals[index % len(originals)]
        shift, mirror, gain = rng.integers(0, 1000, 2), rng.random() < 0.5, rng.uniform(0.7, 1.0)
        layers = {}
        for name, array in frame.layers.items():
            rolled = np.roll(array, tuple(shift), (0, 1))[:, :: -1 if mirror else 1]
            layers[name] = np.ascontiguousarray(
                (rolled * gain).astype(np.uint8) if name == "image" else rolled
            )
        hashes = {name: array_sha256(array) for name, array in layers.items()}
        changed = {"set": "made", "index": index, "id": f"made-{index:06d}", "unit": f"made-{index}"}
        metadata = frame.metadata.model_copy(update={**changed, "group": f"made-{index}", "layers": hashes})
        yield Frame(metadata, layers)


def write_peer(folder: Path) -> None:
    """Write the same frames with the writer of `datasets`, and the images with Pillow."""
    import datasets

    from candlelight.loaders import FrameFolder
    from candlelight.loaders.samples import factor_number

    datasets.disable_progress_bars()
    frames = FrameFolder(folder / "frames", "made")
    features: dict[str, Any] = {"id": datasets.Value("string"), "index": datasets.Value("int64")}
    for factor in frames.set_info.factors:
        labels = factor.kind == "categorical"
        names = [str(value) for value in factor.values or ()]
        features[factor.name] = datasets.ClassLabel(names=names) if labels else datasets.Value("float64")
    for name, array in frames.frame(0).layers.items():
        shape = (3, *array.shape[:2]) if array.ndim == 3 else array.shape
        kind = datasets.Array3D if array.ndim == 3 else datasets.Array2D
        features[name] = datasets.Image() if array.dtype == np.uint8 else kind(shape, str(array.dtype))

    def rows() -> Iterator[dict[str, Any]]:
        for row in range(len(frames)):
            frame = frames.frame(row)
            layers = {name: encode(array) for name, array in frame.layers.items()}
            numbers = {f.name: factor_number(f, frame.metadata) for f in frames.set_info.factors}
            yield {"id": frame.metadata.id, "index": row, **numbers, **layers}

    def encode(array: Any) -> Any:
        if array.dtype == np.uint8:
            return Image.fromarray(array)
        return np.moveaxis(array, 2, 0) if array.ndim == 3 else array

    (folder / "png").mkdir()
    for row in range(len(frames)):
        Image.fromarray(frames.frame(row).layers["image"]).save(folder / "png" / f"{row:06d}.png")
    written = datasets.Dataset.from_generator(rows, features=datasets.Features(features))
    written.to_parquet(str(folder / "peer.parquet"))


def measure(folder: Path, rows: int, wanted: dict[tuple[str, str], float], rounds: int) -> None:
    """Time all readers by turns, and print their times."""
    readers = row_readers(folder, bool(wanted)) | batch_readers(folder)
    if (_WHOLE, _PEER) in wanted:
        readers[_WHOLE] = whole_reader(folder)
    order = np.random.Generator(np.random.PCG64(1)).permutation(rows).tolist()
    size = min(rows, 5 * BATCH)
    for read in readers.values():
        read(order)
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(rounds):
        block = [order[(turn * size + place) % rows] for place in range(size)]
        for name, read in readers.items():
            start = time.process_time()
            read(block)
            seconds[name].append((time.process_time() - start) / size)
    print_table(
        ("reader", "us a row", "rows a second"),
        [
            (name, 1e6 * statistics.median(took), 1 / statistics.median(took))
            for name, took in seconds.items()
        ],
    )
    print()
    print_table(("ours", "peer", "ratio", "wanted"), comparisons(seconds, wanted))
    print()
    print_table(("MiB of its own at", "1/4", "2/4", "3/4", "end of an epoch"), memory(folder, rows))


def row_readers(folder: Path, image_alone: bool) -> dict[str, Reader]:
    """Open the readers of single rows as numpy arrays."""
    import datasets

    from candlelight.loaders import HDF5Frames

    readers: dict[str, Reader] = {}
    for kind in ("none", "gzip"):
        path = folder / kind / "made.h5"
        frames = HDF5Frames(path)
        # A copy of the file, because HDF5 shares unpacked chunks between readers of the same file.
        copy = path.with_name("copy.h5")
        if not copy.exists():
            shutil.copy(path, copy)
        file = h5py.File(copy)
        bare = [file[name] for name in frames.layers]
        readers[f"h5py, {kind}"] = lambda rows, bare=bare: [[d[row] for d in bare] for row in rows] and None
        readers[f"HDF5Frames.arrays, {kind}"] = lambda rows, frames=frames: each(frames.arrays, rows)
        readers[f"HDF5Frames.frame, {kind}"] = lambda rows, frames=frames: each(frames.frame, rows)
    peer = datasets.load_dataset("parquet", data_files=str(folder / "peer.parquet"), split="train")
    arrays = peer.with_format("numpy")
    readers["datasets, numpy"] = lambda rows: each(arrays.__getitem__, rows)
    if image_alone:
        pictures = sorted((folder / "png").iterdir())
        readers["PNG folder and PIL"] = lambda rows: each(
            lambda row: np.array(Image.open(pictures[row])), rows
        )
    return readers


def each(read: Callable[[int], object], rows: Sequence[int]) -> None:
    """Read rows one by one and discard them."""
    for row in rows:
        read(row)


def batch_readers(folder: Path) -> dict[str, Reader]:
    """Open the readers of batches of tensors through torch's DataLoader."""
    import datasets
    from torch.utils.data import DataLoader

    from candlelight.loaders import collate

    def loader(data: Any, **options: Any) -> Reader:
        return lambda rows: each(lambda _: None, DataLoader(data, BATCH, sampler=rows, **options))

    peer = datasets.load_dataset("parquet", data_files=str(folder / "peer.parquet"), split="train")
    ours = {name: loader(frames, collate_fn=collate) for name, frames in opened(folder).items()}
    return {f"batches: {name}": read for name, read in ours.items()} | {
        "batches: datasets, torch": loader(peer.with_format("torch")),
    }


def whole_reader(folder: Path) -> Reader:
    """Load all of `image` and the factors into memory, and take batches from them."""
    import torch

    from candlelight.loaders import HDF5Frames, load_tensors

    data = load_tensors(HDF5Frames(folder / "none" / "made.h5", layers=["image"]))

    def read(rows: Sequence[int]) -> None:
        for numbers in torch.tensor(rows).split(BATCH):
            for name in ("image", "factors"):
                data[name].index_select(0, numbers)

    return read


def opened(folder: Path) -> dict[str, Any]:
    """Open every pack with its reader."""
    from candlelight.loaders import HDF5Frames, HubFrames

    return {
        "HDF5Frames, none": HDF5Frames(folder / "none" / "made.h5"),
        "HDF5Frames, gzip": HDF5Frames(folder / "gzip" / "made.h5"),
        "HubFrames": HubFrames(folder / "hub", "made"),
    }


def comparisons(
    seconds: dict[str, list[float]], wanted: dict[tuple[str, str], float]
) -> Iterator[tuple[object, ...]]:
    """Compare readers: median over rounds of the other reader's time over ours, and the required ratio."""
    pairs = dict.fromkeys((*WANTED, *wanted, ("HDF5Frames.arrays, gzip", "h5py, gzip")))
    for ours, peer in pairs:
        if {ours, peer} <= seconds.keys():
            ratio = statistics.median(b / a for a, b in zip(seconds[ours], seconds[peer], strict=True))
            yield ours, peer, ratio, f">= {wanted[ours, peer]:.3g}" if (ours, peer) in wanted else ""


def memory(folder: Path, rows: int) -> Iterator[tuple[object, ...]]:
    """Measure the memory of this process alone at four points of a second epoch."""
    from torch.utils.data import DataLoader

    from candlelight.loaders import ResumableSampler, collate

    for name, frames in opened(folder).items():
        sampler = ResumableSampler(len(frames), BATCH, shuffle=True)
        loader = DataLoader(frames, batch_sampler=sampler, collate_fn=collate)
        each(lambda _: None, sampler.track(loader))
        every = [psutil.Process().memory_full_info().uss / MIB for _ in sampler.track(loader)]
        found = [every[len(every) * quarter // 4 - 1] for quarter in range(1, 5)]
        yield name, *found


if __name__ == "__main__":
    main()
