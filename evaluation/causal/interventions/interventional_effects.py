"""Causal effects of codes on the output of a network: individual (ICE) and average (ACE)."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError

CodeOutput = Callable[[Float[Tensor, "batch codes"]], Float[Tensor, "batch units"]]


def ice(
    output: CodeOutput,
    codes: Float[Tensor, "rows codes"],
    columns: Sequence[int],
    values: Float[Tensor, "values columns"],
    baseline: Float[Tensor, "rows columns"] | Float[Tensor, " columns"],
    batch_size: int = 64,
) -> Float[Tensor, "rows values units"]:
    """Compute the individual causal effect of setting codes to values, in each row.

    ``ICE_n(a) = y(z_n; do(z_I = a)) - y(z_n; do(z_I = b_n))`` with I the ``columns``, a one of the
    ``values``, b the ``baseline`` and y the ``output``; all other codes keep their values (definition 7.2 of
    the supplement of CANDLE, Reddy et al. 2022).

    Blind to: dependence between codes. Other codes keep their values, so codes that the encoder would not
    give for any image are possible; and a code that causes another code has its direct effect alone.

    Args:
        output: gives the output units of codes, each row by itself, such as the probabilities of classes
            after a decoder and a classifier. A `torch.nn.Module` runs in evaluation mode. It runs without
            gradients.
        codes: code vectors.
        columns: numbers of the codes that are set together.
        values: values to which they are set, one row for each intervention.
        baseline: reference values, the same for all rows or one row for each, such as
            ``baseline_codes(codes)[:, columns]``.
        batch_size: rows per call of ``output``.

    Returns:
        Effects with their signs, in the dtype of the outputs; nan where an output is nan.

    Raises:
        InputError: shapes do not agree, there is no row, value or column, a column does not exist, the output
            is not one row of units for each row of codes, or ``batch_size`` is below 1.

    Example:
        >>> def product(codes):  # one unit
        ...     return codes.prod(1, keepdim=True)
        >>> codes = torch.tensor([[1.0, 2.0], [1.0, 5.0]])
        >>> ice(product, codes, [0], torch.tensor([[0.0], [3.0]]), torch.tensor([1.0]))[:, :, 0]
        tensor([[-2.,  4.],
                [-5., 10.]])
    """
    _check_intervention(codes, columns, values, batch_size)
    if baseline.ndim == 1:
        check_shapes(values=(values, "values columns"), baseline=(baseline, "columns"))
        baseline = baseline.expand(len(codes), -1)
    check_shapes(
        codes=(codes, "rows codes"), values=(values, "values columns"), baseline=(baseline, "rows columns")
    )
    effects = []
    with evaluation_mode(output), torch.no_grad():
        for some, start in zip(
            torch.split(codes, batch_size), torch.split(baseline, batch_size), strict=True
        ):
            before = _intervened_output(output, some, columns, start)
            after = [_intervened_output(output, some, columns, value) for value in values]
            effects.append(torch.stack([one - before for one in after], dim=1))
    return torch.cat(effects)


def ace(
    output: CodeOutput,
    codes: Float[Tensor, "rows codes"],
    columns: Sequence[int],
    values: Float[Tensor, "values columns"],
    baseline: Float[Tensor, "rows columns"] | Float[Tensor, " columns"],
    batch_size: int = 64,
) -> Float[Tensor, "values units"]:
    """Compute the average causal effect of setting codes to values.

    ``ACE(a) = E[y | do(z_I = a)] - E[y | do(z_I = b)]``, the mean of `ice` over the rows (definition 7.1 of
    the supplement of CANDLE). The expectation is over the other codes as they are in the rows.

    Blind to: everything that `ice` is blind to, and effects of opposite signs in different rows.

    Args:
        output: see `ice`.
        codes: see `ice`.
        columns: see `ice`.
        values: see `ice`.
        baseline: see `ice`.
        batch_size: see `ice`.

    Returns:
        Effects with their signs, in the dtype of the outputs; nan where an output is nan.

    Raises:
        InputError: see `ice`.

    Example:
        >>> def product(codes):  # one unit
        ...     return codes.prod(1, keepdim=True)
        >>> codes = torch.tensor([[1.0, 2.0], [1.0, 5.0]])
        >>> ace(product, codes, [0], torch.tensor([[0.0], [3.0]]), torch.tensor([1.0]))[:, 0]
        tensor([-3.5000,  7.0000])
    """
    effects = ice(output, codes, columns, values, baseline, batch_size)
    return effects.double().mean(0).to(effects.dtype)


def _check_intervention(codes: Tensor, columns: Sequence[int], values: Tensor, batch_size: int) -> None:
    check_shapes(codes=(codes, "rows codes"), values=(values, f"values {len(columns)}"))
    for name, given in (("codes", codes), ("values", values)):
        if len(given) == 0:
            raise InputError(f"`{name}` needs at least one row, got none")
    check_columns("columns", columns, codes.shape[1])
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")


def check_columns(name: str, columns: Sequence[int], count: int) -> None:
    """Refuse an empty list of columns, and columns that do not exist.

    Args:
        name: name of the argument.
        columns: numbers of columns.
        count: number of columns that exist.

    Raises:
        InputError: there is no column, or one does not exist.

    Example:
        >>> check_columns("columns", [0, 3], 3)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `columns` must lie in 0..2, got 3
    """
    if not len(columns):
        raise InputError(f"`{name}` needs at least one code, got none")
    for column in columns:
        if not 0 <= column < count:
            raise InputError(f"`{name}` must lie in 0..{count - 1}, got {column}")


def _intervened_output(output: CodeOutput, codes: Tensor, columns: Sequence[int], values: Tensor) -> Tensor:
    """Compute the output with some codes set to values."""
    changed = codes.clone()
    changed[:, list(columns)] = values.to(codes.dtype)
    found = output(changed)
    check_shapes(codes=(codes, "rows codes"), output=(found, "rows units"))
    return found
