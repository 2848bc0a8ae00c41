"""Concept activation vectors (Kim et al. 2018), fitted in the span of the examples."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.catalogue.concepts_options import Classifier
from candlelight.evaluation.concepts.rows import RowSource, SharedRows
from candlelight.evaluation.concepts.solvers import train_classifiers
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

# With a larger penalty every vector is the difference of the means, of a length that underflows at last.
_LARGEST = 1e12


@dataclass(frozen=True)
class CAVs:
    """Concept activation vectors as linear combinations of the rows that they were trained on.

    The vector of run r is ``v_r = weights[r] @ X`` and points towards the concept; a row x is classified as
    concept if ``v_r . x + intercept[r] > 0``. The weights of a run add up to 0, so the vectors do not depend
    on the origin of the features.

    Attributes:
        weights: [runs, rows], float64; 0 for rows that a run did not train on.
        rows: X in blocks (concept, negatives), by reference, not copied.
        intercept: [runs], for rows that are not centred.
        accuracy: [runs], share of held-out rows that are classified correctly; 0.5 is chance.
        norm: [runs], Euclidean norm of the vectors; 0 if all rows are equal.
    """

    weights: Float[Tensor, "runs rows"]
    rows: tuple[Float[Tensor, "_ dim"] | RowSource, ...]
    intercept: Float[Tensor, " runs"]
    accuracy: Float[Tensor, " runs"]
    norm: Float[Tensor, " runs"]


class Fit(NamedTuple):
    """Classifiers of all runs; see `CAVs` for ``weights``, ``accuracy`` and ``norm``.

    ``bias`` is the intercept for rows that are centred like the rows of the Gram matrix.
    """

    weights: Float[Tensor, "runs rows"]
    bias: Float[Tensor, " runs"]
    accuracy: Float[Tensor, " runs"]
    norm: Float[Tensor, " runs"]


def fit_cavs(
    concept: Float[Tensor, "concepts dim"] | RowSource,
    negatives: Float[Tensor, "negatives dim"] | RowSource,
    *,
    generator: torch.Generator,
    runs: int = 100,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    test_share: float = 1 / 3,
) -> CAVs:
    """Learn concept activation vectors: normals of linear classifiers of concept against negatives.

    Kim et al. 2018, sec. 3.2; Gupta et al. 2022, sec. 3.1. Every run draws ``q = min(concepts, negatives)``
    rows of each class without replacement and holds out the same share of both. The normals of all the
    classifiers lie in the span of their rows. Therefore all runs are trained in float64 on submatrices of one
    Gram matrix, together except for "sgd", without any vector of length ``dim`` (see
    `candlelight.evaluation.concepts.solvers.train_classifiers` for the objectives and the reasons, and
    `candlelight.evaluation.concepts.rows.SharedRows` for the precision of the matrix). With generators
    in the same state all classifiers get the same rows. Kim et al. advise at least 20 concept images.

    Blind to: the cause of the difference between the two sets. A vector that separates them perfectly may
    represent the scene that all concept images share, not the factor that varies in them.

    Args:
        concept: activations of the concept images, flattened; at least 2 rows, in memory or not.
        negatives: activations of the negative images, from which each run takes its own subset.
        generator: generator of the random draws, on any device.
        runs: number of vectors.
        classifier: "svm" (squared hinge), "logistic", "ridge", "mean" (FastCAV and pattern CAV, not trained),
            or "sgd" (hinge, the SGDClassifier of TCAV: slow and noisy, for comparisons).
        regularisation: weight of ``|w|^2 / 2`` relative to the mean squared distance of the rows from
            their mean, so that the scale and the number of features do not matter; "mean" ignores it. The
            ``alpha`` of TCAV for rows that are not scaled corresponds to alpha over this distance.
        test_share: share of the drawn rows that is held out, in (0, 1); at least one row of each class.

    Returns:
        The vectors, on the device of ``concept``.

    Raises:
        InputError: there are too few rows, rows differ in length, an argument is out of range,
            ``classifier`` is misspelt, or activations are not finite.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> concept = torch.randn(20, 5, generator=g) + torch.tensor([9.0, 0, 0, 0, 0])
        >>> cavs = fit_cavs(concept, torch.randn(30, 5, generator=g), generator=g, runs=3)
        >>> cavs.weights.shape, cavs.accuracy.min()
        (torch.Size([3, 50]), tensor(1., dtype=torch.float64))
    """
    check_choice("classifier", classifier, Classifier)
    check_shapes(concept=(concept, "concepts dim"), negatives=(negatives, "negatives dim"))
    _check_rows("negatives", len(negatives), 2)
    shared = SharedRows(negatives)
    gram, _ = shared.stacked(concept)
    fit = fit_concept(gram, len(concept), generator, runs, classifier, regularisation, test_share)
    intercept = fit.bias - fit.weights @ shared.offsets(concept)
    return CAVs(fit.weights, (concept, negatives), intercept, fit.accuracy, fit.norm)


def random_cavs(
    negatives: Float[Tensor, "negatives dim"] | RowSource,
    *,
    generator: torch.Generator,
    size: int | None = None,
    runs: int = 100,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    test_share: float = 1 / 3,
) -> CAVs:
    """Learn vectors between two random subsets of the negatives, which represent no concept.

    Their scores are the null distribution of `candlelight.evaluation.concepts.sensitivity.significant`. The
    two subsets of a run share no row. Different runs share rows, so their scores are not fully independent.

    Args:
        negatives: activations of the negative images, at least 4 rows.
        generator: generator of the random draws.
        size: rows of each subset, at least 2; use the size of the concept sets to make the vectors comparable
            with theirs. Half of the negatives if None.
        runs: number of vectors.
        classifier: as in `fit_cavs`.
        regularisation: as in `fit_cavs`.
        test_share: as in `fit_cavs`.

    Returns:
        The vectors; ``rows`` is the one block ``negatives``.

    Raises:
        InputError: as `fit_cavs`.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> random_cavs(torch.randn(8, 3, generator=g), generator=g, runs=2).weights.shape
        torch.Size([2, 8])
    """
    check_choice("classifier", classifier, Classifier)
    check_shapes(negatives=(negatives, "negatives dim"))
    _check_rows("negatives", len(negatives), 4)
    shared = SharedRows(negatives)
    gram, _ = shared.stacked()
    fit = fit_random(gram, size, generator, runs, classifier, regularisation, test_share)
    intercept = fit.bias - fit.weights @ shared.offsets()
    return CAVs(fit.weights, (negatives,), intercept, fit.accuracy, fit.norm)


def fit_concept(
    gram: Float[Tensor, "rows rows"],
    concepts: int,
    generator: torch.Generator,
    runs: int = 100,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    test_share: float = 1 / 3,
) -> Fit:
    """Train as `fit_cavs`, given a Gram matrix with any origin, whose first rows belong to the concept.

    Raises:
        InputError: as `fit_cavs`.

    Example:
        >>> gram = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
        >>> fit_concept(gram[:, None] * gram, 2, torch.Generator().manual_seed(0), runs=1).accuracy
        tensor([1.], dtype=torch.float64)
    """
    _check_rows("concept", concepts, 2)
    _check_rows("negatives", len(gram) - concepts, 2)
    size = min(concepts, len(gram) - concepts)
    positive = _draw(concepts, size, runs, generator)
    negative = _draw(len(gram) - concepts, size, runs, generator) + concepts
    return _fit(gram, positive, negative, generator, classifier, regularisation, test_share)


def fit_random(
    gram: Float[Tensor, "rows rows"],
    size: int | None,
    generator: torch.Generator,
    runs: int = 100,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    test_share: float = 1 / 3,
) -> Fit:
    """Train as `random_cavs`, given a Gram matrix with any origin.

    Raises:
        InputError: as `random_cavs`.

    Example:
        >>> gram = torch.eye(8, dtype=torch.float64)
        >>> fit_random(gram, 2, torch.Generator().manual_seed(0), runs=3).weights.shape
        torch.Size([3, 8])
    """
    _check_rows("negatives", len(gram), 4)
    half = len(gram) // 2
    size = half if size is None else size
    if not 2 <= size <= half:
        raise InputError(f"`size` must be 2 to {half}, half of the negatives, got {size}")
    drawn = _draw(len(gram), 2 * size, runs, generator)
    return _fit(gram, drawn[:, :size], drawn[:, size:], generator, classifier, regularisation, test_share)


def _check_rows(name: str, rows: int, least: int) -> None:
    if rows < least:
        raise InputError(f"`{name}` needs at least {least} rows to train on and to test on, got {rows}")


def _draw(rows: int, size: int, runs: int, generator: torch.Generator) -> Tensor:
    """Draw row numbers without replacement, [runs, size], on the generator's device."""
    if runs < 1:
        raise InputError(f"`runs` must be at least 1, got {runs}")
    return torch.rand(runs, rows, generator=generator, device=generator.device).argsort(1)[:, :size]


