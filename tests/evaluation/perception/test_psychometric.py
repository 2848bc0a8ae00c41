import math

import pytest
import torch

from candlelight.evaluation.perception.psychometric import psychometric
from tests.refusals import refused


def test_equation_4_of_the_paper() -> None:
    levels = torch.linspace(0, 1, 21, dtype=torch.float64)
    wanted = [0.5 + 1 / (2 * (1 + math.exp(-20 * (level - 0.445)))) for level in levels.tolist()]
    assert psychometric(levels, 0.445, 20.0).tolist() == pytest.approx(wanted)


def test_ends_and_threshold() -> None:
    levels = torch.tensor([-100.0, 2.0, 100.0])
    assert psychometric(levels, 2.0, 5.0, guess=0.25, lapse=0.05).tolist() == pytest.approx([0.25, 0.6, 0.95])
    assert psychometric(levels, 2.0, 5.0, guess=0.0).tolist() == pytest.approx([0.0, 0.5, 1.0])


@pytest.mark.parametrize(("guess", "lapse"), [(-0.1, 0.0), (0.5, -0.1), (0.9, 0.1), (math.nan, 0.0)])
def test_refused_rates(guess: float, lapse: float) -> None:
    with refused("`guess` and `lapse` must be at least 0, together below 1, got"):
        psychometric(torch.zeros(1), 0.0, 1.0, guess, lapse)
