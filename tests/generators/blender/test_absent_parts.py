"""Parts and objects that are absent: their faces go, and all else stays."""

from itertools import combinations

import numpy as np
import pytest

from benchmarks.removal_noise import EXACT, LIGHT, PARTS, Removal, change, noise, render_removals
from candlelight.generators import load_recipe, make_plan, render
from candlelight.loaders.frame_folder import FrameFolder

RECIPE = """
name: absent
description: A duck with and without single parts, and a ball behind it.
image: {width: 64, height: 48}
render: {samples: 16, bounces: 2, denoise: false}
layers: [image, radiance, albedo, depth, normal, object, part]
exposure: 0.3
sets:
  original:
    factors:
      head: {values: [own, absent]}
      shown: {values: [own, absent]}
      ball: {values: [red, absent]}
      only: {values: [beak, absent]}
    draws: 1
    grid: []
    do: {head: own, shown: own, ball: red, only: absent}
    layout:
      objects:
        - {type: sphere, material: $ball, size: 0.6, location: [0.9, -0.6]}
        - {type: duck, material: $shown, parts: {head: $head, $only: own}, size: 1.4, rotation: 130}
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights: [{azimuth: 30, elevation: 50, distance: 4}]
      camera: {location: [0, 4.5, 2.5], look_at: [0, 0, 0.5], field_of_view: 34}
  removed:
    counterfactual:
      of: original
      do:
        - {head: absent}
        - {ball: absent}
        - {shown: absent, head: absent, only: beak}
        - {shown: absent, head: absent}
"""

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]


@pytest.fixture(scope="module")
def frames(tmp_path_factory, render_recipe):
    out = tmp_path_factory.mktemp("absent")
    render_recipe(out, RECIPE)
    removed = FrameFolder(out / "frames", "removed")
    return [FrameFolder(out / "frames", "original").frame(0), *(removed.frame(i) for i in range(4))]


def test_masks_and_metadata_follow(frames):
    original, headless, without_ball, beak_alone, no_duck = frames
    head = original.metadata.objects[1].parts[1]
    assert (head.name, head.material) == ("head", "rgb")
    assert head.area > 20
    gone = headless.metadata.objects[1].parts[1]
    assert gone.model_dump() == {
        **head.model_dump(), "material": "absent", "base_color": None, "bbox": None, "area": 0,
    }  # fmt: skip
    assert headless.metadata.objects[1].corners == original.metadata.objects[1].corners
    ball, duck = without_ball.metadata.objects  # the duck keeps its number
    assert (ball.material, ball.bbox, ball.area) == ("absent", None, 0)
    assert set(np.unique(without_ball.layers["object"])) == {0, 2}
    assert duck.area >= original.metadata.objects[1].area
    shown = [part.name for part in beak_alone.metadata.objects[1].parts if part.area]
    assert shown == ["beak"]
    assert no_duck.metadata.objects[1].area == 0


def test_all_else_is_equal_to_the_bit_and_what_was_behind_is_seen(frames):
    original, *removed = frames
    for other in removed:
        elsewhere = Removal(original, other).elsewhere()
        assert 0.3 < elsewhere.mean() < 1
        for name in EXACT:
            assert np.array_equal(original.layers[name][elsewhere], other.layers[name][elsewhere]), name
    # No hole: where the head hid the neck, the neck is seen, and elsewhere the floor.
    was_head = (original.layers["object"] == 2) & (original.layers["part"] == 2)
    behind = set(removed[0].layers["part"][was_head].tolist())
    assert 3 in behind
    assert 2 not in behind


# ------------------------------------------------------------------------------------------- parts-removed


def test_the_32_subsets_of_parts_are_32_frames_that_are_equal_elsewhere(tmp_path):
    small = ["image.width=32", "image.height=32", "render.samples=1", "render.denoise=false"]
    recipe = load_recipe("parts-removed", ["sets.original.grid=[]", "sets.original.draws=1", *small])
    plan = make_plan(recipe).of_set("original", "removed")
    assert not render(plan, tmp_path, workers=1).failed
    folders = [FrameFolder(tmp_path, name) for name in ("original", "removed")]
    frames = [folder.frame(i) for folder in folders for i in range(len(folder))]
    assert len(frames) == len({frame.layers["image"].tobytes() for frame in frames}) == 32
    for frame in frames:
        creature = frame.metadata.objects[0]
        absent = {slot for slot in PARTS if frame.metadata.factors[slot] == "absent"}
        assert frame.metadata.intervention == dict.fromkeys(absent, "absent")
        shown = {part.name.partition("_")[0] for part in creature.parts if part.area}
        assert shown == {"body", *PARTS} - absent
        assert {part.name.partition("_")[0] for part in creature.parts if part.material != "absent"} == shown
        assert creature.corners == frames[0].metadata.objects[0].corners
    for pair in combinations(frames, 2):
        elsewhere = Removal(*pair).elsewhere()
        for name in EXACT:
            one, other = (frame.layers[name] for frame in pair)
            assert np.array_equal(one[elsewhere], other[elsewhere]), name


def test_elsewhere_light_differs_by_noise_that_falls_with_the_root_of_the_samples(tmp_path):
    few, many, reference = (
        render_removals(tmp_path / str(samples), samples, size=24, seeds=3) for samples in (4, 64, 512)
    )
    for layer in LIGHT:
        true = [np.mean([change(*pair, layer) for pair in pairs], axis=0) for pairs in reference]
        measured = [
            np.mean([noise(pairs, its, layer) for pairs, its in zip(found, true, strict=True)], axis=0)
            for found in (few, many)
        ]
        (few_one, few_two), (many_one, many_two) = measured  # of changes with one seed, and with two
        assert 2.5 < few_one / many_one < 8  # 4 if noise falls as 1 / sqrt(samples)
        assert layer != "radiance" or 2.5 < few_two / many_two < 8  # outliers dominate that of shading
        assert 3 * many_one < many_two
