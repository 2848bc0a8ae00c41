import json
import shutil
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def load_benchmark():
    path = Path(__file__).parents[3] / "benchmarks" / "trials" / "clients.py"
    spec = spec_from_file_location("benchmark_clients", path)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


clients = load_benchmark()


@pytest.fixture
def packs(stored):
    return stored


@pytest.mark.parametrize("what", clients.checks())
def test_clients_read_every_row_without_a_warning(datasets, packs, frames_root, what):
    pytest.importorskip("torch")
    for name in ("grid", "free"):
        found = clients.outcome(clients.checks()[what], packs, clients.Frames(frames_root, name), name)
        if found.startswith("not installed"):
            pytest.skip(found)
        assert found == "right"


@pytest.mark.parametrize("what", ["datasets, hub, streaming, numpy", "h5py", "pyarrow"])
def test_the_checks_can_fail(datasets, packs, frames_copy, what):
    def outcome():
        return clients.outcome(clients.checks()[what], packs, clients.Frames(frames_copy, "free"), "free")

    frame = next(path for path in (frames_copy / "samples" / "free").glob("*/*"))
    image = np.asarray(Image.open(frame / "image.png")).copy()
    image[3, 4, 1] ^= 1
    Image.fromarray(image).save(frame / "image.png")
    assert (
        outcome()
        == f"WRONG: ValueError: {json.loads((frame / 'metadata.json').read_text())['id']}: image differs"
    )
    shutil.rmtree(frame)
    assert outcome().startswith("WRONG: KeyError")


def test_warnings_are_reported():
    def warn(folder, frames, name):
        warnings.warn("old\nspelling", DeprecationWarning, stacklevel=1)

    assert clients.outcome(warn, Path(), None, "") == "WARNED: DeprecationWarning: old spelling"
