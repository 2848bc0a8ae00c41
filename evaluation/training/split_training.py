"""Split rows into those of the training and those that are held out."""

from collections.abc import Sequence

from candlelight.loaders.errors import InputError


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
