"""Explicitness of codes (Ridgeway and Mozer 2018)."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import factor_classes, split_samples, standardise
from candlelight.evaluation.causal.estimation.discretise import BinRule
from candlelight.evaluation.causal.estimation.mean_ranks import area_under_roc


@dataclass(frozen=True)
class Explicitness:
    """Explicitness and its parts.

    Attributes:
        score: mean over the factors that vary, at most 1, 0 by chance; higher is better.
        per_factor: mean over the classes of each factor; nan if the factor has one value.
        areas: for each factor, the area under the curve of each class in the order of the values, 0.5 by
            chance; nan for a class without rows to fit on or to score.
    """

    score: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]
    areas: tuple[Float[Tensor, " _"], ...]


def explicitness(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    training: Bool[Tensor, " samples"] | None = None,
    categorical: Collection[int] = (),
) -> Explicitness:
    """Measure how well all codes together tell each value of each factor, by a linear classifier.

    ``mean_i mean_v (2 AUC_iv - 1)``, where AUC_iv is the area under the receiver operating characteristic of
    a logistic regression of value v of factor i against its other values: Ridgeway and Mozer 2018 (Learning
    Deep Disentangled Embeddings With the F-Statistic Loss, NeurIPS), scaled from [0.5, 1] to [0, 1]. Codes
    are standardised; the penalty is half the squared norm of the weights (C = 1).

    Blind to: mixing. Any rotation of the codes scores the same but for the penalty; this is a probe of the
    whole code, not of single codes. Blind also to relations that are not monotone: the middle of three values
    along one code cannot be told from both others by a line, so that a factor itself as a code stays below 1,
    while the same factor one-hot scores 1. Factors that depend on each other raise the score, because a code
    of one tells the other. With few samples for each code, any codes score 1 in sample: set ``training``.

    Args:
        codes: one code vector per sample.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        training: true for rows to fit on, the others are scored; None fits and scores all rows.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64. The score may be below 0 if other rows than those of ``training`` are scored.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins`` or ``categorical`` is out of range, ``rule`` is misspelt, or ``training`` is not boolean
            or leaves no varying factor.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(3))
        >>> explicitness(factors, factors).areas
        (tensor([1., 1.], dtype=torch.float64), tensor([1.0000, 0.5000, 1.0000], dtype=torch.float64))
    """
    classes, _ = factor_classes(codes, factors, bins, rule, categorical)
    fitted, scored, varies = split_samples(training, classes)
    scaled = standardise(codes, codes[fitted])
    areas = []
    for column, known in zip(classes.unbind(1), varies.tolist(), strict=True):
        values = torch.unique(column)
        members = column[:, None] == values
        area = torch.full([len(values)], torch.nan, dtype=torch.float64, device=codes.device)
        if known:
            scores = _scores(scaled[fitted], members[fitted], scaled[scored])
            area = area_under_roc(scores, members[scored]).where(members[fitted].any(0), torch.nan)
        areas.append(area)
    per_factor = torch.stack([2 * area.nanmean() - 1 for area in areas])
    return Explicitness(per_factor.nanmean(), per_factor, tuple(areas))


def _scores(
    fitted: Float[Tensor, "fitted codes"],
    members: Bool[Tensor, "fitted classes"],
    scored: Float[Tensor, "scored codes"],
) -> Float[Tensor, "scored classes"]:
    """Fit a logistic regression for each class, and return its decision values; 0 without members."""
    from sklearn.linear_model import LogisticRegression

    rows, labels, others = (part.numpy(force=True) for part in (fitted, members, scored))
    columns = [
        LogisticRegression(max_iter=1000).fit(rows, label).decision_function(others)
        if label.any()
        else np.zeros(len(others))
        for label in labels.T
    ]
    return torch.from_numpy(np.stack(columns, axis=1)).to(fitted.device)
