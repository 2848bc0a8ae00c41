"""Check that other programs read every row of our packs correctly and without warnings.

    python -m benchmarks.trials.clients FRAMES [--sets candle ...] [--python VENV/bin/python ...]

Packs a folder of frames as a Hugging Face folder and as HDF5. Then each given Python, or this one, reads both
by `datasets` map-style and streaming, in numpy and torch formats, by h5py, by pyarrow and by DuckDB, and
compares all rows with the frames: images and layers bit for bit, factors by their counts. The given Python
does not need this package, so environments with other versions of these readers can be tried:

    python -m venv old && old/bin/pip install datasets==3.6.0 h5py duckdb pillow torch

Prints a table: `right`, `not installed`, or the error or warning. Exits with 1 after any error or warning.
"""

import argparse
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("datasets", "pyarrow", "h5py", "duckdb", "torch", "numpy")
MASKS = ("object", "part")


class Frames:
    """The frames of one set in a folder, read by numpy and Pillow alone."""

    def __init__(self, root: Path, name: str) -> None:
        """Find the frames."""
        self.info = json.loads((root / "dataset.json").read_text())["sets"][name]
        paths = sorted((root / "samples" / name).glob("*/*/metadata.json"))
        self.paths = {json.loads(path.read_text())["id"]: path.parent for path in paths}
        self.metadata = {
            id: json.loads((path / "metadata.json").read_text()) for id, path in self.paths.items()
        }

    def layers(self, id: str) -> dict[str, np.ndarray]:
        """Read the layers of a frame, by column name."""
        from PIL import Image

        path = self.paths[id]
        with np.load(path / "layers.npz") as stored, Image.open(path / "image.png") as image:
            arrays = {name.replace("/", "_"): stored[name] for name in stored.files}
            return {"image": np.asarray(image), **arrays}

    def factors(self) -> dict[str, Counter[Any]]:
        """Count the frames by the values of each categorical factor, as numbers of these values."""
        listed = {f["name"]: f["values"] for f in self.info["factors"] if f["kind"] == "categorical"}
        return {
            name: Counter(values.index(one["factors"][name]) for one in self.metadata.values())
            for name, values in listed.items()
        }


def same(found: Any, expected: np.ndarray, channels_first: bool) -> bool:
    """Compare an array with a layer bit for bit; the array may have a wider type."""
    if expected.ndim == 3 and channels_first:
        expected = np.moveaxis(expected, 2, 0)
    array = np.asarray(found)
    if array.shape != expected.shape and array.ndim == expected.ndim + 1 and array.shape[0] == 1:
        array = array[0]  # a gray image as torch returns it
    narrow = array.astype(expected.dtype)
    return array.shape == expected.shape and narrow.tobytes() == np.ascontiguousarray(expected).tobytes()


def check_rows(rows: Iterable[Any], frames: Frames, image_first: bool, first: bool) -> None:
    """Compare rows by column name with the frames; `first` and `image_first` say where channels are."""
    seen = []
    for row in rows:
        id = row["id"].decode() if isinstance(row["id"], bytes) else str(row["id"])
        seen.append(id)
        for name, array in frames.layers(id).items():
            if not same(row[name], array, image_first if name == "image" else first):
                raise ValueError(f"{id}: {name} differs")
        text = row["metadata"].decode() if isinstance(row["metadata"], bytes) else str(row["metadata"])
        if json.loads(text) != frames.metadata[id]:
            raise ValueError(f"{id}: metadata differs")
    if sorted(seen) != sorted(frames.metadata):
        raise ValueError(f"{len(seen)} rows of {len(frames.metadata)} frames")


def check_counts(columns: Callable[[str], Iterable[Any]], frames: Frames) -> None:
    """Compare how often each value of each factor occurs; `columns` reads one by name."""
    for name, counts in frames.factors().items():
        if Counter(map(int, columns(name))) != counts:
            raise ValueError(f"factor {name}: counts differ")


def formatted(loaded: Any, form: str) -> Any:
    """Let rows be arrays of a library; the error names a library that is not installed."""
    import_module(form)
    return loaded.with_format(form)


def hub(folder: Path, frames: Frames, name: str, form: str, streaming: bool) -> None:
    """Read the Hugging Face folder by `datasets`."""
    import datasets

    loaded = datasets.load_dataset(str(folder / "hub"), name, split="train", streaming=streaming)
    rows = formatted(loaded, form)
    # Pictures come channels last as numpy, channels first as torch; arrays are stored channels first.
    check_rows(rows, frames, image_first=form == "torch", first=True)
    if not streaming:
        check_counts(lambda factor: loaded[factor], frames)


def hdf5(folder: Path, frames: Frames, name: str, form: str, streaming: bool) -> None:
    """Read the HDF5 file by `datasets`, version 4 or later."""
    import datasets

    if int(datasets.__version__.split(".")[0]) < 4:
        raise ModuleNotFoundError("datasets>=4")
    file = str(folder / "hdf5" / f"{name}.h5")
    loaded = datasets.load_dataset("hdf5", data_files=file, split="train", streaming=streaming)
    rows = (
        {**row, **{f"light_{name}": array for name, array in row.get("light", {}).items()}}
        for row in formatted(loaded, form)
    )
    check_rows(rows, frames, image_first=False, first=False)


