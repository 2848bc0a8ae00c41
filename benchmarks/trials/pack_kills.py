"""Check that nothing is lost by packing, and by killing it: compare packs and rows bit by bit.

    python -m benchmarks.trials.pack_kills FRAMES SET [--kills 20] [--rows 60] [--seed 0]

The rows of the set (repeated if there are fewer) are first packed without disturbance, to hub and to hdf5, in
two splits. Then `candlelight pack` is started and gets SIGKILL after a time that is drawn uniformly from the
length of the undisturbed call, including start and end. It is started and killed again until all kills of its
form are used. If a call ends without a kill, its files must have the bytes of the undisturbed files, with no
file missing or added. The next call packs the same frames into the same place again; the files of the
previous call must stay unchanged until the new files are complete. The last call is not killed, and its files
are compared too. At the end the tensors of every row are read from folder and packs, through our readers and,
for the Hub pack, through `datasets`, and must be equal bit by bit. Shards are small, so that many
are finished before a kill.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.packing import fill
from benchmarks.processes import contents
from candlelight.loaders import read_dataset_info
from candlelight.loaders.hub.arrow_tables import layer_column

MAKING = "*.partial"  # packs in the making
SMALL = """
import sys
from candlelight.loaders.hub import shards
shards.ROW_GROUP_BYTES, shards.SHARD_BYTES = 2**19, 2**20
from candlelight.cli import main
main(sys.argv[1:])
"""


def command(frames: Path, kind: str, out: Path) -> list[str]:
    """Return the arguments to pack in two splits."""
    where = ["pack", str(frames), "--to", kind, "--out", str(out)]
    return [sys.executable, "-c", SMALL, *where, "--split", "train=0.7,test=0.3"]


def torment(frames: Path, kind: str, folder: Path, kills: int, rng: np.random.Generator) -> str:
    """Kill packing several times, compare the files, and describe the outcome."""
    calm, out = folder / "calm" / "out", folder / "torn" / "out"
    out.parent.mkdir(parents=True)
    start = time.perf_counter()
    subprocess.run(command(frames, kind, calm), check=True, stdout=subprocess.DEVNULL)
    length, due = time.perf_counter() - start, contents(calm, MAKING)
    killed = finished = 0
    while killed < kills:
        process = subprocess.Popen(command(frames, kind, out), stdout=subprocess.DEVNULL)
        try:
            process.wait(rng.random() * length * 1.05)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            assert not finished or contents(out, MAKING) == due, "the earlier pack is gone"
            continue
        assert process.returncode == 0, process.returncode
        finished += 1
        assert contents(out, MAKING) == due, "other bytes after a kill"
    subprocess.run(command(frames, kind, out), check=True, stdout=subprocess.DEVNULL)
    assert contents(out, MAKING) == due, "other bytes in the end"
    left = [path for path in out.parent.rglob(".*")]
    assert not left, left
    return f"{killed} kills, {finished + 1} packs whole, same bytes"


def round_trip(frames: Path, folder: Path) -> str:
    """Read every row from the folder and from all packs, and compare the tensors."""
    import datasets
    import torch

    from candlelight.loaders import FrameFolder, HDF5Frames, HubFrames

    datasets.disable_progress_bars()
    info = read_dataset_info(frames)
    (name,) = info.sets
    sources = {
        sample["id"]: sample
        for sample in map(FrameFolder(frames, name).__getitem__, range(info.set(name).count))
    }
    hub = folder / "hub" / "torn" / "out"
    seen = []
    for split in ("train", "test"):
        readers = (
            HDF5Frames(folder / "hdf5" / "torn" / "out" / f"{name}-{split}.h5"),
            HubFrames(hub, name, split=split),
        )
        rows = datasets.load_dataset(str(hub), name, split=split, cache_dir=str(folder / "cache"))
        for row, plain in enumerate(rows.with_format("torch")):
            due = sources[plain["id"]]
            for found in (reader[row] for reader in readers):
                assert found.keys() == due.keys()
                for key, value in due.items():
                    same = (
                        torch.equal(found[key], value)
                        if isinstance(value, torch.Tensor)
                        else found[key] == value
                    )
                    assert same, (split, row, key)
            for layer in readers[0].layers:
                found = plain[layer_column(layer)].squeeze(0)  # masks come with an axis of one channel
                assert torch.equal(found, due[layer]), (split, row, layer)
            seen.append(plain["id"])
    assert sorted(seen) == sorted(sources)
    return f"{len(seen)} rows, each of {len(due)} entries, equal in folder, HDF5, Hub and datasets"


def main() -> None:
    """Run the trial, and print the outcome."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frames", type=Path)
    parser.add_argument("set")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "frames", options.frames, options.set, options.rows)
        for kind in ("hub", "hdf5"):
            rng = np.random.default_rng([options.seed, len(kind)])
            print(kind, torment(folder / "frames", kind, folder / kind, options.kills, rng), flush=True)
        print(round_trip(folder / "frames", folder))


if __name__ == "__main__":
    main()
