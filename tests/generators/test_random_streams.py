"""Random streams depend on seed, unit and name alone, and never change."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators.random_streams import cycles_seed, stream

# `stream` wrote these numbers once. The numbers do not matter, but they must never change.
GOLDEN = json.loads((Path(__file__).parent / "golden_streams.json").read_text())


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['seed']} {row['unit']} {row['name']}")
def test_golden_values(row):
    rng = stream(row["seed"], row["unit"], row["name"])
    assert [rng.random() for _ in range(3)] == row["random"]
    assert rng.integers(1000) == row["integer"]
    assert cycles_seed(row["seed"], row["unit"]) == row["cycles_seed"]


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64])
def test_seeds_of_any_size_are_those_of_numpy(seed):
    digest = hashlib.sha256(b"unit\0name").digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))
    assert stream(seed, "unit", "name").random() == expected.random()


def test_a_stream_depends_on_seed_unit_and_name():
    firsts = {
        stream(s, u, n).random() for s in (0, 1) for u in ("a/0", "a/1") for n in ("x", "y", "ab", "ba")
    }
    assert len(firsts) == 16
    # The border between unit and name matters.
    assert stream(0, "ab", "c").random() != stream(0, "a", "bc").random()


def test_streams_of_neighbouring_units_are_unrelated():
    x = np.array([stream(0, f"set/{i:06d}", "x").random() for i in range(2000)])
    y = np.array([stream(0, f"set/{i:06d}", "y").random() for i in range(2000)])
    # 4.5 standard errors of a correlation, and of a mean.
    bound = 4.5 / np.sqrt(2000)
    assert abs(np.corrcoef(x, y)[0, 1]) < bound
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < bound
    assert abs(x.mean() - 0.5) < bound * np.sqrt(1 / 12)


def test_seeds_of_the_renderer_are_in_range_and_differ():
    seeds = [cycles_seed(0, f"set/{i:06d}") for i in range(1000)]
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) == 1000
