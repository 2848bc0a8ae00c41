"""Explicitness and size of codes, the extension of DCI (Eastwood et al. 2023)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor
from torch.nn.functional import one_hot

from candlelight.evaluation.causal.estimation.code_inputs import (
    check_codes_and_factors,
    split_samples,
    standardise,
)
from candlelight.evaluation.causal.estimation.discretise import find_categorical
from candlelight.evaluation.causal.estimation.kernel_ridge import r2_score_of_factors

_FEATURES = (0, 4, 16, 64, 256, 1024)  # random features of each probe beside the codes
_BANDWIDTH = 2.0  # standard deviation of a projection of standardised codes
_PENALTIES = tuple(10.0**power for power in range(-3, 5))


@dataclass(frozen=True)
class DCIES:
    """Explicitness and size, and the loss-capacity curves.

    Attributes:
        explicitness: E, mean of ``per_factor`` over the factors that vary, in [-1, 1]; higher is better.
        size: S, factors that vary for each code; 1 if there are as many, below 1 for more codes.
        informativeness: mean over the factors that vary of the share of the baseline loss that the best probe
            removes, in [0, 1]; higher is better.
        per_factor: explicitness of each factor; nan if the factor has one value among the rows to fit on or
            to score.
        losses: smallest loss of each factor up to each capacity; nan as above.
        baselines: loss of each factor without codes; nan as above.
        capacities: logarithm of the number of features of each probe.
    """

    explicitness: Float[Tensor, ""]
    size: Float[Tensor, ""]
    informativeness: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]
    losses: Float[Tensor, "capacities factors"]
    baselines: Float[Tensor, " factors"]
    capacities: Float[Tensor, " capacities"]


def dci_es(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    training: Bool[Tensor, " samples"],
    categorical: Collection[int] = (),
    seed: int = 0,
) -> DCIES:
    """Measure how simple a predictor of the factors from the codes may be, and how many codes there are.

    Probes of growing capacity k predict each factor from all codes. With the smallest held-out loss l(k) up
    to a capacity, the smallest of all l* and the loss without codes l_b, explicitness is 1 less twice the
    area between the curve and l* as a share of the largest area, by trapezia, and size is factors per code:

        E = 1 - 2 integral (l(k) - l*) dk / ((k_max - k_min) l_b),  S = factors / codes

    Eastwood et al. 2023 (DCI-ES: An Extended Disentanglement Framework with Connections to Identifiability,
    ICLR), sec. 4, as in the authors' program. E is 1 if the smallest probe is as good as the largest, and 0
    if the loss falls from l_b to 0 in proportion to k. D, C and I are those of `dci`.

    A probe here is ridge regression on the standardised codes and 0, 4, 16, 64, 256 or 1024 random Fourier
    features of them, ``cos(w z + b)`` with w normal and b uniform; k is the logarithm of the number of
    features, codes included. The penalty is chosen by leave-one-out. The loss is 1 - R2 for continuous
    factors, with l_b = 1, and otherwise the share of wrong classes, with l_b that of the most frequent class.
    No loss exceeds l_b, because a probe may ignore the codes. The paper's probes are networks, forests or
    random features without the codes: values of other probes are not comparable.

    Holds for dependent factors: dependence does not lower E or S of the factors themselves as codes.

    Blind to: lost factors, for which all probes are equally bad and E is 1, also for random codes; read
    ``informativeness`` beside. Blind also to mixing by a linear map, and to duplicates but for S. If factors
    depend on each other, the code of one makes the others predictable. Many codes start at a larger k, and
    need more rows. Ridge regression does not find the middle ones of many classes in a row, so that a class
    number as a code is not explicit, while the same factor as a continuous one is. Curves that 1024 features
    do not fit count as lost, not as inexplicit.

    Args:
        codes: one code vector per sample.
        factors: integers are classes, floats are continuous.
        training: true for rows to fit on, the others are scored.
        categorical: columns of float factors that hold classes.
        seed: seed of the random features.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``training`` is not boolean or leaves no varying factor, or ``categorical`` is out of range.

    Example:
        >>> factors = torch.rand(400, 2, generator=torch.Generator().manual_seed(0)) - 0.5
        >>> training = torch.arange(400) % 2 == 0
        >>> found = dci_es(factors @ torch.tensor([[1.0, 1.0], [1.0, -1.0]]), factors, training)
        >>> found.explicitness.round(decimals=2), found.size
        (tensor(1., dtype=torch.float64), tensor(1., dtype=torch.float64))
        >>> product = dci_es(factors, factors.prod(1, keepdim=True), training)
        >>> product.explicitness < 0.9, product.informativeness > 0.99
        (tensor(True), tensor(True))
    """
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    is_class = find_categorical(factors, categorical)
    table = _features(standardise(codes, codes[fitted]), seed)
    targets = [
        one_hot(torch.unique(factor, return_inverse=True)[1]) if known else factor[:, None]
        for factor, known in zip(factors.unbind(1), is_class.tolist(), strict=True)
    ]
    sizes = codes.shape[1] + torch.tensor(_FEATURES, device=codes.device)
    losses = torch.stack([_losses(table[:, :size], targets, fitted, scored) for size in sizes.tolist()])
    baselines = torch.stack([_baseline(target[scored]) for target in targets]).where(varies, torch.nan)
    losses = torch.minimum(losses, baselines).cummin(0).values
    capacities = sizes.double().log()
    above = losses - losses[-1]
    area = torch.trapezoid(above, capacities, dim=0) / (capacities[-1] - capacities[0])
    per_factor = 1 - 2 * area / baselines
    return DCIES(
        per_factor[varies].mean(),
        varies.sum().double() / codes.shape[1],
        (1 - losses[-1] / baselines)[varies].mean(),
        per_factor,
        losses,
        baselines,
        capacities,
    )


def _features(codes: Float[Tensor, "samples codes"], seed: int) -> Float[Tensor, "samples features"]:
    """Append random Fourier features, the same for each device."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(max(_FEATURES), codes.shape[1], generator=draws, dtype=torch.float64).T
    phases = 2 * torch.pi * torch.rand(max(_FEATURES), generator=draws, dtype=torch.float64)
    weights = weights.to(codes.device) * _BANDWIDTH / codes.shape[1] ** 0.5
    return torch.cat([codes, torch.cos(codes @ weights + phases.to(codes.device))], dim=1)


