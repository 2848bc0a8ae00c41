"""Causal disentanglement metric of a decoder (CDM, An et al. 2023)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import all_finite
from candlelight.evaluation.causal.interventions.interventional_effects import CodeOutput, ice
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class CDM:
    """Effects of each code on each output unit, from one end of its range to the other.

    Attributes:
        lower: size of the average effect, at least 0; at most 1 for probabilities.
        upper: average of the sizes of the effects in each row, at least ``lower``.
    """

    lower: Float[Tensor, "codes units"]
    upper: Float[Tensor, "codes units"]


def cdm(output: CodeOutput, codes: Float[Tensor, "rows codes"], batch_size: int = 64) -> CDM:
    """Measure which factors of decoded images change if each code goes from its least to its largest value.

    With u_c the output of a predictor of factor c for the decoded image:

        lower(s, c) = |E[u_c | do(z_s = max)] - E[u_c | do(z_s = min)]|
        upper(s, c) = E |u_c(do(z_s = max)) - u_c(do(z_s = min))|

    An, Song and Jeon 2023 (Causally Disentangled Generative Variational AutoEncoder, arXiv 2302.11737), as in
    the authors' program: ``lower`` is the size of `ace`, ``upper`` the mean size of `ice`. There is no single
    number: with code s meant for factor s, entries of factors that s does not cause should be 0
    (interventional robustness), and those of s and of its effects large (counterfactual generativeness).

    Holds for dependent factors: interventions on codes leave no confounding. The effect of a code on other
    codes counts only if ``output`` computes it, as the causal layer of the paper does; otherwise other codes
    keep their values, and entries of effects of s should be 0 as well.

    Blind to: values of a code between both ends, so that a code with equal ends, such as an angle, has no
    effect; faults of the predictor on unusual images; the encoder. A single outlier sets an end of the range.

    Args:
        output: gives predictions of factors, one unit each, from codes, such as the probabilities of classes
            after a decoder and a classifier; see `ice`.
        codes: code vectors, of which the rows and the ranges count.
        batch_size: rows per call of ``output``.

    Returns:
        Values in the dtype of the outputs; nan where an output is nan. 0 for a constant code.

    Raises:
        InputError: there are no rows or codes, codes are not finite, the output is not one row of units for
            each row of codes, or ``batch_size`` is below 1.

    Example:
        >>> def decode_and_predict(codes):  # factor 1 is the product of both codes
        ...     return torch.stack([codes[:, 0], codes.prod(1)], dim=1)
        >>> found = cdm(decode_and_predict, torch.tensor([[0.0, -1.0], [1.0, 1.0]]))
        >>> found.lower
        tensor([[1., 0.],
                [0., 1.]])
        >>> found.upper
        tensor([[1., 1.],
                [0., 1.]])
    """
    check_shapes(codes=(codes, "rows codes"))
    if not codes.numel():
        raise InputError(f"`codes` needs at least one row and one code, got {list(codes.shape)}")
    if not all_finite(codes):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    low, high = codes.aminmax(dim=0)
    lower, upper = [], []
    for code in range(codes.shape[1]):
        ends = high[code].view(1, 1), low[code].view(1)
        effects = ice(output, codes, [code], *ends, batch_size)[:, 0]
        lower.append(effects.double().mean(0).abs().to(effects.dtype))
        upper.append(effects.double().abs().mean(0).to(effects.dtype))
    return CDM(torch.stack(lower), torch.stack(upper))
