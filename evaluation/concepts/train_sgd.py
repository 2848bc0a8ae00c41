"""Stochastic gradient descent on the hinge loss, the classifier of the reference implementations of CAVs."""

import torch
from jaxtyping import Float
from torch import Tensor

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
