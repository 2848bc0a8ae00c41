"""Setup of all tests: the shapes and types of arrays are checked at run time against the annotations."""

import os
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
# checker, it accepts only one package.
install_import_hook(
    [
        ".".join(("candlelight", *path.relative_to(ROOT).with_suffix("").parts))
        for package in ("loaders", "evaluation", "generators")
        for path in (ROOT / package).rglob("*.py")
        if "jaxtyping" in path.read_text(encoding="utf-8")
    ],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)


@pytest.fixture(scope="session")
def datasets(tmp_path_factory):
    """Import `datasets` so that it stays offline, quiet, and out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        import datasets

        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        datasets.disable_progress_bars()
        yield datasets


def pytest_collection_modifyitems(items):
    """Skip tests that render if the extra `render` is not installed."""
    if all(find_spec(name) for name in ("bpy", "OpenEXR", "pyoidn", "distributed", "dask")):
        return
    for item in items:
        if "blender" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="renders, and the extra `render` is not installed"))
