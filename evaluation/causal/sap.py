"""Separated attribute predictability (Kumar et al. 2018)."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.causal.estimation.code_inputs import (
    check_codes_and_factors,
    split_samples,
    standardise,
)
from candlelight.evaluation.causal.estimation.discretise import find_categorical

_SVM_COST = 0.01  # that of disentanglement_lib


@dataclass(frozen=True)
class SAP:
    """Separated attribute predictability and its parts.

    Attributes:
        score: mean gap of the factors that vary, in [0, 1]; higher is better.
        gaps: gap of each factor; nan if the factor has one value.
        predictability: how well each code alone predicts each factor: accuracy for classes, R2 for numbers;
            nan if the factor has one value.
        best: code that predicts each factor best, the first of equal ones.
    """

    score: Float[Tensor, ""]
    gaps: Float[Tensor, " factors"]
    predictability: Float[Tensor, "codes factors"]
    best: Int[Tensor, " factors"]


def sap(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    training: Bool[Tensor, " samples"] | None = None,
    categorical: Collection[int] = (),
) -> SAP:
    """Measure by how much the best code of each factor predicts it better than the second-best code.

    ``SAP = mean_i (S_ai - S_bi)``, where a and b are the codes with the largest and second-largest S: Kumar
    et al. 2018 (Variational Inference of Disentangled Latent Concepts from Unlabeled Observations, ICLR),
    sec. 3. S is the squared correlation of code and factor for a continuous factor, and the accuracy of a
    linear support vector machine for a categorical factor (one against the rest, classes weighted equally,
    C = 0.01, as in disentanglement_lib; the paper fits thresholds). Codes are standardised first, unlike
    there, so that their scale does not matter. A code that is constant among the rows to fit on has S = 0.

    Blind to: a code that represents several factors, which scores as well as a pure one; nonlinear relations
    of continuous factors (the square of a centred factor has R2 0). On one axis a linear machine cannot
    separate all of five or more classes in a row, so that even the factor itself as a code stays below 1;
    scores of factors with different numbers of classes are not comparable. C is not scaled by the number of
    samples: below some thousands the penalty alone lowers accuracy. Accuracy by chance, which is
    higher for few or unequal classes, lowers the gap. If factors depend on each other, the codes of the
    others lower it too. Few samples move the gap of noise above 0.

    Args:
        codes: one code vector per sample.
        factors: integers are classes, floats are continuous.
        training: true for rows to fit on; the accuracy is that of the other rows. None fits and scores all
            rows, which overestimates accuracy slightly. R2 is that of a line fitted to the scored rows, as in
            disentanglement_lib.
        categorical: columns of float factors that hold classes.

    Returns:
        Values in float64. With a single code, the second-largest S is 0.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``training`` is not boolean or leaves no varying factor, or ``categorical`` is out of range.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
        >>> sap(factors, factors).score.round(decimals=6)
        tensor(1., dtype=torch.float64)
        >>> sap(factors[:, [0, 0, 1]], factors).gaps.round(decimals=6)  # factor 0 twice
        tensor([0., 1.], dtype=torch.float64)
    """
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    is_class = find_categorical(factors, categorical)
    scaled = standardise(codes, codes[fitted])
    code, factor = standardise(codes[scored]), standardise(factors[scored])
    lines = code.T @ factor / len(code)
    table = lines.square().clamp(max=1)
    table[(codes[fitted] == codes[fitted][:1]).all(0)] = 0
    for column in (is_class & varies).nonzero().flatten().tolist():
        classes = torch.unique(factors[:, column], return_inverse=True)[1]
        table[:, column] = _accuracies(scaled[fitted], classes[fitted], scaled[scored], classes[scored])
    table[:, ~varies] = torch.nan
    first, second = pad(table, (0, 0, 0, 1)).topk(2, dim=0).values
    gaps = first - second
    return SAP(gaps[varies].mean(), gaps, table, table.argmax(0))


def _accuracies(
    fitted: Float[Tensor, "fitted codes"],
    fitted_classes: Int[Tensor, " fitted"],
    scored: Float[Tensor, "scored codes"],
    scored_classes: Int[Tensor, " scored"],
) -> Float[Tensor, " codes"]:
    """Fit a linear support vector machine to each code, and return the shares of correct predictions."""
    from sklearn.svm import LinearSVC

    rows, labels, others, truth = (
        part.numpy(force=True) for part in (fitted, fitted_classes, scored, scored_classes)
    )
    found = []
    for code in range(rows.shape[1]):
        if (rows[:, code] == 0).all():
            found.append(0.0)
            continue
        # The primal problem is solved without random numbers.
        machine = LinearSVC(C=_SVM_COST, class_weight="balanced", dual=False)
        machine.fit(rows[:, code : code + 1], labels)
        found.append(float((machine.predict(others[:, code : code + 1]) == truth).mean()))
    return fitted.new_tensor(found)
