"""Check that damaged packs end in one clear line, and never in a traceback or in wrong rows.

    python -m benchmarks.trials.fuzz_packs [--packs 2000] [--seed 0] [--forms folder hdf5 hub] [--keep DIR]

Makes a small folder of noise frames and packs it as HDF5 (one set in two splits) and for the Hub. Then it
repeatedly copies one of the three, damages one file of the copy, and runs `candlelight info`, `info --json`,
`info --sheet` and `info --verify` on it; on frames also `pack` and `export`; on a Hugging Face folder also
`push --dry-run`; and reads every row through `open_frames`. A worker process does this, so that a crash of a
library is counted and does not end the trial. The outcomes:

    same        nothing noticed, and nothing differs
    found       all rows that are read are right, and `--verify` names the damage
    refused     reading ends in one line, and `--verify` names the damage too
    missed      reading ends in one line, but `--verify` reports an intact pack
    unlike      rows differ or are missing, and `--verify` names the damage
    forged      any of these, where the hashes were recomputed to match the damage
    WRONG       rows differ, and `--verify` reports an intact pack
    TRACEBACK   an exception that is not an InputError, or a message of several lines
    CRASH       the process died, or took too long

The last three must be 0. Their cases are printed with the numbers that repeat them, and kept in DIR.
"""

import argparse
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trials.noise_packs import FORMS, make_base
from benchmarks.trials.pack_damage import damage

BAD = ("WRONG", "TRACEBACK", "CRASH")
OUTCOMES = ("same", "found", "refused", "missed", "unlike", "forged", *BAD)
SECONDS, BYTES = 60, 32 * 2**30  # of one case; address space, of which libraries reserve much

# ------------------------------------------------------------------------------------------------- judge


def read_rows(pack: Path) -> dict[str, str]:
    """Hash every row of every set and split, by set and number in the set."""
    from candlelight.loaders import open_frames
    from candlelight.loaders.looking.look import look

    rows = {}
    for set_name, found in look(pack).sets.items():
        for split in found.splits:
            frames = open_frames(pack, set_name, split, objects=True)
            factors = frames.factor_table
            for row, sample in enumerate(frames.__getitems__(range(len(frames)))):
                total = hashlib.sha256(frames.metadata(row).to_json().encode())
                total.update(factors[row].tobytes() + repr((sample["factors"], sample["objects"])).encode())
                for name in frames.layers:
                    total.update(name.encode() + sample[name].numpy().tobytes())
                rows[f"{set_name}/{sample['index']}"] = total.hexdigest()
    return rows


def judge(pack: Path, right: dict[str, str], forged: bool) -> tuple[str, str]:
    """Run all commands on a pack, read its rows, and return the outcome."""
    from candlelight.loaders.errors import InputError

    for command, *words in commands(pack):
        if trouble := ask([command, str(pack), *words])[1]:
            return "TRACEBACK", trouble
    code, trouble = ask(["info", str(pack), "--verify"])
    if trouble:
        return "TRACEBACK", trouble
    error = ""
    try:
        rows = read_rows(pack)
    except InputError as problem:
        error, rows = str(problem), right
        if "\n" in error:
            return "TRACEBACK", f"several lines: {error}"
    except Exception as problem:
        return "TRACEBACK", f"reading: {problem!r}"
    if forged:
        return "forged", ""
    if code:
        return ("refused" if error else "found" if rows == right else "unlike"), ""
    if error:
        return "missed", error
    if pack.name == "hdf5":  # its files mention the other splits of their set, but no other set
        there = {name.partition("/")[0] for name in rows}
        right = {name: row for name, row in right.items() if name.partition("/")[0] in there}
    return ("same", "") if rows == right else ("WRONG", str(sorted({*rows.items()} ^ {*right.items()})[:4]))


def commands(pack: Path) -> list[list[str]]:
    """List the commands for a pack, without its name and without `info --verify`."""
    beside = pack.parent
    asked = [["info"], ["info", "--json"], ["info", "--set", "a", "--sheet", str(beside / "s.png")]]
    if pack.name == "folder":
        asked += [["pack", "--to", "hdf5", "--out", str(beside / "h5")]]
        asked += [["export", "--to", "webdataset", "--out", str(beside / "tar")]]
    if pack.name == "hub":
        asked += [["push", "me/noise", "--dry-run"]]
    return asked


