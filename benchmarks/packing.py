"""Compare the time of packing with the time of the codecs that it uses.

    python -m benchmarks.packing FRAMES SET [--rows 200] [--threads 2] [--compression gzip]

The rows of the set (repeated if there are fewer) are linked into a separate folder of frames. One run
measures, each with the same number of threads and the same bytes:

- encode: arrays in memory to chunks of HDF5 (shuffle and deflate, as in `pack_hdf5`), or to Parquet by
  `pyarrow.parquet.ParquetWriter` (on one thread, its only mode) with masks as PNG;
- decode: frames on disk to arrays (PNG, deflate), without comparing hashes;
- pack: `pack_hdf5` and `pack_hub`, from files to files, with hashes compared and files synced.

`encode / pack` is the share of the codec's speed that packing reaches; `(decode + encode) / pack` also counts
decoding as codec time. Best of `--repeat`.
"""

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from candlelight.loaders.files.layer_codecs import decode_npz, decode_png, encode_png
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import read_dataset_info, write_dataset_info, write_frame
from candlelight.loaders.hdf5.filters import Compression, encode_chunk
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.arrow_tables import (
    ArrowRow,
    arrow_columns,
    arrow_schema,
    arrow_table,
    writer_options,
)
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.samples import Frame


def fill(root: Path, frames: Path, set_name: str, rows: int) -> FrameFolder:
    """Write a folder of ``rows`` frames, repeating the frames of the set."""
    info = read_dataset_info(frames)
    set_info = info.set(set_name).model_copy(update={"count": rows})
    write_dataset_info(root, info.model_copy(update={"sets": {set_name: set_info}}))
    source = FrameFolder(frames, set_name)
    for number in range(rows):
        frame = source.frame(number % len(source))
        renamed = {"index": number, "id": f"{set_name}-{number:06d}", "unit": f"{set_name}/{number}"}
        write_frame(root, Frame(frame.metadata.model_copy(update=renamed), frame.layers))
    return FrameFolder(root, set_name)


def decode(frames: FrameFolder, row: int) -> None:
    """Decode the files of one row."""
    path, info = frames.path(row), frames.set_info
    decode_png(path / "image.png")
    decode_npz(path / "layers.npz", [n for n in frames.layers if n != "image"], info.height, info.width)


def encode_hdf5(frame: Frame, compression: Compression) -> None:
    """Encode the layers of one frame as chunks."""
    for array in frame.layers.values():
        encode_chunk(array, compression)


def encode_hub(frames: FrameFolder, kept: list[Frame], times: int) -> None:
    """Encode frames as Parquet, one row group after another, in memory."""
    every = arrow_columns(frames.set_info)
    images = [(frames.path(row) / "image.png").read_bytes() for row in range(len(kept))]
    with pq.ParquetWriter(io.BytesIO(), arrow_schema(every), **writer_options(every)) as writer:
        for _ in range(times):
            masks = [n for n in ("object", "part") if n in frames.layers]
            rows = [
                ArrowRow(f, {"image": image, **{n: encode_png(f.layers[n]) for n in masks}})
                for f, image in zip(kept, images, strict=True)
            ]
            writer.write_table(arrow_table(every, rows), row_group_size=len(rows))


def seconds(repeat: int, work: Callable[[int], Any]) -> float:
    """Time a step: the best of several."""
    times = []
    for number in range(repeat):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return min(times)


def measure(root: Path, frames: FrameFolder, options: argparse.Namespace) -> list[tuple[str, float]]:
    """Time every step."""
    kept = [frames.frame(row) for row in range(min(len(frames), 40))]
    times = -(-len(frames) // len(kept))
    rows = len(kept) * times

    def threaded(work: Callable[[int], Any]) -> Callable[[int], Any]:
        def run(_: int) -> None:
            with ThreadPoolExecutor(options.threads) as pool:
                for _ in pool.map(work, range(rows)):
                    pass

        return run

    def chunk(row: int) -> None:
        encode_hdf5(kept[row % len(kept)], options.compression)

    steps: dict[str, Callable[[int], Any]] = {
        "decode": threaded(lambda row: decode(frames, row % len(frames))),
        "encode hdf5": threaded(chunk),
        "encode hub": lambda _: encode_hub(frames, kept, times),
        "pack hdf5": lambda number: pack_hdf5(
            root, root.with_name(f"h5-{number}"), compression=options.compression, threads=options.threads
        ),
        "pack hub": lambda number: pack_hub(root, root.with_name(f"hub-{number}"), threads=options.threads),
    }
    per_row = {name: rows if name.split()[0] in ("decode", "encode") else len(frames) for name in steps}
    return [(name, seconds(options.repeat, work) / per_row[name]) for name, work in steps.items()]


def main() -> None:
    """Measure, and print ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frames", type=Path)
    parser.add_argument("set")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--compression", default="gzip", choices=["gzip", "none", "zstd", "blosc"])
    parser.add_argument("--json", action="store_true", help="numbers only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "frames"
        found = dict(measure(root, fill(root, options.frames, options.set, options.rows), options))
    if options.json:
        print(json.dumps(found))
        return
    for name, time_each in found.items():
        print(f"{name:12s} {time_each * 1e3:8.2f} ms per frame")
    for kind in ("hdf5", "hub"):
        encode, pack = found[f"encode {kind}"], found[f"pack {kind}"]
        both = found["decode"] + encode
        print(f"{kind}: encode / pack {encode / pack:.2f}, (decode + encode) / pack {both / pack:.2f}")


if __name__ == "__main__":
    main()
