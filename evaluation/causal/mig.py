"""Mutual information gap (Chen et al. 2018)."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.causal.estimation.code_inputs import factor_classes
from candlelight.evaluation.causal.estimation.discretise import BinRule, discretise
from candlelight.evaluation.causal.estimation.mutual_information import entropy, mutual_information_matrix


@dataclass(frozen=True)
class MIG:
    """The mutual information gap and its parts.

    Attributes:
        score: mean gap of the factors that vary, in [0, 1]; higher is better.
        gaps: gap of each factor; nan if the factor has one value.
        information: mutual information of each code with each factor, nats.
        entropies: entropy of each factor, nats.
        best: code with the largest information about each factor, the first of equal ones.
    """

    score: Float[Tensor, ""]
    gaps: Float[Tensor, " factors"]
    information: Float[Tensor, "codes factors"]
    entropies: Float[Tensor, " factors"]
    best: Int[Tensor, " factors"]


def mig(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> MIG:
    """Measure by how much the best code of each factor knows more about it than the second-best code.

    ``MIG = mean_i (I(z_a; g_i) - I(z_b; g_i)) / H(g_i)``, where a and b are the codes with the largest and
    second-largest information about factor i: Chen et al. 2018 (Isolating Sources of Disentanglement in
    Variational Autoencoders, NeurIPS), sec. 4. The paper integrates over the encoder's distribution; here, as
    in disentanglement_lib, I is the plug-in information of one vector per sample, such as the means, in bins.

    Blind to: a code that represents several factors, which scores as well as a pure one; information in other
    codes than the best two. A factor represented by two codes, such as the sine and cosine of an angle,
    scores low although nothing is mixed. If factors depend on each other, even the factors themselves as
    codes score below 1, because each code knows about other factors. Few samples raise the information of all
    codes, and the gap of pure noise above 0. The number of bins changes the score; with as many bins as
    samples every code determines everything, and the gap vanishes.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64. With a single code, the second-largest information is 0.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        >>> mig(factors.double(), factors, bins=3).score.round(decimals=6)
        tensor(1., dtype=torch.float64)
        >>> mig(factors.double()[:, [0, 0, 1]], factors, bins=3).gaps.round(decimals=6)  # factor 0 twice
        tensor([0., 1.], dtype=torch.float64)
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical)
    information = mutual_information_matrix(discretise(codes, bins, rule), classes)
    entropies = entropy(classes)
    first, second = pad(information, (0, 0, 0, 1)).topk(2, dim=0).values
    gaps = torch.where(varies, ((first - second) / entropies).clamp(max=1), torch.nan)
    return MIG(gaps[varies].mean(), gaps, information, entropies, information.argmax(0))
