"""Scores of predicted factors: SAP, explicitness, MCC, block R2 and T-MEX."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.causal.code_inputs import (
    BinRule,
    area_under_roc,
    check_codes_and_factors,
    factor_classes,
    find_categorical,
    mean_ranks,
    split_samples,
    standardise,
    takes_arrays,
)
from candlelight.evaluation.causal.estimators import (
    covariance_measure_test,
    predict_by_kernel,
    predict_by_line,
    r2_score_of_factors,
)
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

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


@takes_arrays
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


@takes_arrays
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


Correlation = Literal["pearson", "spearman", "kernel"]


@dataclass(frozen=True)
class MCC:
    """The mean correlation coefficient and its parts.

    Attributes:
        score: mean over the factors that vary, in [0, 1]; higher is better.
        per_factor: correlation of each factor with its code; 0 without a code, nan if the factor has one
            value.
        matrix: absolute correlation of each code with each factor, of the scored rows; 0 for a constant code,
            nan if the factor has one value.
        assigned: code of each factor; -1 if there are fewer codes, or the factor has one value.
    """

    score: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]
    matrix: Float[Tensor, "codes factors"]
    assigned: Int[Tensor, " factors"]


@takes_arrays
def mcc(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    correlation: Correlation = "pearson",
    training: Bool[Tensor, " samples"] | None = None,
) -> MCC:
    """Measure the correlation of factors and codes after the best one-to-one assignment.

    ``MCC = max over assignments a of mean_i |corr(z_a(i), g_i)|``: Hyvarinen and Morioka 2016 (Unsupervised
    Feature Extraction by Time-Contrastive Learning and Nonlinear ICA, NeurIPS), also out of sample as in
    Khemakhem et al. 2020 (ICE-BeeM, NeurIPS). "pearson" is for identifiability up to scale, "spearman" up to
    monotone maps of each code, and "kernel" up to any smooth map: there ``sqrt(max(R2, 0))`` of kernel ridge
    regression of the factor on one code (see `predict_by_kernel`) replaces the correlation.

    Blind to: mixing and duplicates, because only one entry of each row and column counts; codes beyond the
    number of factors. If factors depend on each other, codes that are all equal, or mixed, have high
    correlations: compare with the MCC of random mixtures. With few samples and many codes the assignment
    finds correlations in noise, and the kernel fits noise in sample: set ``training``. "kernel" is 1 for a
    code that mixes factors of few values, because it tells each of them. "pearson" is below 1 for a nonlinear
    map; neither it nor "spearman" sees a relation that is not monotone. Classes in no order are not numbers,
    and have no correlation.

    Args:
        codes: one code vector per sample.
        factors: numbers.
        correlation: "pearson", "spearman" or "kernel".
        training: true for rows that decide the assignment (and fit the kernel regression), the others are
            scored; None uses all rows for both.

    Returns:
        Values in float64. With fewer codes than factors, a factor without a code counts as 0.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``correlation`` is misspelt, ``training`` is not boolean or leaves no varying factor, or "kernel"
            has fewer than three rows to fit on.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        >>> result = mcc(torch.stack([factors[:, 1].exp(), -factors[:, 0]], dim=1), factors, "spearman")
        >>> result.score, result.assigned
        (tensor(1., dtype=torch.float64), tensor([1, 0]))
    """
    from scipy.optimize import linear_sum_assignment

    check_choice("correlation", correlation, Correlation)
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    numbers = factors if bool(varies.all()) else factors[:, varies]
    found = _correlations(codes, numbers, fitted, scored, correlation)
    deciding = found if training is None else _correlations(codes, numbers, fitted, fitted, correlation)
    matrix = torch.full([codes.shape[1], len(varies)], torch.nan, dtype=torch.float64, device=codes.device)
    matrix[:, varies] = found
    chosen, places = linear_sum_assignment(deciding.numpy(force=True), maximize=True)
    assigned = torch.full([len(varies)], -1, device=codes.device)
    assigned[varies.nonzero().flatten()[places.tolist()]] = torch.as_tensor(chosen, device=codes.device)
    per_factor = matrix.gather(0, assigned.clamp(min=0)[None])[0].where(assigned >= 0, 0)
    per_factor = per_factor.where(varies, torch.nan)
    return MCC(per_factor[varies].mean(), per_factor, matrix, assigned)


def _correlations(
    codes: Tensor,
    factors: Tensor,
    fitted: Tensor | slice,
    scored: Tensor | slice,
    correlation: Correlation,
) -> Float[Tensor, "codes factors"]:
    if correlation == "kernel":
        numbers = factors[fitted]
        predicted = [predict_by_kernel(code[fitted], numbers, code[scored]) for code in codes.T[:, :, None]]
        rows = [r2_score_of_factors(prediction, factors[scored]) for prediction in predicted]
        return torch.stack(rows).clamp(min=0).sqrt()
    code, factor = codes[scored], factors[scored]
    if correlation == "spearman":
        code, factor = mean_ranks(code), mean_ranks(factor)
    # In this order the product takes half the time of the product of the transposed codes and the factors.
    return (standardise(factor).T @ standardise(code) / len(code)).abs().clamp(max=1).T


Regression = Literal["linear", "kernel"]


@dataclass(frozen=True)
class BlockR2:
    """The coefficient of determination of factors regressed on codes.

    Attributes:
        score: mean over the factors that vary, at most 1; higher is better.
        per_factor: R2 of each factor; nan if the factor has one value among the rows to fit on or to score.
    """

    score: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]


@takes_arrays
def block_r2(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    regression: Regression = "linear",
    training: Bool[Tensor, " samples"] | None = None,
) -> BlockR2:
    """Measure how well a block of codes determines each factor: identifiability up to a map of the block.

    ``R2_i = 1 - sum (g_i - f_i(z))^2 / sum (g_i - mean g_i)^2``. "linear" fits f by least squares with an
    intercept (identifiability up to an affine map); "kernel" fits kernel ridge regression, see
    `predict_by_kernel`, as in von Kuegelgen et al. 2021, sec. 5 (block identifiability: content codes should
    determine all content factors, R2 near 1, and no style factor, R2 near 0). Give the columns of one block
    of codes.

    Blind to: mixing within the block, and codes that are useless. Factors that depend on each other raise R2
    of factors that the block does not represent: a style factor caused by content has R2 above 0. In sample,
    R2 grows with the number of codes, to 1 for as many codes as samples. Classes in no order are not numbers:
    give one column for each class.

    Args:
        codes: one code vector per sample, of one block.
        factors: numbers.
        regression: "linear" or "kernel".
        training: true for rows to fit on, the others are scored; None fits and scores all rows.

    Returns:
        Values in float64; below 0 out of sample if predictions are worse than the mean of the scored rows.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``regression`` is misspelt, ``training`` is not boolean or leaves no varying factor, or "kernel"
            has fewer than three rows to fit on.

    Example:
        >>> factors = torch.linspace(-1, 1, 60)[:, None]
        >>> held_in = torch.arange(60) % 2 == 0
        >>> [
        ...     round(float(block_r2(factors, factors**2, kind, held_in).score), 1)
        ...     for kind in ("linear", "kernel")
        ... ]
        [-0.0, 1.0]
    """
    check_choice("regression", regression, Regression)
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    predict = predict_by_line if regression == "linear" else predict_by_kernel
    predicted = predict(codes[fitted], factors[fitted][:, varies], codes[scored])
    per_factor = torch.full([len(varies)], torch.nan, dtype=torch.float64, device=codes.device)
    per_factor[varies] = r2_score_of_factors(predicted, factors[scored][:, varies])
    return BlockR2(per_factor[varies].mean(), per_factor)


_ROUNDING = 1e-9  # residuals of a determined variable, as a share of its standard deviation


@dataclass(frozen=True)
class TMEX:
    """The number of disagreements with an assumed measurement graph, and the tests.

    Attributes:
        score: number of decisions that disagree with the graph, from 0 to codes times varying factors; lower
            is better.
        decisions: true where the test rejects that the code is independent of the factor given the other
            factors; false if the factor has one value.
        p_values: p-value of each test; nan if the factor has one value.
    """

    score: Int[Tensor, ""]
    decisions: Bool[Tensor, "codes factors"]
    p_values: Float[Tensor, "codes factors"]


@takes_arrays
def t_mex(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    graph: Bool[Tensor, "codes factors"],
    regression: Regression = "linear",
    alpha: float = 0.05,
) -> TMEX:
    """Count the tests of conditional independence that disagree with the codes' assumed measurement graph.

    In the graph, code l measures factor i if entry (l, i) is true; exclusive codes have one true entry in
    each row. If the graph is right, code l is independent of factor i given all other factors exactly where
    the entry is false. ``T-MEX = sum_li [decision_li != graph_li]``, where the decision is a test of this
    independence at level ``alpha``: Yao et al. 2025 (The Third Pillar of Causal Analysis? A Measurement
    Perspective on Causal Representations, NeurIPS). The test here is the generalised covariance measure, see
    `covariance_measure_test`, of code l and factor i, both regressed on the other factors by least squares
    ("linear") or by kernel ridge regression, each with its own penalty and width ("kernel", see
    `predict_by_kernel`), in sample, like the test's authors. With 50 to 500 samples, residuals of held-out
    rows rejected true independence more often.

    Holds for dependent factors, because other factors are held fixed. Even a code that follows the graph has
    on average ``alpha`` disagreements for each false entry: read 0 of 90 and 4 of 90 alike. The graph is an
    assumption: for codes without names choose the factor of each code on other rows, see the example.

    Blind to: the strength of a relation (with many samples a trace of another factor counts as a
    disagreement, with few samples a lost factor counts once and mixing not at all); everything that the test
    is blind to, such as a code that is an even function of a symmetric factor. If factors or codes depend on
    other factors in a way that the regression does not fit, such as a curve by "linear", dependence between
    factors is taken for mixing. A factor that the others determine is independent of every code. Classes in
    no order are not numbers.

    Args:
        codes: one code vector per sample.
        factors: numbers.
        graph: true where a code is assumed to measure a factor.
        regression: "linear" or "kernel"; the time of "kernel" grows with the cube of the samples.
        alpha: level of each test, between 0 and 1.

    Returns:
        p-values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``graph`` is not boolean or has another shape, ``regression`` is misspelt, ``alpha`` is not
            between 0 and 1, or "kernel" has fewer than three samples.

    Example:
        >>> from candlelight.evaluation.causal import mcc
        >>> factors = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
        >>> factors[:, 1] += factors[:, 0]
        >>> codes = factors[:, [2, 1, 0]] + 0.1 * factors.cos()
        >>> graph = torch.zeros(3, 3, dtype=torch.bool)
        >>> graph[mcc(codes[:200], factors[:200]).assigned, torch.arange(3)] = True
        >>> t_mex(codes[200:], factors[200:], graph).score
        tensor(0)
        >>> t_mex(codes[200:] + codes[200:, [0, 0, 2]], factors[200:], graph).score  # code 1 mixes
        tensor(1)
    """
    check_choice("regression", regression, Regression)
    varies = check_codes_and_factors(codes, factors)
    check_shapes(
        codes=(codes, "samples codes"), factors=(factors, "samples factors"), graph=(graph, "codes factors")
    )
    check_bool(graph=graph)
    if not 0 < alpha < 1:
        raise InputError(f"`alpha` must lie between 0 and 1, got {alpha:g}")
    table, numbers = standardise(codes), standardise(factors)
    p_values = torch.full_like(graph, torch.nan, dtype=torch.float64)
    for column in varies.nonzero().flatten().tolist():
        others = numbers[:, [other for other in range(len(varies)) if other != column]]
        residuals = _residuals(others, torch.cat([table, numbers[:, column : column + 1]], dim=1), regression)
        p_values[:, column] = covariance_measure_test(residuals[:, :-1], residuals[:, -1])
    decisions = p_values < alpha
    return TMEX((decisions != graph)[:, varies].sum(), decisions, p_values)


def _residuals(
    others: Float[Tensor, "samples others"], values: Float[Tensor, "samples columns"], regression: Regression
) -> Float[Tensor, "samples columns"]:
    """Subtract from standardised columns what the other factors predict; 0 where these determine them."""
    if regression == "linear":
        found = values - predict_by_line(others, values, others)
    else:
        found = values - predict_by_kernel(others, values, others, separate=True)
    return torch.where(found.square().mean(0).sqrt() > _ROUNDING, found, 0)
