import numpy as np
import pytest
import torch

from candlelight.evaluation.concepts import rows as module
from candlelight.evaluation.concepts.rows import SharedRows, mean_row, products_about_mean
from tests.refusals import refused


def _blocks(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, 23, generator=generator).to(dtype) + 100 for rows in (4, 3)]


def _plain(others, shared, vectors):
    """Compute Gram matrix, products and offsets in float64 without slices."""
    mean = shared.double().mean(0)
    rows = torch.cat([others, shared]).double() - mean
    return rows @ rows.T, vectors.double() @ rows.T, rows @ mean


@pytest.mark.parametrize("elements", [1, 50, 1 << 19], ids=["column by column", "slices", "whole"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_products_do_not_depend_on_the_slices(monkeypatch, elements, dtype, tolerance):
    monkeypatch.setattr(module, "_SLICE_ELEMENTS", elements)
    others, rows = _blocks(0, dtype)
    vectors = torch.randn(5, 23, generator=torch.Generator().manual_seed(1), dtype=dtype)
    shared = SharedRows(rows, [vectors[:2], vectors[2:]])
    expected = _plain(others, rows, vectors)
    gram, products = shared.stacked(others)
    np.testing.assert_allclose(gram, expected[0], atol=10 * tolerance)
    np.testing.assert_allclose(torch.cat(products), expected[1], atol=10 * tolerance)
    # The mean of the shared rows is 100 times as long as the vectors.
    weights = torch.tensor([0.5, 0.2, 0.2, 0.1, -0.4, -0.4, -0.2], dtype=torch.float64)
    assert abs(weights @ (shared.offsets(others) - expected[2])) < 1000 * tolerance
    alone, products = shared.stacked()
    np.testing.assert_allclose(alone, expected[0][4:, 4:], atol=10 * tolerance)
    np.testing.assert_allclose(torch.cat(products), expected[1][:, 4:], atol=10 * tolerance)
    found = products_about_mean(vectors, [others, rows])
    np.testing.assert_allclose(found, expected[1], atol=10 * tolerance)


def test_long_rows_lose_little_to_float32():
    generator = torch.Generator().manual_seed(3)
    others, rows = torch.rand(9, 200_000, generator=generator), torch.rand(11, 200_000, generator=generator)
    gram, _ = SharedRows(rows).stacked(others)
    expected, _, _ = _plain(others, rows, others)
    assert float((gram - expected).abs().max() / expected.diagonal().mean()) < 2e-7


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_equal_rows_give_exact_zeros(dtype):
    rows = torch.rand(1, 17, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
    shared = SharedRows(rows.expand(3, -1), [torch.ones(2, 17)])
    gram, (products,) = shared.stacked(rows.expand(5, -1))
    assert (gram == 0).all()
    assert (products == 0).all()
    assert (shared.offsets(rows) == 0).all()
    assert torch.equal(mean_row(rows.expand(7, -1)).to(dtype), rows[0])


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e25])
def test_products_beyond_the_range_of_float32(scale):
    others, rows = ((block - 100) * scale for block in _blocks(4))
    vectors = torch.tensor([[1.0], [scale]]) * torch.ones(2, 23)
    gram, (products,) = SharedRows(rows, [vectors]).stacked(others)
    expected = _plain(others, rows, vectors)
    np.testing.assert_allclose(gram / scale**2, expected[0] / scale**2, atol=1e-4)
    np.testing.assert_allclose(products[0] / scale, expected[1][0] / scale, atol=1e-4)
    np.testing.assert_allclose(products[1] / scale**2, expected[1][1] / scale**2, atol=1e-4)


def test_rows_of_another_length_are_refused(monkeypatch):
    monkeypatch.setattr(module, "_SLICE_ELEMENTS", 1)
    short, long = torch.ones(2, 5), torch.ones(2, 6)
    with refused(r"`others` \[others, dim\].*got \[2, 5\], \[2, 6\]"):
        SharedRows.stacked(SharedRows(long), short)
    with refused(r"`vectors\[0\]` \[_, dim\].*got \[2, 6\], \[2, 5\]"):
        SharedRows(long, [short])
    with refused(r"`vectors` \[vectors, dim\].*got \[2, 6\], \[2, 5\]"):
        products_about_mean(long, [short])
