import numpy as np
import pytest
import torch

from candlelight.evaluation.causal.effects import ace, cdm
from tests.refusals import refused

CODES = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()


def _mixed(codes):
    return torch.stack([codes[:, 0] * codes[:, 1], codes[:, 2].sin() + codes[:, 0]], dim=1)


def test_equals_loops():
    result = cdm(_mixed, CODES, batch_size=4)
    for code in range(3):
        effects = []
        for row in CODES:
            high, low = row.clone(), row.clone()
            high[code], low[code] = CODES[:, code].max(), CODES[:, code].min()
            effects.append((_mixed(high[None]) - _mixed(low[None]))[0].numpy())
        np.testing.assert_allclose(result.lower[code], abs(np.mean(effects, axis=0)), atol=1e-12)
        np.testing.assert_allclose(result.upper[code], np.mean(np.abs(effects), axis=0), atol=1e-12)


def test_lower_is_the_size_of_the_average_effect():
    low, high = CODES.aminmax(dim=0)
    effect = ace(_mixed, CODES, [1], high[1].view(1, 1), low[1].view(1))
    torch.testing.assert_close(cdm(_mixed, CODES).lower[1], effect[0].abs())


def test_bounds_agree_for_monotone_outputs():
    result = cdm(lambda codes: codes.sigmoid(), CODES)
    torch.testing.assert_close(result.lower, result.upper)
    low, high = CODES.aminmax(dim=0)
    torch.testing.assert_close(result.lower.diagonal(), high.sigmoid() - low.sigmoid())
    assert result.lower.count_nonzero() == 3
    mixed = cdm(_mixed, CODES)
    assert (mixed.upper >= mixed.lower).all()


def test_effects_of_codes_on_codes_count_if_the_output_computes_them():
    def with_mechanism(codes):  # code 1 causes code 2
        return torch.stack([codes[:, 1], codes[:, 2] + 2 * codes[:, 1]], dim=1)

    spans = CODES.amax(0) - CODES.amin(0)
    expected = torch.stack(
        [torch.zeros(2).double(), spans[1] * torch.tensor([1, 2]), spans[2] * torch.tensor([0, 1])]
    )
    torch.testing.assert_close(cdm(with_mechanism, CODES).lower, expected)


def test_a_constant_code_and_a_code_with_equal_ends_have_no_effect():
    constant = CODES.clone()
    constant[:, 0] = 0.3
    assert cdm(_mixed, constant).upper[0].tolist() == [0, 0]
    turns = torch.tensor([[-torch.pi], [0.0], [torch.pi]])
    assert float(cdm(torch.cos, turns).upper) < 1e-6


@pytest.mark.parametrize(
    ("codes", "batch_size", "message"),
    [
        (torch.zeros(2, 0), 8, r"at least one row and one code, got \[2, 0\]"),
        (torch.ones(2, 1), 0, "`batch_size` must be at least 1, got 0"),
    ],
)
def test_refused_arguments(codes, batch_size, message):
    with refused(message):
        cdm(torch.cos, codes, batch_size)
