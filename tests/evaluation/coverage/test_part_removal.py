"""Formulas of part removal against plain restatements, on random games."""

import itertools
import math

import pytest
import torch

from candlelight.evaluation.coverage.part_removal import (
    Game,
    choose_shared_parts,
    map_change,
    minimal_sets,
    pair_interactions,
    part_curves,
    part_shapley,
    removal_infidelity,
)


def random_game(parts=4, classes=3, seed=0, keep=None):
    """Draw a game of all sets of parts, or of those for which ``keep`` holds."""
    sets = [some for count in range(parts, -1, -1) for some in itertools.combinations(range(parts), count)]
    values = torch.randn(len(sets), classes, generator=torch.Generator().manual_seed(seed)).double()
    rows = [row for row, some in enumerate(sets) if keep is None or keep(some)]
    present = torch.tensor([[part in sets[row] for part in range(parts)] for row in rows])
    return Game(present, values[rows]), {frozenset(some): values[row] for row, some in enumerate(sets)}


def test_shapley_values_of_all_sets_are_exact():
    game, value = random_game()
    orders = [*itertools.permutations(range(4))]
    expected = torch.zeros(4).double()
    for order in orders:
        for place, part in enumerate(order):
            expected[part] += (value[frozenset(order[: place + 1])] - value[frozenset(order[:place])])[1]
    found = part_shapley(Game(game.present[[0, *range(15, 0, -1)]], game.logits[[0, *range(15, 0, -1)]]), 1)
    torch.testing.assert_close(found.values, expected / len(orders))
    assert not found.error.any()


def test_shapley_values_of_some_sets_are_exact_for_additive_games_and_have_errors_for_others():
    weights = torch.tensor([3.0, -1.0, 0.5, 2.0]).double()
    game, _ = random_game(keep=lambda some: len(some) != 2)
    additive = Game(game.present, (game.present.double() @ weights)[:, None])
    found = part_shapley(additive, 0)
    torch.testing.assert_close(found.values, weights)
    torch.testing.assert_close(found.error, torch.zeros_like(found.error), atol=1e-9, rtol=0)
    assert (part_shapley(game, 0).error > 0.01).all()
    for keep in (lambda some: len(some) == 4 or not some, lambda some: len(some) > 2):
        few, _ = random_game(keep=keep)
        assert part_shapley(few, 0).values.isnan().all()


def test_interactions_vanish_for_additive_games_alone():
    game, value = random_game()
    every = frozenset(range(4))
    found = pair_interactions(game, 1)
    for one, other in itertools.combinations(range(4), 2):
        plain = value[every] - value[every - {one}] - value[every - {other}] + value[every - {one, other}]
        assert float(found[one, other]) == pytest.approx(float(plain[1]))
    additive = Game(game.present, game.present.double() @ torch.ones(4, 1).double())
    assert not pair_interactions(additive, 0).any()


def test_curves_follow_the_order_of_importance():
    game, value = random_game(seed=3)
    order = [2, 0, 3, 1]
    importance = torch.tensor([3.0, 1.0, 4.0, 2.0]).double()
    curves = part_curves(game, importance, 2)
    for step in range(5):
        kept, put = frozenset(order[step:]), frozenset(order[:step])
        assert float(curves.deletion[step]) == pytest.approx(float(value[kept].softmax(0)[2]))
        assert float(curves.insertion[step]) == pytest.approx(float(value[put].softmax(0)[2]))


def test_infidelity_takes_the_best_scale_of_the_importance():
    game, value = random_game(seed=5)
    importance = torch.tensor([1.0, 0.2, -0.3, 0.8]).double()
    every = frozenset(range(4))

    def infidelity(scale):
        pairs = [
            (scale * sum(importance[[*(every - some)]]), value[every][0] - value[some][0]) for some in value
        ]
        return sum(float(stated - drop) ** 2 for stated, drop in pairs) / sum(
            float(drop) ** 2 for _, drop in pairs
        )

    found = removal_infidelity(game, importance, 0)
    assert found == pytest.approx(min(infidelity(step / 1000) for step in range(5000)), abs=1e-5)
    assert removal_infidelity(game, torch.zeros(4).double(), 0) == 1
    constant = Game(game.present, torch.ones(16, 1).double())
    assert math.isnan(removal_infidelity(constant, importance, 0))


def test_minimal_sets_are_those_that_no_other_class_holds():
    classes = ["abc", "abd", "bcd", "ade"]
    for place, own in enumerate(classes):
        others = [set(one) for other, one in enumerate(classes) if other != place]
        subsets = [set(some) for count in (1, 2, 3) for some in itertools.combinations(own, count)]
        telling = [some for some in subsets if not any(some <= other for other in others)]
        expected = [some for some in telling if not any(one < some for one in telling)]
        assert sorted(map(sorted, minimal_sets(own, others))) == sorted(map(sorted, expected))
    assert minimal_sets("ab", ["abc"]) == []


def test_shared_parts_are_of_classes_whose_logits_depend_on_them():
    weights = torch.tensor([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 0.1], [3.0, 3.0, 3.0]]).double()
    game, _ = random_game(parts=3, classes=4)
    game = Game(game.present, game.present.double() @ weights.T)
    assert game.predicted == 3
    found = choose_shared_parts(game, "xyz", ["x", "y", "z", "xyz"])
    assert (found.classes, found.parts) == ((0, 1), ((0,), (1,)))  # by far the largest differences
    assert choose_shared_parts(game, "xyz", ["y", "x", "", "xyz"]) is None  # their logits rest on other parts
    assert choose_shared_parts(game, "xyz", ["xy", "y", "", "xyz"]) is None  # one has no part of its own


def test_maps_change_by_the_length_of_their_difference():
    before = torch.rand(5, 6, generator=torch.Generator().manual_seed(0))
    changes = map_change(before, torch.stack([before, 2 * before, -before]))
    torch.testing.assert_close(changes, torch.tensor([0.0, 1.0, 2.0]).double())
