"""Modularity of codes (Ridgeway and Mozer 2018)."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import factor_classes
from candlelight.evaluation.causal.estimation.discretise import BinRule, discretise
from candlelight.evaluation.causal.estimation.mutual_information import mutual_information_matrix


@dataclass(frozen=True)
class Modularity:
    """Modularity and its parts.

    Attributes:
        score: mean over codes, in [0, 1]; higher is better.
        per_code: modularity of each code; 0 for a code without information about any factor.
        information: mutual information of each code with each factor, nats.
        parents: factor that each code knows most about, the first of equal ones.
    """

    score: Float[Tensor, ""]
    per_code: Float[Tensor, " codes"]
    information: Float[Tensor, "codes factors"]
    parents: Int[Tensor, " codes"]


def modularity(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> Modularity:
    """Measure how far each code carries information about one factor only.

    ``1 - sum_{i != a} I(z_l; g_i)^2 / (I(z_l; g_a)^2 (k - 1))`` for code l, where a is the factor with the
    largest information and k the number of factors that vary: Ridgeway and Mozer 2018 (Learning Deep
    Disentangled Embeddings With the F-Statistic Loss, NeurIPS), with plug-in information in bins, as in
    disentanglement_lib. Factors with one value are left out.

    Blind to: lost factors (all codes may repeat one factor), and the size of the information: a code of noise
    scores by chance, often above 0.5, because few samples give some information about every factor. Factors
    with more entropy give more information, so that a code which mixes a factor of two values with a factor
    of many values seems pure. If factors depend on each other, even pure codes score below 1. Many factors
    raise the score: a code that mixes two of k factors equally has ``1 - 1 / (k - 1)``.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, fewer than two factors
            vary, ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2), torch.arange(2))
        >>> codes = torch.stack([factors[:, 0], factors[:, 0] + 2 * factors[:, 1]], dim=1)
        >>> modularity(codes, factors).per_code
        tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical, least=2)
    information = mutual_information_matrix(discretise(codes, bins, rule), classes)
    squared = information.square()
    largest, parents = squared.max(dim=1)
    others = (squared.sum(1) - largest) / (largest * (int(varies.sum()) - 1))
    per_code = torch.where(largest > 0, 1 - others, 0)
    return Modularity(per_code.mean(), per_code, information, parents)
