"""Explanations by the filters of a layer: Grad-CAM, and VEBI, whose filters a sparse linear model selects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.models.vision import token_maps
from candlelight.evaluation.run.hidden_layers import check_images_first, run_recorded
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


class WeightedFilters(NamedTuple):
    """Filters of a layer, and their weights for the predicted classes.

    Attributes:
        activations: output A of the layer.
        weights: mean gradient alpha of the predicted class's logit over the places of each filter.
        logits: output of the network.
        predicted: predicted class; -1 if logits, activations or gradients of the image are not finite, whose
            activations and weights are then 0.
    """

    activations: Float[Tensor, "images filters height width"]
    weights: Float[Tensor, "images filters"]
    logits: Float[Tensor, "images classes"]
    predicted: Int[Tensor, " images"]


def weigh_filters(
    network: nn.Module,
    layer: str,
    images: Float[Tensor, "images 3 height width"],
    targets: Int[Tensor, " images"] | None = None,
) -> WeightedFilters:
    """Weigh the filters of a layer by the gradient of the predicted class's logit, or of another class's.

    ``alpha_t = mean_uv d y_c / d A_t(u, v)`` (Selvaraju et al. 2017, eq. 1), for all images in one pass.

    Args:
        network: a classifier that gives logits [images, classes]; it runs in evaluation mode, and nothing in
            it changes.
        layer: name as ``network.named_modules()`` gives it; its output must be [images, filters, h, w], or
            [images, tokens, filters] of a transformer with square input. The logits must depend on these
            places: behind the last attention only the class token counts, and all weights are 0.
        images: input of the network, for classifiers of the commands sRGB-encoded in [0, 1]; they are moved
            to its device.
        targets: class of each image whose logit is taken; None for the predicted ones.

    Returns:
        Activations, weights and predictions, on the device of the network.

    Raises:
        InputError: the layer does not exist, does not run exactly once, gives no maps or does not lead to the
            logits, or the output is not [images, classes].

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> found = weigh_filters(network, "0", torch.eye(3)[:1, :, None, None].expand(-1, -1, 1, 2))
        >>> found.predicted, found.weights
        (tensor([0]), tensor([[0.5000, 0.0000, 0.0000]]))
    """
    images = images.to(network_device(network, images))
    with torch.enable_grad():  # a caller may have switched gradients off
        output, recorded = run_recorded(network, [layer], images, differentiable=True)
        check_images_first(network, layer, recorded[layer], images)
        logits = check_logits(output, len(images))
        chosen = logits.argmax(1, keepdim=True)
        explained = chosen if targets is None else targets[:, None].to(chosen)
        gradient = _gradient(logits.gather(1, explained).sum(), recorded[layer], layer)
    activations, gradient = (filter_maps(some, layer) for some in (recorded[layer].detach(), gradient))
    weights, logits = gradient.mean((2, 3)), logits.detach()
    finite = torch.stack([some.flatten(1).isfinite().all(1) for some in (activations, weights, logits)])
    failed = ~finite.all(0)
    return WeightedFilters(
        activations.masked_fill(failed[:, None, None, None], 0),
        weights.masked_fill(failed[:, None], 0),
        logits,
        chosen[:, 0].masked_fill(failed, -1),
    )


def grad_cam(
    found: WeightedFilters, chosen: Bool[Tensor, "images filters"] | None = None
) -> Float[Tensor, "images height width"]:
    """Compute Grad-CAM, the weighted sum of the filters of each image.

    ``ReLU(sum_t alpha_t A_t)`` (Selvaraju et al. 2017, eq. 2), over all filters or the chosen ones.

    Blind to: where in a filter the gradient is large, because of its mean; and to evidence against the class.

    Args:
        found: filters and weights, from `weigh_filters`.
        chosen: filters of each image that take part; None for all.

    Returns:
        Maps of at least 0 at the resolution of the layer; larger values support the predicted class more.

    Raises:
        InputError: ``chosen`` is not boolean, or does not have one entry for each image and filter.

    Example:
        >>> activations = torch.tensor([[[[1.0, 2.0]], [[3.0, 0.0]]]])
        >>> found = WeightedFilters(
        ...     activations, torch.tensor([[1.0, -1.0]]), torch.ones(1, 1), torch.tensor([0])
        ... )
        >>> grad_cam(found), grad_cam(found, torch.tensor([[True, False]]))
        (tensor([[[0., 2.]]]), tensor([[[1., 2.]]]))
    """
    weights = found.weights
    if chosen is not None:
        check_shapes(weights=(weights, "images filters"), chosen=(chosen, "images filters"))
        check_bool(chosen=chosen)
        weights = weights.masked_fill(~chosen, 0)
    return torch.einsum("if,ifhw->ihw", weights, found.activations).relu()


def grad_cam_by_filter(
    found: WeightedFilters, numbers: Int[Tensor, "images places"]
) -> Float[Tensor, "images places height width"]:
    """Compute Grad-CAM of single filters, ``ReLU(alpha_t A_t)``.

    Args:
        found: filters and weights, from `weigh_filters`.
        numbers: numbers of the filters of each image; -1 marks a place without a filter.

    Returns:
        Maps of at least 0; 0 at places without a filter, and where a filter's activations and weight have
        opposite signs.

    Example:
        >>> activations = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])
        >>> found = WeightedFilters(
        ...     activations, torch.tensor([[2.0, -1.0]]), torch.ones(1, 1), torch.tensor([0])
        ... )
        >>> grad_cam_by_filter(found, torch.tensor([[-1, 0, 1]]))[0, :, 0]
        tensor([[0., 0.],
                [2., 4.],
                [0., 0.]])
    """
    index = numbers.clamp(min=0)
    weights = found.weights.gather(1, index).masked_fill(numbers < 0, 0)
    picked = found.activations.gather(1, index[:, :, None, None].expand(-1, -1, *found.activations.shape[2:]))
    return (weights[:, :, None, None] * picked).relu()


@dataclass(frozen=True)
class GradCAM:
    """Grad-CAM of all filters as an explanation method with one concept; there is nothing to learn.

    Attributes:
        network: see `weigh_filters`.
        layer: see `weigh_filters`.
        name: name of the method.

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> GradCAM(network, "0").explain(torch.ones(1, 3, 1, 1))
        Explanation(maps=tensor([[[[1.]]]]), concepts=tensor([[0]]), scores=tensor([[1.]]), \
predicted=tensor([0]))
    """

    network: nn.Module
    layer: str
    name: str = "grad-cam"

    def fit(self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]) -> "GradCAM":
        """Return the method itself."""
        del images, labels
        return self

    def state(self) -> dict[str, Tensor]:
        """Collect nothing: Grad-CAM learns nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> "GradCAM":
        """Return the method itself."""
        del state
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; the score is the sum of the map.

        Raises:
            InputError: as `weigh_filters`.
        """
        found = weigh_filters(self.network, self.layer, images)
        maps = grad_cam(found)[:, None]
        return Explanation(maps, found.predicted[:, None].clamp(max=0), maps.sum((2, 3)), found.predicted)


def filter_maps(output: Tensor, layer: str) -> Float[Tensor, "images filters height width"]:
    """Return the output of a layer as maps; the tokens of a transformer become square maps.

    Raises:
        InputError: the output has no maps.

    Example:
        >>> filter_maps(torch.zeros(1, 5, 7), "blocks.3").shape
        torch.Size([1, 7, 2, 2])
    """
    maps = token_maps(output) if output.ndim == 3 else output
    if maps.ndim != 4:
        raise InputError(
            f"layer `{layer}` gives no maps: expected [images, filters, h, w], got {list(output.shape)}"
        )
    return maps


def check_logits(output: object, images: int) -> Float[Tensor, "images classes"]:
    """Refuse an output of a classifier that is not one logit for each image and class.

    Raises:
        InputError: as described.
    """
    if isinstance(output, Tensor) and output.ndim == 2 and len(output) == images and output.shape[1]:
        return output
    found = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
    raise InputError(f"expected logits [{images}, classes] of the network, got {found}")


def network_device(network: nn.Module, images: Tensor) -> torch.device:
    """Return the device of a network's parameters; the device of the images if it has no parameters."""
    return next(network.parameters(), images).device