def h5py_alone(folder: Path, frames: Frames, name: str) -> None:
    """Read the HDF5 file by h5py."""
    import h5py

    with h5py.File(folder / "hdf5" / f"{name}.h5") as file:
        layers = next(iter(frames.paths))
        names = ["id", "metadata", *(layer.replace("light_", "light/", 1) for layer in frames.layers(layers))]
        rows = ({n.replace("/", "_"): file[n][row] for n in names} for row in range(len(file["id"])))
        check_rows(rows, frames, image_first=False, first=False)
        check_counts(lambda factor: file["factors"][factor][()], frames)


def pyarrow_alone(folder: Path, frames: Frames, name: str) -> None:
    """Read the Parquet files by pyarrow, pictures by Pillow."""
    import pyarrow.parquet as pq
    from PIL import Image

    def rows() -> Iterator[dict[str, Any]]:
        for path in sorted((folder / "hub" / name).glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(8):
                for row in batch.to_pylist():
                    for key in ("image", *MASKS):
                        if key in row:
                            row[key] = np.asarray(Image.open(io.BytesIO(row[key]["bytes"])))
                    yield row

    check_rows(rows(), frames, image_first=False, first=True)
    table = pq.read_table(folder / "hub" / name, partitioning=None)
    check_counts(lambda factor: table[factor].to_pylist(), frames)


def duckdb_alone(folder: Path, frames: Frames, name: str) -> None:
    """Ask DuckDB for the counts of each factor, and for the bytes of pictures."""
    import duckdb
    from PIL import Image

    files = str(folder / "hub" / name / "*.parquet").replace("'", "''")
    for factor, counts in frames.factors().items():
        found = duckdb.sql(f"""select "{factor}", count(*) from '{files}' group by all""").fetchall()
        if dict(found) != counts:
            raise ValueError(f"factor {factor}: counts differ")
    for id, data in duckdb.sql(f"select id, image.bytes from '{files}'").fetchall():
        if not same(Image.open(io.BytesIO(data)), frames.layers(id)["image"], channels_first=False):
            raise ValueError(f"{id}: image differs")


def checks() -> dict[str, Callable[[Path, Frames, str], None]]:
    """List the checks by name."""
    ways = [(form, streaming) for form in ("numpy", "torch") for streaming in (False, True)]
    made: dict[str, Callable[[Path, Frames, str], None]] = {}
    for kind, read in (("hub", hub), ("hdf5", hdf5)):
        for form, streaming in ways:
            way = "streaming" if streaming else "map"
            made[f"datasets, {kind}, {way}, {form}"] = partial(read, form=form, streaming=streaming)
    return {**made, "h5py": h5py_alone, "pyarrow": pyarrow_alone, "duckdb": duckdb_alone}


def outcome(check: Callable[[Path, Frames, str], None], folder: Path, frames: Frames, name: str) -> str:
    """Run one check, and describe the outcome in one line."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("datasets").addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check(folder, frames, name)
        except ModuleNotFoundError as error:
            return f"not installed ({error.name or error})"
        except Exception as error:  # the trial reports any exception of a client
            return f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        finally:
            logging.getLogger("datasets").removeHandler(handler)
    said += [f"{one.category.__name__}: {one.message}" for one in caught]
    return f"WARNED: {' '.join(said[0].split())[:200]}" if said else "right"


def try_all(folder: Path, frames_root: Path, sets: list[str]) -> dict[str, Any]:
    """Run every check on every set in this Python."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    os.environ["HF_DATASETS_CACHE"] = str(folder / f"cache-{os.getpid()}")
    try:
        import datasets

        datasets.disable_progress_bars()
    except ModuleNotFoundError:
        pass
    read = cache(partial(Frames, frames_root))
    found = {}
    for what, check in checks().items():
        results = [outcome(check, folder, read(name), name) for name in sets]
        found[what] = next((result for result in results if result != "right"), "right")
    return {"versions": {name: known(name) for name in PACKAGES}, "found": found}


def known(package: str) -> str:
    """Return the version of a package, "-" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def main() -> None:
    """Pack, let each Python read the packs, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("frames", type=Path)
    parser.add_argument("--sets", nargs="*", help="image sets; all if not given")
    parser.add_argument("--python", nargs="*", default=[sys.executable], help="interpreters to try")
    parser.add_argument("--packs", type=Path, help=argparse.SUPPRESS)  # how this script calls itself
    options = parser.parse_args()
    if options.packs:
        print(json.dumps(try_all(options.packs, options.frames, options.sets)))
        return
    from candlelight.loaders import pack_hdf5, pack_hub, read_dataset_info

    sets = options.sets or list(read_dataset_info(options.frames).sets)
    with tempfile.TemporaryDirectory() as folder:
        pack_hub(options.frames, Path(folder) / "hub", sets=sets)
        pack_hdf5(options.frames, Path(folder) / "hdf5", sets=sets)
        results = []
        for python in options.python:
            command = [python, __file__, str(options.frames), "--packs", folder, "--sets", *sets]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    print_table(results)
    found = [text for result in results for text in result["found"].values()]
    sys.exit(any(text.startswith("W") for text in found))


def print_table(results: list[dict[str, Any]]) -> None:
    """Print versions and outcomes, one column for each Python."""
    rows = [[name, *(result["versions"][name] for result in results)] for name in PACKAGES]
    rows += [[what, *(result["found"][what] for result in results)] for what in checks()]
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
