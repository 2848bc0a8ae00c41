"""Losses of intrinsic networks under each regime, and of causal representation models."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.models.autoencoders import Posterior
from candlelight.evaluation.views import Factors
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

# Added before the logarithm, because darker values of an 8-bit image are quantised too coarsely.
EPSILON = 0.01


def log_image(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Compute ``log(image + EPSILON)`` of a scene-linear image.

    Example:
        >>> log_image(torch.tensor([0.99]))
        tensor([0.])
    """
    return (image + EPSILON).log()


def pixel_steps(
    image: Float[Tensor, "batch channels height width"],
) -> tuple[Float[Tensor, "batch channels height columns"], Float[Tensor, "batch channels rows width"]]:
    """Subtract each pixel from its right and from its lower neighbour."""
    return image.diff(dim=3), image.diff(dim=2)


def masked_pairs(
    mask: Bool[Tensor, "batch height width"],
) -> tuple[Bool[Tensor, "batch height columns"], Bool[Tensor, "batch rows width"]]:
    """Find the neighbours of `pixel_steps` that are both inside the mask."""
    return mask[..., 1:] & mask[..., :-1], mask[:, 1:] & mask[:, :-1]


def masked_means(
    values: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Compute the mean of each image over the pixels of its mask and its channels; 0 for an empty mask.

    Example:
        >>> masked_means(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    inside = torch.where(mask.unsqueeze(1), values, 0.0).flatten(1).sum(1)
    return inside / (values.shape[1] * mask.flatten(1).sum(1).clamp(min=1))


def mean_difference(
    image: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Add the mean absolute differences to the right and to the lower neighbour inside the mask.

    Example:
        >>> mean_difference(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    right, down = (
        masked_means(step.abs(), pairs)
        for step, pairs in zip(pixel_steps(image), masked_pairs(mask), strict=True)
    )
    return right + down


def reconstruction_error(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the mean absolute log error of reflectance times shading against the image inside the mask.

    Example:
        >>> half, whole = torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 3, 2, 2)
        >>> reconstruction_error(half, whole, half, torch.ones(1, 2, 2).bool())
        tensor([0.])
    """
    return masked_means((log_image(reflectance * shading) - log_image(image)).abs(), mask)


def intrinsic_loss(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the training loss of one output: a half scale-invariant log error and a gradient error.

    ``mean(d^2) - mean(d)^2 / 2 + mean(|d_x|) + mean(|d_y|)`` with ``d = log(p + 0.01) - log(t + 0.01)`` and
    its differences d_x, d_y between neighbours. The first two terms are the scale-invariant loss of Eigen et
    al. 2014, eq. 4; the absolute gradient term keeps edges sharp.

    Args:
        prediction: predicted reflectance or shading, scene-linear, >= 0.
        target: ground truth, scene-linear, >= 0.
        mask: pixels that are scored.

    Returns:
        One loss per sample, >= 0, lower is better, differentiable; 0 for an empty mask.

    Example:
        >>> import torch
        >>> image = torch.rand(1, 3, 4, 4)
        >>> intrinsic_loss(image, image, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    error = log_image(prediction) - log_image(target)
    square, mean = masked_means(error.square(), mask), masked_means(error, mask)
    return square - mean.square() / 2 + mean_difference(error, mask)


# Weights of the terms. With these, the truth of rendered scenes has a lower loss than a constant reflectance,
# a constant shading, and the median image over the lights.
_RECONSTRUCTION, _CONSISTENCY, _SHADING, _SHADING_CHROMA, _REFLECTANCE = 2.0, 1.0, 1.0, 5.0, 1.0
# Difference of log chroma between neighbours above which their reflectances may differ.
_SAME_CHROMA = 0.03


def consistency_loss(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    scenes: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Compute a loss that needs images of scenes under several lights, but no ground truth.

    The sum of five mean absolute values: the log error of reflectance x shading against the image; the
    difference of log reflectance from its mean over the lights of the scene; the differences of gray
    log (image / reflectance) between neighbours; those of its chroma; and those of log reflectance between
    neighbours of equal chroma. For one reflectance of a scene the third term has its minimum where gradients
    of log reflectance are the medians of those of the log images over the lights, the estimator of Weiss
    2001. The terms are those of Li and Snavely, Learning Intrinsic Image Decomposition from Watching the
    World, CVPR 2018, in the simplest form.

    Args:
        reflectance: predicted, scene-linear, >= 0.
        shading: predicted, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.
        scenes: number of the scene of each image; images of one scene differ in the light alone.

    Returns:
        The loss, >= 0, lower is better, differentiable.

    Example:
        >>> gray = torch.full((2, 3, 4, 4), 0.5)
        >>> everywhere = torch.ones(2, 4, 4, dtype=torch.bool)
        >>> consistency_loss(gray, torch.ones_like(gray), gray, everywhere, torch.tensor([7, 7]))
        tensor(0.)
    """
    log_reflectance, log_pixels = log_image(reflectance), log_image(image)
    left = log_pixels - log_reflectance
    gray_left = left.mean(1, keepdim=True)
    together = scene_means(log_reflectance, scenes)
    errors = (
        _RECONSTRUCTION * reconstruction_error(reflectance, shading, image, mask)
        + _CONSISTENCY * masked_means((log_reflectance - together).abs(), mask)
        + _SHADING * mean_difference(gray_left, mask)
        + _SHADING_CHROMA * mean_difference(left - gray_left, mask)
        + _REFLECTANCE * _steps_in_equal_chroma(log_reflectance, log_pixels, mask, scenes)
    )
    return errors.mean()


def scene_means(
    values: Float[Tensor, "batch channels height width"], scenes: Int[Tensor, " batch"]
) -> Float[Tensor, "batch channels height width"]:
    """Replace the values of each image by their mean over the images of its scene.

    Example:
        >>> values = torch.tensor([1.0, 3.0, 8.0]).reshape(3, 1, 1, 1)
        >>> scene_means(values, torch.tensor([4, 4, 0])).flatten()
        tensor([2., 2., 8.])
    """
    same = (scenes[:, None] == scenes).to(values)
    return torch.einsum("ij,jchw->ichw", same / same.sum(1, keepdim=True), values)


def _steps_in_equal_chroma(
    log_reflectance: Tensor, log_pixels: Tensor, mask: Tensor, scenes: Tensor
) -> Tensor:
    """Measure differences of reflectance where the mean chroma over the lights has no edge."""
    chroma = scene_means(log_pixels - log_pixels.mean(1, keepdim=True), scenes)
    total = log_reflectance.new_zeros(len(mask))
    for step, edge, pairs in zip(
        pixel_steps(log_reflectance), pixel_steps(chroma), masked_pairs(mask), strict=True
    ):
        same = torch.exp(-edge.square().sum(1, keepdim=True) / (2 * _SAME_CHROMA**2))
        total = total + masked_means(same * step.abs(), pairs)
    return total


# Weights of the terms of `style_content_loss`, beside that of the reconstruction.
_STYLE, _CONTENT = 1.0, 1.0
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


def bernoulli_error(
    logits: Float[Tensor, "batch channels height width"],
    images: Float[Tensor, "batch channels height width"],
    weights: Float[Tensor, "batch 1 height width"] | None = None,
) -> Float[Tensor, " batch"]:
    """Compute the reconstruction loss: the sum over pixels and channels of the binary cross-entropy.

    ``sum w (-x log s - (1 - x) log(1 - s))`` with ``s = sigmoid(logits)``, in nats. For values x between 0
    and 1 its least value, at s = x, is their entropy, not 0.

    With ``w = 1 + a m`` for a mask m of the foreground it is the bounding-box loss of CANDLE's authors,
    ``rec(x, s) + a rec(m x, m s)``. Their loss counts a constant log 2 for each value outside m, ours 0.

    Args:
        logits: decoded images before the sigmoid.
        images: the images, in [0, 1].
        weights: weight of each pixel; None for 1.

    Returns:
        One loss per image, >= 0, lower is better.

    Example:
        >>> import torch
        >>> bernoulli_error(torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.0, 1.0]]]]))
        tensor([1.3863])
    """
    error = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
    return (error if weights is None else error * weights).flatten(1).sum(1)


def gaussian_kl(posterior: Posterior) -> Float[Tensor, " batch"]:
    """Compute the divergence of the codes of each image from the standard normal prior.

    ``KL = 1/2 sum_l (mu_l^2 + sigma_l^2 - log sigma_l^2 - 1)`` (Kingma and Welling 2014, appendix B), in
    nats. The beta-VAE (Higgins et al., ICLR 2017, eq. 4) minimises ``rec + beta KL``.

    Args:
        posterior: means and log-variances.

    Returns:
        One divergence per image, >= 0.

    Example:
        >>> import torch
        >>> gaussian_kl(Posterior(torch.tensor([[0.0, 2.0]]), torch.zeros(1, 2)))
        tensor([2.])
    """
    means, log_variances = posterior
    return (means.square() + log_variances.exp() - log_variances - 1).sum(1) / 2


DIPKind = Literal["i", "ii"]


def dip_penalty(
    posterior: Posterior, kind: DIPKind, *, off_diagonal: float, diagonal: float
) -> Float[Tensor, ""]:
    """Compute the penalty on the covariance C of the codes of a batch.

    ``off_diagonal sum_{k != l} C_kl^2 + diagonal sum_k (C_kk - 1)^2`` (Kumar, Sattigeri and Balakrishnan,
    ICLR 2018, eq. 6 and 7). C is the covariance of the means in DIP-VAE-I; DIP-VAE-II adds the mean variances
    to its diagonal, which makes C the covariance of sampled codes. The loss is ``rec + KL`` plus the penalty.

    Args:
        posterior: means and log-variances of a batch.
        kind: "i" or "ii".
        off_diagonal: weight of the covariances, the paper's lambda_od.
        diagonal: weight of the variances, the paper's lambda_d.

    Returns:
        The penalty, >= 0.

    Raises:
        InputError: ``kind`` is misspelt.

    Example:
        >>> equal = Posterior(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.zeros(2, 2))
        >>> dip_penalty(equal, "i", off_diagonal=10, diagonal=100)
        tensor(20.)
        >>> dip_penalty(equal, "ii", off_diagonal=10, diagonal=100)
        tensor(220.)
    """
    check_choice("kind", kind, DIPKind)
    centred = posterior.means - posterior.means.mean(0)
    covariance = centred.T @ centred / len(centred)
    variances = covariance.diagonal()
    covariances = covariance - torch.diag(variances)
    if kind == "ii":
        variances = variances + posterior.log_variances.exp().mean(0)
    return off_diagonal * covariances.square().sum() + diagonal * (variances - 1).square().sum()


def total_correlation(codes: Float[Tensor, "batch codes"], posterior: Posterior) -> Float[Tensor, " batch"]:
    """Estimate the total correlation of codes, with the posteriors of the batch as their distribution.

    With ``q(z) = 1/M sum_j q(z | x_j)`` over the M images of the batch, the value of image i is
    ``log q(z_i) - sum_l log q(z_il)``, whose mean estimates ``TC = KL(q(z) || prod_l q(z_l))`` (Chen et al.,
    NeurIPS 2018, eq. 2). The beta-TCVAE minimises ``rec + KL + (beta - 1) TC``, as disentanglement_lib does;
    their estimate lacks the constant ``(codes - 1) log M``, which has no gradient.

    Blind to: dependence that M images do not show. Image i is one of the M, which raises the joint density
    more than its factors: of few images and many narrow codes the estimate tends to ``(codes - 1) log M``
    even if the codes are independent.

    Args:
        codes: sampled codes of the images.
        posterior: means and log-variances of the same images.

    Returns:
        One value per image, in nats; their mean is the estimate.

    Example:
        >>> import torch
        >>> means = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])  # two equal codes, which share log 2
        >>> total_correlation(means, Posterior(means, torch.full((2, 2), -9.0)))
        tensor([0.6931, 0.6931])
    """
    means, log_variances = posterior
    squares = (codes[:, None] - means).square() * (-log_variances).exp()
    log_densities = -(squares + log_variances + math.log(2 * math.pi)) / 2  # of code l of i under image j
    joint = log_densities.sum(2).logsumexp(1)
    separate = log_densities.logsumexp(1).sum(1)
    return joint - separate + (codes.shape[1] - 1) * math.log(len(codes))


def density_ratio(logits: Float[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
    """Compute the discriminator's ``log D(z) - log(1 - D(z))``, whose mean estimates the total correlation.

    For the best discriminator it is ``log q(z) - sum_l log q(z_l)`` (Kim and Mnih, ICML 2018, eq. 3).
    FactorVAE minimises ``rec + KL + gamma TC``.

    Args:
        logits: output of the discriminator for codes of images: first that they are of one image, second that
            they are permuted.

    Returns:
        One value per image, in nats.

    Example:
        >>> density_ratio(torch.tensor([[2.0, -1.0]]))
        tensor([3.])
    """
    return logits[:, 0] - logits[:, 1]


def permute_codes(
    codes: Float[Tensor, "batch codes"], draws: torch.Generator
) -> Float[Tensor, "batch codes"]:
    """Permute each code among the images, independently of the other codes (Kim and Mnih, algorithm 1).

    Gradients do not flow through the result. The paper permutes the codes of a second batch;
    disentanglement_lib and this training permute those of the same batch.

    Args:
        codes: sampled codes.
        draws: stream of random numbers, on the CPU.

    Example:
        >>> permute_codes(torch.tensor([[1.0, 4.0], [2.0, 5.0]]), torch.Generator().manual_seed(1))
        tensor([[2., 4.],
                [1., 5.]])
    """
    order = torch.rand(codes.shape, generator=draws).argsort(0)
    return codes.detach().gather(0, order.to(codes.device))


def discriminator_loss(
    own: Float[Tensor, "batch 2"], permuted: Float[Tensor, "batch 2"]
) -> Float[Tensor, " batch"]:
    """Compute the cross-entropy of the discriminator, half for codes of one image, half for permuted ones.

    Args:
        own: logits of sampled codes; compute them from detached codes, because this loss must not move the
            encoder.
        permuted: logits of permuted codes.

    Returns:
        One loss per pair, >= 0; log 2 for a discriminator that tells nothing.

    Example:
        >>> discriminator_loss(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.6931])
    """
    first, second = (torch.full((len(own),), number, device=own.device) for number in (0, 1))
    errors = [
        functional.cross_entropy(logits, label, reduction="none")
        for logits, label in ((own, first), (permuted, second))
    ]
    return (errors[0] + errors[1]) / 2


def code_divergences(first: Posterior, second: Posterior) -> Float[Tensor, "batch codes"]:
    """Compute the divergence ``KL(q(z_l | x1) || q(z_l | x2))`` of each code of each pair, in nats.

    Args:
        first: posteriors of the first images.
        second: posteriors of the second images.

    Returns:
        Divergences, >= 0.

    Example:
        >>> zero = torch.zeros(1, 1)
        >>> code_divergences(Posterior(zero, zero), Posterior(zero + 2, zero))
        tensor([[2.]])
    """
    log_ratio = first.log_variances - second.log_variances
    square = (first.means - second.means).square() * (-second.log_variances).exp()
    return (log_ratio.exp() + square - 1 - log_ratio) / 2


def shared_codes(first: Posterior, second: Posterior) -> Bool[Tensor, "batch codes"]:
    """Find the codes that the images of each pair share; which factors changed between them is unknown.

    Code l is shared if its divergence is below ``(max_l + min_l) / 2`` of the divergences of the pair
    (Locatello et al., ICML 2020).

    Example:
        >>> zero = torch.zeros(1, 3)
        >>> shared_codes(Posterior(zero, zero), Posterior(torch.tensor([[0.1, 2.0, 0.5]]), zero))
        tensor([[ True, False,  True]])
    """
    divergences = code_divergences(first, second)
    middle = (divergences.amax(1, keepdim=True) + divergences.amin(1, keepdim=True)) / 2
    return divergences < middle


def share_posterior(first: Posterior, second: Posterior) -> tuple[Posterior, Posterior]:
    """Replace the shared codes of each pair by their mean posterior.

    A shared code gets the mean of both means and the mean of both variances, the other codes stay as they are
    (Ada-GVAE of Locatello et al., "Weakly-supervised disentanglement without compromises", ICML 2020). The
    loss is the beta-VAE's of both images with these posteriors. With independent factors of which some,
    unknown ones, change in each pair, the factors are identified, each up to a function of its own (theorem 1
    of the paper, for its assumptions); no unsupervised model can identify them.

    Blind to: factors that always change together in pairs, which may share a code. In every pair
    the code with the greatest divergence counts as changed, even if nothing changed.

    Args:
        first: posteriors of the first images.
        second: posteriors of the second images.

    Returns:
        Posteriors of the first and of the second images. The choice of shared codes has no gradient; the
        means and variances have.

    Example:
        >>> zero = torch.zeros(1, 3)
        >>> pair = share_posterior(Posterior(zero, zero), Posterior(torch.tensor([[0.2, 2.0, 0.4]]), zero))
        >>> pair[1].means
        tensor([[0.1000, 2.0000, 0.2000]])
    """
    shared = shared_codes(first, second)
    means = (first.means + second.means) / 2
    log_variances = torch.logaddexp(first.log_variances, second.log_variances) - torch.log(
        means.new_tensor(2.0)
    )
    mixed = [
        Posterior(
            torch.where(shared, means, one.means), torch.where(shared, log_variances, one.log_variances)
        )
        for one in (first, second)
    ]
    return mixed[0], mixed[1]


class FactorTargets(NamedTuple):
    """Factors as targets of the first codes.

    Attributes:
        names: factors with several values, in the order of the codes.
        values: value of each factor of each row, in [0, 1].
    """

    names: tuple[str, ...]
    values: Float[Tensor, "rows factors"]


def supervised_codes_loss(
    means: Float[Tensor, "batch codes"], targets: Float[Tensor, "batch factors"]
) -> Float[Tensor, " batch"]:
    """Compute the sigmoid cross-entropy of the first codes against the factors.

    ``sum_k -y_k log s_k - (1 - y_k) log(1 - s_k)`` with ``s_k = sigmoid(mu_k)`` (Locatello et al.,
    "Disentangling factors of variation using few labels", ICLR 2020). The mean over labelled images, times a
    weight, is added to the loss of an unsupervised model. disentanglement_lib takes the sum over the images
    of a batch, so that its weight of 4 for batches of 64 is 256 here, and divides classes by their number, so
    that no target is 1; `factor_targets` reaches 0 and 1.

    Blind to: codes after the first ``factors``, which may repeat the factors. The order of the values counts
    as a scale, so a factor such as colour is a poor target; a head of classes would need several codes.

    Args:
        means: means of the codes of labelled images.
        targets: factors, in [0, 1], at most as many as codes.

    Returns:
        One loss per image, >= 0; gradients flow to the first codes alone.

    Raises:
        InputError: there are more factors than codes.

    Example:
        >>> supervised_codes_loss(torch.zeros(1, 3), torch.tensor([[0.0, 1.0]]))
        tensor([1.3863])
    """
    factors = targets.shape[1]
    if factors > means.shape[1]:
        raise InputError(
            f"expected at least a code for each of {factors} factors, got {means.shape[1]} codes"
        )
    error = functional.binary_cross_entropy_with_logits(means[:, :factors], targets, reduction="none")
    return error.sum(1)


def factor_targets(data: Factors, rows: Sequence[int]) -> FactorTargets:
    """Scale factors to [0, 1]: the first class, or least value, to 0 and the last class, or greatest, to 1.

    Args:
        data: images with known factors.
        rows: rows whose values decide which factors vary, and the extremes of continuous ones.

    Raises:
        InputError: no factor varies among the rows.

    Example:
        >>> import numpy as np
        >>> from candlelight.loaders.schema import FactorInfo
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Rows:
        ...     identity, ids, groups = DataIdentity("rows", "memory"), tuple("abc"), tuple("abc")
        ...     known_ids = frozenset(ids)
        ...     factors = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),)
        ...     table = np.array([[2.0], [0.0], [1.0]])
        ...     def __len__(self): return 3
        ...     def __getitem__(self, row): return torch.zeros(3, 8, 8)
        >>> factor_targets(Rows(), [0, 1])
        FactorTargets(names=('kind',), values=tensor([[1.0000],
                [0.0000],
                [0.5000]]))
    """
    names, columns = [], []
    for place, factor in enumerate(data.factors):
        column = torch.as_tensor(data.table[:, place], dtype=torch.float64)
        known = column[list(rows)]
        low, high = float(known.min()), float(known.max())
        if low == high:
            continue
        if factor.values is not None:
            low, high = 0.0, len(factor.values) - 1.0
        names.append(factor.name)
        columns.append(((column - low) / (high - low)).clamp(0, 1).float())
    if not names:
        raise InputError(
            "expected a factor with several values among the labelled images, got none; label more "
            f"({argument('labelled')})"
        )
    return FactorTargets(tuple(names), torch.stack(columns, 1))