def _gradient(total: Tensor, recorded: Tensor, layer: str) -> Tensor:
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, recorded, allow_unused=True)
    if gradient is None:
        raise InputError(f"layer `{layer}` has no gradient: the logits do not depend on it; choose another")
    return gradient


_STEPS = 20_000
_CHECKED = 25  # steps between two tests of convergence, each of which waits for the device
_TOLERANCE = 1e-12  # largest change in a step, as a share of the largest weight


class NonNegativeLasso(NamedTuple):
    """Solution of `nonnegative_lasso`.

    Attributes:
        weights: w of each target, float64; features that do not help have weight 0.
        gap: upper bound of how far half the squared error of each target lies above its minimum (duality
            gap); about 0 after convergence.
    """

    weights: Float[Tensor, "targets features"]
    gap: Float[Tensor, " targets"]


def nonnegative_lasso(
    gram: Float[Tensor, "features features"], products: Float[Tensor, "targets features"], bound: float
) -> NonNegativeLasso:
    """Fit each target by few features with non-negative weights.

    ``w* = argmin |X w - y|^2 subject to sum(w) <= bound, w >= 0``, the lasso in its constrained form
    (Tibshirani 1996), by accelerated projected gradients (FISTA, Beck and Teboulle 2009) with restarts for
    each target (O'Donoghue and Candes 2015). The number of samples does not matter: only ``X^T X`` and
    ``X^T y`` are needed.

    Blind to: which of several equal features is meant; they share the weight equally. Other solvers choose
    one of them.

    Args:
        gram: ``X^T X`` of the features X, [samples, features].
        products: ``X^T y`` of each target y.
        bound: bound of the sum of the weights of a target, finite and above 0.

    Returns:
        Weights, and a bound of their error.

    Raises:
        InputError: shapes do not agree, values are not finite, or the bound is out of range.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> target = torch.tensor([[3.0, 1.0]])
        >>> nonnegative_lasso(features.T @ features, target @ features, bound=3.0).weights
        tensor([[2.5000, 0.5000]], dtype=torch.float64)
    """
    check_shapes(gram=(gram, "features features"), products=(products, "targets features"))
    if not 0 < bound < math.inf:
        raise InputError(f"`bound` must be finite and above 0, got {bound}")
    if not bool(gram.isfinite().all() & products.isfinite().all()):
        raise InputError("`gram` and `products` must be finite, got nan or inf; check the features")
    gram, products = gram.double(), products.double()
    weights = _descend(gram, products, bound)
    gradient = weights @ gram - products
    gap = (gradient * weights).sum(1) - bound * gradient.amin(1).clamp(max=0)
    return NonNegativeLasso(weights, gap)


