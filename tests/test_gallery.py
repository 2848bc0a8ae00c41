"""The pictures of the gallery can be drawn again, and each stands in docs/."""

import importlib.util
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def draw_docs():
    spec = importlib.util.spec_from_file_location("draw_docs", ROOT / "scripts" / "draw_docs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["draw_docs"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["draw_docs"]


def test_every_picture_is_there_and_says_what_it_shows(draw_docs):
    for name, grid in draw_docs.GRIDS.items():
        assert (ROOT / "docs" / "recipes" / f"{name}.jpg").is_file(), name
        assert grid.caption.endswith(".")


@pytest.mark.blender
def test_the_picture_of_the_day_renders_in_small(draw_docs, tmp_path):
    drawn = [name for name in draw_docs.GRIDS if name != "concepts-scans"]  # its meshes are not shipped
    name = drawn[date.today().toordinal() % len(drawn)]  # every one within some weeks
    grid = draw_docs.GRIDS[name]
    small = replace(
        grid,
        tile=[side // 4 for side in grid.tile],
        limit=1 if grid.limit or not grid.shown else None,
        overrides=[*grid.overrides, "render.samples=1"],
        shown=grid.shown[:1],
    )
    picture = draw_docs.draw_grid(small, tmp_path)
    assert picture.dtype == np.uint8, name
    assert picture.std() > 5, name
