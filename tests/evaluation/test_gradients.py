"""Metrics of codes and fits take tensors of a training, whose gradients they ignore."""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from candlelight.evaluation import causal, concepts, coverage, intrinsic, perception

FACTORS = torch.stack([torch.arange(120) % 4, torch.arange(120) // 4 % 3], 1)
TRAINING = torch.arange(120) % 5 != 0
LEVELS = torch.linspace(0.1, 3, 8, dtype=torch.float64)
ONES = torch.ones(2, 32, 32)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


CODES = FACTORS.double() @ drawn(2, 3) + 0.1 * drawn(120, 3, seed=1)
IMAGES, TRUE = drawn(2, 3, 32, 32), drawn(2, 3, 32, 32, seed=1)
ROWS, OTHERS = drawn(30, 6), drawn(40, 6, seed=1) + 0.3
OF_CODES: dict[str, Callable[[Tensor], Any]] = {
    **{
        name: partial(lambda name, codes: getattr(causal, name)(codes, FACTORS), name)
        for name in ("block_r2", "explicitness", "infomec", "irs", "mcc", "mig", "modularity", "sap")
    },
    "mcc, kernel": lambda codes: causal.mcc(codes, FACTORS, "kernel", training=TRAINING),
    "minimality": lambda codes: causal.minimality_and_sufficiency(codes, FACTORS),
    "dci": lambda codes: causal.dci(codes, FACTORS, TRAINING.nonzero()[:, 0], (~TRAINING).nonzero()[:, 0]),
    "dci_es": lambda codes: causal.dci_es(codes, FACTORS, TRAINING),
    "discretise": causal.discretise,
    "t_mex": lambda codes: causal.t_mex(codes, FACTORS, torch.ones(3, 2, dtype=torch.bool)),
    "neighbour_information": lambda codes: causal.neighbour_information(codes, FACTORS),
    "baseline_codes": causal.baseline_codes,
}
OF_ROWS: dict[str, Callable[[Tensor], Any]] = {
    "fit_cavs": lambda rows: concepts.fit_cavs(rows, OTHERS, generator=generator()),
    "random_cavs": lambda rows: concepts.random_cavs(rows, generator=generator()),
    "sensitivity": lambda rows: concepts.sensitivity(
        concepts.fit_cavs(ROWS, OTHERS, generator=generator()), rows
    ),
    "effect_interval": lambda rows: concepts.effect_interval(rows, list("abcdef"), 0),
    "exchange_derivatives": lambda rows: concepts.exchange_derivatives(rows, OTHERS, ROWS, seed=0),
    "permutation_test": lambda rows: concepts.permutation_test(rows[:2]),
    "significant": lambda rows: concepts.significant(rows[:, 0], rows[:, 1]),
}
OF_IMAGES: dict[str, Callable[[Tensor], Any]] = {
    **{
        name: partial(lambda name, images: getattr(intrinsic, name)(images, TRUE, ONES.bool()), name)
        for name in ("dssim", "dssim_crefnet", "lmse_barron", "lmse_crefnet", "lmse_sintel", "mse", "ssim")
    },
    "maw_intensity": lambda images: intrinsic.maw_intensity(
        images[:, :, :, 0].mT, TRUE[:, :, :, 0].mT, ONES[..., 0].double()
    ),
    "count_smooth": lambda images: intrinsic.count_smooth(
        images[:, :1], torch.ones(2, 32, 32, dtype=torch.long), variant="kovacs2017"
    ),
    "region_density": lambda images: coverage.region_density(images[:, 0].float(), ONES[:, None].bool()),
}
OF_LEVELS: dict[str, Callable[[Tensor], Any]] = {
    "fit_psychometric": lambda levels: perception.fit_psychometric(
        levels, torch.tensor([5, 5, 6, 7, 8, 9, 10, 10]), torch.full((8,), 10)
    ),
    "fit_transduction": lambda levels: perception.fit_transduction(
        levels.repeat(4), (levels.repeat(4) / 4).sqrt()
    ),
    "fit_ellipse": lambda levels: perception.fit_ellipse(torch.stack([levels.cos() * 2, levels.sin()], 1)),
    "normalised_dmos": perception.normalised_dmos,
    "transform_sensitivity": lambda levels: perception.transform_sensitivity(
        levels.repeat(3, 1), LEVELS, 1.0
    ),
    "detection_levels": lambda levels: perception.detection_levels(levels, torch.ones(8, dtype=torch.bool)),
}


def assert_equal(found: Any, expected: Any) -> None:
    """Compare results: tensors, numbers, and records and collections of them."""
    if is_dataclass(expected):
        found, expected = vars(found), vars(expected)
    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        for pair in zip(found, expected, strict=True):
            assert_equal(*pair)
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    else:
        assert found == pytest.approx(expected, nan_ok=True)  # texts are compared as they are


CASES = [
    pytest.param(call, values, id=name)
    for calls, values in ((OF_CODES, CODES), (OF_ROWS, ROWS), (OF_IMAGES, IMAGES), (OF_LEVELS, LEVELS))
    for name, call in calls.items()
]


@pytest.mark.parametrize(("call", "values"), CASES)
def test_gradients_change_no_result(call: Callable[[Tensor], Any], values: Tensor) -> None:
    found = call(values.clone().requires_grad_())  # a warning would fail, too
    assert_equal(found, call(values))