def project_bounded(
    points: Float[Tensor, "points features"], bound: float
) -> Float[Tensor, "points features"]:
    """Project each point onto the nearest point with non-negative entries whose sum is at most ``bound``.

    Negative entries become 0. If the sum is still too large, the same amount is taken from all entries, down
    to 0; sorting gives the amount (Duchi et al. 2008).

    Args:
        points: any finite points.
        bound: bound of the sum, above 0.

    Example:
        >>> project_bounded(torch.tensor([[3.0, 1.0, -1.0], [0.5, 0.25, -1.0]]), 2.0)
        tensor([[2.0000, 0.0000, 0.0000],
                [0.5000, 0.2500, 0.0000]])
    """
    positive = points.clamp(min=0)
    ordered = points.sort(1, descending=True).values
    number = torch.arange(1, points.shape[1] + 1, device=points.device, dtype=points.dtype)
    excess = (ordered.cumsum(1) - bound) / number
    kept = (ordered > excess).sum(1, keepdim=True)
    amount = excess.gather(1, (kept - 1).clamp(min=0))
    outside = positive.sum(1, keepdim=True) > bound
    return torch.where(outside, (points - amount).clamp(min=0), positive)


def _descend(
    gram: Float[Tensor, "features features"], products: Float[Tensor, "targets features"], bound: float
) -> Float[Tensor, "targets features"]:
    weights = torch.zeros_like(products)
    largest = torch.linalg.eigvalsh(gram)[-1]
    if not bool(largest > 0):
        return weights  # all features are 0, so no weight lowers the error
    ahead, momentum = weights, weights.new_ones(len(weights), 1)
    for step in range(_STEPS):
        moved = project_bounded(ahead - (ahead @ gram - products) / largest, bound)
        if step % _CHECKED == 0:
            change = (moved - ahead).abs().amax(1)
            if bool((change <= _TOLERANCE * moved.amax(1)).all()):
                return moved
        # The momentum of a target restarts when it leads uphill.
        uphill = ((ahead - moved) * (moved - weights)).sum(1, keepdim=True) > 0
        following = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
        ahead = torch.where(uphill, moved, moved + (momentum - 1) / following * (moved - weights))
        momentum = torch.where(uphill, 1, following)
        weights = moved
    return weights


