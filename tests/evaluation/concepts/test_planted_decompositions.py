"""Planted decompositions have exactly the faults of their names."""

import pytest
import torch

from candlelight.evaluation.concepts import planted_decompositions
from tests.refusals import refused


@pytest.fixture
def view(decompositions):
    stream = torch.Generator().manual_seed(0)
    albedo = 0.2 + 0.6 * torch.rand(2, 3, 40, 50, generator=stream)
    return decompositions(albedo, 0.1 + torch.rand(2, 3, 40, 50, generator=stream), name="test")


def test_faults_are_those_of_their_names(view):
    planted = planted_decompositions([view])
    truth = view[1]
    made = {name: tuple(named.model.read("test-1").values()) for name, named in planted.items()}
    assert all(
        torch.equal(*pair) for pair in zip(made["ideal"], (truth.reflectance, truth.shading), strict=True)
    )
    assert all(len(part.unique()) == 1 for part in made["constant"])
    for name, spread in (("ideal, 1 % noise", 0.01), ("ideal, 10 % noise", 0.1)):
        noise = [part / own - 1 for part, own in zip(made[name], made["ideal"], strict=True)]
        assert [float(one.std()) for one in noise] == pytest.approx([spread] * 2, rel=0.05)
    for name, power in (("half leak", 0.5), ("full leak", 1)):
        own, other = made["ideal"]
        expected = own * other**power, other * own**power
        for part, one in zip(made[name], expected, strict=True):
            torch.testing.assert_close(part, one, rtol=0.06, atol=0)
            assert not torch.equal(part, one)
    assert torch.equal(planted["half leak"].model.read("test-1")["reflectance"], made["half leak"][0])


def test_an_id_of_two_data_sets_is_refused(view):
    with refused(r"`test-0` is in two data sets; render one of them with another seed"):
        planted_decompositions([view, view])
