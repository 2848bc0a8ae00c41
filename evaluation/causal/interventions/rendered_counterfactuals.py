"""Distance of decoded counterfactuals from the rendered counterfactuals of the same images."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.decode_codes import Decoder, decode_codes
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes

_BATCH = 64  # images that are decoded at a time


@dataclass(frozen=True)
class RenderedCounterfactuals:
    """Mean squared errors of each pair, over all pixels and channels.

    Attributes:
        changed: error of the decoded counterfactual, whose chosen codes have their values for c.
        none: error of the reconstruction of a, in which no code changes.
        all: error of the reconstruction of b, in which all codes change.
    """

    changed: Float[Tensor, " pairs"]
    none: Float[Tensor, " pairs"]
    all: Float[Tensor, " pairs"]

    @property
    def score(self) -> Float[Tensor, ""]:
        """Share of the way from changing nothing to changing all codes; nan if that is no improvement."""
        errors = torch.stack([self.changed, self.none, self.all], dim=1)
        return rendered_share(errors.mean(0)) if len(errors) else errors.sum() * torch.nan


def rendered_share(errors: Float[Tensor, "... 3"]) -> Float[Tensor, "..."]:
    """Compute ``1 - (e - e_all) / (e_none - e_all)``; nan where e_none is not above e_all.

    Args:
        errors: e, e_none and e_all along the last dimension.

    Example:
        >>> rendered_share(torch.tensor([[0.25, 1.0, 0.0], [0.5, 0.25, 0.25]]))
        tensor([0.7500,    nan])
    """
    error, none, whole = errors.unbind(-1)
    reach = torch.where(none > whole, none - whole, torch.nan)
    return 1 - (error - whole) / reach


def rendered_counterfactuals(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    donors: Float[Tensor, "pairs codes"],
    targets: Float[Tensor, "pairs codes"],
    rendered: Float[Tensor, "pairs channels height width"],
    changed: Bool[Tensor, "#pairs codes"],
) -> RenderedCounterfactuals:
    """Compare decoded counterfactuals with rendered ones, for pairs of images that differ in one factor.

    For images a and b that differ in factor i only, and another image c that shares the value of this factor
    with b, the codes Z_i of the factor are set to their values for c, and the result is decoded:

        e      = |decode(z(a); do(Z_i = z(c)_i)) - b|^2
        e_none = |decode(z(a)) - b|^2
        e_all  = |decode(z(b)) - b|^2
        score  = 1 - (mean e - mean e_all) / (mean e_none - mean e_all)

    The score is 1 if the codes Z_i bring the image as near to b as all codes of b do, 0 if they bring it no
    nearer, and negative if the image is farther from b than before. The values come from c, not from b, so
    that codes that hold other things as well, such as the number of the image, bring these along.

    Blind to: the quality of the reconstruction, which e_all has as well. If a and b also differ in variables
    that are drawn anew for each image, all three errors contain them; e_all alone knows those of b, so that
    pure codes score less than 1.

    Args:
        decoder: gives images in [0, 1] of codes.
        codes: codes of the images a.
        donors: codes of the images c.
        targets: codes of the images b.
        rendered: the images b, in [0, 1].
        changed: codes Z_i, the same for all pairs, or for each pair.

    Returns:
        Errors of each pair, in float64.

    Raises:
        InputError: shapes do not fit, or the decoder does not give an image in [0, 1] for each row.

    Example:
        >>> codes, targets = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.9, 0.2]])
        >>> rendered = targets[:, :, None, None]
        >>> changed = torch.tensor([[True, False]])
        >>> donors = torch.tensor([[0.9, 0.7]])
        >>> def decoder(codes): return codes[:, :, None, None]
        >>> rendered_counterfactuals(decoder, codes, donors, targets, rendered, changed).score
        tensor(1., dtype=torch.float64)
    """
    check_bool(changed=changed)
    check_shapes(
        codes=(codes, "pairs codes"),
        donors=(donors, "pairs codes"),
        targets=(targets, "pairs codes"),
        rendered=(rendered, "pairs channels height width"),
    )
    none = decoded_errors(decoder, codes, rendered)
    whole = decoded_errors(decoder, targets, rendered)
    return RenderedCounterfactuals(
        decoded_errors(decoder, torch.where(changed, donors, codes), rendered), none, whole
    )


def decoded_errors(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    rendered: Float[Tensor, "pairs channels height width"],
) -> Float[Tensor, " pairs"]:
    """Compute the mean squared error of each decoded image, in float64.

    Example:
        >>> decoded_errors(lambda z: z[:, :, None, None], torch.tensor([[0.5]]), torch.zeros(1, 1, 1, 1))
        tensor([0.2500], dtype=torch.float64)
    """
    unchanged = torch.zeros(codes.shape[1], dtype=torch.bool, device=codes.device)
    errors = []
    for start in range(0, len(codes), _BATCH):
        some = codes[start : start + _BATCH]
        images = decode_codes(decoder, some, some, unchanged)
        check_shapes(
            decoder=(images, "batch channels height width"),
            rendered=(rendered[start : start + _BATCH], "batch channels height width"),
        )
        difference = images.double() - rendered[start : start + _BATCH].double()
        errors.append(difference.square().flatten(1).mean(1))
    return torch.cat(errors) if errors else torch.zeros(0, dtype=torch.float64)
