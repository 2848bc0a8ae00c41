"""The pairs of the three kinds of data: rated pairs, transforms of images, and moved frames."""

from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.perception import rotate_images
from candlelight.evaluation.perception.experiment import ExperimentSettings
from candlelight.evaluation.perception.experiment.session import log_settings
from candlelight.evaluation.perception.experiment.stimuli import (
    default_largest,
    moved_stimuli,
    nearest_pairs,
    open_stimuli,
)
from candlelight.evaluation.views import DataIdentity, MovedImages
from candlelight.evaluation.views.moved_frames import _MOVES, MovedRows, _Frame, _Scene
from candlelight.evaluation.views.named_rows import name_items
from tests.refusals import refused


def test_rated_pairs_are_spaced_in_d(write_tid):
    scores = np.random.default_rng(0).uniform(0.5, 7.5, 240).round(3)
    scores[:2] = 7.5, 0.5
    stimuli = open_stimuli(write_tid(scores.tolist()), ExperimentSettings(levels=8, repeats=5))
    assert len(stimuli.stimuli) == 40
    wanted = np.linspace(0.25, 0.95, 8)
    for level in range(8):
        shown = [one for one in stimuli.stimuli if one.level == level]
        assert len(shown) == 5
        assert {one.kind for one in shown} == {"rated"}
        assert {one.transform for one in shown} == {None}
        # By hand: of the pairs nearest to this level, the five closest.
        gaps = sorted(abs((10 - s) / 10 - wanted[level]) for s in scores)
        got = sorted(abs(one.magnitude - wanted[level]) for one in shown)
        count = len({one.row for one in shown})
        assert got[:count] == pytest.approx(gaps[:count], abs=1e-9)
    one = stimuli.stimuli[17]
    assert one.magnitude == pytest.approx((10 - scores[one.row]) / 10)
    original, distorted = stimuli.pictures(one)
    reference, kind, level = (int(part) for part in one.image[1:].split("_"))
    torch.testing.assert_close(original, torch.full((3, 6, 8), 9 * reference / 255))
    torch.testing.assert_close(distorted, torch.full((3, 6, 8), (9 * reference + 5 * kind + level) / 255))


def test_a_level_repeats_its_pairs_if_they_are_few(write_tid):
    data = write_tid([9.0, 8.0, 7.5, 6.8, 1.0])
    stimuli = open_stimuli(data, ExperimentSettings(levels=3, repeats=4, images=2)).stimuli
    rows = [[one.row for one in stimuli if one.level == level] for level in range(3)]
    # Levels 0.1, 0.5 and 0.9: D of 0.1, 0.2 and 0.25 is nearest to the first, 0.32 to the second.
    assert rows == [[0, 1, 0, 1], [3, 3, 3, 3], [4, 4, 4, 4]]


def test_an_empty_level_takes_the_nearest_pair():
    found = list(nearest_pairs(np.array([0.0, 0.1, 1.0]), np.array([0.0, 0.4, 1.0]), 3))
    assert found == [[0, 1], [1], [2]]


def test_equal_ratings_are_refused(write_tid):
    with refused(r"expected pairs of different D, got D from 0\.5 to 0\.5"):
        open_stimuli(write_tid([5.0, 5.0]), ExperimentSettings())


def test_levels_end_at_the_largest_d(write_tid, photographs):
    settings = ExperimentSettings(levels=3, repeats=1, largest=0.5)
    shown = open_stimuli(write_tid([9.0, 7.1, 5.2, 3.0, 1.0]), settings).stimuli
    assert [one.magnitude for one in shown] == pytest.approx([0.1, 0.29, 0.48])
    with refused("a largest D is for rated pairs"):
        open_stimuli(photographs, settings)


@pytest.fixture
def photographs(tmp_path):
    folder = tmp_path / "photographs"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for name in "abcd":
        Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).save(folder / f"{name}.png")
    return str(folder)


