"""Losses that hold a network to its concepts: prototypes, concept vectors, and style."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.run.check_shapes import check_shapes
from candlelight.evaluation.training.intrinsic_data import (
    log_image,
    masked_means,
    masked_pairs,
    pixel_steps,
    reconstruction_error,
)
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


def fit_prototypes(
    activations: Float[Tensor, "images dim"],
    count: int = 7,
    *,
    seed: int,
    previous: Float[Tensor, "count dim"] | None = None,
    momentum: float = 0.3,
) -> Float[Tensor, "count dim"]:
    """Compute prototypes: the centres of a K-means clustering of activations.

    Concept Distillation (Gupta et al. 2023) has 7 prototypes, and moves them with an exponential average
    while the network changes: ``(1 - momentum) * previous + momentum * centre``. The clustering starts at the
    previous prototypes, so that each moves towards the centre of its own cluster.

    Args:
        activations: one flattened row per image.
        count: number of prototypes K, from 1 to the number of images.
        seed: seed of the first clustering.
        previous: prototypes to move; None makes new ones.
        momentum: weight of the new centres, in (0, 1]; the authors' 0.3 by default.

    Returns:
        The prototypes, with the dtype and on the device of ``activations``, without a gradient.

    Raises:
        InputError: the count or the weight is out of range, activations are not finite, or shapes disagree.

    Example:
        >>> fit_prototypes(torch.tensor([[0.0], [2.0], [10.0], [10.0]]), 2, seed=0).sort(0).values
        tensor([[ 1.],
                [10.]])
    """
    check_shapes(activations=(activations, "images dim"))
    if previous is not None:
        check_shapes(activations=(activations, "images dim"), previous=(previous, "count dim"))
        count = len(previous)
    if not 1 <= count <= len(activations):
        raise InputError(f"expected 1 prototype to {len(activations)}, the number of images, got {count}")
    if not 0 < momentum <= 1:
        raise InputError(f"`momentum` must lie above 0 and at most at 1, got {momentum}")
    if not bool(activations.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    from sklearn.cluster import KMeans  # here, because importing the losses should not import scikit-learn

    rows = activations.detach().double().cpu().numpy()
    if previous is None:
        clustering = KMeans(count, n_init=4, random_state=seed)
    else:
        clustering = KMeans(count, init=previous.detach().double().cpu().numpy(), n_init=1)
    centres = torch.from_numpy(clustering.fit(rows).cluster_centers_).to(activations)
    return centres if previous is None else torch.lerp(previous, centres, momentum)


def prototype_loss(
    activations: Float[Tensor, "batch dim"], prototypes: Float[Tensor, "count dim"]
) -> Float[Tensor, " batch"]:
    """Compute the mean squared distance of each image from the prototypes.

    ``mean over k and features of (f - p_k)^2``, the loss L_p of Concept Distillation (Gupta et al. 2023). It
    takes the place of the network's own loss, so that any layer can be probed.

    Blind to: the places of the prototypes, but for their mean. The loss is the squared distance from their
    mean plus a constant, so its gradient ``2 (f - mean) / dim`` is the same for all prototypes with one mean.

    Args:
        activations: one flattened row per image.
        prototypes: from `fit_prototypes`.

    Returns:
        Loss of each image, >= 0, twice differentiable.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> prototype_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
        tensor([1.5000])
    """
    check_shapes(activations=(activations, "batch dim"), prototypes=(prototypes, "count dim"))
    return (activations[:, None] - prototypes).square().mean((1, 2))


ConceptMode = Literal["desensitise", "sensitise", "one-sided"]


def concept_loss(
    gradient: Float[Tensor, "batch dim"],
    vectors: Float[Tensor, "vectors dim"],
    mode: ConceptMode = "desensitise",
) -> Float[Tensor, " batch"]:
    """Compute how far the gradient of each image points along concept vectors, whatever its length.

    ``|cos(g, v)|`` to desensitise and ``1 - |cos(g, v)|`` to sensitise (Gupta et al. 2023, Concept
    Distillation, sec. 3), with g the gradient of a loss by the activations of a layer. With several vectors
    the mean over them is taken, so that opposite effects of two vectors do not cancel.

    ``max(0, -cos(g, v))``, "one-sided", is not of the paper. It punishes the one sign that CSM counts: the
    concept lowers the loss. It is there to test that score: a network that learns the other sign gets a good
    score, and is not less sensitive.

    Blind to: the sign, but for "one-sided". Cosines that shrink towards 0 without a change of sign leave CSM
    as it is.

    Args:
        gradient: gradient of the loss of each image by the activations of a layer, flattened. Make it with
            ``create_graph=True`` to train the network through it.
        vectors: concept vectors of the same layer, such as `candlelight.evaluation.concepts.mean_cav`, of any
            length.
        mode: "desensitise", "sensitise" or "one-sided".

    Returns:
        Loss of each image in [0, 1], lower is better, twice differentiable where no cosine is 0. A gradient
        or vector of length 0 has cosine 0 and no derivative; nan stays nan.

    Raises:
        InputError: the shapes do not agree, or ``mode`` is misspelt.

    Example:
        >>> slopes = torch.tensor([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]))
        tensor([0.6000, 0.0000, 0.0000])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]), "sensitise")
        tensor([0.4000, 1.0000, 1.0000])
    """
    check_choice("mode", mode, ConceptMode)
    check_shapes(gradient=(gradient, "batch dim"), vectors=(vectors, "vectors dim"))
    cosines = _unit(gradient) @ _unit(vectors.to(gradient)).T
    if mode == "one-sided":
        return (-cosines).clamp(min=0).mean(1)
    size = cosines.abs().mean(1)
    return size if mode == "desensitise" else 1 - size


def _unit(rows: Tensor) -> Tensor:
    """Scale rows to length 1; a row of zeros stays 0, and its derivative is 0 instead of nan."""
    zero = (rows == 0).all(1, keepdim=True)
    length = torch.linalg.vector_norm(rows.masked_fill(zero, 1), dim=1, keepdim=True)
    return rows.masked_fill(zero, 0) / length


_RECONSTRUCTION, _STYLE, _CONTENT = 2.0, 1.0, 1.0
_PATCH, _LEVELS, _DIRECTIONS, _SAMPLES = 5, 3, 8, 2048


def style_content_loss(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    others: GroundTruth,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Compute a loss that needs reflectances and shadings of other scenes, but no truth of these images.

    The sum of the log error of reflectance x shading against the image; `style_distance` of each part from
    the reflectances or shadings of other scenes; and `content_error` of each part against the image. Like
    Liu et al., Unsupervised Learning for Intrinsic Image Decomposition from a Single Image, CVPR 2020
    (USI3D), it learns from unpaired collections of the parts; a distance of patches takes the place of their
    adversarial networks, so that training is stable and short.

    Args:
        reflectance: predicted, scene-linear, >= 0.
        shading: predicted, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.
        others: other scenes; their images are not used.
        generator: source of the random directions and patches of `style_distance`, on the CPU.

    Returns:
        The loss, >= 0, lower is better, differentiable.

    Example:
        >>> half, whole = torch.full((1, 3, 8, 8), 0.5), torch.ones(1, 3, 8, 8)
        >>> mask = torch.ones(1, 8, 8, dtype=torch.bool)
        >>> others, draws = GroundTruth(half, half, whole, mask), torch.Generator().manual_seed(0)
        >>> style_content_loss(half, whole, half, mask, others, draws)
        tensor(0.)
    """
    errors = _RECONSTRUCTION * reconstruction_error(reflectance, shading, image, mask)
    style = reflectance.new_zeros(())
    for part, other in ((reflectance, others.reflectance), (shading, others.shading.expand_as(shading))):
        style = style + style_distance(part, mask, other, others.mask, generator)
        errors = errors + _CONTENT * content_error(part, image, mask)
    return errors.mean() + _STYLE * style


