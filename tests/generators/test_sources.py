"""Random numbers come from named streams, never from a global generator, a clock or system entropy."""

import ast
from pathlib import Path

import pytest

import candlelight.generators

FOLDER = Path(candlelight.generators.__file__).parent
BANNED = {"random", "secrets", "uuid", "datetime"}  # modules that are not needed for anything else
CALLS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "os": {"urandom", "getrandom", "getpid"},
}
# These modules measure durations, name runs and files, or check states; they make no numbers of samples.
ALLOWED = {
    "commands/demo_command.py": {"time.monotonic"},
    "engine/dask_pool.py": {"time.monotonic", "uuid"},
    "reports/estimate.py": {"time.perf_counter"},
    "engine/worker_checks.py": {"uuid"},
    "blender/untouched_state.py": {"random", "np.random.get_state"},  # refuses code that uses them
}
STREAMS = {"Generator", "PCG64", "SeedSequence"}  # names of numpy.random that `stream` uses


def offences(source: str) -> list[str]:
    """List the sources of randomness in a module, except `candlelight.generators.random_streams.stream`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in BANNED]
        elif isinstance(node, ast.ImportFrom) and node.module:
            used = {alias.name for alias in node.names} & CALLS.get(node.module, set())
            found += [f"{node.module}.{name}" for name in sorted(used)]
            found += [node.module] * (node.module.split(".")[0] in BANNED or node.module == "numpy.random")
        elif isinstance(node, ast.Attribute):
            owner, _, name = ast.unparse(node).rpartition(".")
            drawn = owner in ("np.random", "numpy.random") and name not in STREAMS
            found += [f"{owner}.{name}"] * (drawn or name in CALLS.get(owner, set()))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "hash":
            found.append("hash")  # the hash of a text differs between processes
    return found


@pytest.mark.parametrize(
    "path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.relative_to(FOLDER).as_posix()
)
def test_modules_use_no_other_source_of_randomness(path):
    allowed = ALLOWED.get(path.relative_to(FOLDER).as_posix(), set())
    assert set(offences(path.read_text(encoding="utf-8"))) == allowed


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import choice",
        "import uuid",
        "np.random.seed(0)",
        "rng = np.random.default_rng()",
        "numpy.random.rand(3)",
        "from numpy.random import rand",
        "seed = time.time()",
        "from time import time_ns",
        "os.urandom(4)",
        "seed = hash('x')",
    ],
)
def test_the_scan_can_fail(source):
    assert len(offences(source)) == 1


def test_the_scan_allows_streams_and_cpu_time():
    assert (
        offences("time.process_time()\nnp.random.Generator(np.random.PCG64(np.random.SeedSequence(1)))") == []
    )