def test_transforms_have_even_levels_and_the_same_images(photographs):
    transforms = ("rotation=6", "translation x")
    settings = ExperimentSettings(transforms, levels=3, repeats=6, images=3, size=32, pixels_per_degree=20)
    stimuli = open_stimuli(photographs, settings)
    by_name = {
        name: [one for one in stimuli.stimuli if one.transform == name]
        for name in ("rotation", "translation x")
    }
    assert sorted({one.magnitude for one in by_name["rotation"]}) == [2, 4, 6]
    # 0.23, 0.46 and 0.69 degrees are 4.6, 9.2 and 13.8 pixels, of which the nearest whole ones are shown.
    assert sorted({one.magnitude for one in by_name["translation x"]}) == [5 / 20, 9 / 20, 14 / 20]
    for shown in by_name.values():
        assert len({one.image for one in shown}) == 3
        assert set(Counter((one.level, one.image) for one in shown).values()) == {2}
    assert len({frozenset(one.image for one in shown) for shown in by_name.values()}) == 1
    one = by_name["rotation"][-1]
    original, distorted = stimuli.pictures(one)
    assert original.shape == (3, 32, 32)
    torch.testing.assert_close(distorted, rotate_images(original[None], 6.0)[0])
    one = by_name["translation x"][-1]
    original, distorted = stimuli.pictures(one)
    assert torch.equal(distorted[..., 14:], original[..., :-14])


def test_transforms_by_default(photographs):
    stimuli = open_stimuli(photographs, ExperimentSettings(levels=2, repeats=1, size=32))
    ends = {one.transform: one.magnitude for one in stimuli.stimuli if one.level == 1}
    assert ends == pytest.approx({"translation x": 20 / 29.2, "rotation": 10.8, "scale": 1.078})
    assert default_largest("illuminant -565") == 8


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("rotate=3", "`name` must be one of: translation x"),
        ("rotation=0", "expected a largest magnitude above 0, which changes nothing, got 0"),
        ("rotation=-6", "expected a largest magnitude above 0, which changes nothing, got -6"),
        ("scale=0.9", "expected a largest magnitude above 1, which changes nothing, got 0.9"),
        ("illuminant red=3", "expected illuminant HUE"),
        ("translation y=0.05", r"of at least 2 pixels, 0\.068 degrees, got 0\.05"),
    ],
)
def test_wrong_transforms_are_refused_before_the_experiment(photographs, transform, message):
    with refused(message):
        open_stimuli(photographs, ExperimentSettings((transform,), size=32))


def test_a_short_translation_has_a_level_for_each_pixel(photographs):
    settings = ExperimentSettings(
        ("translation y=0.16",), levels=20, repeats=2, size=32, pixels_per_degree=20
    )
    shown = open_stimuli(photographs, settings).stimuli  # up to 3.2 pixels
    assert [(one.level, one.magnitude) for one in shown] == [(n, (n + 1) / 20) for n in (0, 0, 1, 1, 2, 2)]


def test_few_levels_are_refused():
    with refused("`levels`: expected at least 2, got 1"):
        ExperimentSettings(levels=1)


def test_moved_frames_have_no_range_of_their_own():
    with refused("moved frames have the magnitudes that were rendered"):
        open_stimuli("frames", ExperimentSettings(("rotation=3",), moved=True))


@pytest.mark.parametrize(
    ("data", "moved"), [("tid2013:nowhere", False), ("frames", True)], ids=["rated", "moved"]
)
def test_a_size_is_for_pictures(data, moved):
    with refused("a size is for pictures of a folder; leave it out"):
        open_stimuli(data, ExperimentSettings(moved=moved, size=64))


def test_the_default_size_is_logged_as_a_number(photographs):
    both = [ExperimentSettings(levels=2, repeats=1, size=size) for size in (None, 256)]
    logs = [log_settings(one, open_stimuli(photographs, one)) for one in both]
    assert logs[0] == logs[1]
    assert logs[0]["size"] == 256


MAGNITUDES = {"rotation": (0.0, 1.0, 2.0, 4.0, 8.0), "translation x": (0.0, 0.1, 0.2)}


