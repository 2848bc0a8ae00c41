"""Planned samples in compressed form: equal to a list of samples, in less memory."""

import tracemalloc
import zlib

import pytest

from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.planned_samples import compress_samples

COUNT = 40


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("negatives", [f"sets.negatives.draws={COUNT}"]))


def test_compression_changes_no_sample(plan):
    samples = list(plan.samples)
    assert [sample.model_dump_json() for sample in compress_samples(samples)] == [
        s.model_dump_json() for s in samples
    ]
    assert compress_samples(samples) == plan.samples
    assert list(plan.samples.records()) == [sample.model_dump(mode="json") for sample in samples]
    assert [(key.id, key.set, key.index, key.group) for key in plan.samples.keys] == [
        (s.id, s.set, s.index, s.group) for s in samples
    ]


def test_samples_are_indexed_as_in_a_list(plan):
    samples = list(plan.samples)
    assert (len(plan.samples), plan.samples[-1]) == (COUNT, samples[-1])
    assert list(plan.samples[::-3]) == samples[::-3]
    assert list(plan.samples[5:30].take([3, 20, 3])) == [samples[8], samples[25], samples[8]]
    assert list(plan.samples[5:].where(lambda key: key.index % 7 == 0)) == samples[7::7]
    assert plan.samples != compress_samples(samples[1:])
    with pytest.raises(IndexError):
        plan.samples[COUNT]


def test_one_sample_is_found_without_decompressing_the_others(plan, monkeypatch):
    decompressed, decompress = [], zlib.decompress
    monkeypatch.setattr(zlib, "decompress", lambda block: decompressed.append(block) or decompress(block))
    assert plan[f"negatives-{COUNT - 1:06d}"].samples[0].index == COUNT - 1
    assert len(set(decompressed)) == 1


def test_a_sample_takes_less_than_a_thousand_bytes(plan):
    samples = list(plan.samples)
    compress_samples(samples)
    tracemalloc.start()
    kept = compress_samples(samples)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken / len(kept) < 1000
