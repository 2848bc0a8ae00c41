"""Minimality and sufficiency of codes, which hold for dependent factors (Almudevar and Ortega 2024)."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import factor_classes
from candlelight.evaluation.causal.estimation.discretise import BinRule, discretise
from candlelight.evaluation.causal.estimation.mutual_information import entropy, mutual_information_matrix


@dataclass(frozen=True)
class MinimalityAndSufficiency:
    """The two scores and their parts.

    Attributes:
        minimality: mean of ``per_code`` over the codes that vary, in [0, 1]; higher is better. 0 if none
            varies.
        sufficiency: mean of ``per_factor`` over the factors that vary, in [0, 1]; higher is better.
        per_code: share of the entropy of each code that its best factor explains; nan for a constant code.
        per_factor: share of the entropy of each factor that its best code explains; nan if the factor has one
            value.
        information: mutual information of each code with each factor, nats.
    """

    minimality: Float[Tensor, ""]
    sufficiency: Float[Tensor, ""]
    per_code: Float[Tensor, " codes"]
    per_factor: Float[Tensor, " factors"]
    information: Float[Tensor, "codes factors"]


def minimality_and_sufficiency(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    bins: int = 15,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> MinimalityAndSufficiency:
    """Measure whether each code knows about one factor alone, and one code knows all about each factor.

    ``minimality = mean_l max_i I(z_l; g_i) / H(z_l)``, ``sufficiency = mean_i max_l I(z_l; g_i) / H(g_i)``:
    Almudevar and Ortega 2024 (Rethinking Disentanglement under Dependent Factors of Variation, arXiv
    2408.07016), with plug-in information in bins as in the authors' program. The paper divides by the
    information of code and image, which is H(z_l) because the code is a function of the image. Constant codes
    and factors with one value are left out.

    Holds for dependent factors: the factors themselves as codes score 1 in both, however strongly they depend
    on each other, because no code is charged for information that its own factor gives about others.

    Blind to: minimality alone to lost factors (all codes may repeat one factor), sufficiency alone to mixing
    (a code that holds all factors is sufficient for each) and to factors that only several codes together
    determine. Read both. If factors are confounded fully, a code of one is a code of the other. Noise in a
    code, and a map of which the bins keep more values than the factor has, lower minimality; a map that
    merges values in one bin lowers sufficiency. Few samples raise both, also for noise: with as many bins as
    samples every code determines everything.

    Args:
        codes: one code vector per sample; floats are cut into ``bins``, integers are classes.
        factors: floats are cut into ``bins``, integers are classes.
        bins: see `discretise`; the authors' program has 15.
        rule: see `discretise`.
        categorical: columns of float factors that hold classes, see `discretise`.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``bins`` or ``categorical`` is out of range, or ``rule`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
        >>> codes = torch.stack([factors[:, 0], factors[:, 0] + 2 * factors[:, 1]], dim=1)
        >>> found = minimality_and_sufficiency(codes, factors)
        >>> found.per_code, found.per_factor
        (tensor([1.0000, 0.5000], dtype=torch.float64), tensor([1., 1.], dtype=torch.float64))
    """
    classes, varies = factor_classes(codes, factors, bins, rule, categorical)
    cells = discretise(codes, bins, rule)
    information = mutual_information_matrix(cells, classes)
    used = (cells != cells[:1]).any(0)
    per_code = torch.where(used, (information.amax(1) / entropy(cells)).clamp(max=1), torch.nan)
    per_factor = torch.where(varies, (information.amax(0) / entropy(classes)).clamp(max=1), torch.nan)
    return MinimalityAndSufficiency(
        per_code.nanmean().nan_to_num(0), per_factor.nanmean(), per_code, per_factor, information
    )
