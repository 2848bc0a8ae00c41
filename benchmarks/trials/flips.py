"""Check that every flipped byte of a rendered folder is found and repaired, and time the verification.

    python -m benchmarks.trials.flips [--recipe demo] [--limit 4] [--flips 200] [--at-once 20] [--folder DIR]

Renders a small folder. Then it flips random bits in random bytes of a few files at once (files of samples,
and files that describe the folder), lets `verify` name the damaged files, and renders these again. A flip is
found if the folder of its file is named and no other folder; it is repaired if all files of the folder have
their old bytes afterwards. At the end `verify` is timed against `sha256sum` over the same files.
"""

import argparse
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.processes import contents
from benchmarks.trials.kills import LOCKS
from candlelight.generators import load_recipe, make_plan, render
from candlelight.loaders.verification.verify_frames import verify

REPEATS = 5


def flip(path: Path, rng: np.random.Generator) -> None:
    """Flip between one and eight bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
    path.write_bytes(data)


def choose(root: Path, whole: dict[str, str], count: int, rng: np.random.Generator) -> list[Path]:
    """Draw files: half of them uniformly, half with probabilities proportional to their sizes."""
    names = [root / name for name in whole]
    sizes = np.array([path.stat().st_size for path in names])
    chances = 0.5 / len(names) + 0.5 * sizes / sizes.sum()
    return [names[i] for i in rng.choice(len(names), size=count, replace=False, p=chances)]


def measure(root: Path, whole: dict[str, str]) -> tuple[float, float]:
    """Time `verify` and `sha256sum` by turns.

    Returns:
        Median seconds of each.
    """
    ours, theirs = [], []
    for _ in range(REPEATS):
        started = time.perf_counter()
        verify(root)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        names = "\0".join(whole)
        subprocess.run(
            ["xargs", "-0", "sha256sum"], input=names, text=True, cwd=root, check=True, capture_output=True
        )
        theirs.append(time.perf_counter() - started)
    return float(np.median(ours)), float(np.median(theirs))


def main() -> None:
    """Flip, find, repair, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", dest="overrides")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    plan = make_plan(load_recipe(options.recipe, options.overrides), options.limit)
    rng = np.random.default_rng(options.seed)
    flipped, found, repaired = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        root = Path(folder) / "frames"
        render(plan, root)
        whole = contents(root, *LOCKS)
        while (left := options.flips - flipped.total()) > 0:
            files = choose(root, whole, min(left, options.at_once, len(whole)), rng)
            for name in files:
                flip(name, rng)
            damaged = {damage.folder for damage in verify(root).damaged}
            exact = damaged == {name.parent for name in files}
            render(plan, root, repair=True)
            same = contents(root, *LOCKS) == whole
            flipped.update(name.name for name in files)
            found.update(name.name for name in files if exact and name.parent in damaged)
            repaired.update(name.name for name in files if same)
        ours, theirs = measure(root, whole)
    print(f"{len(plan)} samples of `{options.recipe}`, {options.at_once} flips at once")
    print(f"{'file':16}{'flipped':>9}{'found':>9}{'repaired':>9}")
    for kind in sorted(flipped):
        print(f"{kind:16}{flipped[kind]:9}{found[kind]:9}{repaired[kind]:9}")
    print(f"{'all':16}{flipped.total():9}{found.total():9}{repaired.total():9}")
    print(f"verify {ours * 1e3:.0f} ms, sha256sum {theirs * 1e3:.0f} ms: {ours / theirs:.2f} times as long")


if __name__ == "__main__":
    main()