def style_distance(
    images: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    others: Float[Tensor, "others 3 rows columns"],
    others_mask: Bool[Tensor, "others rows columns"],
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Estimate the sliced Wasserstein distance between the patches of two collections of images.

    Patches of 5 x 5 pixels of log images at three scales are projected on random directions; the distance is
    the mean absolute difference of the sorted projections (Heitz et al., A Sliced Wasserstein Loss for Neural
    Texture Synthesis, CVPR 2021, eq. 5, with patches in place of features). It does not depend on the order
    of the images or on the places of patches.

    Args:
        images: scene-linear, >= 0.
        mask: pixels that count; a patch counts if all of its pixels do.
        others: scene-linear, >= 0.
        others_mask: pixels of ``others`` that count.
        generator: source of the directions and patches, on the CPU.

    Returns:
        The distance in units of the logarithm, >= 0, differentiable; scales at which one of the collections
        has no patch are left out.

    Example:
        >>> image, mask = torch.rand(2, 3, 16, 16), torch.ones(2, 16, 16, dtype=torch.bool)
        >>> draws = torch.Generator().manual_seed(0)
        >>> bool(style_distance(image, mask, image.flip(0), mask, draws) < 0.2)
        True
    """
    sides = [(log_image(images), mask), (log_image(others), others_mask)]
    total = images.new_zeros(())
    for _ in range(_LEVELS):
        if min(side for _, inside in sides for side in inside.shape[1:]) < _PATCH:
            break
        directions = torch.randn(_DIRECTIONS, 3, _PATCH, _PATCH, generator=generator).to(images)
        directions = directions / directions.flatten(1).norm(dim=1)[:, None, None, None]
        given, wanted = (_projections(*side, directions, generator) for side in sides)
        if given is not None and wanted is not None:
            total = total + (given - wanted).abs().mean()
        sides = [_half(*side) for side in sides]
    return total / _LEVELS


def content_error(
    part: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Measure edges of a part that the image does not have: each log difference beyond that of the image.

    Args:
        part: predicted reflectance or shading, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.

    Returns:
        Mean excess over both directions; 0 if every edge of the part is one of the image, at least as strong.

    Example:
        >>> image = torch.rand(1, 3, 4, 4)
        >>> content_error(image.sqrt() - 0.01, image - 0.01, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    total = image.new_zeros(len(image))
    for step, allowed, pairs in zip(
        pixel_steps(log_image(part)), pixel_steps(log_image(image)), masked_pairs(mask), strict=True
    ):
        total = total + masked_means(functional.relu(step.abs() - allowed.abs()), pairs)
    return total


def _projections(
    image: Tensor, mask: Tensor, directions: Tensor, generator: torch.Generator
) -> Tensor | None:
    """Draw patches, project them on the directions and sort each projection; None without patches."""
    whole = functional.max_pool2d((~mask).float()[:, None], _PATCH, stride=1) == 0
    places = whole.flatten().nonzero()[:, 0]
    if not len(places):
        return None
    drawn = torch.randint(len(places), (_SAMPLES,), generator=generator).to(places.device)
    projected = functional.conv2d(image, directions).transpose(0, 1).flatten(1)
    return projected[:, places[drawn]].sort(1).values


def _half(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Average blocks of 2 x 2 pixels; a block counts if all of its pixels do."""
    return functional.avg_pool2d(image, 2), functional.max_pool2d((~mask).float()[:, None], 2)[:, 0] == 0
