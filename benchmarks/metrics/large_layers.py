"""Compare CAVs and scores of growing layers with captum's TCAV: CPU time, peak memory and disk.

    pip install --no-deps captum
    python -m benchmarks.metrics.large_layers [--sides 32 64 128 256] [--runs 100] [--limit 600]
    python -m benchmarks.metrics.large_layers --programs ours --sides 256 --images 1000 --batch 8

Network, layer (side x side x 16 numbers) and data are those of `cavs.py`: --images images of a concept, as
many negatives, 42 test images. Each program measures everything in a process of its own, on one thread:
activations, gradients, vectors and scores of all runs. A row of the table holds both programs at one size,
one after the other, so times can be compared within it, also if other programs are running. Time is CPU time;
a program that needs more than --limit CPU seconds is killed, and is not started at larger sizes. Memory is
the peak resident set of the process, of which about 700 MB are the libraries and 0.8 MB each image of
256x256 that is held at a time: of one kind in ours, of all kinds in captum. Disk is the size of the
activations and gradients in files.
"""

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.metrics.cavs import LAYER, LOGIT, TESTS, Captum, network
from benchmarks.processes import print_table
from candlelight.evaluation.concepts import fit_cavs, layer_activations, layer_gradients, sensitivity
from candlelight.evaluation.concepts.rows import RowStorage, StoredRows


def drawn(kind: str, images: int, side: int) -> Tensor:
    """Draw images as `cavs.drawn_images`, one kind at a time and in place, to need less memory."""
    stream = torch.Generator().manual_seed(["concept", "negatives", "tests"].index(kind))
    values = torch.rand(images, 3, side, side, generator=stream)
    if kind == "tests":
        return values.mul_(torch.rand(images, 3, 1, 1, generator=stream))
    if kind == "concept":
        cast = torch.tensor([0.1, 0.0, -0.1])[:, None, None] * torch.rand(images, 1, 1, 1, generator=stream)
        values.add_(cast).clamp_(0, 1)
    return values


def run_ours(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Compute all scores; rows beyond the default limit of memory are in files."""
    model, storage = network(), RowStorage(folder=folder)
    rows = []
    for kind in ("concept", "negatives"):
        images = drawn(kind, options.images, options.side)
        rows.append(layer_activations(model, [LAYER], images, options.batch, storage)[LAYER])
        del images
    tests = drawn("tests", TESTS, options.side)
    loss = lambda output, _: output[:, LOGIT]  # noqa: E731
    gradients = layer_gradients(model, LAYER, tests, loss, options.batch, storage)
    cavs = fit_cavs(*rows, generator=torch.Generator().manual_seed(0), runs=options.runs)
    scores = sensitivity(cavs, gradients, "logit")
    disk = sum(one.shape.numel() * 4 for one in (*rows, gradients) if isinstance(one, StoredRows))
    return {"disk": disk, "score": float(scores.mean()), "sd": float(scores.std())}


def run_captum(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Compute all scores; activations are in one file for each batch."""
    kinds = (("concept", options.images), ("negatives", options.images), ("tests", TESTS))
    concept, negatives, tests = (drawn(kind, count, options.side) for kind, count in kinds)
    captum = Captum(network(), (concept, negatives, tests), options.batch, folder)
    scores = torch.tensor([captum.run() for _ in range(options.runs)])
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"disk": disk, "score": float(scores.mean()), "sd": float(scores.std())}


PROGRAMS = {"ours": run_ours, "captum": run_captum}


def run_alone(name: str, options: argparse.Namespace) -> None:
    """Run one program in this process, and print its measurements."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    before = time.process_time()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = PROGRAMS[name](options, Path(folder))
    found["cpu"] = time.process_time() - before
    found["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))


def measured(name: str, side: int, options: argparse.Namespace) -> dict[str, float] | None:
    """Run one program in a process of its own; None if it takes too long."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))

    words = ["--alone", name, "--sides", side, "--images", options.images, "--runs", options.runs]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:  # files of a killed process are here
        command = [sys.executable, "-m", "benchmarks.metrics.large_layers", *map(str, words)]
        command += ["--batch", str(options.batch), "--folder", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=limit)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    done.check_returncode()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64, 128, 256])
    for name, usual in (("images", 100), ("runs", 100), ("batch", 10), ("limit", 600)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--alone", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        (options.side,) = options.sides
        run_alone(options.alone, options)
        return
    table: list[tuple[object, ...]] = []
    running = list(options.programs)
    for side in options.sides:
        for name in tuple(running):
            found = measured(name, side, options)
            if found is None:
                running.remove(name)
                table.append((16 * side**2, name, f"over {options.limit}", *[None] * 4))
                continue
            sizes = (found["rss"] / 1e6, found["disk"] / 1e6)
            table.append((16 * side**2, name, found["cpu"], *sizes, found["score"], found["sd"]))
            print(table[-1], file=sys.stderr, flush=True)
    print_table(("numbers", "program", "CPU s", "peak RSS, MB", "files, MB", "score", "sd"), table)


if __name__ == "__main__":
    main()
