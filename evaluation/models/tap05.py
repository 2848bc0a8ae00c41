"""TAP-05: gradients classified as reflectance or shading by boosting, then propagated along contours.

M. F. Tappen, W. T. Freeman, E. H. Adelson: Recovering intrinsic images from a single image, PAMI 2005, in the
gray form that R. Grosse et al., ICCV 2009, section 4.3.2, compare with other methods. This is a restatement
of these descriptions: no code of either paper's TAP-05 is public.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from numpy import ndarray
from scipy.ndimage import correlate1d, gaussian_filter

from candlelight.evaluation.models.belief_propagation import propagate_beliefs
from candlelight.evaluation.models.boosted_stumps import BoostedStumps, train_stumps
from candlelight.evaluation.models.contour_agreement import ContourAgreement, contour_cues, fit_agreement
from candlelight.evaluation.models.integrate_gradients import GradientModel
from candlelight.evaluation.models.log_gradients import Gradients, gray_of_raised
from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.models.training_gradients import (
    TrueGradients,
    differences,
    draw_places,
    extend,
    inside_pairs,
    true_gradients,
)
from candlelight.loaders.views import DecomposedImage

_SCALES = (1.0, 2.0, 4.0, 8.0)
_ANGLES = (0.0, np.pi / 4, np.pi / 2, 3 * np.pi / 4)
_ROUNDS = 100
# Gradients, and pairs of neighbours on each axis, drawn from all training images together.
_SAMPLES = 60_000


@dataclass(frozen=True, eq=False)
class TAP05(GradientModel):
    """Trained classifier of gradients as an `IntrinsicModel`; `train_tap05` makes one.

    A difference of log gray values between neighbours is kept for the reflectance if its belief after
    propagation favours reflectance. The reflectance is the least-squares image of the kept differences
    (Grosse et al. 2009, eq. 10, p = 2). The input is gray, as in their comparison of gray methods: the colour
    of the image changes no decision, and the reflectance takes it over.

    Blind spots: colour; edges with both causes, which go to one part as a whole; and marks on surfaces unlike
    the training images'. On the MIT images the propagation cleans marks on plain surfaces, but carries wrong
    decisions along whole contours of printed ones: without it the mean error is lower.

    Attributes:
        classifier: boosted stumps on the absolute responses of first and second Gaussian derivatives.
        agreement: model of how likely neighbouring gradients have one cause.
    """

    classifier: BoostedStumps
    agreement: ContourAgreement

    def _gradients(
        self, _: int, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"]
    ) -> Gradients:
        log_image = extend(np.log(gray_of_raised(pixels)), mask)
        inside = inside_pairs(mask)
        evidence = np.where(inside, self.classifier.log_odds(_responses(log_image)), 0.0)
        beliefs = propagate_beliefs(evidence, self.agreement.agreements(log_image, inside))
        return Gradients(*np.where(beliefs > 0, differences(log_image), 0.0))


def train_tap05(images: Sequence[DecomposedImage], *, seed: int = 0) -> TAP05:
    """Train on images with their true decomposition.

    A gradient is reflectance if its true log reflectance changes more than its true log shading. Its weight
    in the training is the difference of both changes, the error that a wrong decision causes.

    Args:
        images: training images of any sizes; values below `candlelight.evaluation.models.log_gradients.FLOOR`
            are raised to it.
        seed: seed of the drawn gradients and pairs. Equal seeds give equal models.

    Raises:
        InputError: no image has two neighbours in its mask whose true reflectance and shading differ by
            unequal factors, or a value inside a mask is not finite.

    Example:
        >>> import torch
        >>> row = torch.tensor([0.2, 0.2, 0.2, 0.8, 0.8, 0.8]).expand(3, 6, 6)
        >>> light = torch.linspace(0.6, 0.8, 6).expand(1, 6, 6).transpose(1, 2)
        >>> model = train_tap05([DecomposedImage(row * light, row, light, torch.ones(6, 6).bool())])
        >>> _, shading = model((row * light)[None])
        >>> bool((shading / light).std() / shading.mean() < 0.01)
        True
    """
    examples = true_gradients(images)
    share = -(-_SAMPLES // len(examples))
    rng = named_stream(seed, "gradients")
    parts = [_draw_gradients(example, share, rng) for example in examples]
    values, labels, weights = (np.concatenate(part, -1) for part in zip(*parts, strict=True))
    classifier = train_stumps(values, labels, weights, _ROUNDS)
    rng = named_stream(seed, "pairs")
    drawn = [_draw_pairs(example, classifier, share, rng) for example in examples]
    by_axis = [
        [np.concatenate(part, -1) for part in zip(*axis, strict=True)] for axis in zip(*drawn, strict=True)
    ]
    return TAP05(classifier, ContourAgreement(np.stack([fit_agreement(*axis) for axis in by_axis])))


def _responses(log_image: Float[ndarray, "height width"]) -> Float32[ndarray, "features 2 height width"]:
    """Compute absolute filter responses at each gradient, with angles relative to its direction.

    The same classifier serves both directions. The filters are first and second derivatives of Gaussians,
    multiplied by their scale once and twice: all responses are in log units.
    """
    responses = [np.abs(differences(log_image))]
    for scale in _SCALES:
        smooth = gaussian_filter(log_image, scale, mode="nearest", truncate=3.0)
        # Kernels that sum to 0 exactly: sampled Gaussian derivatives would respond to the brightness.
        y, x = (scale * correlate1d(smooth, (-0.5, 0, 0.5), axis, mode="nearest") for axis in (0, 1))
        yy, xx = (scale**2 * correlate1d(smooth, (1, -2, 1), axis, mode="nearest") for axis in (0, 1))
        xy = scale * correlate1d(y, (-0.5, 0, 0.5), 1, mode="nearest")
        along, across = _midpoints(y, x), _midpoints(x, y)
        along2, mixed, across2 = _midpoints(yy, xx), _midpoints(xy, xy), _midpoints(xx, yy)
        for angle in _ANGLES:
            c, s = np.cos(angle), np.sin(angle)
            responses.append(np.abs(c * along + s * across))
            responses.append(np.abs(c * c * along2 + 2 * c * s * mixed + s * s * across2))
    return np.stack(responses, dtype=np.float32)


def _midpoints(
    down: Float[ndarray, "height width"], right: Float[ndarray, "height width"]
) -> Float[ndarray, "2 height width"]:
    """Average each pixel with the one above (0) and the one on the left (1): a difference lies between."""
    return np.stack([down + np.roll(down, 1, 0), right + np.roll(right, 1, 1)]) / 2


def _truth(
    example: TrueGradients,
) -> tuple[Bool[ndarray, "2 height width"], Float[ndarray, "2 height width"]]:
    """Return the true labels of gradients and their weights."""
    excess = np.abs(example.reflectance) - np.abs(example.shading)
    return excess > 0, np.abs(excess)


def _draw_gradients(
    example: TrueGradients, count: int, rng: np.random.Generator
) -> tuple[Float32[ndarray, "features drawn"], Bool[ndarray, " drawn"], Float[ndarray, " drawn"]]:
    """Draw gradients without replacement: responses, labels and weights."""
    labels, weights = _truth(example)
    places = draw_places(example.inside & (weights > 0), count, rng)
    responses = _responses(example.log_image)
    return responses.reshape(len(responses), -1)[:, places], labels.ravel()[places], weights.ravel()[places]


def _draw_pairs(
    example: TrueGradients, classifier: BoostedStumps, count: int, rng: np.random.Generator
) -> list[tuple[ndarray, ndarray, ndarray, ndarray]]:
    """Draw pairs of neighbours for each axis of the grid of gradients: the arguments of `fit_agreement`."""
    labels, weights = _truth(example)
    evidence = classifier.log_odds(_responses(example.log_image))
    pairs = []
    for axis, cues in enumerate(contour_cues(example.log_image)):
        has_pair = example.inside & np.roll(example.inside, 1, axis)
        # Nothing lies before the first along the axis; `roll` puts the last there.
        np.moveaxis(has_pair, axis, 0)[0] = False
        places = draw_places(has_pair, count, rng)
        log_odds, classes, importance = (
            np.stack([layer.ravel()[places], np.roll(layer, 1, axis).ravel()[places]])
            for layer in (evidence, labels, weights)
        )
        drawn = cues.reshape(len(cues), -1)[:, places]
        pairs.append((drawn, log_odds, classes[0] == classes[1], importance.min(0)))
    return pairs