def _baseline(target: Real[Tensor, "scored classes"]) -> Float[Tensor, ""]:
    """Return the loss of the most frequent class, or of the mean of a continuous factor."""
    share = (
        target.double().mean(0).max() if target.shape[1] > 1 else target.new_zeros((), dtype=torch.float64)
    )
    return 1 - share


def _losses(
    table: Float[Tensor, "samples features"],
    targets: Sequence[Real[Tensor, "samples _"]],
    fitted: Tensor | slice,
    scored: Tensor | slice,
) -> Float[Tensor, " factors"]:
    """Fit a probe of each factor, and return the losses in the rows to score."""
    from sklearn.linear_model import RidgeCV

    known = torch.cat([target[fitted].double() for target in targets], dim=1)
    rows, others = table[fitted].numpy(force=True), table[scored].numpy(force=True)
    model = RidgeCV(_PENALTIES, alpha_per_target=True).fit(rows, known.numpy(force=True))
    found = torch.from_numpy(model.predict(others).reshape(len(others), -1)).to(table.device)
    losses = []
    for target in targets:
        own, found = found[:, : target.shape[1]], found[:, target.shape[1] :]
        if target.shape[1] > 1:
            losses.append((own.argmax(1) != target[scored].argmax(1)).double().mean())
        else:
            losses.append(1 - r2_score_of_factors(own, target[scored])[0])
    return torch.stack(losses)
