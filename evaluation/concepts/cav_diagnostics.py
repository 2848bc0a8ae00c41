"""Diagnostics of concept activation vectors: consistency of runs and layers, entanglement of concepts."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.cav import CAVs
from candlelight.evaluation.concepts.rows import SharedRows, columns_of
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError, argument

_COLUMNS = 1 << 12  # numbers of each row that are read at a time


def mean_cav(cavs: CAVs) -> Float[Tensor, " dim"]:
    """Compute the mean of the vectors of all runs, each of length 1.

    Args:
        cavs: the vectors; a vector of length 0 counts as 0.

    Returns:
        The mean, float64, of a length from 0 to 1.

    Example:
        >>> from candlelight.evaluation.concepts.cav import fit_cavs
        >>> g = torch.Generator().manual_seed(0)
        >>> mean_cav(fit_cavs(torch.ones(4, 1), -torch.ones(4, 1), generator=g, runs=2)).round(decimals=6)
        tensor([1.], dtype=torch.float64)
    """
    weights, parts = _unit_weights(cavs).mean(0), []
    dim = cavs.rows[0].shape[1]
    for start in range(0, dim, _COLUMNS):
        columns = slice(start, min(start + _COLUMNS, dim))
        rows = torch.cat([columns_of(block, columns).double() for block in cavs.rows])
        # The weights add up to 0; an origin among the rows keeps large common activations from cancelling.
        parts.append(weights @ (rows - rows[-1]))
    return torch.cat(parts)


def run_cosines(
    weights: Float[Tensor, "runs rows"], gram: Float[Tensor, "rows rows"]
) -> Float[Tensor, "runs runs"]:
    """Compute the cosines between the vectors of all runs, from their coefficients.

    The products of the vectors ``weights @ X`` are ``weights K weights^T`` with the Gram matrix K; no vector
    is made.

    Args:
        weights: coefficients, as in `CAVs`; those of a run add up to 0.
        gram: inner products of the rows about any origin, as `SharedRows.stacked` gives them.

    Returns:
        Cosines in [-1, 1], float64; 0 for a vector of length 0, also with itself.

    Raises:
        InputError: the shapes do not agree, or values are not finite.

    Example:
        >>> gram = torch.eye(3, dtype=torch.float64)
        >>> run_cosines(torch.tensor([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]), gram)
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]], dtype=torch.float64)
    """
    check_shapes(weights=(weights, "runs rows"), gram=(gram, "rows rows"))
    weights, gram = weights.double(), gram.double()
    if not bool(weights.isfinite().all() & gram.isfinite().all()):
        raise InputError("weights and activations must be finite, got nan or inf; check the model")
    return _cosines(weights @ gram @ weights.T)


def run_consistency(cavs: CAVs) -> Float[Tensor, ""]:
    """Compute the mean cosine between the vectors of two runs (Nicolson et al. 2024 advise to report it).

    1 means that all runs found one direction, 0 that they found unrelated ones.

    Blind to: the meaning of the direction. Runs share the concept's images, so vectors of images without any
    concept agree too: compare with the vectors of as many negatives in the concept's place.

    Args:
        cavs: vectors of at least 2 runs.

    Returns:
        Mean over all pairs of runs, in [-1, 1], higher is more consistent; a vector of length 0 counts as 0.

    Raises:
        InputError: there is a single run, or values are not finite.

    Example:
        >>> from candlelight.evaluation.concepts.cav import fit_cavs
        >>> g = torch.Generator().manual_seed(0)
        >>> concept, negatives = torch.randn(20, 5, generator=g) + 9, torch.randn(30, 5, generator=g)
        >>> round(float(run_consistency(fit_cavs(concept, negatives, generator=g, runs=4))), 2)
        1.0
    """
    runs = len(cavs.weights)
    if runs < 2:
        raise InputError(
            f"consistency needs the vectors of at least 2 runs, got {runs}; use more {argument('runs')}"
        )
    *concept, negatives = cavs.rows
    gram, _ = SharedRows(negatives).stacked(*concept)
    cosines = run_cosines(cavs.weights, gram)
    return (cosines.sum() - cosines.diagonal().sum()) / (runs * (runs - 1))


def layer_consistency(
    derivatives: Sequence[Float[Tensor, "_ inputs"]],
) -> Float[Tensor, "layers layers"]:
    """Compute how far the vectors of different layers agree on the inputs.

    Vectors of two layers have no common space. But if the vector of a later layer is the change that the
    vector of an earlier one causes there, then the derivatives of the loss along both are equal at each input
    (chain rule). So the correlation over inputs of the directional derivatives, averaged over runs, is 1 for
    consistent vectors; Nicolson et al. 2024 call them layer consistent.

    Blind to: the scale and the mean of the derivatives, and directions to which the loss does not respond.
    With few inputs correlations are large by chance: about 0.2 in size with 30 inputs.

    Args:
        derivatives: for each layer, `directional_derivatives` at the same inputs in the same order, one row
            per run; at least 3 inputs. The numbers of runs may differ.

    Returns:
        Pearson correlations between all layers, float64, 1 is best; nan for a layer whose derivatives are
        equal at all inputs.

    Raises:
        InputError: there is no layer, inputs are fewer than 3 or differ in number, a layer has no run, or
            values are not finite.

    Example:
        >>> early, late = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 4.0, 6.0], [0.0, 2.0, 4.0]])
        >>> layer_consistency([early, late]).round(decimals=6)
        tensor([[1., 1.],
                [1., 1.]], dtype=torch.float64)
    """
    check_shapes(**{f"derivatives[{place}]": (one, "_ inputs") for place, one in enumerate(derivatives)})
    inputs = derivatives[0].shape[1] if derivatives else 0
    if inputs < 3 or min(map(len, derivatives)) == 0:
        shapes = [list(one.shape) for one in derivatives]
        raise InputError(f"expected layers with at least 1 run and 3 inputs, got shapes {shapes}")
    means = torch.stack([one.double().mean(0) for one in derivatives])
    if not bool(means.isfinite().all()):
        raise InputError("derivatives must be finite, got nan or inf; check the gradients behind them")
    # About the first input, so that equal derivatives have a deviation of exactly 0.
    away = means - means[:, :1]
    away = away - away.mean(1, keepdim=True)
    lengths = torch.linalg.vector_norm(away, dim=1)
    return ((away @ away.T) / lengths / lengths[:, None]).clamp(-1, 1)


def concept_entanglement(concepts: Sequence[CAVs]) -> Float[Tensor, "concepts concepts"]:
    """Compute the cosines between the mean vectors of several concepts at one layer.

    Entangled concepts have vectors with cosines far from 0, and a score along one of them counts the other
    (Nicolson et al. 2024).

    Blind to: the reason. Concepts with the same negatives have positive cosines because all vectors point
    away from those: 0.5 for differences of means (classifier "mean") where the means of two concepts and of
    the negatives are equally far from each other. Concept images that share a scene add to that.

    Args:
        concepts: vectors of each concept, at least one, with activations of one length.

    Returns:
        Cosines in [-1, 1], float64, with a diagonal of 1; 0 for a concept whose mean vector is 0.

    Raises:
        InputError: there is no concept, activations differ in length, or are not finite.

    Example:
        >>> from candlelight.evaluation.concepts.cav import fit_cavs
        >>> g, axes = torch.Generator().manual_seed(0), torch.eye(2)
        >>> one, other = (fit_cavs(v.expand(4, 2), -v.expand(4, 2), generator=g, runs=1) for v in axes)
        >>> concept_entanglement([one, other])
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
    """
    if not concepts:
        raise InputError("expected the vectors of at least one concept, got none")
    check_shapes(**{f"concepts[{place}]": (one.rows[0], "_ dim") for place, one in enumerate(concepts)})
    vectors = torch.stack([mean_cav(one) for one in concepts])
    if not bool(vectors.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    return _cosines(vectors @ vectors.T)


def _unit_weights(cavs: CAVs) -> Tensor:
    """Scale the weights so that vectors have length 1, or 0."""
    norm = cavs.norm[:, None].double()
    return torch.where(norm == 0, 0, cavs.weights.double() / norm)


def _cosines(products: Tensor) -> Tensor:
    """Compute cosines from the inner products of vectors; 0 for vectors of length 0."""
    lengths = products.diagonal().clamp(min=0).sqrt()
    return torch.nan_to_num(products / lengths / lengths[:, None], 0, 0, 0).clamp(-1, 1)
