"""Concept vectors of exchanged images: all labellings of one concept set and its control in one solve."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.concepts.exchange_groups import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    exchange_by_group,
)
from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.concepts.rows.gram import SharedRows, row_norms
from candlelight.evaluation.concepts.rows.row_source import RowSource
from candlelight.evaluation.concepts.sensitivity import derivatives_along
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Fitting = Literal["mean", "ridge"]
VectorLength = Literal["student", "fitted", "unit"]


def exchange_derivatives(
    concept: Float[Tensor, "concepts dim"] | RowSource,
    control: Float[Tensor, "controls dim"] | RowSource,
    gradients: Float[Tensor, "inputs dim"] | RowSource,
    *,
    seed: int,
    permutations: int = 999,
    groups: ImageGroups | None = None,
    fit: Fitting = "mean",
    length: VectorLength = "student",
    regularisation: float = 0.01,
) -> Float[Tensor, "draws inputs"]:
    """Compute the derivatives at all inputs along the concept vector, and along vectors of exchanged images.

    Each exchange moves images between the concept set and its control at random, keeps both sizes, and fits
    the vector anew on all images. Row 0 of the result belongs to the true sets, and the other rows to the
    exchanges. `input_scores` turns the rows into scores for `permutation_test`; see there for the hypothesis.

    Images that depend on each other, such as those of one scene, are not exchangeable one by one: without
    their ``groups``, sets of different scenes are found different too often.

    Blind to: dependence of images beyond their groups.

    Args:
        concept: activations of the concept images, flattened; at least 2, and 20 are advised.
        control: activations of the control images: the same scene without the variation of the concept, or
            with another one; at least 2, and 20 are advised. Use negatives (photographs) only as a second
            line: images of a scene are told from photographs whatever the concept, so exchangeability is
            false for them from the start, and a low p-value says no more than that the branch tells this
            scene from photographs.
        gradients: gradient by the activations for each input, flattened; at least one.
        seed: seed of the exchanges.
        permutations: number of exchanges B; p-values are multiples of 1 / (B + 1).
        groups: the group of each image, such as its scene, of the concept and of the control: images of a
            group in both sets are exchanged with each other, groups in one set alone are exchanged whole.
            None takes all images as independent.
        fit: see `gram_exchange_derivatives`.
        length: see `gram_exchange_derivatives`.
        regularisation: see `gram_exchange_derivatives`.

    Returns:
        Derivatives along the vectors, [1 + permutations, inputs], float64, on the device of ``concept``.

    Raises:
        InputError: there are too few rows, inputs or permutations, rows differ in length, values are not
            finite, ``regularisation`` is not above 0 and finite, groups allow too few exchanges for a
            p-value, or an option is misspelt.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> control = torch.randn(20, 3, generator=g)
        >>> concept = torch.randn(20, 3, generator=g) + torch.tensor([9.0, 0, 0])
        >>> slopes = torch.tensor([[-2.0, 0, 0]])
        >>> derivatives = exchange_derivatives(concept, control, slopes, seed=0, length="fitted")
        >>> derivatives.shape, derivatives[0].round()
        (torch.Size([1000, 1]), tensor([-18.], dtype=torch.float64))
    """
    check_shapes(
        concept=(concept, "concepts dim"),
        control=(control, "controls dim"),
        gradients=(gradients, "inputs dim"),
    )
    members = exchanged_members(len(concept), len(control), permutations, seed, groups).to(concept.device)
    gram, (products,) = SharedRows(control, [gradients]).stacked(concept)
    lengths = row_norms(gradients)
    return gram_exchange_derivatives(gram, products, lengths, members, fit, length, regularisation)


def exchanged_members(
    concepts: int, controls: int, permutations: int, seed: int, groups: ImageGroups | None = None
) -> Bool[Tensor, "draws images"]:
    """Draw the images that count as the concept's: row 0 is the truth, the others are random exchanges.

    Equal seeds and sizes give equal exchanges, so sets of one size are exchanged alike and the dependence
    between them stays; sets of another size have an independent stream.

    Args:
        concepts: images of the concept set, which come first; at least 2.
        controls: images of the control set, at least 2.
        permutations: number of random exchanges, at least 2.
        seed: seed of the exchanges.
        groups: as in `exchange_derivatives`.

    Returns:
        True for ``concepts`` images of each row, on the CPU; where whole groups differ in size, for another
        number in other rows.

    Raises:
        InputError: there are too few images, exchanges or permutations, or groups do not fit the images.

    Example:
        >>> exchanged_members(2, 2, permutations=2, seed=0)[0]
        tensor([ True,  True, False, False])
    """
    if min(concepts, controls) < 2:
        raise InputError(f"both sets need at least 2 images to exchange, got {concepts} and {controls}")
    if permutations < 2:
        raise InputError(f"`permutations` must be at least 2, got {permutations}; 999 is usual")
    stream = named_generator(seed, "exchange", concepts, controls)
    keys = torch.rand(permutations, concepts + controls, generator=stream, dtype=torch.float64)
    truth = torch.arange(concepts + controls)[None] < concepts
    if groups is None:
        return torch.cat([truth, keys.argsort(1) < concepts])
    if (len(groups[0]), len(groups[1])) != (concepts, controls):
        raise InputError(
            f"expected groups of {concepts} and {controls} images, got {len(groups[0])} and {len(groups[1])}"
        )
    if (possible := count_exchanges(groups)) < LEAST_EXCHANGES:
        raise InputError(
            f"groups allow {possible} different exchanges, so no p-value is possible; at least "
            f"{LEAST_EXCHANGES} are needed, from 4 groups in each set or from groups in both"
        )
    return torch.cat([truth, exchange_by_group(groups, keys)])


def gram_exchange_derivatives(
    gram: Float[Tensor, "images images"],
    products: Float[Tensor, "inputs images"],
    lengths: Float[Tensor, " inputs"],
    members: Bool[Tensor, "draws images"],
    fit: Fitting = "mean",
    length: VectorLength = "student",
    regularisation: float = 0.01,
) -> Float[Tensor, "draws inputs"]:
    """Compute as `exchange_derivatives`, given inner products.

    The vector of a row of ``members`` is ``v = alpha @ X``, and its derivatives are ``(G X^T) alpha``; no
    vector of length dim is made. With z = 1 / concepts for the concept's images and -1 / controls for the
    others, "mean" takes ``alpha = z``, so v is the difference of the means of the two sets (FastCAV,
    Schmalwasser et al. 2025). "ridge" takes ``alpha = (K + p n I)^-1 z`` with K the Gram matrix about the
    mean of the n images and p the penalty. This is the direction of the ridge classifier of `fit_cavs` with
    its free intercept, on all images without a split. K does not depend on the labels, so one Cholesky
    factor solves all rows.

    Prefer the defaults for tests. Derivatives along the fitted difference of means depend on the images
    through their products with the gradients alone, and say how much the loss changes, to first order, from
    the control's mean to the concept's. "student" divides them by the standard error of their mean over the
    inputs, given the spread of each set along the mean gradient (Welch's t). Without it, sets of unequal size
    that only differ in their spread are found different too often (Janssen 1997).

    The other choices depend on all directions of the images. With "unit", exchanges that mix two very
    different sets point along their difference too, and become as long as the true vector, so that a strong
    concept is never significant. "ridge" turns the vector away from directions in which the images vary,
    possibly towards gradients at a right angle to the difference of the sets.

    Args:
        gram: inner products of the images about any origin, in the order of ``members``; float64.
        products: products of the gradients with the same images, as `SharedRows.stacked` gives them.
        lengths: Euclidean norm of each gradient.
        members: images that count as the concept's, at least 2 in each row and at least 2 not.
        fit: "mean" or "ridge".
        length: "student" divides the vectors by a standard error, "unit" by their norm; "fitted" by nothing.
        regularisation: weight of ``|w|^2 / 2`` relative to the mean squared distance of the images from their
            mean, as in `fit_cavs`; "mean" ignores it.

    Returns:
        Derivatives along the vectors. A derivative of at most 1e-6 of the product of the lengths of gradient
        and vector (`derivatives_along`) is exactly 0, and so are all derivatives if all images are equal.

    Raises:
        InputError: as `exchange_derivatives`.

    Example:
        >>> rows = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
        >>> members = torch.tensor([[True, True, False, False], [True, False, True, False]])
        >>> products, lengths = 3 * rows[None], torch.tensor([3.0])
        >>> gram_exchange_derivatives(torch.outer(rows, rows), products, lengths, members, length="fitted")
        tensor([[6.],
                [0.]], dtype=torch.float64)
    """
    check_choice("fit", fit, Fitting)
    check_choice("length", length, VectorLength)
    check_shapes(
        gram=(gram, "images images"),
        products=(products, "inputs images"),
        lengths=(lengths, "inputs"),
        members=(members, "draws images"),
    )
    check_bool(members=members)
    if not 0 < regularisation < math.inf:
        raise InputError(f"`regularisation` must be above 0 and finite, got {regularisation}")
    if len(products) == 0:
        raise InputError("`gradients` needs at least one input, got none")
    if not bool(gram.isfinite().all()) or not bool(products.isfinite().all()):
        raise InputError("activations and gradients must be finite, got nan or inf; check the model")
    gram = (gram + gram.T) / 2
    means = gram.mean(0)
    gram = gram - means - means[:, None] + means.mean()
    alpha = _coefficients(gram, members, fit, regularisation)
    norms = ((alpha @ gram) * alpha).sum(1, keepdim=True).clamp(min=0).sqrt()
    derivatives = derivatives_along(alpha, products, norms[:, 0], lengths)
    if length == "student":
        norms = _standard_errors(products.mean(0), members)
    return derivatives if length == "fitted" else torch.nan_to_num(derivatives / norms, 0, 0, 0)


def _standard_errors(values: Tensor, members: Tensor) -> Tensor:
    """Compute the standard error of the difference between the means of the two sets, for each row."""
    values, inside = values - values.mean(), members.to(values.dtype)
    variance = torch.zeros_like(inside[:, :1])
    for part in (inside, 1 - inside):
        count = part.sum(1, keepdim=True)
        means = (part @ values)[:, None] / count
        variance += (part * (values - means) ** 2).sum(1, keepdim=True) / (count * (count - 1))
    # Images that are equal within each set have no spread; a floor keeps their statistic finite.
    errors = variance.sqrt()
    return errors.clamp(min=1e-9 * errors.max().item())


def _coefficients(gram: Tensor, members: Tensor, fit: Fitting, regularisation: float) -> Tensor:
    """Compute the coefficients of all vectors, given the Gram matrix about the mean of the images."""
    inside = members.to(gram.dtype)
    alpha = inside / inside.sum(1, keepdim=True) - (1 - inside) / (1 - inside).sum(1, keepdim=True)
    scale = gram.diagonal().mean().item()
    if fit == "mean" or scale == 0:
        return alpha
    penalised = gram.clone()
    penalised.diagonal().add_(regularisation * scale * len(gram))
    return torch.cholesky_solve(alpha.T, torch.linalg.cholesky(penalised)).T
