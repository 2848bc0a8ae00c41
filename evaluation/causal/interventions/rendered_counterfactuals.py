"""Distance of decoded counterfactuals from the rendered counterfactuals of the same images."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.decode_codes import Decoder, decode_codes
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes

REGION = 0.1  # share of the largest difference of a pair from which a pixel has changed
_BATCH = 64  # images that are decoded at a time


@dataclass(frozen=True)
class RenderedCounterfactuals:
    """Squared errors of each pair: means over the image, and the part of them in the changed region.

    Attributes:
        changed: error of the decoded counterfactual, whose chosen codes have their values for c.
        none: error of the reconstruction of a, in which no code changes.
        all: error of the reconstruction of b, in which all codes change.
        given_back: error of a itself.
    """

    changed: Float[Tensor, "pairs 2"]
    none: Float[Tensor, "pairs 2"]
    all: Float[Tensor, "pairs 2"]
    given_back: Float[Tensor, "pairs 2"]

    @property
    def score(self) -> Float[Tensor, ""]:
        """Share of the change that the decoded image makes, over the image; see `rendered_score`."""
        return rendered_score(self.changed.mean(0), self.given_back.mean(0))[0]

    @property
    def region_score(self) -> Float[Tensor, ""]:
        """The same in the changed region, which is blind to changes elsewhere."""
        return rendered_score(self.changed.mean(0), self.given_back.mean(0))[1]

    @property
    def share(self) -> Float[Tensor, ""]:
        """Share of the way from changing nothing to changing all codes; nan if that is no improvement."""
        return rendered_share(self.changed[:, 0].mean(), self.none[:, 0].mean(), self.all[:, 0].mean())


def rendered_score(error: Float[Tensor, "*any"], given_back: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Compute ``1 - sqrt(error / given_back)``, from mean squared errors; nan where ``given_back`` is 0.

    Example:
        >>> rendered_score(torch.tensor([0.0, 0.25, 1.0, 4.0]), torch.ones(4))
        tensor([ 1.0000,  0.5000,  0.0000, -1.0000])
    """
    return 1 - (error / torch.where(given_back > 0, given_back, torch.nan)).sqrt()


def rendered_share(
    error: Float[Tensor, "*any"], none: Float[Tensor, "*any"], whole: Float[Tensor, "*any"]
) -> Float[Tensor, "*any"]:
    """Compute ``1 - (error - whole) / (none - whole)``; nan where ``none`` is not above ``whole``.

    Example:
        >>> rendered_share(torch.tensor([0.25, 0.5]), torch.tensor([1.0, 0.25]), torch.tensor([0.0, 0.25]))
        tensor([0.7500,    nan])
    """
    return 1 - (error - whole) / torch.where(none > whole, none - whole, torch.nan)


