"""Ranges of the causal scores, at which their intervals are cut."""

import math

from candlelight.evaluation.results.mean_intervals import Score

# A fit worse than a constant, and a ranking worse than chance, have negative scores. So has a code with gross
# errors in IRS: its deviation from the mean of a class may be twice the largest one from its own mean.
_LEAST = {
    "irs": -1.0,
    "explicitness": -1.0,
    "dci_es(explicitness)": -1.0,
    "r2(linear)": -math.inf,
    "r2(kernel)": -math.inf,
}


def cut_at_bounds(name: str, score: Score) -> Score:
    """Cut an interval at the smallest and the largest value that a causal score can have.

    Args:
        name: name of the score, such as "r2(linear)".
        score: a score with an interval that may exceed its range.

    Example:
        >>> cut_at_bounds("explicitness", Score(-0.5, -2.0, 1.2))
        Score(value=-0.5, low=-1.0, high=1.0)
        >>> cut_at_bounds("rendered_counterfactual(1)", Score(-2.5, -4.0, 1.2))
        Score(value=-2.5, low=-4.0, high=1.0)
    """
    # A decoded image may be any number of times farther from the rendered one than the input is.
    low = -math.inf if name.startswith("rendered_counterfactual") else _LEAST.get(name, 0.0)
    high = math.inf if name.endswith(", share") else 1.0
    return score.within(low, high)