def ask(words: list[str]) -> tuple[int, str]:
    """Run a command; return its exit code, and a description if it ended wrongly."""
    from click.testing import CliRunner

    from candlelight.cli import main

    result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, f"{words[2:]}: {result.exception!r}"
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    if result.exit_code not in (0, 1, 2) or (result.exit_code == 2 and len(errors) != 1):
        return 1, f"{words[2:]}: code {result.exit_code}, {result.output[-300:]!r}"
    if result.exit_code == 2 and result.stderr.splitlines()[-1:] != errors:
        return 1, f"{words[2:]}: more than one line, {result.stderr[-300:]!r}"
    return result.exit_code, ""


# ------------------------------------------------------------------------------------------------- work


def work(base: Path, forms: list[str], seed: int, numbers: range, keep: Path | None) -> None:
    """Judge some cases, and print a line of JSON before and after each."""
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, resource.RLIM_INFINITY))
    right = {form: read_rows(base / form) for form in forms}
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        form = forms[number % len(forms)]
        print(json.dumps({"number": number, "form": form}), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            pack = shutil.copytree(base / form, Path(folder) / form)
            file, how = damage(pack, rng)
            signal.alarm(SECONDS)
            outcome, why = judge(pack, right[form], how.endswith("forged"))
            signal.alarm(0)
            if keep and outcome in (*BAD, "missed"):
                shutil.copytree(pack, keep / f"{number}-{form}", dirs_exist_ok=True)
        case = {"number": number, "form": form, "file": file, "how": how, "outcome": outcome, "why": why}
        print(json.dumps(case), flush=True)


def run(base: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Judge all cases in worker processes; a process that dies is replaced."""
    cases: list[dict[str, Any]] = []
    while len(cases) < options.packs:
        cache = tempfile.mkdtemp(dir=base.parent)
        words = [sys.executable, "-m", "benchmarks.trials.fuzz_packs", "--worker", str(base)]
        words += ["--seed", str(options.seed), "--first", str(len(cases))]
        words += ["--packs", str(options.packs), "--forms", *options.forms]
        words += ["--keep", str(options.keep)] if options.keep else []
        environment = os.environ | {"HF_DATASETS_CACHE": cache, "HF_HUB_OFFLINE": "1"}
        started: dict[str, Any] = {}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                case = json.loads(line)
                started = case
                if "outcome" in case:
                    cases.append(case)
                    started = {}
        shutil.rmtree(cache)
        if process.returncode and not started:
            sys.exit("the worker ended before it began a case; its message stands above")
        if started:
            cases.append(
                {**started, "file": "?", "how": "?", "outcome": "CRASH", "why": str(process.returncode)}
            )
    return cases


def table(cases: list[dict[str, Any]], forms: list[str]) -> str:
    """Format a table of the counts of outcomes by kind of damage."""
    text = io.StringIO()
    print(f"{'form':8}{'damage':10}" + "".join(f"{name:>10}" for name in OUTCOMES), file=text)
    for form in forms:
        mine = [case for case in cases if case["form"] == form]
        for how in sorted({case["how"].partition(",")[0] for case in mine}):
            counts = Counter(case["outcome"] for case in mine if case["how"].partition(",")[0] == how)
            print(f"{form:8}{how:10}" + "".join(f"{counts[name]:>10}" for name in OUTCOMES), file=text)
    counts = Counter(case["outcome"] for case in cases)
    print(f"{'all':18}" + "".join(f"{counts[name]:>10}" for name in OUTCOMES), file=text)
    return text.getvalue()


def main() -> None:
    """Make packs, damage them, and print the outcomes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        numbers = range(options.first, options.packs)
        work(options.worker, options.forms, options.seed, numbers, options.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        make_base(base)
        cases = run(base, options)
    print(table(cases, options.forms), end="")
    for case in cases:
        if case["outcome"] in (*BAD, "missed"):
            print("{number} {form} {file} ({how}): {outcome} {why}".format_map(case))
    sys.exit(any(case["outcome"] in BAD for case in cases))


if __name__ == "__main__":
    main()
