"""Solvers of linear classifiers in the span of their examples, for many labellings at once."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.concepts_options import Classifier
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

# Directions of the rows with less than this share of the largest variance are rounding errors of the matrix.
_RESOLUTION = 1e-12


def train_sgd(
    gram: Float[Tensor, "rows rows"],
    members: Tensor,
    labels: Float[Tensor, " train"],
    penalty: float,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "runs train"], Float[Tensor, " runs"]]:
    """Train scikit-learn's SGDClassifier with the settings of TCAV, one run after the other.

    Kim et al. 2018 and Gupta et al. 2022 train ``SGDClassifier(alpha, max_iter=1000, tol=1e-3)``: single
    steps down the hinge loss ``max(0, 1 - m)`` of a row at a time, in random order, until the loss stops to
    fall by ``tol``. The vector starts at 0, and a step shrinks it and adds a multiple of a row, so it lies in
    the span of the rows. A step reads the rows through their products with each other only. The coordinates
    of the rows in the eigenbasis of their Gram matrix have the same products, so the classifier is trained on
    these short rows and takes the steps that it would take on the long ones.

    The programs of these papers leave rows as they are. Here the mean of a run's rows is subtracted, and all
    rows are divided by the root of their mean squared norm, so that neither the origin nor the unit of the
    features changes the steps.

    Blind to: the minimum. The steps end early, at a vector that depends on the order of the rows.

    Args:
        gram: as in `candlelight.evaluation.concepts.solvers.train_classifiers`.
        members: as there.
        labels: as there.
        penalty: as there; ``alpha`` of scikit-learn is the penalty divided by the mean squared norm.
        generator: generator of the orders of the rows.

    Returns:
        ``beta`` and ``b`` of each run; 0 if all rows are equal.

    Example:
        >>> gram = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
        >>> labels = torch.tensor([1.0, -1.0], dtype=torch.float64)
        >>> beta, _ = train_sgd(gram, torch.tensor([[0, 1]]), labels, 0.1, torch.Generator().manual_seed(0))
        >>> beta.sign()
        tensor([[ 1., -1.]], dtype=torch.float64)
    """
    from sklearn.linear_model import SGDClassifier

    scale = gram.diagonal().mean().item()
    if not scale:
        return gram.new_zeros(members.shape), gram.new_zeros(len(members))
    seeds = torch.randint(1 << 31, (len(members),), generator=generator, device=generator.device).tolist()
    betas, biases = [], []
    for rows, seed in zip(members, seeds, strict=True):
        small = gram[rows[:, None], rows]
        coordinates, dual = _coordinates(small, scale)
        model = SGDClassifier(alpha=penalty / scale, max_iter=1000, tol=1e-3, random_state=seed)
        model.fit(coordinates.numpy(force=True), labels.numpy(force=True))
        beta = dual @ dual.new_tensor(model.coef_[0])
        betas.append(beta)
        biases.append(float(model.intercept_[0]) - (small @ beta).mean())
    return torch.stack(betas), torch.stack(biases)


def _coordinates(gram: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Compute rows with the centred Gram matrix over ``scale``, and the map from their vectors to beta.

    With the centred matrix ``U S U^T``, the rows are ``U sqrt(S / scale)``. A vector w of them stands for the
    vector ``sum_i beta_i x_i`` of the original rows with ``beta = U w / sqrt(S scale)``.
    """
    means = gram.mean(0)
    values, basis = torch.linalg.eigh(gram - means - means[:, None] + means.mean())
    kept = values > _RESOLUTION * scale
    values, basis = values[kept], basis[:, kept]
    if not len(values):  # scikit-learn refuses rows without features
        return gram.new_zeros(len(gram), 1), gram.new_zeros(len(gram), 1)
    return basis * (values / scale).sqrt(), basis / (values * scale).sqrt()


_TOLERANCE = 1e-10
_LARGEST_TOLERANCE = 1e-2  # of a gradient whose norm is about 1 where the vector is 0
_TOO_SMALL = "`regularisation` is too small for the precision of these rows; use a larger value or float64"
_MAX_STEPS = 100
_MAX_HALVINGS = 40
# Maximal number of float64 entries of Gram matrices that are factorised together; about four times as many
# are in memory (512 MiB).
_BATCH_ELEMENTS = 1 << 24

