"""Record what the commands of evaluation print and write, and compare two recordings.

    python benchmarks/record_evaluation.py record FOLDER --cache DATA [--only PATTERN] [--gpu] [--workers 2]
    python benchmarks/record_evaluation.py compare FOLDER_A FOLDER_B [--rtol 1e-6] [--renamed OLD=NEW ...]

Code that is reshaped and should keep every number can be held to a recording of the code before. The first
form runs the commands of `recording/commands.txt` with the code of the checkout of this file, whatever
is installed. It fills the folder DATA once, in minutes; recordings are comparable only if they have the same
DATA. With `--gpu` the commands use the GPU. The second form prints a line for each command whose output is
not equal in bytes. `--renamed` replaces words of the first recording, such as a command, a column or a file.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
if "--gpu" not in sys.argv:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ |= {"COLUMNS": "100", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def record(folder: Path, cache: Path, only: str, workers: int) -> int:
    """Record the commands whose names fit a pattern; return 1 if an exit code is not the expected one."""
    from benchmarks.recording.data import prepare
    from benchmarks.recording.run_commands import FAILS, read_commands, run_commands

    prepare(cache)
    chosen = {name: lines for name, lines in read_commands().items() if fnmatch.fnmatch(name, only)}
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, codes, duration in run_commands(
            chosen, folder.resolve(), cache.resolve(), Path(scratch).resolve(), workers
        ):
            seconds[name] = round(duration, 1)
            if codes != [2 if line.startswith(FAILS) else 0 for line in chosen[name]]:
                wrong.append(name)
            print(f"{len(seconds):3}/{len(chosen)} {duration:6.1f} s  exit {codes}  {name}", flush=True)
    (folder / "seconds.json").write_text(json.dumps(seconds, indent=1), encoding="utf-8")
    print(f"{len(chosen)} commands, unexpected exit codes: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record", help="run the commands and store what they print and write")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--cache", type=Path, required=True, metavar="DATA", help="folder of the data")
    recording.add_argument(
        "--only", default="*", metavar="PATTERN", help="names of commands, such as 'tcav*'"
    )
    recording.add_argument("--gpu", action="store_true", help="let the commands use the GPU that torch finds")
    recording.add_argument("--workers", type=int, default=2, help="commands at a time")
    comparing = actions.add_parser("compare", help="compare two recordings")
    comparing.add_argument("folders", type=Path, nargs=2)
    comparing.add_argument("--rtol", type=float, default=1e-6, help="relative tolerance of numbers")
    comparing.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    given = parser.parse_args()
    if given.action == "record":
        return record(given.folder, given.cache, given.only, given.workers)
    from benchmarks.recording.differences import compare

    first, second = given.folders
    return compare(first, second, given.rtol, dict(pair.split("=", 1) for pair in given.renamed))


if __name__ == "__main__":
    sys.exit(main())
