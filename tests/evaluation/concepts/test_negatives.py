"""``candlelight evaluate csm`` with negative images from the data, a pack and a folder."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.evaluation.run.result_files import read_results
from candlelight.generators.engine.dataset_description import dataset_info
from candlelight.generators.engine.dead_leaves import DeadLeavesRenderer
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders import pack_hdf5, write_dataset_info

# Concept sets without Blender: dead leaves with varying albedo, and the same leaves with varying light.
RECIPE = """
name: painted
description: Concept sets of dead leaves.
image: {width: 24, height: 16}
layers: [image, radiance, albedo, shading, residual]
sets:
  albedo: &set
    factors: &factors
      contrast: {values: [0, 0.2, 0.4, 0.6, 0.8]}
      azimuth: {values: [0]}
    unit_factors: []
    shares_units: true
    varies: [contrast]
    layout: {dead_leaves: {contrast: $contrast, azimuth: $azimuth, falloff: 0.8}}
  illumination:
    <<: *set
    factors:
      contrast: {values: [0.5]}
      azimuth: {values: [0, 70, 140, 210, 280]}
    varies: [azimuth]
  negatives:
    <<: *set
    unit_factors: null
    shares_units: false
    varies: []
    draws: 2
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("painted")
    (folder / "painted.yaml").write_text(RECIPE)
    plan = make_plan(load_recipe(folder / "painted.yaml"))
    root = folder / "frames"
    write_dataset_info(root, dataset_info(plan))
    painter = DeadLeavesRenderer(root, plan.recipe)
    for group in plan.groups.values():
        painter.trace(group)()
    return root


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "my photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(9):
        Image.fromarray(rng.integers(0, 256, (30, 50, 3), np.uint8)).save(folder / f"a{i} b.jpg")
    return folder


def evaluate(frames, tmp_path, *options):
    command = ["evaluate", "csm", frames, "--model", "retinex", "--set", "negatives", "--runs", "3"]
    command += ["--permutations", "19"]
    out = tmp_path / "csm.json"
    out.unlink(missing_ok=True)
    result = CliRunner().invoke(main, [str(part) for part in (*command, "--out", out, *options)])
    return result, read_results(out)[0] if out.exists() else None


def test_negatives_from_the_data_a_pack_and_a_folder(frames, photos, tmp_path):
    (pack,) = pack_hdf5(frames, tmp_path / "h5", ["negatives"])
    found = {}
    for name, options in (
        ("set", ()),
        ("pack", ("--negatives", pack)),
        ("folder", ("--negatives", photos)),
        ("some", ("--negatives", photos, "--negatives-limit", "5")),
    ):
        result, found[name] = evaluate(frames, tmp_path, *options)
        assert result.exit_code == 0, result.output
    assert found["set"].details == found["pack"].details
    assert found["set"].details != found["folder"].details != found["some"].details


def test_the_classifier_reaches_the_result(frames, tmp_path):
    result, found = evaluate(frames, tmp_path, "--classifier", "ridge", "--regularisation", "0.1")
    assert result.exit_code == 0, result.output
    settings = found.about.settings
    assert [settings[name] for name in ("classifier", "regularisation", "runs")] == ["ridge", 0.1, 3]


def test_errors_of_the_negatives_are_one_line(frames, photos, tmp_path):
    (photos / "b.jpg").write_bytes(b"no picture")
    for name, message in (
        ("no-such", "set `no-such` is not there; expected one of: albedo, illumination, negatives"),
        (photos, "b.jpg: cannot be read as an image"),
    ):
        result, _ = evaluate(frames, tmp_path, "--negatives", name)
        assert result.exit_code == 2
        assert message in result.output
        assert result.output.strip().count("\n") == 0
