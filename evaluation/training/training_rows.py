"""Rows of a training: held-out scenes, images that are read once, and factors as labels."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.views import Factors, Images, View
from candlelight.evaluation.views.image_tensors import check_srgb_image
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import InputError, argument, did_you_mean
from candlelight.loaders.schema import FactorInfo

# Bytes of rows that are kept in memory; other rows are read again in each epoch.
CACHE_BYTES = 2 * 2**30
_Item = TypeVar("_Item")


def hold_out(groups: Sequence[str], share: float, seed: int) -> list[int]:
    """Choose scenes at random, and return the numbers of all of their rows.

    Args:
        groups: scene of each row.
        share: share of the scenes, in [0, 1); of a positive share at least one scene.
        seed: seed of the choice.

    Raises:
        InputError: ``share`` lies outside [0, 1), or no scene would be left for training.

    Example:
        >>> hold_out(["a", "a", "b", "b"], 0.5, seed=0)
        [0, 1]
    """
    if not 0 <= share < 1:
        raise InputError(f"the share of held-out groups must be at least 0 and below 1, got {share}")
    scenes = list(dict.fromkeys(groups))
    count = max(1, round(share * len(scenes))) if share > 0 else 0
    if count >= len(scenes):
        raise InputError(
            f"a share of {share} of {len(scenes)} groups leaves none for training; give 0, or more groups"
        )
    order = named_stream(seed, "validation").permutation(len(scenes))
    chosen = {scenes[place] for place in order[:count]}
    return [row for row, group in enumerate(groups) if group in chosen]


def split_training(
    count: int, rows: Sequence[int] | None, validation: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Check the row numbers of a training.

    Args:
        count: number of rows of the data.
        rows: rows to train on; None for all that are not held out.
        validation: rows that are held out.

    Returns:
        Rows to train on, and held-out rows.

    Raises:
        InputError: a row does not exist or is in both lists, or no row is left for training.

    Example:
        >>> split_training(4, None, [2])
        ([0, 1, 3], [2])
    """
    held_out = [int(row) for row in validation]
    others = sorted(set(range(count)).difference(held_out))
    training = others if rows is None else [int(row) for row in rows]
    for name, chosen in (("validation", held_out), ("rows", training)):
        for row in chosen:
            if not 0 <= row < count:
                raise InputError(f"`{name}` must lie in 0..{count - 1}, got {row}")
    if not training:
        raise InputError(f"`rows` must name at least one row, got none of {count}")
    if both := set(training).intersection(held_out):
        raise InputError(f"`rows` and `validation` must share no row, got {min(both)} in both")
    return training, held_out


class KeptRows(Generic[_Item]):
    """Rows of a view, of which the first ones that are read stay in memory.

    Args:
        data: the view.
        row_bytes: bytes of a row.
    """

    def __init__(self, data: View[_Item], row_bytes: int) -> None:
        self._data, self._ids = data, data.ids
        self._most_kept = max(1, CACHE_BYTES // row_bytes)
        self._kept: dict[int, _Item] = {}

    def __getitem__(self, row: int) -> _Item:
        # The first rows are kept for good: in random order, the latest ones are rarely asked for again.
        if row in self._kept:
            return self._kept[row]
        item = self._data[row]
        if len(self._kept) < self._most_kept:
            self._kept[row] = item
        return item

    def sha256(self, rows: Sequence[int]) -> str:
        """Hash ids and contents of rows."""
        fingerprint = Fingerprint()
        for row in rows:
            fingerprint.add(self._ids[row], self[row])
        return fingerprint.hexdigest()


class ImageRows(KeptRows[Tensor]):
    """Images of a view.

    Args:
        data: images of one size.
    """

    def __init__(self, data: Images) -> None:
        super().__init__(data, data[0].numel() * 4)

    def read(self, rows: Sequence[int]) -> Tensor:
        """Read images: float32 [batch, 3, height, width], sRGB-encoded in [0, 1].

        Raises:
            InputError: an image is not sRGB-encoded in [0, 1], or the images have several sizes.
        """
        images = [check_srgb_image(self[row]) for row in rows]
        if len(sizes := sorted({tuple(image.shape[1:]) for image in images})) > 1:
            (height, width), (other_height, other_width) = sizes[:2]
            raise InputError(
                f"expected images of one size, got {height} x {width} and {other_height} x {other_width} "
                "(height x width); resize them "
                f"({argument('size', 'candlelight.evaluation.coverage.ResizedImages')})"
            )
        return torch.stack(images)


def label_values(data: Factors, factor: str) -> list[str]:
    """Return the value of a categorical factor for each row.

    Args:
        data: images with known factors.
        factor: name of the factor.

    Raises:
        InputError: there is no such factor, or it is continuous.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> class Rows:
        ...     factors, table = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),), None
        >>> Rows.table = np.array([[2.0], [0.0], [2.0]])
        >>> label_values(Rows(), "kind")
        ['c', 'a', 'c']
    """
    info, column = _column(data, factor)
    assert info.values is not None
    return [str(info.values[number]) for number in column]


def factor_labels(data: Factors, factor: str) -> tuple[list[int], tuple[str, ...]]:
    """Number the values of a categorical factor that occur in the rows.

    Args:
        data: images with known factors.
        factor: name of the factor.

    Returns:
        Class of each row, from 0; and the value of each class, in the order of the factor.

    Raises:
        InputError: there is no such factor, it is continuous, or all rows have one value.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> class Rows:
        ...     factors, table = (FactorInfo(name="kind", kind="categorical", values=("a", "b", "c")),), None
        >>> Rows.table = np.array([[2.0], [0.0], [2.0]])
        >>> factor_labels(Rows(), "kind")
        ([1, 0, 1], ('a', 'c'))
    """
    info, column = _column(data, factor)
    assert info.values is not None
    found, labels = np.unique(column, return_inverse=True)
    values = tuple(str(info.values[number]) for number in found)
    if len(values) < 2:
        raise InputError(
            f"--label {factor}: expected rows with several values, got {', '.join(values)} alone"
        )
    return labels.tolist(), values


def _column(data: Factors, factor: str) -> tuple[FactorInfo, list[int]]:
    """Look up a categorical factor, and the number of its value in each row."""
    names = [info.name for info in data.factors]
    if factor not in names:
        raise InputError(
            f"--label {factor}: expected one of the factors {', '.join(names)}{did_you_mean(factor, names)}"
        )
    info, column = data.factors[names.index(factor)], data.table[:, names.index(factor)]
    if info.values is None:
        fit = [one.name for one in data.factors if one.values is not None]
        raise InputError(
            f"--label {factor}: the factor is continuous; choose a categorical one: "
            f"{', '.join(fit) or 'there is none'}"
        )
    return info, column.astype(int).tolist()
