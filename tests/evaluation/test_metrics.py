"""Contracts of all metric functions, for the arguments of `metric_cases`."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.evaluation.metric_cases import BY_ROW, BY_SAMPLE, CASES, PAIR
from tests.evaluation.pretended_gpu import Pretended, PretendedGpu, move
from tests.refusals import refused

# Tolerances by the dtype of the arguments, because a GPU sums in another order.
TOLERANCES = {torch.float32: {"rtol": 1e-5, "atol": 1e-6}, torch.float64: {"rtol": 1e-9, "atol": 1e-10}}


def tensors(found: object) -> list[Tensor]:
    """Collect all tensors and numbers in the result of a metric."""
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, bool | int | float):
        return [torch.tensor(found)]
    if found is None or isinstance(found, str):
        return []
    if is_dataclass(found):
        return [one for field in fields(found) for one in tensors(getattr(found, field.name))]
    found = found.values() if isinstance(found, Mapping) else found
    return [one for part in found for one in tensors(part)]


def changed(name: str, change: Callable[[Tensor], Any]) -> object:
    """Compute a metric of changed tensors."""
    function, arguments = CASES[name]
    return function(*(change(one) if isinstance(one, Tensor) else one for one in arguments))


@functools.cache
def expected(name: str) -> list[Tensor]:
    return tensors(changed(name, Tensor.clone))


def check_same(name: str, found: object, wanted: object, **tolerance: Any) -> None:
    """Compare results; booleans and integers must be equal."""
    single = any(one.dtype == torch.float32 for one in tensors(CASES[name][1]))
    tolerance = tolerance or TOLERANCES[torch.float32 if single else torch.float64]
    for one, other in zip(tensors(found), tensors(wanted), strict=True):
        exact = {} if other.is_floating_point() else {"rtol": 0, "atol": 0}
        plain = one.as_subclass(Tensor).detach().cpu()
        torch.testing.assert_close(plain, other, equal_nan=True, **{**tolerance, **exact})


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_values_on_a_gpu_are_those_of_the_cpu(name: str) -> None:
    check_same(name, changed(name, Tensor.cuda), expected(name))


@pytest.mark.parametrize("name", CASES)
def test_metrics_do_not_mix_devices(name: str) -> None:
    with PretendedGpu():
        found = changed(name, lambda one: move(Pretended, one))
    check_same(name, found, expected(name))


@pytest.mark.parametrize("name", CASES)
def test_gradients_change_no_result(name: str) -> None:
    found = changed(name, lambda one: one.clone().requires_grad_() if one.is_floating_point() else one)
    check_same(name, found, expected(name))  # a warning would fail, too


@pytest.mark.parametrize("name", BY_ROW)
def test_every_row_is_scored_alone(name: str) -> None:
    for row in range(len(CASES[name][1][0])):
        here = slice(row, row + 1)
        alone = changed(name, lambda one, here=here: one[here])
        check_same(name, alone, [one[here] for one in expected(name)])


@pytest.mark.parametrize("name", BY_SAMPLE)
def test_order_of_samples_does_not_count(name: str) -> None:
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    check_same(name, changed(name, lambda one: one[order]), expected(name), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", BY_ROW)
def test_float64_gives_the_same_more_exactly(name: str) -> None:
    single, double = (
        changed(name, lambda one, dtype=dtype: one.to(dtype) if one.is_floating_point() else one)
        for dtype in (torch.float32, torch.float64)
    )
    check_same(name, single, double, rtol=1e-3, atol=1e-4, check_dtype=False)


@pytest.mark.parametrize("name", [name for name in BY_ROW if len(CASES[name][1]) > 1])
def test_shapes_that_do_not_agree_are_refused(name: str) -> None:
    function, arguments = CASES[name]
    for place, one in enumerate(arguments):
        # Images are compared channel by channel: one channel does not stand for three.
        channels = [one[:, :1]] if arguments[1] is PAIR[1] and one.ndim == 4 else []
        for wrong in (one[:1], one[0], one[..., :1], *channels):
            with refused(r"^expected `\w+` \["):
                function(*arguments[:place], wrong, *arguments[place + 1 :])
