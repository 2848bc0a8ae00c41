"""TAP-05: gradients classified by boosted stumps (Tappen et al. 2005)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from numpy import ndarray
from scipy.ndimage import correlate1d, gaussian_filter
from scipy.optimize import minimize
from scipy.special import expit

from candlelight.evaluation.models.gradients import (
    GradientModel,
    Gradients,
    TrueGradients,
    differences,
    draw_places,
    extend,
    gray_of_raised,
    inside_pairs,
    true_gradients,
)
from candlelight.evaluation.views import DecomposedImage
from candlelight.evaluation.views.named_streams import named_stream

# Thresholds are quantiles of each feature; sums over bins replace the sorting of samples in each round.
_BINS = 64


@dataclass(frozen=True, eq=False)
class BoostedStumps:
    """Weighted vote of stumps, each of which compares one feature with a threshold.

    Attributes:
        features: number of the feature of each stump.
        thresholds: threshold of each stump.
        votes: vote of each stump for values above its threshold; values up to it have the opposite vote.
    """

    features: Int[ndarray, " rounds"]
    thresholds: Float[ndarray, " rounds"]
    votes: Float[ndarray, " rounds"]

    def log_odds(self, values: Float[ndarray, "features ..."]) -> Float[ndarray, "..."]:
        """Return ``log P(true) / P(false)``, twice the sum of the votes.

        Example:
            >>> stumps = BoostedStumps(np.array([0]), np.array([0.5]), np.array([1.5]))
            >>> stumps.log_odds(np.array([[0.2, 0.9]])).tolist()
            [-3.0, 3.0]
        """
        total = np.zeros(values.shape[1:])
        for feature, threshold, vote in zip(self.features, self.thresholds, self.votes, strict=True):
            total += np.where(values[feature] > threshold, 2 * vote, -2 * vote)
        return total


def train_stumps(
    values: Float[ndarray, "features samples"],
    labels: Bool[ndarray, " samples"],
    weights: Float[ndarray, " samples"],
    rounds: int,
) -> BoostedStumps:
    """Train by discrete AdaBoost.

    Args:
        values: features of each sample, finite.
        labels: class of each sample.
        weights: initial weight of each sample, at least 0; their sum is positive.
        rounds: largest number of stumps; a perfect or useless stump ends the training.

    Example:
        >>> values = np.array([[0.0, 1.0, 2.0, 3.0]])
        >>> stumps = train_stumps(values, values[0] > 1, np.ones(4), rounds=3)
        >>> (stumps.log_odds(values) > 0).tolist()
        [False, False, True, True]
    """
    thresholds = np.quantile(values, np.arange(_BINS) / _BINS, axis=1, method="lower").T.astype(float)
    # The first stump of each feature says "true" always: it learns the share of each class.
    thresholds[:, 0] = -np.inf
    bins = np.stack([np.searchsorted(*pair) for pair in zip(thresholds, values, strict=True)])
    bins += (_BINS + 1) * np.arange(len(values))[:, None]
    signs = np.where(labels, 1.0, -1.0)
    weights = weights / weights.sum()
    chosen: list[tuple[int, float, float]] = []
    for _ in range(rounds):
        signed = weights * signs
        sums = np.bincount(bins.ravel(), np.tile(signed, len(values)), len(values) * (_BINS + 1))
        below = sums.reshape(len(values), _BINS + 1)[:, :-1].cumsum(1)
        # Weighted agreement of "above the threshold" with the labels: 1 is perfect, -1 perfect if reversed.
        agreement = signed.sum() - 2 * below
        feature, place = np.unravel_index(np.abs(agreement).argmax(), agreement.shape)
        # A perfect stump would have an infinite vote.
        edge = np.clip(agreement[feature, place], -1 + 1e-6, 1 - 1e-6)
        vote = np.arctanh(edge)
        chosen.append((int(feature), float(thresholds[feature, place]), float(vote)))
        if not 1e-9 < abs(edge) < 1 - 1e-6:
            break
        above = np.where(values[feature] > thresholds[feature, place], 1.0, -1.0)
        weights = weights * np.exp(-vote * above * signs)
        weights /= weights.sum()
    columns = [np.array(column) for column in zip(*chosen, strict=True)]
    return BoostedStumps(*columns)


def propagate_beliefs(
    evidence: Float[ndarray, "*grid"],
    agreements: Sequence[Float[ndarray, "..."]],
    sweeps: int = 40,
    damping: float = 0.5,
) -> Float[ndarray, "*grid"]:
    """Compute the marginal log odds of each node of a grid of two labels.

    The model is ``P(x) ~ prod_i exp(e_i x_i) prod_ij psi(x_i, x_j)`` for labels x in {0, 1}, with ``psi = a``
    for equal labels of neighbours and ``1 - a`` for others. Messages are log odds: a node of log odds h, all
    but its neighbour's message, sends ``2 artanh((2a - 1) tanh(h / 2))``. All messages change together.

    Args:
        evidence: log odds ``e`` of label 1 at each node without its neighbours.
        agreements: for each axis, the agreement ``a``, in (0, 1), of each node and the one before it on that
            axis; the first along the axis is not read. 1/2 separates the nodes.
        sweeps: number of times that all messages are sent. A sweep moves evidence by one node.
        damping: share of the previous message that is kept, in [0, 1); it calms oscillations and slows down.

    Returns:
        Log odds of label 1 at each node: exact on a chain after enough sweeps, too certain where loops count
        evidence twice.

    Example:
        >>> agreements = [np.full((1, 3), 0.5), np.full((1, 3), 0.9)]
        >>> propagate_beliefs(np.array([[0.0, 2.0, 0.0]]), agreements).round(2).tolist()
        [[1.42, 2.0, 1.42]]
    """
    axes = range(evidence.ndim)
    # The first node along an axis has no neighbour before it: only edges have messages.
    edges = [tuple(slice(1, None) if axis == along else slice(None) for axis in axes) for along in axes]
    before = [tuple(slice(None, -1) if axis == along else slice(None) for axis in axes) for along in axes]
    factors = [2 * agreement[edge] - 1 for agreement, edge in zip(agreements, edges, strict=True)]
    forward = [np.zeros_like(factor) for factor in factors]
    backward = [np.zeros_like(factor) for factor in factors]
    belief = evidence.copy()
    for _ in range(sweeps):
        for axis in axes:
            from_before = _message(belief[before[axis]] - backward[axis], factors[axis])
            from_after = _message(belief[edges[axis]] - forward[axis], factors[axis])
            forward[axis] += (1 - damping) * (from_before - forward[axis])
            backward[axis] += (1 - damping) * (from_after - backward[axis])
        belief = evidence.copy()
        for axis in axes:
            belief[edges[axis]] += forward[axis]
            belief[before[axis]] += backward[axis]
    return belief


def _message(
    log_odds: Float[ndarray, "*edges"], factor: Float[ndarray, "*edges"]
) -> Float[ndarray, "*edges"]:
    product = factor * np.tanh(log_odds / 2)
    return np.log((1 + product) / (1 - product))


# Gradients, in log units per pixel, below which the direction of a contour is noise.
_NOISE = 1e-3
_PENALTY = 1e-4


@dataclass(frozen=True, eq=False)
class ContourAgreement:
    """Agreement of neighbours on the grid of all gradients, [2 height width]: down (0), to the right (1).

    Attributes:
        weights: for neighbours along each axis of the grid, the weights of 1, the log magnitude of the
            gradient, the alignment of the contour with the direction of the neighbour, and their product.
    """

    weights: Float[ndarray, "3 4"]

    def agreements(
        self, log_image: Float[ndarray, "height width"], inside: Bool[ndarray, "2 height width"]
    ) -> list[Float[ndarray, "2 height width"]]:
        """Return probabilities for `propagate_beliefs`: at least 1/2, and 1/2 with a neighbour outside.

        Args:
            log_image: log gray image, extended over the background.
            inside: gradients that exist.
        """
        cues = contour_cues(log_image)
        return [
            np.where(inside & np.roll(inside, 1, axis), expit(np.tensordot(row, cue, 1).clip(0, 8)), 0.5)
            for axis, (row, cue) in enumerate(zip(self.weights, cues, strict=True))
        ]


def contour_cues(log_image: Float[ndarray, "height width"]) -> list[Float[ndarray, "4 2 height width"]]:
    """Compute the four inputs of the logistic model between each gradient and the one before it on each axis.

    The first axis pairs the two gradients of a pixel. They are aligned if the contour is diagonal, since both
    then belong to it.

    Example:
        >>> step = np.repeat(np.repeat([0.0, 1.0], 3)[None], 3, axis=0)
        >>> _, down, right = contour_cues(step)
        >>> down[2, 0, 1, 3].round(2) == 1, right[2, 0, 1, 3].round(2) == 0
        (np.True_, np.True_)
    """
    gradient = np.stack(
        [gaussian_filter(log_image, 1.0, order, mode="nearest") for order in ((1, 0), (0, 1))]
    )
    vertical, horizontal = ((gradient + np.roll(gradient, 1, axis)) / 2 for axis in (1, 2))
    sides = (
        (np.abs(gradient).min(0), gradient),
        (np.abs(vertical[1]), vertical),
        (np.abs(horizontal[0]), horizontal),
    )
    cues = []
    for part, vector in sides:
        magnitude = np.hypot(*vector) + _NOISE
        strength, alignment = np.log(magnitude), part / magnitude
        cue = np.stack([np.ones_like(strength), strength, alignment, strength * alignment])
        cues.append(np.stack([cue, cue], 1))
    return cues


def fit_agreement(
    cues: Float[ndarray, "4 pairs"],
    evidence: Float[ndarray, "2 pairs"],
    equal: Bool[ndarray, " pairs"],
    importance: Float[ndarray, " pairs"],
) -> Float[ndarray, " 4"]:
    """Fit the weights of one axis by maximum likelihood, with each pair taken as isolated.

    For log odds e and f of two neighbours, labels are equal with the log odds
    ``logit(a) + 2 artanh(tanh(e / 2) tanh(f / 2))``, where a is the agreement: the model learns the agreement
    that the evidence does not explain yet.

    Args:
        cues: inputs of the model for each pair.
        evidence: log odds of both gradients of each pair.
        equal: whether their true labels are equal.
        importance: weight of each pair, at least 0.
    """
    product = np.tanh(evidence / 2).prod(0)
    explained = np.log((1 + product).clip(1e-9) / (1 - product).clip(1e-9))
    signs = np.where(equal, 1.0, -1.0)
    shares = importance / max(importance.sum(), np.finfo(float).tiny)

    def loss(weights: ndarray) -> tuple[float, ndarray]:
        margin = signs * (weights @ cues + explained)
        slope = cues @ (shares * signs * expit(-margin))
        value = shares @ np.logaddexp(0, -margin) + _PENALTY / 2 * weights @ weights
        return float(value), _PENALTY * weights - slope

    return minimize(loss, np.zeros(len(cues)), jac=True, method="L-BFGS-B").x


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
        images: training images of any sizes; values below `candlelight.evaluation.models.gradients.FLOOR`
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