def rendered_counterfactuals(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    donors: Float[Tensor, "pairs codes"],
    targets: Float[Tensor, "pairs codes"],
    originals: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
    changed: Bool[Tensor, "#pairs codes"],
) -> RenderedCounterfactuals:
    """Compare decoded counterfactuals with rendered ones, for pairs of images that differ in one factor.

    For images a and b that differ in factor i only, and another image c that shares the value of this factor
    with b, the codes Z_i of the factor are set to their values for c, and the result is decoded:

        e      = |decode(z(a); do(Z_i = z(c)_i)) - b|^2
        e_back = |a - b|^2
        score  = 1 - sqrt(mean e / mean e_back)

    The score is 1 if the decoded image is b, 0 if it is as far from b as a is, and negative, without a bound,
    if it is farther. ``region_score`` counts only the pixels in which a and b differ, in some channel, by at
    least `REGION` of their largest difference. ``share`` compares the decoder with itself:

        e_none = |decode(z(a)) - b|^2,   e_all = |decode(z(b)) - b|^2
        share  = 1 - (mean e - mean e_all) / (mean e_none - mean e_all)

    It is 1 if the codes Z_i bring the image as near to b as all codes of b do. The values come from c, not
    from b, so that codes that hold other things as well, such as the number of the image, bring these along.

    Blind to: the reason of an error. A poor reconstruction lowers the score as an entangled code does;
    ``share`` divides by the decoder's own gain, so that a decoder which hardly changes the image may have 1.
    The mean of many images is nearer to b than a is, so that it scores above 0: compare with it. If a and b
    also differ in variables that are drawn anew for each image, all errors contain them.

    Args:
        decoder: gives images in [0, 1] of codes.
        codes: codes of the images a.
        donors: codes of the images c.
        targets: codes of the images b.
        originals: the images a, in [0, 1].
        rendered: the images b, in [0, 1].
        changed: codes Z_i, the same for all pairs, or for each pair.

    Returns:
        Errors of each pair, in float64.

    Raises:
        InputError: shapes do not fit, or the decoder does not give an image in [0, 1] for each row.

    Example:
        >>> codes, targets = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.9, 0.2]])
        >>> def decoder(codes): return codes[:, :, None, None]
        >>> images = decoder(codes), decoder(targets)
        >>> changed = torch.tensor([[True, False]])
        >>> donors = torch.tensor([[0.9, 0.7]])
        >>> rendered_counterfactuals(decoder, codes, donors, targets, *images, changed).score
        tensor(1., dtype=torch.float64)
    """
    check_bool(changed=changed)
    check_shapes(
        codes=(codes, "pairs codes"),
        donors=(donors, "pairs codes"),
        targets=(targets, "pairs codes"),
        originals=(originals, "pairs channels height width"),
        rendered=(rendered, "pairs channels height width"),
    )
    region = changed_pixels(originals, rendered)
    none = decoded_errors(decoder, codes, rendered, region)
    whole = decoded_errors(decoder, targets, rendered, region)
    moved = decoded_errors(decoder, torch.where(changed, donors, codes), rendered, region)
    return RenderedCounterfactuals(moved, none, whole, image_errors(originals, rendered, region))


def changed_pixels(
    originals: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
) -> Bool[Tensor, "pairs 1 height width"]:
    """Find the pixels that differ by at least `REGION` of the largest difference of the pair.

    Example:
        >>> changed_pixels(torch.zeros(1, 1, 1, 3), torch.tensor([[[[0.0, 0.04, 0.5]]]])).tolist()
        [[[[False, False, True]]]]
    """
    difference = (originals - rendered).abs().amax(1, keepdim=True)
    return (difference > 0) & (difference >= REGION * difference.amax((2, 3), keepdim=True))


def image_errors(
    images: Float[Tensor, "pairs channels height width"],
    rendered: Float[Tensor, "pairs channels height width"],
    region: Bool[Tensor, "pairs 1 height width"],
) -> Float[Tensor, "pairs 2"]:
    """Compute mean squared errors over the image, and the part of them that lies in the region.

    Example:
        >>> region = torch.tensor([[[[True, False]]]])
        >>> image_errors(torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 1, 2), region)
        tensor([[1.0000, 0.5000]], dtype=torch.float64)
    """
    squares = (images.double() - rendered.double()).square()
    return torch.stack([squares.mean((1, 2, 3)), (squares * region).mean((1, 2, 3))], dim=1)


def decoded_errors(
    decoder: Decoder,
    codes: Float[Tensor, "pairs codes"],
    rendered: Float[Tensor, "pairs channels height width"],
    region: Bool[Tensor, "pairs 1 height width"],
) -> Float[Tensor, "pairs 2"]:
    """Compute `image_errors` of decoded images.

    Example:
        >>> def decoder(codes): return codes[:, :, None, None]
        >>> black, whole = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1, dtype=torch.bool)
        >>> decoded_errors(decoder, torch.tensor([[0.5]]), black, whole)
        tensor([[0.2500, 0.2500]], dtype=torch.float64)
    """
    unchanged = torch.zeros(codes.shape[1], dtype=torch.bool, device=codes.device)
    errors = []
    for start in range(0, len(codes), _BATCH):
        rows = slice(start, start + _BATCH)
        images = decode_codes(decoder, codes[rows], codes[rows], unchanged)
        check_shapes(
            decoder=(images, "batch channels height width"),
            rendered=(rendered[rows], "batch channels height width"),
        )
        errors.append(image_errors(images, rendered[rows], region[rows]))
    return torch.cat(errors) if errors else torch.zeros(0, 2, dtype=torch.float64)
