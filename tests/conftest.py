"""Setup of all tests: shapes and types are checked at run time; outputs that pages show are compared."""

import functools
import gc
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# torch reads this on import. Small tensors gain nothing from a second thread, and on a busy machine, threads
# that wait for each other take ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
# Modules that annotate arrays are checked; with all modules, planning would take twice as long. An int is
# accepted as a float, as in PEP 484. jaxtyping's own pytest option is not used: with arguments for the
# checker, it accepts only one package. Older Pythons, which run a part of the tests again, have the
# functions as users do.
if sys.version_info >= (3, 13):
    install_import_hook(
        [
            ".".join(("candlelight", *path.relative_to(ROOT).with_suffix("").parts))
            for package in ("loaders", "evaluation", "generators")
            for path in (ROOT / package).rglob("*.py")
            if "jaxtyping" in path.read_text(encoding="utf-8")
        ],
        "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
    )


NUMBER = re.compile(r"(?<![\w.])(?<!version )[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan|undefined)(?!\w)")
NAME = r"[\w.:]+(?: [\w.:]+)*"
IN_SOME_ORDER = re.compile(r"^.* is better than .*$|[\w-]+(?:, [\w-]+){2,}")


def fixed_words(line: str) -> str:
    """Keep what a program prints for any data: no numbers but versions, no order of names, no verdicts."""
    line = line.replace("(no interval,", "(95 % interval 0 to 0, p = 0,")
    line = NUMBER.sub("#", line.replace("95 % interval", ""))
    line = re.sub(r"\(?# to #\)?| \(#\)", "", line)  # an undefined score has no interval and no rank
    line = re.sub(r"more sensitive|less sensitive|human-like", "VERDICT", line)
    line = re.sub(f"{NAME}(?: [>~] {NAME})+", "ORDER", line)
    line = re.sub(r"^undecided between (.*) and (.*?)(, by [^:]*)?: .*", r"\1 is better than \2\3", line)
    line = IN_SOME_ORDER.sub(lambda some: "|".join(sorted(re.split(" is better than |, ", some[0]))), line)
    return " ".join(line.split())


@pytest.fixture(scope="session")
def check_shown():
    """Return a function that compares the output that a page shows with what was printed.

    A line "..." stands for lines that are left out, and " ..." at the end of a line for its rest. On other
    data than those of the page, only `fixed_words` are compared; this does not see wrong numbers, nor lines
    that the page lacks.
    """

    def check(shown: str, printed: str, same_data: bool = False) -> None:
        words = str.rstrip if same_data else fixed_words
        lines = [words(line) for line in printed.splitlines()]
        for line in shown.splitlines():
            start, left_out, _ = line.partition(" ...")
            found = any(one.startswith(words(start)) if left_out else one == words(line) for one in lines)
            if not found and line != "...":
                pytest.fail(f"{line!r} is not printed; expected one of:\n{printed}")
        if same_data and "..." not in shown:
            assert len(shown.splitlines()) == len(lines), f"not shown: {printed}"

    return check


@pytest.fixture(scope="session")
def shown_block():
    """Return a function that finds the block of a page of `docs/` that starts with a text."""

    def find(page: str, start: str) -> str:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```(?:\w+)?\n(.*?)^```$", text, re.M | re.S)  # in pairs, code too
        [block] = [one for one in blocks if one.startswith(start)]
        return block

    return find


@pytest.fixture
def snapshot(snapshot):
    """Compare texts with files beside the test; `--snapshot-update` writes them anew."""
    from tests.snapshots import TextFile  # only tests with snapshots need syrupy

    return snapshot.use_extension(TextFile)


@pytest.fixture(scope="session")
def datasets(tmp_path_factory):
    """Import `datasets` so that it stays offline, quiet, and out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        datasets = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        datasets.disable_progress_bars()
        yield datasets


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks():
    """Leave out fsync: tests end processes but cut no power, and disks would take a tenth of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage among the million objects that collection makes, neither now nor in tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Skip tests that render without the extra `render`, and tests of a GPU where there is none."""
    renders = all(find_spec(name) for name in ("bpy", "OpenEXR", "pyoidn", "distributed", "dask"))
    for item in items:
        if "blender" in item.keywords and not renders:
            item.add_marker(pytest.mark.skip(reason="renders, and the extra `render` is not installed"))
        if "gpu" in item.keywords and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="there is no GPU"))


@functools.cache
def _has_gpu() -> bool:
    import torch  # tests of a GPU import it; others may run without it

    return torch.cuda.is_available()
