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
    Stimulus,
    default_largest,
    moved_stimuli,
    nearest_pairs,
    open_stimuli,
    plan_trials,
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


def test_levels_end_at_the_largest_d(write_tid):
    settings = ExperimentSettings(levels=3, repeats=1, largest=0.5)
    shown = open_stimuli(write_tid([9.0, 7.1, 5.2, 3.0, 1.0]), settings).stimuli
    assert [one.magnitude for one in shown] == pytest.approx([0.1, 0.29, 0.48])


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


def test_a_short_translation_has_a_level_for_each_pixel(photographs):
    settings = ExperimentSettings(
        ("translation y=0.16",), levels=20, repeats=2, size=32, pixels_per_degree=20
    )
    shown = open_stimuli(photographs, settings).stimuli  # up to 3.2 pixels
    assert [(one.level, one.magnitude) for one in shown] == [(n, (n + 1) / 20) for n in (0, 0, 1, 1, 2, 2)]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("{photographs}", {"transform": ("rotate=3",)}, "`name` must be one of: translation x"),
        ("{photographs}", {"transform": ("rotation=0",)}, "a largest magnitude above 0, which .*, got 0"),
        ("{photographs}", {"transform": ("scale=0.9",)}, "a largest magnitude above 1, which .*, got 0.9"),
        ("{photographs}", {"transform": ("illuminant red=3",)}, "expected illuminant HUE"),
        (
            "{photographs}",
            {"transform": ("translation y=0.05",), "size": 32},
            r"of at least 2 pixels, 0\.068 degrees, got 0\.05",
        ),
        ("{photographs}", {"largest": 0.5}, "a largest D is for rated pairs"),
        ("{equal}", {}, r"expected pairs of different D, got D from 0\.5 to 0\.5"),
        ("tid2013:nowhere", {"size": 64}, "a size is for pictures of a folder; leave it out"),
        ("frames", {"moved": True, "size": 64}, "a size is for pictures of a folder; leave it out"),
        ("frames", {"moved": True, "transform": ("rotation=3",)}, "have the magnitudes that were rendered"),
        ("frames", {"levels": 1}, "`levels`: expected at least 2, got 1"),
    ],
)
def test_settings_that_are_refused_before_the_experiment(photographs, write_tid, data, options, message):
    data = data.format(photographs=photographs, equal=write_tid([5.0, 5.0]))
    with refused(message):
        open_stimuli(data, ExperimentSettings(**options))


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
    # Of 1, 2, 4 and 8, nearest to 1, 4.5 and 8.
    assert sorted({one.magnitude for one in rotations}) == [1, 4, 8]
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


@pytest.mark.parametrize(
    ("transform", "magnitudes", "shown"),
    [
        ("scale", (0.8, 0.9, 1.0, 1.1, 1.3), [1.1, 1.3]),  # below the reference is another family
        ("parallax x", (0.0, 0.1, 0.2), [4 / 29.2, 8 / 29.2]),  # in degrees of the observer
    ],
)
def test_magnitudes_of_scale_and_parallax(transform, magnitudes, shown):
    stimuli = moved_stimuli(moved_view({transform: magnitudes}), ExperimentSettings(levels=4), 29.2)
    assert sorted({one.magnitude for one in stimuli.stimuli}) == pytest.approx(shown)


def test_settings_of_a_log_tell_pairs_apart(photographs, write_tid):
    settings = {"levels": 2, "repeats": 1}
    first, same, other = (
        log_settings(one, open_stimuli(photographs, one))
        for one in (
            ExperimentSettings(**settings),
            ExperimentSettings(**settings, size=256),  # the default is logged as a number
            ExperimentSettings(**settings, seed=1),
        )
    )
    assert first == same
    assert first["stimuli"] != other["stimuli"]
    assert (first["size"], first["trials"], first["reminder"]) == (256, 6, True)
    rated = open_stimuli(write_tid([1.0, 5.0]), ExperimentSettings())
    assert log_settings(ExperimentSettings(), rated)["reminder"] is False
    assert log_settings(ExperimentSettings(reminder=True), rated)["reminder"] is True


# --------------------------------------------------------------------------------------------- plan of trials


def pairs(levels, repeats):
    return [
        Stimulus("transform", f"{name}{level}{repeat}", name, float(level), level, repeat)
        for name in ("rotation", "scale")
        for level in range(levels)
        for repeat in range(repeats)
    ]


@pytest.mark.parametrize(("levels", "repeats"), [(1, 1), (3, 4), (2, 7)])
def test_every_pair_is_shown_once_and_sides_are_balanced_in_each_level(levels, repeats):
    trials = plan_trials(pairs(levels, repeats), 1, "ann")
    assert [trial.number for trial in trials] == list(range(2 * levels * repeats))
    assert Counter(trial.stimulus for trial in trials) == Counter(pairs(levels, repeats))
    cells = Counter((t.stimulus.transform, t.stimulus.level, t.side) for t in trials)
    for name, level in {(t.stimulus.transform, t.stimulus.level) for t in trials}:
        assert abs(cells[name, level, "left"] - cells[name, level, "right"]) == repeats % 2


def test_the_order_depends_on_seed_and_observer_alone():
    first = plan_trials(pairs(5, 6), 1, "ann")
    assert plan_trials(pairs(5, 6), 1, "ann") == first
    for seed, observer in ((2, "ann"), (1, "bob")):
        other = plan_trials(pairs(5, 6), seed, observer)
        assert [t.stimulus for t in other] != [t.stimulus for t in first]
        sides = [{t.stimulus: t.side for t in plan} for plan in (first, other)]
        assert sides[0] != sides[1]


def test_the_extra_side_and_the_first_side_are_drawn():
    sides = Counter(plan_trials(pairs(1, 1)[:1], seed, "ann")[0].side for seed in range(200))
    assert sides["left"] == pytest.approx(100, abs=35)  # five standard deviations
