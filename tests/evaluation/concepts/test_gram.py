from inspect import unwrap

import numpy as np
import pytest
import torch

from evaluation.concepts import gram as module
from evaluation.concepts.gram import centred_gram, centred_products
from loaders.errors import InputError


def _blocks(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, 23, generator=generator).to(dtype) + 100 for rows in (4, 3)]


@pytest.mark.parametrize("elements", [1, 50, 1 << 23], ids=["column by column", "slices", "whole"])
def test_slices_do_not_matter(monkeypatch, elements):
    monkeypatch.setattr(module, "_SLICE_ELEMENTS", elements)
    blocks = _blocks(0)
    rows = torch.cat(blocks).double().numpy()
    mean = rows.mean(0)
    gram, shift = centred_gram(blocks)
    np.testing.assert_allclose(gram, (rows - mean) @ (rows - mean).T, atol=1e-9)
    np.testing.assert_allclose(shift, (rows - mean) @ mean, atol=1e-6)
    vectors = torch.randn(5, 23, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(
        centred_products(vectors, blocks), vectors.double().numpy() @ (rows - mean).T, atol=1e-9
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_equal_rows_give_exact_zeros(dtype):
    rows = torch.rand(1, 17, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
    blocks = [rows.expand(5, -1), rows.expand(3, -1)]
    assert (centred_gram(blocks)[0] == 0).all()
    assert (centred_products(torch.ones(2, 17), blocks) == 0).all()


def test_small_differences_between_large_rows_survive():
    rows = torch.full((4, 10), 1000.0)
    rows[0, 0] += 2.0**-10
    gram, _ = centred_gram([rows])
    np.testing.assert_allclose(gram[0, 0], (0.75 * 2.0**-10) ** 2, rtol=1e-12)


def test_longer_rows_are_not_cut_in_silence(monkeypatch):
    monkeypatch.setattr(module, "_SLICE_ELEMENTS", 1)
    short, long = torch.ones(2, 5), torch.ones(2, 6)
    with pytest.raises(InputError, match=r"`blocks\[0\]` \[_, dim\].*got \[2, 5\], \[2, 6\]"):
        unwrap(centred_gram)([short, long])
    with pytest.raises(InputError, match=r"`vectors` \[vectors, dim\].*got \[2, 6\], \[2, 5\]"):
        unwrap(centred_products)(long, [short])
