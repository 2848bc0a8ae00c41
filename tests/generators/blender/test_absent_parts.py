"""Parts and objects that are absent: their faces go, and all else stays."""

import numpy as np
import pytest

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
        masks = [
            frame.layers["object"].astype(int) * 256 + frame.layers["part"] for frame in (original, other)
        ]
        differ = masks[0] != masks[1]
        near = differ.copy()  # widened by two pixels
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                near |= np.roll(differ, (dy, dx), (0, 1))
        assert 0.3 < (~near).mean() < 1
        for name in ("albedo", "depth", "normal", "object", "part"):
            assert np.array_equal(original.layers[name][~near], other.layers[name][~near]), name
    # No hole: where the head hid the neck, the neck is seen, and elsewhere the floor.
    was_head = (original.layers["object"] == 2) & (original.layers["part"] == 2)
    behind = set(removed[0].layers["part"][was_head].tolist())
    assert 3 in behind
    assert 2 not in behind
