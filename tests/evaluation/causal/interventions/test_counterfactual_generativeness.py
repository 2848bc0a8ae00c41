import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from candlelight.evaluation.causal.effects import ice
from candlelight.evaluation.causal.generativeness import baseline_codes, counterfactual_generativeness
from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.evaluation.run.intervals import mean_interval
from tests.refusals import refused

SIZES = (3, 4, 2)
NAMES = ("colour", "angle", "light")
KNOWN = dict.fromkeys(NAMES, 1.0)


class Grid:
    """All combinations of factors; each factor is the brightness of one pixel of the images."""

    def __init__(self, sizes=SIZES):
        self.sizes = torch.tensor(sizes)
        self.classes = torch.tensor(list(itertools.product(*map(range, sizes))))
        self.images = (self.classes / (self.sizes - 1))[:, None, None, :]

    def decode(self, codes):
        """Look up the image of the nearest classes."""
        nearest = codes.round().clamp(min=0).minimum(self.sizes - 1)
        return self.images[(nearest[:, None] == self.classes).all(2).int().argmax(1)]

    def classify(self, images):
        """Give the classes of each factor with certainty, as probabilities."""
        found = (images[:, 0, 0] * (self.sizes - 1)).round().long()
        return [functional.one_hot(found[:, i], int(size)).float() for i, size in enumerate(self.sizes)]

    def score(self, codes, sets, decoder, accuracy=KNOWN, **options):
        chosen = {"output": "probabilities", **options}
        return counterfactual_generativeness(
            codes, self.classes, sets, decoder, self.classify, accuracy, **chosen
        )


@pytest.fixture
def grid():
    return Grid()


def test_codes_that_are_the_factors_score_one(grid):
    codes = grid.classes.double()
    result = grid.score(codes, select_codes(irs(codes, grid.classes)), grid.decode, images=grid.images)
    assert result.by_factor.tolist() == [1, 1, 1]
    assert (float(result.score), result.inside.tolist(), result.outside.tolist()) == (1, [1] * 3, [0] * 3)
    assert float(result.reconstruction_error.max()) == 0
    assert (result.factors, result.left_out) == (NAMES, {})


@pytest.mark.parametrize(("mixed", "expected"), [(0, 1), (0.13, 17 / 25), (0.17, 9 / 25), (0.26, 1 / 5)])
def test_mixing_codes_by_known_amounts_lowers_the_score(mixed, expected):
    """The first code is the first factor plus a share of the second.

    Setting the second code from g to its baseline, 4 - g or more away, moves the first factor by the share of
    that distance, which changes its class from a half on, unless the class is at that end of the grid.
    """
    grid = Grid((5, 5))
    codes = grid.classes.double() @ torch.tensor([[1, 0], [mixed, 1]]).double()

    def decode(codes):
        return grid.decode(torch.stack([codes[:, 0] - mixed * codes[:, 1], codes[:, 1]], dim=1))

    result = grid.score(codes, [[0], [1]], decode, {"mixed": 1.0, "pure": 1.0})
    np.testing.assert_allclose(result.by_factor, [expected, 1])
    np.testing.assert_allclose(result.outside, [1 - expected, 0])
    assert result.inside.tolist() == [1, 1]
    assert float(result.score) == pytest.approx((expected + 1) / 2)