Indicators = Literal["labels", "predicted"]

_NEGLIGIBLE = 1e-6  # share of a class's largest weight; the solver leaves no smaller ones but by rounding


def filter_energies(
    activations: Float[Tensor, "images filters height width"],
) -> Float[Tensor, "images filters"]:
    """Compute each filter's share of the energy of its layer.

    ``x_t = sum_uv A_t(u, v)^2 / sum_t' sum_uv A_t'(u, v)^2``, the aggregated activations x of `VEBI`.

    Args:
        activations: output of a layer.

    Returns:
        Shares of at least 0 that add up to 1, float64; 0 for an image without any activation.

    Example:
        >>> filter_energies(torch.tensor([[[[1.0, -1.0]], [[0.0, 0.0]], [[1.0, 1.0]]]]))
        tensor([[0.5000, 0.0000, 0.5000]], dtype=torch.float64)
    """
    energy = activations.double().square().sum((2, 3))
    total = energy.sum(1, keepdim=True)
    return energy / total.where(total > 0, 1)


@dataclass
class VEBI:
    """Visual Explanation By Interpretation (Oramas et al. 2019) with the changes of the WAIoU paper (sec. 4).

    Interpretation: for each class, a non-negative lasso tells the training images of the class from the
    others by the energies of the filters, ``W* = argmin |X^T W - L^T|_F^2`` subject to
    ``sum(w_j) <= bound, w_j >= 0``. Filters with a weight are the concepts of the class, so classes differ in
    their number of concepts.

    Explanation: the responses of an image are ``w_c * x`` with the weights of the predicted class c. The maps
    are Grad-CAM of single filters, ``ReLU(alpha_t A_t)``, highest responses first. The paper keeps the
    filters of "higher scores" without their number; here all responses above 0 are kept.

    Blind to: filters that act by their absence, because weights are at least 0; to the place of an
    activation; and to filters that matter to the network but vary little between classes.

    Attributes:
        network: a classifier that gives logits [images, classes].
        layer: the last convolutional layer in the paper; see `weigh_filters`.
        bound: bound mu of the sum of the weights of a class. The WAIoU paper does not give it; 10 is the
            value of Oramas et al. The smaller it is, the fewer filters a class has; far below 1 it has one,
            the filter of most energy in the images of the class.
        indicators: classes of the training images in L, their "labels" or the classes that the network has
            "predicted". Explanations always use the predicted class.
        batch_size: images per pass in `fit`.
        name: name of the method.
        weights: W of each class, once `fit` has run; negligible ones are 0.
        gap: see `NonNegativeLasso`.

    Example:
        >>> network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> images = torch.eye(3)[:, :, None, None]  # three classes, each shown by one channel
        >>> method = VEBI(network, "0").fit(images, torch.arange(3))
        >>> method.chosen.tolist()
        [[True, False, False], [False, True, False], [False, False, True]]
        >>> method.explain(images[2:]).concepts
        tensor([[2]])
    """

    network: nn.Module
    layer: str
    bound: float = 10.0
    indicators: Indicators = "labels"
    batch_size: int = 32
    name: str = "vebi"
    weights: Float[Tensor, "classes filters"] | None = field(default=None, init=False)
    gap: Float[Tensor, " classes"] | None = field(default=None, init=False)

    @property
    def chosen(self) -> Bool[Tensor, "classes filters"]:
        """Tell for each class and filter whether the filter is a concept of the class.

        Raises:
            InputError: `fit` has not run.
        """
        return self._fitted() > 0

    def fit(self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]) -> "VEBI":
        """Learn the weights of the filters from training images, and return the method itself.

        Args:
            images: input of the network, sRGB-encoded in [0, 1], on any device; batches are moved to the
                device of the network.
            labels: class of each image; unused with ``indicators="predicted"``.

        Raises:
            InputError: there are no images, a label is no class of the network, energies or logits are not
                finite, no class has a filter, an option is misspelt, or as `weigh_filters` and
                `nonnegative_lasso`.
        """
        check_choice("indicators", self.indicators, Indicators)
        check_shapes(images=(images, "train 3 height width"), labels=(labels, "train"))
        if not len(images):
            raise InputError("VEBI needs training images, got none")
        gram, products = self._normal_equations(images, labels)
        weights, self.gap = nonnegative_lasso(gram, products, self.bound)
        self.weights = weights.where(weights > _NEGLIGIBLE * weights.amax(1, keepdim=True), 0)
        if not bool(self.chosen.any()):
            raise InputError(f"layer `{self.layer}` is 0 for all training images; choose another layer")
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images.

        Returns:
            As many places for concepts as the class of most filters has. Concepts are numbers of filters, so
            classes may share one. Scores are the responses ``w_c * x``, float64, in falling order;
            `merge_explanation` ranks maps by their sums instead (eq. 1), unless told to use scores.

        Raises:
            InputError: `fit` has not run, or as `weigh_filters`.
        """
        places = int(self.chosen.sum(1).amax())
        found = weigh_filters(self.network, self.layer, images)
        weights = self._fitted()[found.predicted.clamp(min=0)]
        # An image that is not finite has no energy, hence no response and no concept.
        responses = weights * filter_energies(found.activations)
        scores, numbers = responses.sort(dim=1, descending=True, stable=True)
        scores = scores[:, :places]
        concepts = numbers[:, :places].masked_fill(scores <= 0, -1)
        return Explanation(grad_cam_by_filter(found, concepts), concepts, scores, found.predicted)

    def state(self) -> dict[str, Tensor]:
        """Collect the tensors that `fit` has learned.

        Raises:
            InputError: `fit` has not run.
        """
        return {"weights": self._fitted()}

    def restore(self, state: Mapping[str, Tensor]) -> "VEBI":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        self.weights = state["weights"].to(network_device(self.network, state["weights"]))
        return self

    def _fitted(self) -> Float[Tensor, "classes filters"]:
        if self.weights is None:
            raise InputError("VEBI has no concepts yet; call `fit` with training images first")
        return self.weights

    def _normal_equations(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> tuple[Float[Tensor, "filters filters"], Float[Tensor, "classes filters"]]:
        """Sum ``X X^T`` and ``L X^T`` over all images."""
        sums: list[tuple[Tensor, Tensor]] = []
        device = network_device(self.network, images)
        for some, classes in zip(
            *(torch.split(rows, self.batch_size) for rows in (images, labels)), strict=True
        ):
            output, recorded = run_recorded(self.network, [self.layer], some.to(device))
            check_images_first(self.network, self.layer, recorded[self.layer], some.to(device))
            logits = check_logits(output, len(some))
            energies = filter_energies(filter_maps(recorded[self.layer], self.layer))
            if not bool(energies.isfinite().all() & logits.isfinite().all()):
                raise InputError(
                    "training images give logits or energies that are not finite; leave them out"
                )
            classes = classes.to(device) if self.indicators == "labels" else logits.argmax(1)
            check_classes(classes, logits.shape[1])
            indicators = torch.nn.functional.one_hot(classes.long(), logits.shape[1]).double()
            sums.append((energies.T @ energies, indicators.T @ energies))
        grams, products = zip(*sums, strict=True)
        return sum(grams[1:], grams[0]), sum(products[1:], products[0])


def check_classes(labels: Int[Tensor, " images"], classes: int) -> None:
    """Refuse labels that are not numbers of a network's classes.

    Raises:
        InputError: a label is below 0, or not below the number of classes.

    Example:
        >>> check_classes(torch.tensor([0, 3]), 3)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `labels` must be 0 to 2, the network has 3 classes; got 0 to 3
    """
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"`labels` must be 0 to {classes - 1}, the network has {classes} classes; got {low} to {high}"
        )