class MovedView(MovedRows):
    """Frames whose gray tells row and magnitude."""

    def __getitem__(self, row):
        scene = self.scenes[row]
        values = torch.tensor(sorted(scene.by_magnitude), dtype=torch.float64)
        moved = (row + values.float() / 10)[:, None, None, None].expand(-1, 3, 2, 2)
        return MovedImages(moved[0], moved, scene.transform, "degrees", values, values, 40.0)


def moved_view(magnitudes=MAGNITUDES):
    """Make a view of two scenes under each transform."""
    scenes = tuple(
        _Scene(
            f"{scene}/{name}",
            scene,
            _MOVES[name.split()[0]],
            name,
            None,
            dict.fromkeys(values, _Frame(0, 0, 40)),
        )
        for name, values in magnitudes.items()
        for scene in "ab"
    )
    return MovedView(name_items(DataIdentity("moved", "frames"), scenes), MovedView.__getitem__, ())


def test_moved_frames_are_shown_at_rendered_magnitudes():
    stimuli = moved_stimuli(moved_view(), ExperimentSettings(levels=3, repeats=2), 29.2)
    rotations = [one for one in stimuli.stimuli if one.transform == "rotation"]
    assert sorted({one.magnitude for one in rotations}) == [
        1,
        4,
        8,
    ]  # of 1, 2, 4 and 8, nearest to 1, 4.5 and 8
    shifts = [one for one in stimuli.stimuli if one.transform == "translation x"]
    # A shift by 0.1 degrees of the camera, 4 pixels, is 4 / 29.2 degrees on the screen.
    assert sorted({one.magnitude for one in shifts}) == pytest.approx([4 / 29.2, 8 / 29.2])
    for one in stimuli.stimuli:
        original, moved = stimuli.pictures(one)
        assert float(original[0, 0, 0]) == one.row
        seen = float(moved[0, 0, 0] - original[0, 0, 0]) * 10
        assert seen == pytest.approx(one.magnitude * (29.2 / 40 if one in shifts else 1), abs=1e-5)


def test_moved_frames_lack_transforms_or_magnitudes():
    with refused("`transform` must be one of: rotation, translation x; got scale"):
        moved_stimuli(moved_view(), ExperimentSettings(("scale",)), 29.2)
    with refused("at least 2 magnitudes of rotation above the reference, got 1"):
        moved_stimuli(moved_view({"rotation": (-1.0, 0.0, 3.0)}), ExperimentSettings(), 29.2)


def test_magnitudes_below_the_reference_are_another_family():
    view = moved_view({"scale": (0.8, 0.9, 1.0, 1.1, 1.3)})
    stimuli = moved_stimuli(view, ExperimentSettings(levels=4), 29.2)
    assert sorted({one.magnitude for one in stimuli.stimuli}) == [1.1, 1.3]


def test_parallax_counts_in_degrees_of_the_observer():
    stimuli = moved_stimuli(moved_view({"parallax x": (0.0, 0.1, 0.2)}), ExperimentSettings(levels=2), 29.2)
    assert sorted({one.magnitude for one in stimuli.stimuli}) == pytest.approx([4 / 29.2, 8 / 29.2])


def test_settings_of_a_log_tell_pairs_apart(photographs, write_tid):
    first = ExperimentSettings(levels=2, repeats=2, size=32)
    other = ExperimentSettings(levels=2, repeats=2, size=32, seed=1)
    logs = [log_settings(one, open_stimuli(photographs, one)) for one in (first, first, other)]
    assert logs[0] == logs[1]
    assert logs[0]["stimuli"] != logs[2]["stimuli"]
    assert logs[0]["trials"] == 12
    assert logs[0]["reminder"] is True
    rated = open_stimuli(write_tid([1.0, 5.0]), ExperimentSettings())
    assert log_settings(ExperimentSettings(), rated)["reminder"] is False
    assert log_settings(ExperimentSettings(reminder=True), rated)["reminder"] is True
