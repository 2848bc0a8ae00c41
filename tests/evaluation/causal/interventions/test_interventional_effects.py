import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.causal.effects import ace, ice
from candlelight.evaluation.causal.generativeness import baseline_codes
from tests.refusals import refused


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_baselines_by_hand():
    codes = torch.tensor([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0], [2.0, 5.0]])
    assert baseline_codes(codes).T.tolist() == [[4, 4, 0, 4], [5, 5, 5, 5]]
    assert baseline_codes(codes, "mean")[2].tolist() == [1.75, 5]
    assert baseline_codes(codes, "zero").abs().max() == 0


def test_farthest_baseline_equals_loops():
    codes = drawn(40, 3).numpy()
    slow = [
        [column[abs(column - value).argmax()] for value, column in zip(row, codes.T, strict=True)]
        for row in codes
    ]
    np.testing.assert_array_equal(baseline_codes(torch.from_numpy(codes)), slow)


def test_effect_in_a_linear_model_is_its_weight():
    weights = drawn(4, 2)
    codes, values = drawn(9, 4, seed=1), torch.tensor([[0.0], [1.0], [3.0]]).double()
    found = ice(lambda codes: codes @ weights, codes, [2], values, torch.tensor([1.0]).double())
    expected = (values - 1) * weights[2]
    torch.testing.assert_close(found, expected.expand(9, 3, 2))
    torch.testing.assert_close(
        ace(lambda codes: codes @ weights, codes, [2], values, torch.tensor([1.0]).double()), expected
    )


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("batch_size", [4, 64])
def test_equals_loops(batch_size, per_row):
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    codes, values = drawn(9, 4), drawn(2, 2, seed=1)
    baseline = drawn(9, 2, seed=2) if per_row else drawn(2, seed=2)
    found = ice(network, codes, [3, 0], values, baseline, batch_size)
    for row in range(9):
        for number in range(2):
            outputs = []
            for setting in (values[number], baseline[row] if per_row else baseline):
                changed = codes[row].clone()
                changed[3], changed[0] = setting
                outputs.append(network(changed))
            torch.testing.assert_close(found[row, number], (outputs[0] - outputs[1]).detach())
    torch.testing.assert_close(ace(network, codes, [3, 0], values, baseline, batch_size), found.mean(0))
    assert not found.requires_grad


def test_effects_of_opposite_signs_cancel_in_the_mean():
    codes = torch.tensor([[0.0, 1.0], [0.0, -1.0]])
    arguments = (lambda codes: codes.prod(1, keepdim=True), codes, [0], torch.ones(1, 1), torch.zeros(1))
    assert ice(*arguments).flatten().tolist() == [1, -1]
    assert ace(*arguments).tolist() == [[0]]


def test_the_codes_are_not_changed_and_nan_passes():
    codes = drawn(3, 2)
    before = codes.clone()
    found = ice(lambda codes: codes.log(), codes, [1], torch.tensor([[1.0]]), torch.tensor([[2.0]] * 3))
    torch.testing.assert_close(codes, before)
    assert found[:, 0, 1].tolist() == pytest.approx([-np.log(2)] * 3)
    torch.testing.assert_close(found[:, 0, 0].isnan(), codes[:, 0] < 0)


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"columns": []}, r"expected `codes` \[rows, codes\], `values` \[values, 0\]"),
        ({"columns": [], "values": torch.ones(1, 0)}, "`columns` needs at least one code, got none"),
        ({"columns": [-1]}, "`columns` must lie in 0..3, got -1"),
        ({"values": torch.zeros(0, 1)}, "`values` needs at least one row, got none"),
        ({"baseline": torch.zeros(2)}, r"expected `values` \[values, columns\], `baseline` \[columns\]"),
        ({"baseline": torch.zeros(2, 1)}, r"`baseline` \[rows, columns\], got \[3, 4\], \[1, 1\], \[2, 1\]"),
        ({"output": lambda codes: codes.sum(1)}, r"`output` \[rows, units\], got \[3, 4\], \[3\]"),
        ({"output": lambda codes: codes.tolist()}, "`output` must be a torch tensor, got list"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
    ],
)
def test_invalid_arguments_are_refused(replaced, message):
    arguments = {"output": lambda codes: codes, "codes": torch.zeros(3, 4), "columns": [1]}
    arguments |= {"values": torch.ones(1, 1), "baseline": torch.zeros(1)}
    with refused(message):
        ice(**{**arguments, **replaced})


def test_misspelt_baselines_are_refused():
    with refused("`baseline` must be one of: farthest, mean, zero; got median"):
        baseline_codes(torch.zeros(2, 2), "median")
