"""The ring of twelve cameras in docs/recipes.md, rendered and exported: every view sees the same surfaces."""

import re
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators import load_recipe, make_plan, render
from candlelight.loaders import FrameFolder, read_captions
from candlelight.loaders.exports import export_colmap
from candlelight.loaders.exports.scene_views import project_points
from candlelight.loaders.files.plain_yaml import parse_yaml

PAGE = Path(__file__).parents[3] / "docs" / "recipes.md"
SMALL = ["image={width: 64, height: 48}", "render={preset: draft, samples: 1, denoise: false}"]

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]


@pytest.fixture(scope="module")
def ring(tmp_path_factory) -> Path:
    (block,) = re.findall(r"```yaml\n(name: ring\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    out = tmp_path_factory.mktemp("ring") / "frames"
    outcome = render(make_plan(load_recipe(parse_yaml(block), SMALL)), out, workers=1)
    assert (outcome.written, outcome.failed) == (12, {})
    return out


def test_a_view_sees_the_points_of_the_next_one(ring):
    frames = FrameFolder(ring)
    views = [frames.frame(row) for row in range(12)]
    assert len(set(read_captions(frames))) == 12
    for here, there in zip(views, views[1:] + views[:1], strict=True):
        shown = here.layers["object"] == 1
        pixels, depth = project_points(there.metadata.camera, here.layers["position"][shown])
        columns, rows = pixels.astype(int).T
        same = there.layers["object"][rows, columns] == 1
        # A neighbour 30 degrees off sees most of the teapot, at the depth of the point.
        agree = np.abs(there.layers["depth"][rows, columns] - depth)[same] < 0.02 * depth[same]
        assert shown.sum() > 100
        assert same.mean() > 0.8
        assert agree.mean() > 0.7


def test_the_exported_points_lie_on_the_scene(ring, tmp_path):
    assert export_colmap(ring, tmp_path, points=500).written == 12
    text = (tmp_path / "ring-000000" / "sparse" / "0" / "points3D.txt").read_text().splitlines()[1:]
    points = np.array([line.split()[1:4] for line in text], float)
    assert len(points) == 500
    on_floor = np.abs(points[:, 2]) < 1e-3
    assert 0.5 < on_floor.mean() < 1
    assert np.linalg.norm(points[~on_floor], axis=1).max() < 1.5  # the teapot, at the origin