def _soft(seed, codes=5):
    """A decoder of mixed codes, and a classifier that is not certain."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(codes, 6, generator=draws, dtype=torch.float64)
    heads = [torch.randn(6, size, generator=draws, dtype=torch.float64) for size in SIZES]

    def decode(codes):
        return (codes @ weights).sigmoid().reshape(-1, 1, 2, 3)

    def classify(images):
        return [3 * images.flatten(1) @ head for head in heads]

    return torch.randn(24, codes, generator=draws, dtype=torch.float64), decode, classify


@pytest.mark.parametrize("baseline", ["farthest", "mean", "zero"])
def test_equals_loops_over_individual_effects(grid, baseline):
    codes, decode, classify = _soft(0)
    sets = [[0, 3], [2], [0]]
    found = counterfactual_generativeness(
        codes, grid.classes, sets, decode, classify, KNOWN, baseline=baseline, batch_size=7
    )
    start = baseline_codes(codes, baseline)
    for column, members in enumerate(sets):
        others = [code for code in range(5) if code not in members]

        def probabilities(codes, column=column):
            return classify(decode(codes))[column].softmax(1)

        for row in range(0, 24, 3):
            one, true = slice(row, row + 1), grid.classes[row, column]
            effects = [
                float(ice(probabilities, codes[one], some, codes[one, some], start[one, some])[0, 0, true])
                for some in (members, others)
            ]
            expected = abs(abs(effects[0]) - abs(effects[1]))
            assert float(found.by_row[row, column]) == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(found.by_factor, found.by_row.mean(0))
    torch.testing.assert_close(found.score, found.by_row.mean())
    assert 0 < float(found.score) < 1


@pytest.mark.parametrize("certain", [0.9, 0.6])
def test_a_classifier_that_is_right_but_not_certain_lowers_the_score(grid, certain):
    """P falls from c to (1 - c) / (k - 1) for k classes, which is the score of perfect codes."""

    def classify(images):
        return [
            one * certain + (1 - one) * (1 - certain) / (one.shape[1] - 1) for one in grid.classify(images)
        ]

    codes = grid.classes.double()
    found = counterfactual_generativeness(
        codes, grid.classes, [[0], [1], [2]], grid.decode, classify, KNOWN, output="probabilities"
    )
    np.testing.assert_allclose(found.certainty, [certain] * 3, rtol=1e-6)
    expected = [certain - (1 - certain) / (size - 1) for size in SIZES]
    np.testing.assert_allclose(found.by_factor, expected, rtol=1e-6)
    np.testing.assert_allclose(found.outside, [0, 0, 0], atol=1e-9)


def test_a_mistaken_row_that_other_codes_correct_counts_as_one():
    grid = Grid((3, 3))
    codes = grid.classes.double()

    def classify(images):  # takes the first image for one of another class
        images = images.clone()
        images[(images == grid.images[0]).all(3).all(2).all(1), :, :, 0] = 1
        return grid.classify(images)

    names = {"one": 1.0, "other": 1.0}
    found = counterfactual_generativeness(
        codes, grid.classes, [[0], [1]], grid.decode, classify, names, output="probabilities"
    )
    assert found.by_row[0].tolist() == [1, 1]
    assert found.certainty.tolist() == pytest.approx([8 / 9, 1])
    # The first image is the counterfactual of two other rows, to which it shows the wrong class.
    assert (float(found.inside[0]), float(found.outside[0])) == pytest.approx((7 / 9, 2 / 9))


def test_blind_to_exchanged_codes_and_to_codes_of_all_factors():
    grid = Grid((3, 3))
    codes = grid.classes.double()
    names = {"one": 1.0, "other": 1.0}
    exchanged = grid.score(codes, [[1], [0]], grid.decode, names)
    assert float(exchanged.score) == 1
    assert (exchanged.inside.tolist(), exchanged.outside.tolist()) == ([0, 0], [1, 1])
    # Both factors in the first code, nothing in the second.
    number = torch.arange(9.0).double()[:, None]

    def decode(codes):
        return grid.images[codes[:, 0].round().long()]

    shared = grid.score(torch.cat([number, 0 * number], dim=1), [[0], [0]], decode, names)
    assert shared.inside.min() > 0.5
    assert shared.outside.tolist() == [0, 0]


def test_factors_that_the_classifier_does_not_know_are_left_out(grid):
    codes = grid.classes.double()
    mixed = codes @ torch.tensor([[1, 0, 0], [0, 1, 0], [0.6, 0, 1]]).double()

    def decode(codes):
        return grid.decode(codes @ torch.tensor([[1, 0, 0], [0, 1, 0], [-0.6, 0, 1]]).double())

    whole = grid.score(mixed, [[0], [1], [2]], decode)
    part = grid.score(mixed, [[0], [1], [2]], decode, {**KNOWN, "colour": 0.949})
    assert part.factors == ("angle", "light")
    assert part.left_out == {"colour": "held-out accuracy 0.949, below 0.95"}
    torch.testing.assert_close(part.by_row, whole.by_row[:, 1:])
    assert float(part.score) > float(whole.score)
    kept = grid.score(mixed, [[0], [1], [2]], decode, {**KNOWN, "colour": 0.949}, least_accuracy=0.9)
    assert kept.factors == NAMES


def test_pictures_are_those_of_evenly_spread_rows(grid):
    codes = grid.classes.double()
    pictures = grid.score(codes, [[0], [1], [2]], grid.decode, pictures=3).pictures
    assert pictures.rows == (0, 12, 23)
    torch.testing.assert_close(pictures.original, grid.images[[0, 12, 23]])
    assert pictures.inside.shape == pictures.outside.shape == (3, 3, 1, 1, 3)
    # The first row is dark; its own code alone, and all others, become bright.
    torch.testing.assert_close(pictures.inside[:, 0, 0, 0], torch.eye(3))
    torch.testing.assert_close(pictures.outside[:, 0, 0, 0], 1 - torch.eye(3))
    assert len(grid.score(codes, [[0], [1], [2]], grid.decode, pictures=99).pictures.rows) == 24


def test_random_codes_take_the_place_of_those_of_every_factor(grid):
    codes, decode, classify = _soft(3)
    given = codes, grid.classes
    drawn = torch.arange(24)[:, None] % 2  # the first code in half of the rows, the second in the others
    found = counterfactual_generativeness(
        *given, [[0], [1], [2]], decode, classify, KNOWN, random_codes=drawn, batch_size=7
    )
    for code in (0, 1):
        fixed = counterfactual_generativeness(*given, [[code]] * 3, decode, classify, KNOWN)
        rows = drawn[:, 0] == code
        torch.testing.assert_close(found.chance[rows], fixed.signed[rows])
        torch.testing.assert_close(fixed.signed.abs(), fixed.by_row)
    assert float(found.signed.min()) < 0


def test_intervals_are_over_groups_of_rows(grid):
    codes, decode, classify = _soft(2)
    accuracy = {**KNOWN, "angle": 0.0}
    found = counterfactual_generativeness(codes, grid.classes, [[0], [1], [2]], decode, classify, accuracy)
    groups = [f"scene {row // 4}" for row in range(24)]
    intervals = found.intervals(groups)
    name = "counterfactual_generativeness"
    assert list(intervals) == [name, f"{name}, signed", f"{name}(colour)", f"{name}(light)"]
    assert intervals[name] == mean_interval(found.by_row.mean(1).tolist(), groups)
    assert intervals[f"{name}(light)"] == mean_interval(found.by_row[:, 1].tolist(), groups)
    assert intervals[name].value == pytest.approx(float(found.score))


def test_networks_run_in_evaluation_mode_without_gradients(grid):
    decoder = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.9), nn.Sigmoid(), nn.Unflatten(1, (1, 1, 3)))
    codes = grid.classes.float()
    one, other = (grid.score(codes, [[0], [1], [2]], decoder) for _ in range(2))
    torch.testing.assert_close(one.by_row, other.by_row)
    assert decoder.training
    assert not one.pictures.original.requires_grad


SETS = [[0], [1], [2]]
CODES = Grid().classes.double()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"factors": Grid().classes.double()}, "`factors` must be class indices, got floats; cast"),
        ({"factors": Grid().classes + 2}, "classes of factor 0 must lie in 0..2, as the classifier has 3"),
        ({"code_sets": [[0], [1]]}, "`code_sets` needs one entry for each of the 3 factors, got 2"),
        ({"code_sets": [[0], [], [2]]}, "`code_sets` needs at least one code, got none"),
        ({"code_sets": [[0], [1], [3]]}, "`code_sets` must lie in 0..2, got 3"),
        ({"accuracy": {"colour": 1.0}}, "`accuracy` needs one entry for each of the 3 factors, got 1"),
        ({"decoder": lambda codes: 9 * codes[:, None, None]}, r"must give images in \[0, 1\], got"),
        ({"decoder": lambda codes: codes}, r"expected `codes` \[batch, codes\], `decoder` \[batch, channels"),
        ({"classifier": lambda images: [images.mean((2, 3))]}, "an output for each of the 3 factors, got 1"),
        (
            {"classifier": lambda images: [2 * one for one in Grid().classify(images)]},
            "add up to 1, got",
        ),
        ({"images": torch.zeros(24, 3, 9, 9)}, r"expected `decoder` .*got \[24, 1, 1, 3\], \[24, 3, 9, 9\]"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        ({"pictures": 0}, "`pictures` must be at least 1, got 0"),
    ],
)
def test_invalid_arguments_are_refused(grid, replaced, message):
    arguments = {
        **{"codes": CODES, "factors": grid.classes, "code_sets": SETS, "decoder": grid.decode},
        **{"classifier": grid.classify, "accuracy": KNOWN, "output": "probabilities"},
    }
    with refused(message):
        counterfactual_generativeness(**{**arguments, **replaced})