_Loss = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def train_classifiers(
    gram: Float[Tensor, "rows rows"],
    members: Tensor,
    labels: Float[Tensor, " train"],
    classifier: Classifier,
    penalty: float,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "runs train"], Float[Tensor, " runs"]]:
    """Train one linear classifier per run in the dual.

    Each run minimises ``penalty/2 |w|^2 + mean_i loss(y_i (w.x_i + b))`` over w and b. A part of w that is
    orthogonal to all rows would change no decision value and raise the penalty; so the minimum is
    ``w = sum_i beta_i x_i``, and b has no penalty, so ``sum_i beta_i = 0`` and the origin of the rows does
    not matter. The loss is ``max(0, 1 - m)^2 / 2`` ("svm", as LinearSVC of scikit-learn),
    ``log(1 + exp(-m))`` ("logistic") or ``(1 - m)^2 / 2`` ("ridge", the direction of Fisher's discriminant
    with a shrunken covariance). Newton's method with backtracking stops when the norm of the gradient by
    (w, b), for rows scaled to a mean squared norm of 1, is below a tolerance of 1e-10 (or the resolution of
    float64 if the penalty is tiny). For "ridge" the first step is the closed form.

    "mean" minimises nothing: ``w = mean of the concept - mean of all``, and the boundary contains the mean of
    all (FastCAV, Schmalwasser et al. 2025). This is also the direction of the pattern CAV (Pahde et al.
    2025), the covariance of rows and label over the variance of the label: with a share p of concept rows,
    a label of 1 or 0, and the difference D of the two means of the classes, the covariance is ``p (1 - p) D``
    and the variance ``p (1 - p)``, so the pattern CAV is D; and the concept's mean minus the mean of all is
    ``(1 - p) D``.

    "sgd" minimises ``max(0, 1 - m)`` roughly, see `candlelight.evaluation.concepts.solvers.train_sgd`.

    Args:
        gram: inner products of all rows, float64.
        members: row numbers of each run's training set, [runs, train].
        labels: +1 or -1 for the columns of ``members``, equally many of each.
        classifier: name of the loss.
        penalty: weight of the squared norm, above 0 unless all rows are equal.
        generator: generator of the orders of the rows of "sgd"; the others draw nothing.

    Returns:
        ``beta`` and ``b`` of each run.

    Raises:
        InputError: ``classifier`` is misspelt, or the method does not converge, because the penalty is tiny.

    Example:
        >>> gram = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
        >>> labels = torch.tensor([1.0, -1.0], dtype=torch.float64)
        >>> g = torch.Generator()
        >>> train_classifiers(gram, torch.tensor([[0, 1]]), labels, "ridge", 1.0, g)[0]
        tensor([[ 0.2500, -0.2500]], dtype=torch.float64)
    """
    check_choice("classifier", classifier, Classifier)
    if classifier == "sgd":
        return train_sgd(gram, members, labels, penalty, generator)
    scale = gram.diagonal().mean().item()
    batch = max(1, _BATCH_ELEMENTS // members.shape[1] ** 2)
    parts = []
    for rows in torch.split(members, batch):
        small = gram[rows[:, :, None], rows[:, None, :]]
        if classifier == "mean":
            parts.append(_mean(small, labels))
        else:
            parts.append(_newton(small, labels, _LOSSES[classifier], penalty, scale))
    return torch.cat([beta for beta, _ in parts]), torch.cat([bias for _, bias in parts])


def _mean(gram: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the difference of the concept's mean and the mean of all, for balanced labels."""
    beta = (labels / len(labels)).expand(len(gram), -1)
    return beta, -(gram @ beta[..., None]).squeeze(-1).mean(1)


def _newton(gram: Tensor, labels: Tensor, loss: _Loss, penalty: float, scale: float) -> tuple[Tensor, Tensor]:
    """Minimise all runs together; a run that has converged continues with tiny steps."""
    runs, size = gram.shape[:2]
    beta, bias = gram.new_zeros(runs, size), gram.new_zeros(runs)
    # The coefficients grow as 1 / penalty, and so does the rounding error of the decision values.
    tolerance = _TOLERANCE + 1e-15 * scale / penalty if scale else _TOLERANCE
    if tolerance > _LARGEST_TOLERANCE:  # the vector 0 would do
        raise InputError(_TOO_SMALL)
    for _ in range(_MAX_STEPS):
        product = _apply(gram, beta)
        slope = labels * loss(labels * (product + bias[:, None]))[1] / size
        if bool((_gradient_norm(gram, beta, slope, penalty, scale) <= tolerance).all()):
            return beta, bias
        next_beta, next_bias = _quadratic_minimum(gram, product + bias[:, None], bias, labels, loss, penalty)
        step = _backtrack(gram, (beta, bias), (next_beta - beta, next_bias - bias), labels, loss, penalty)
        beta = beta + step[:, None] * (next_beta - beta)
        bias = bias + step * (next_bias - bias)
    raise InputError(
        f"`regularisation` is too small to train on these rows: {_MAX_STEPS} Newton steps did not converge; "
        "use a larger value"
    )


def _apply(gram: Tensor, beta: Tensor) -> Tensor:
    """Multiply each run's Gram matrix with its coefficients."""
    return torch.matmul(gram, beta[..., None]).squeeze(-1)


def _gradient_norm(gram: Tensor, beta: Tensor, slope: Tensor, penalty: float, scale: float) -> Tensor:
    """Compute the norm of the gradient by (w, b); by w it is ``sum_i r_i x_i``, with square ``r^T K r``."""
    residual = penalty * beta + slope
    square = (residual * _apply(gram, residual)).sum(1).clamp(min=0)
    return (square / (scale or 1.0) + slope.sum(1) ** 2).sqrt()


def _quadratic_minimum(
    gram: Tensor, decision: Tensor, bias: Tensor, labels: Tensor, loss: _Loss, penalty: float
) -> tuple[Tensor, Tensor]:
    """Minimise the second-order expansion of the objective at the current decision values.

    With h the curvature, g the slope by the decision value and beta = sqrt(h) gamma:
    ``(penalty n I + sqrt(h) K sqrt(h)) gamma + sqrt(h) b = sqrt(h) f - g / sqrt(h)``, ``sum beta = 0``.
    """
    _, slope, curvature = loss(labels * decision)
    root = curvature.sqrt()
    target = root * decision - torch.where(root > 0, labels * slope / root.clamp(min=1e-300), 0)
    matrix = root[:, :, None] * gram * root[:, None, :]
    matrix.diagonal(dim1=1, dim2=2).add_(penalty * labels.numel())
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed.any()):
        raise InputError(_TOO_SMALL)
    solved = torch.cholesky_solve(torch.stack([root, target], dim=2), factor)
    share = (root * solved[..., 0]).sum(1)
    # Without a row inside the margin, the intercept does not change the loss and is kept.
    next_bias = torch.where(share > 0, (root * solved[..., 1]).sum(1) / share.clamp(min=1e-300), bias)
    return root * (solved[..., 1] - next_bias[:, None] * solved[..., 0]), next_bias


def _backtrack(
    gram: Tensor,
    point: tuple[Tensor, Tensor],
    direction: tuple[Tensor, Tensor],
    labels: Tensor,
    loss: _Loss,
    penalty: float,
) -> Tensor:
    """Find the largest step among 1, 1/2, 1/4, ... that lowers each run's objective enough (Armijo)."""
    (beta, bias), (beta_step, bias_step) = point, direction
    product, product_step = _apply(gram, beta), _apply(gram, beta_step)

    def objective(step: Tensor) -> Tensor:
        moved = product + step[:, None] * product_step
        norm = ((beta + step[:, None] * beta_step) * moved).sum(1)
        margin = labels * (moved + (bias + step * bias_step)[:, None])
        return penalty / 2 * norm + loss(margin)[0].mean(1)

    slope = labels * loss(labels * (product + bias[:, None]))[1]
    fall = penalty * (beta * product_step).sum(1)
    fall = fall + (slope * (product_step + bias_step[:, None])).mean(1)
    step = torch.ones_like(bias)
    before = objective(torch.zeros_like(bias))
    for _ in range(_MAX_HALVINGS):
        # The slack accepts runs whose gain is below the rounding error of the objective.
        enough = objective(step) <= before + 1e-4 * step * fall + 1e-14 * before
        if bool(enough.all()):
            break
        step = torch.where(enough, step, step / 2)
    return step


def _squared(margin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, slope and curvature of (1 - m)^2 / 2."""
    return (1 - margin) ** 2 / 2, margin - 1, torch.ones_like(margin)


def _squared_hinge(margin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, slope and curvature of max(0, 1 - m)^2 / 2."""
    gap = (1 - margin).clamp(min=0)
    return gap**2 / 2, -gap, (gap > 0).to(margin.dtype)


def _logistic(margin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, slope and curvature of log(1 + exp(-m))."""
    wrong = torch.sigmoid(-margin)
    return functional.softplus(-margin), -wrong, wrong * torch.sigmoid(margin)


_LOSSES: dict[str, _Loss] = {"svm": _squared_hinge, "logistic": _logistic, "ridge": _squared}
