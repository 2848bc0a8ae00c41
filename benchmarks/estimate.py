"""Compare `candlelight plan --estimate` with real runs: CPU time of all processes, and bytes.

    python -m benchmarks.estimate [--recipes candle parts ...] [--limit 120] [--seconds 60] [--set F=V]

Runs both commands on the first samples of each set of each recipe, by default at 64x64, and prints ratios.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPES = ("candle", "parts", "concepts", "identifiable", "negatives", "dead-leaves")
UNITS = {"s": 1, "min": 60, "h": 3600}


def run(*words: str) -> tuple[str, float]:
    """Run a command of candlelight; return its output and the CPU seconds of all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "candlelight", *words]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--limit", default="120", help="number of samples of each set")
    parser.add_argument("--seconds", default="60", help="seconds for each estimate")
    parser.add_argument(
        "--set", nargs="+", default=["image={width: 64, height: 64}"], help="fields of the recipe"
    )
    options = parser.parse_args()
    overrides = [word for field in options.set for word in ("--set", field)]
    print("recipe        timed  CPU s: estimate    +-     run  ratio | bytes", flush=True)
    for recipe in options.recipes:
        words = (recipe, "--limit", options.limit, *overrides)
        text, _ = run("plan", *words, "--estimate", "--seconds", options.seconds)
        (number, unit, spread) = re.findall(r"(\S+) (s|min|h) +\+-(\d+%)  this", text)[0]
        timed, gigabytes = re.findall(r"^timed (\d+)|(\S+) GB", text, re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder:
            _, cpu = run("render", *words, "--out", folder)
            size = sum(path.lstat().st_blocks * 512 for path in Path(folder).glob("samples/**/*"))
        estimated = float(number) * UNITS[unit]
        print(
            f"{recipe:14}{timed[0]:>5}{estimated:17.1f}{spread:>6}{cpu:8.1f}{estimated / cpu:7.2f} |"
            f"{float(gigabytes[1]) * 1e9 / size:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
