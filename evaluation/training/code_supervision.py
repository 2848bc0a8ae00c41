"""The loss of a few labelled images: the first codes predict the factors."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.views import Factors


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
        >>> from candlelight.loaders.views import DataIdentity
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