def _fit(
    gram: Tensor,
    positive: Tensor,
    negative: Tensor,
    generator: torch.Generator,
    classifier: Classifier,
    regularisation: float,
    test_share: float,
) -> Fit:
    """Train on the drawn rows; the first rows of each class are held out for the accuracy."""
    if not 0 < test_share < 1:
        raise InputError(f"`test_share` must lie between 0 and 1, got {test_share}")
    if not 0 < regularisation <= _LARGEST:
        raise InputError(f"`regularisation` must be above 0 and at most {_LARGEST:g}, got {regularisation}")
    if not bool(gram.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    # Products in float32 are not exactly symmetric, and Newton's method would not converge.
    gram = (gram + gram.T) / 2
    means = gram.mean(0)
    gram = gram - means - means[:, None] + means.mean()
    size = positive.shape[1]
    held_out = min(max(round(size * test_share), 1), size - 1)
    test = torch.cat([positive[:, :held_out], negative[:, :held_out]], dim=1).to(gram.device)
    members = torch.cat([positive[:, held_out:], negative[:, held_out:]], dim=1).to(gram.device)
    signs = gram.new_tensor([1.0, -1.0])
    penalty = regularisation * gram.diagonal().mean().item()
    beta, bias = train_classifiers(
        gram, members, signs.repeat_interleave(size - held_out), classifier, penalty, generator
    )
    weights = gram.new_zeros(len(members), len(gram)).scatter(1, members, beta)
    products = weights @ gram
    guess = (products + bias[:, None]).gather(1, test) > 0
    right = guess == (signs.repeat_interleave(held_out) > 0)
    norm = (products * weights).sum(1).clamp(min=0).sqrt()
    return Fit(weights, bias - weights @ means, right.double().mean(1), norm)
