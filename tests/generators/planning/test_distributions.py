"""Distributions that single factors are drawn from."""

import numpy as np
import pytest

from candlelight.generators.language.factors import Categorical, Continuous
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.planning.mechanisms import Mechanisms, draw_number

LAYOUT = {"camera": {"location": (0, 5, 2), "look_at": (0, 0, 0.5)}, "lights": [{}]}


def draw(factor, count=2000):
    lists = {"v": factor.values} if isinstance(factor, Categorical) else {}
    fields = {"factors": {"v": factor.model_dump()}, "grid": [], "layout": LAYOUT}
    mechanisms = Mechanisms(ImageSet.model_validate(fields), lists)
    return np.array([mechanisms.sample(0, f"u/{i}", {})[0]["v"] for i in range(count)])


def test_uniform():
    drawn = draw(Continuous(low=-2, high=6))
    assert drawn.min() >= -2
    assert drawn.max() <= 6
    counts, _ = np.histogram(drawn, 20, (-2, 6))
    assert ((counts - 100) ** 2 / 100).sum() < 50.8  # 19 degrees of freedom, p = 1e-4
    assert drawn.mean() == pytest.approx(2, abs=4 * 8 / np.sqrt(12 * 2000))


def test_categorical():
    _, counts = np.unique(draw(Categorical(values=("a", "b", "c", "d", "e"))), return_counts=True)
    assert ((counts - 400) ** 2 / 400).sum() < 23.5  # 4 degrees of freedom, p = 1e-4


def test_truncated_normal():
    # Reference: rejection sampling with another generator gives the same distribution within sampling error.
    drawn = draw(Continuous(low=-1, high=0.5, mean=0, std=1))
    slow = np.random.default_rng(5).normal(size=400_000)
    slow = slow[(slow >= -1) & (slow <= 0.5)]
    edges = np.quantile(slow, np.linspace(0, 1, 21))
    counts, _ = np.histogram(drawn, [-1, *edges[1:-1], 0.5])
    assert counts.sum() == 2000
    assert ((counts - 100) ** 2 / 100).sum() < 50.8
    assert drawn.mean() == pytest.approx(slow.mean(), abs=4 * slow.std() / np.sqrt(2000))
    assert drawn.std() == pytest.approx(slow.std(), rel=0.05)


def test_a_wide_truncated_normal_is_a_normal():
    drawn = draw(Continuous(low=-1000, high=1000, mean=3, std=2))
    assert drawn.mean() == pytest.approx(3, abs=4 * 2 / np.sqrt(2000))
    assert drawn.std() == pytest.approx(2, rel=0.05)
    assert ((drawn - 3) ** 3).mean() / 8 == pytest.approx(0, abs=4 * np.sqrt(15 / 2000))


@pytest.mark.parametrize("high", [0.0, 1e-9, 1e-3])
def test_a_narrow_piece_of_a_normal_takes_no_longer(high):
    # Rejection sampling would practically never end here.
    drawn = draw(Continuous(low=0, high=high, mean=0, std=1e6), 10)
    assert ((drawn >= 0) & (drawn <= high)).all()


def test_rounding_never_leaves_the_range():
    third = 2 / 3
    assert set(draw(Continuous(low=third, high=third), 10)) == {third}
    assert set(draw(Continuous(low=third, high=third, mean=third, std=1), 10)) == {third}


@pytest.mark.parametrize(
    "spread", [{}, {"mean": 2.5e-10, "std": 1e-10}, {"low": -1, "high": 1, "mean": 0, "std": 1e-10}]
)
def test_small_draws_keep_their_digits(spread):
    drawn = draw(Continuous(**{"low": 1e-10, "high": 4e-10, **spread}), 1000)
    assert len(set(drawn)) == 1000
    assert np.histogram(drawn, 4)[0].min() > 10
    assert drawn.std() == pytest.approx(1e-10, rel=0.3)


def test_draws_have_nine_decimals_unless_their_range_is_small():
    for low, high in ((-1, 1), (0, 1e-3), (1000, 1000.004)):
        drawn = draw(Continuous(low=low, high=high), 1000)
        assert (drawn == drawn.round(9)).all()
    # In a wide range, the rounding error of a result near 0 is rounded to 0.
    assert set(draw(Continuous(low=-1, high=1, value="sin(pi)"), 1)) == {0.0}
    assert set(draw(Continuous(low=0, high=1e-9, value="1e-9 / 3"), 1)) == {round(1e-9 / 3, 15)}


def test_an_expression_alone_is_the_value_whatever_the_draw():
    assert {draw_number(Continuous(value="x / 3"), {"x": 1}, u) for u in (0.0, 0.9)} == {(0.333333333, 1.0)}
