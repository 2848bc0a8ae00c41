"""Decoders that cheat, beside the true one: `benchmarks.trials.cheating_decoders`."""

import functools

import pytest

from benchmarks.trials import cheating_decoders
from candlelight.evaluation.run.intervals import resampled_interval

NEW = "rendered_counterfactual(1)"


def test_no_cheat_comes_near_the_truth(monkeypatch):
    # The intervals are not looked at.
    few = functools.partial(resampled_interval, resamples=2)
    monkeypatch.setattr("candlelight.evaluation.causal.score_counterfactuals.resampled_interval", few)
    monkeypatch.setattr(cheating_decoders, "SIDE", 24)
    monkeypatch.setattr(cheating_decoders, "FACTORS", dict.fromkeys(cheating_decoders.FACTORS, 3))
    found = cheating_decoders.score_decoders()
    cheating_decoders.check_order(found)
    scores = {name: one for name, (one, _) in found.items()}
    truth = scores.pop("truth")
    assert truth[f"{NEW}, changed region"] == pytest.approx(1, abs=1e-5)
    assert max(one[f"{NEW}, changed region"] for one in scores.values()) < 0.8
    # The share compares a decoder with itself, so that a blur of the truth has 1: it cannot stand alone.
    assert scores["blur of 17 pixels"][f"{NEW}, share"] == pytest.approx(1, abs=1e-5)
    # Another factor that moves elsewhere in the image does not show in the region of this one.
    entangled = scores["truth, another factor changed too"]
    assert entangled[NEW] < 0 < entangled[f"{NEW}, changed region"]
    assert entangled[f"{NEW}, share"] < -1  # negative values are not cut
    controls = ("input given back", "mean image", "nearest other frame")
    values = [truth[f"rendered_counterfactual, {name}, changed region"] for name in controls]
    assert values[0] == 0 < values[1] < values[2] < 0.5
    details = found["constant gray"][1]
    assert len(details["not_decoded"]) == len(details["factors"]) == 4
