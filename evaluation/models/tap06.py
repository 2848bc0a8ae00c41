"""TAP-06: gradients estimated by local experts (Tappen et al. 2006)."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

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

# Inputs that are tried as the next prototype; the best one is kept.
_CANDIDATES = 5
# Ridge penalty relative to the mean square of the inputs.
_PENALTY = 1e-3
# Width of the weights relative to the root mean square norm of the inputs.
_WIDTH = 0.25


@dataclass(frozen=True, eq=False)
class LocalExperts:
    """Weighted mean of linear functions: ``sum_k w_k(x) c_k x``, ``w_k ~ exp(-|x - p_k|^2 / (2 width^2))``.

    The weights of an input sum to 1. The linear functions have no constant: an input of zeros gives 0.

    Attributes:
        prototypes: centre p of each expert.
        coefficients: linear function c of each expert.
        width: standard deviation of the weights.
    """

    prototypes: Float[ndarray, "experts dimensions"]
    coefficients: Float[ndarray, "experts dimensions"]
    width: float

    def predict(self, inputs: Float[ndarray, "samples dimensions"]) -> Float[ndarray, " samples"]:
        """Return the prediction for each input.

        Example:
            >>> experts = LocalExperts(np.array([[0.0], [4.0]]), np.array([[1.0], [0.0]]), width=0.5)
            >>> experts.predict(np.array([[1.0], [2.0], [3.0]])).round(3).tolist()
            [1.0, 1.0, 0.0]
        """
        weights = _responsibilities(inputs, self.prototypes, self.width)
        return np.einsum("se,se->s", weights, inputs @ self.coefficients.T)


def grow_experts(
    inputs: Float[ndarray, "samples dimensions"],
    targets: Float[ndarray, " samples"],
    experts: int,
    rng: np.random.Generator,
) -> LocalExperts:
    """Fit experts one after the other by least squares.

    The first expert is at 0. Each further prototype is the best of a few inputs, drawn in proportion to their
    squared errors so far; its linear function is fitted while the others stay. The width is the root mean
    square norm of the inputs.

    Args:
        inputs: inputs, of mean about 0.
        targets: value to predict for each input.
        experts: number of experts; fewer are grown if there is no error left.
        rng: stream for the candidates.

    Example:
        >>> inputs = np.linspace(-2, 2, 400)[:, None]
        >>> rng = np.random.default_rng(0)
        >>> linear, local = (grow_experts(inputs, inputs[:, 0].clip(-1, 1), n, rng) for n in (1, 6))
        >>> errors = [np.abs(e.predict(inputs) - inputs[:, 0].clip(-1, 1)).mean() for e in (linear, local)]
        >>> bool(errors[1] < errors[0] / 2)
        True
    """
    energy = max((inputs**2).mean(), 1e-12)
    width, penalty = _WIDTH * np.sqrt(energy * inputs.shape[1]), _PENALTY * energy * len(inputs)
    model = LocalExperts(np.zeros((1, inputs.shape[1])), _ridge(inputs, targets, penalty)[None], float(width))
    for _ in range(experts - 1):
        errors = (targets - model.predict(inputs)) ** 2
        if not errors.any():
            break
        candidates = rng.choice(len(inputs), _CANDIDATES, p=errors / errors.sum())
        grown = [_add_expert(model, prototype, inputs, targets, penalty) for prototype in inputs[candidates]]
        model, _ = min(grown, key=itemgetter(1))
    return model


def _add_expert(
    model: LocalExperts,
    prototype: Float[ndarray, " dimensions"],
    inputs: Float[ndarray, "samples dimensions"],
    targets: Float[ndarray, " samples"],
    penalty: float,
) -> tuple[LocalExperts, float]:
    """Return the model with one expert more, and its sum of squared errors."""
    prototypes = np.concatenate([model.prototypes, prototype[None]])
    weights = _responsibilities(inputs, prototypes, model.width)
    rest = targets - np.einsum("se,se->s", weights[:, :-1], inputs @ model.coefficients.T)
    local = weights[:, -1:] * inputs
    added = _ridge(local, rest, penalty)
    grown = LocalExperts(prototypes, np.concatenate([model.coefficients, added[None]]), model.width)
    return grown, float(np.square(rest - local @ added).sum())


def _responsibilities(
    inputs: Float[ndarray, "samples dimensions"],
    prototypes: Float[ndarray, "experts dimensions"],
    width: float,
) -> Float[ndarray, "samples experts"]:
    # |x|^2 is the same for all experts of an input and cancels.
    exponents = (2 * inputs @ prototypes.T - (prototypes**2).sum(1)) / (2 * width**2)
    # Far from all prototypes, the nearest one answers, instead of 0 / 0.
    weights = np.exp(exponents - exponents.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _ridge(
    inputs: Float[ndarray, "samples dimensions"], targets: Float[ndarray, " samples"], penalty: float
) -> Float[ndarray, " dimensions"]:
    return np.linalg.solve(inputs.T @ inputs + penalty * np.eye(inputs.shape[1]), inputs.T @ targets)


# A patch of 6 x 5 pixels: three on either side of the difference, and two on either side across it.
_ALONG, _ACROSS = 3, 2
_EXPERTS = 20
# Patches drawn from all training images together.
_SAMPLES = 60_000


@dataclass(frozen=True, eq=False)
class TAP06(GradientModel):
    """Trained regression of shading gradients as an `IntrinsicModel`; `train_tap06` makes one.

    The rest of each difference of log gray values belongs to the reflectance, whose log image has the least
    squared distance to these differences, all with the same weight (Grosse et al. 2009, eq. 10, p = 2). The
    input is gray, as in their comparison of gray methods: the colour of the image changes no gradient, and
    the reflectance takes it over.

    Blind spots: colour, and all beyond the patch. Least squares answers ambiguous patches with their mean, so
    that each edge is left at part of its height in both parts. LMSE rewards this on the MIT images: the
    square root of the image as both parts has the same mean error.

    Attributes:
        experts: predict the shading gradient at the centre of a patch of the log image, whose mean is 0. One
            regression serves both directions; patches for gradients to the right are transposed.
    """

    experts: LocalExperts

    def _gradients(
        self, _: int, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"]
    ) -> Gradients:
        log_image = extend(np.log(gray_of_raised(pixels)), mask)
        down, right = inside_pairs(mask)
        shading = np.zeros((2, *mask.shape))
        shading[0][down] = self.experts.predict(_patches(log_image, np.flatnonzero(down)))
        shading[1].T[right.T] = self.experts.predict(_patches(log_image.T, np.flatnonzero(right.T)))
        return Gradients(*(differences(log_image) - shading))


def train_tap06(images: Sequence[DecomposedImage], *, seed: int = 0) -> TAP06:
    """Train on images with their true decomposition.

    Args:
        images: training images of any sizes; values below `candlelight.evaluation.models.gradients.FLOOR`
            are raised to it.
        seed: seed of the drawn patches and prototypes. Equal seeds give equal models on one processor.

    Raises:
        InputError: no image has two neighbours in its mask whose true reflectance and shading differ by
            unequal factors, or a value inside a mask is not finite.

    Example:
        >>> import torch
        >>> row = torch.tensor([0.2, 0.2, 0.2, 0.8, 0.8, 0.8]).expand(3, 6, 6)
        >>> light = torch.linspace(0.6, 0.8, 6).expand(1, 6, 6).transpose(1, 2)
        >>> model = train_tap06([DecomposedImage(row * light, row, light, torch.ones(6, 6).bool())])
        >>> _, shading = model((row * light)[None])
        >>> bool((shading / light).std() / shading.mean() < 0.1)
        True
    """
    examples = true_gradients(images)
    share = -(-_SAMPLES // len(examples))
    rng = named_stream(seed, "patches")
    drawn = [part for example in examples for part in _draw_patches(example, share // 2, rng)]
    patches, targets = (np.concatenate(part) for part in zip(*drawn, strict=True))
    patches, targets = _mirror(patches, targets, named_stream(seed, "mirrors"))
    return TAP06(grow_experts(patches, targets, _EXPERTS, named_stream(seed, "prototypes")))


def _patches(log_image: Float[ndarray, "height width"], places: ndarray) -> Float[ndarray, "places pixels"]:
    """Cut patches out around differences down, at flat places; the mean of each is subtracted."""
    padded = np.pad(log_image, ((_ALONG, _ALONG - 1), (_ACROSS, _ACROSS)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * _ALONG, 2 * _ACROSS + 1))
    patches = windows[np.unravel_index(places, log_image.shape)].reshape(
        len(places), 2 * _ALONG * (2 * _ACROSS + 1)
    )
    return patches - patches.mean(1, keepdims=True)


def _draw_patches(
    example: TrueGradients, count: int, rng: np.random.Generator
) -> list[tuple[ndarray, ndarray]]:
    """Draw patches for gradients down and to the right, each with its true shading gradient."""
    drawn = []
    for axis in (0, 1):
        # Gradients to the right are gradients down in the transposed image.
        log_image, inside, shading = (
            np.swapaxes(layer, 0, axis)
            for layer in (example.log_image, example.inside[axis], example.shading[axis])
        )
        places = draw_places(inside, count, rng)
        drawn.append((_patches(log_image, places), shading.ravel()[places]))
    return drawn


def _mirror(
    patches: Float[ndarray, "drawn pixels"], targets: Float[ndarray, " drawn"], rng: np.random.Generator
) -> tuple[Float[ndarray, "drawn pixels"], Float[ndarray, " drawn"]]:
    """Turn half of the patches upside down, with the opposite gradient, and half of them left to right.

    Light from above in all training images would be learnt otherwise.
    """
    upside_down, left_right = rng.random((2, len(patches), 1, 1)) < 0.5
    images = patches.reshape(-1, 2 * _ALONG, 2 * _ACROSS + 1)
    images = np.where(upside_down, images[:, ::-1], images)
    images = np.where(left_right, images[:, :, ::-1], images)
    return images.reshape(patches.shape), np.where(upside_down.ravel(), -targets, targets)
