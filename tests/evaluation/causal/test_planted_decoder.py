"""The look-up decoder of `benchmarks.trials.planted_decoder`, on a drawn grid."""

import numpy as np
import pytest
import torch

from benchmarks.trials import planted_decoder
from benchmarks.trials.planted_decoder import counterfactual_models, next_class, score_axioms
from benchmarks.trials.rendered_grid import MixedCodes, RenderedGrid, score_codes
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

SIZES = (3, 5, 2)
KNOWN = dict.fromkeys("abc", 1.0)


@pytest.fixture
def drawn(memory_view):
    """Make a grid of factors a, b and c, in another order than that of the classes, and d of one value."""

    def make(rows=slice(None)):
        table = torch.cartesian_prod(*map(torch.arange, SIZES))
        table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(0))][rows]
        table = torch.cat([table, 0 * table[:, :1]], dim=1)
        factors = tuple(
            FactorInfo(name=name, kind="categorical", values=tuple(range(10, 10 + size)))
            for name, size in zip("abcd", (*SIZES, 4), strict=True)
        )
        images = (table[:, :3] / 10).float()[:, :, None, None].expand(-1, 3, 4, 4)
        return memory_view(list(images), factors=factors, table=table.numpy().astype(float))

    return make


def classify(images):
    """Give the classes of a, b and c with certainty, as logits."""
    found = (10 * images[:, :, 0, 0]).round().long()
    return [99.0 * torch.nn.functional.one_hot(one, size) for one, size in zip(found.T, SIZES, strict=True)]


@pytest.mark.parametrize("amount", [0.0, 0.6])
def test_codes_lead_back_to_their_row(drawn, amount):
    codes = MixedCodes.with_share(RenderedGrid.read(drawn()), amount)
    rows = torch.arange(30)
    assert codes.nearest_rows(codes.encode(rows)).tolist() == rows.tolist()


def test_mixed_codes_are_a_factor_and_a_share_of_the_next():
    grid = RenderedGrid({}, torch.tensor([[2, 3, 1]]), torch.zeros(1, 3, 1, 1), ("g",), torch.zeros(SIZES))
    codes = MixedCodes(grid, MixedCodes.with_share(grid._replace(values=KNOWN), 0.1).matrix)
    np.testing.assert_allclose(codes.encode(torch.tensor([0])), [[1 + 0.075, 0.75 + 0.1, 1 + 0.1]])


def test_a_grid_is_read_with_the_class_numbers_of_another(drawn):
    grid = RenderedGrid.read(drawn())
    assert {name: len(values) for name, values in grid.values.items()} == {"a": 3, "b": 5, "c": 2}
    np.testing.assert_allclose(grid.images[:, :, 0, 0] * 10, grid.classes, atol=1e-6)
    backwards = grid._replace(values={**grid.values, "b": grid.values["b"][::-1]})
    other = RenderedGrid.read(drawn(), backwards)
    assert other.classes[:, 1].tolist() == (4 - grid.classes[:, 1]).tolist()
    assert other.rows(other.classes).tolist() == list(range(30))
    with refused("one image for each of 30 combinations, got 29 images, none for 1"):
        RenderedGrid.read(drawn(slice(1, None)))


def test_disentangled_codes_score_one_and_mixed_ones_less(drawn, tmp_path):
    grid = RenderedGrid.read(drawn())
    found = {
        amount: list(score_codes(MixedCodes.with_share(grid, amount), torch.arange(30), classify, KNOWN))
        for amount in (0.0, 0.3, 0.6)
    }
    for by_heads, by_truth in found.values():
        torch.testing.assert_close(by_heads.by_row, by_truth.by_row)  # the classifier is certain
        assert float(by_heads.reconstruction_error.max()) == 0
    scores = [float(one.score) for one, _ in found.values()]
    assert scores[0] == pytest.approx(1)
    assert scores[0] > scores[1] > scores[2]
    assert found[0.0][0].outside.tolist() == pytest.approx([0, 0, 0], abs=1e-9)
    planted_decoder.draw_scores(tmp_path / "mixing.png", {"grid": found})
    planted_decoder.draw_counterfactuals(tmp_path / "counterfactuals.jpg", found)
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("mixing.png", "counterfactuals.jpg"))


def test_models_of_counterfactuals_by_hand(drawn):
    grid = RenderedGrid.read(drawn())
    seen = grid._replace(images=grid.images + 0.02)
    found = {}
    for title, model in counterfactual_models(grid, seen, [0, 1, 2]).items():
        scores = score_axioms(model, grid, torch.arange(30), classify, [0, 1, 2])
        found[title] = {name: one.value for name, one in scores.items()}
    exact = {"changed": 1, "others": 1, "composition": 0, "reversibility": 0}
    assert found["look-up"].items() >= exact.items()
    ignored = {"changed": 0, "others": 1, "composition": 0, "reversibility": 0, "difference": 0}
    assert found["image back"] == ignored
    # One of the two other factors moves as well, there and, once more, on the way back.
    another = found["look-up, next factor too"]
    assert (another["changed"], another["others"], another["composition"]) == (1, 0.5, 0)
    assert another["reversibility"] > 0
    assert another["difference"] > found["look-up"]["difference"]
    again = found["look-up, place drawn again"]
    assert again["composition"] == pytest.approx(0.02, abs=1e-6)
    assert again["reversibility"] == pytest.approx(0.02, abs=1e-6)
    assert next_class(grid, torch.tensor([[2, 4, 0]]), 1).tolist() == [[2, 0, 0]]
