"""CSM of the networks of `benchmarks.trials.regimes`, and how often its tests are wrong on rendered images.

    candlelight render relit --out relit
    python -m benchmarks.trials.regimes relit runs
    python -m benchmarks.trials.regimes_csm relit runs CONCEPTS CONTROLS NEGATIVES [--seeds 5]

CONCEPTS, CONTROLS and NEGATIVES are frames of the recipes `concepts`, `concepts-controls` (sets `albedo_pose`
and `illumination_pose`) and `negatives` at 64 x 64 pixels. Gradients are taken on every fifth image of the
set `test` of relit. The first tables have CSM_S and CSM_R, against negatives and against controls, as means
over seeds with intervals (Student's t), and the differences of regimes, paired by seed.

The last table is of rendered nulls: each set of `albedo_pose` is split at random into a "concept" and its
control, two draws of one recipe, between which no test should find a difference. The share of p-values of at
most the level is a mean over networks and branches, with an interval over scenes.
"""

import argparse
import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.processes import print_table
from benchmarks.trials.regimes import REGIMES, weights, with_interval
from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES, CONTROLLED, METRICS
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.run.intervals import seed_interval
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import ConceptSet, open_data

CONDITIONS = (*ALIGNMENTS, *(alignment + CONTROLLED for alignment in ALIGNMENTS))


def main() -> None:
    """Score, and print the tables."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for name in ("frames", "runs", "concepts", "controls", "negatives"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    models: dict[str, Any] = {"retinex": open_model("retinex")}
    for regime, seed in itertools.product(REGIMES, range(given.seeds)):
        models[f"{regime}-{seed}"] = open_model(str(weights(given.runs, seed, regime)))
    negatives = open_data("images", given.negatives)
    test = open_data("decompositions", given.frames, set_name="test", rows=range(0, 300, 5))
    poses = open_data("concepts", given.controls, set_name="albedo_pose")
    albedo, illumination = (
        open_data("concepts", given.concepts, set_name=name) for name in ("albedo", "illumination")
    )
    moved = open_data("concepts", given.controls, set_name="illumination_pose")
    data = CSMData(test, negatives, albedo, illumination, {"albedo": poses, "illumination": moved})
    results = evaluate("csm", data, models, steps=FinishedSteps(given.runs / "csm.partial"))
    print_ratios(results, given.seeds)
    print_sets(results)
    halves = [_halves(one, number) for number, one in enumerate(poses.sets)]
    one, other = (tuple(pair[place] for pair in halves) for place in (0, 1))
    null = CSMData(
        test,
        negatives,
        replace(poses, sets=one, varies=None),
        controls={"albedo": replace(poses, sets=other)},
    )
    nulls = evaluate("csm", null, models, steps=FinishedSteps(given.runs / "nulls.partial"))
    print_null_rates(nulls)
    for name, found in (("csm", results), ("nulls", nulls)):
        text = json.dumps({key: json.loads(one.to_json()) for key, one in found.items()})
        (given.runs / f"{name}.json").write_text(text + "\n")


def _halves(one: ConceptSet, seed: int) -> tuple[ConceptSet, ConceptSet]:
    """Split the images of a set at random."""
    order = torch.randperm(len(one.rows), generator=torch.Generator().manual_seed(seed)).tolist()
    half = len(order) // 2
    rows = [tuple(one.rows[place] for place in part) for part in (order[:half], order[half:])]
    return ConceptSet(one.fixed, rows[0]), ConceptSet(one.fixed, rows[1])


def print_ratios(results: Mapping[str, StatisticResult], seeds: int) -> None:
    """Print CSM over all sets of each regime, and paired differences."""
    columns = [f"{metric} {condition}" for condition in CONDITIONS for metric in METRICS.values()]

    def value(model: str, column: str) -> float:
        return results[model].scores[f"{column}, all sets"].value

    rows: list[list[object]] = []
    for regime in REGIMES:
        cells = [
            with_interval(seed_interval([value(f"{regime}-{seed}", column) for seed in range(seeds)]))
            for column in columns
        ]
        rows.append([regime, *cells])
    rows.append(["retinex", *(f"{value('retinex', column):.4f}" for column in columns)])
    print_table(["", *columns], rows)
    differences = []
    for (one, other), column in itertools.product(itertools.combinations(REGIMES, 2), columns):
        pairs = [value(f"{one}-{seed}", column) - value(f"{other}-{seed}", column) for seed in range(seeds)]
        differences.append([f"{one} - {other}", column, with_interval(seed_interval(pairs))])
    print_table(["difference", "score", "mean"], differences)


def print_sets(results: Mapping[str, StatisticResult]) -> None:
    """Print the mean sensitivity and accuracy, and the share of significant sets, of each regime."""
    rows = []
    for regime, concept, branch, condition in itertools.product(
        (*REGIMES, "retinex"), METRICS, BRANCHES, CONDITIONS[::2]
    ):
        found = [
            one[branch][condition]
            for name, result in results.items()
            if name.rpartition("-")[0] == regime or name == regime
            for one in result.details["sets"]
            if one["concept"] == concept
        ]
        means = [sum(one[key] for one in found) / len(found) for key in ("sensitivity", "cosine", "accuracy")]
        shares = [sum(one[key] < 0.01 for one in found) / len(found) for key in ("t_test_p", "adjusted_p")]
        rows.append([regime, f"{branch} to {concept}", condition, *(f"{one:.3f}" for one in means + shares)])
    columns = ["sensitivity", "cosine", "accuracy", "t-test, p < 0.01", "permutation, adjusted p < 0.01"]
    print_table(["", "sensitivity of", "condition", *columns], rows)


def print_null_rates(results: Mapping[str, StatisticResult]) -> None:
    """Print the shares of rendered nulls that are called significant."""
    rows = []
    for test, level in itertools.product(("permutation_p", "t_test_p"), (0.05, 0.01)):
        scenes = [
            [
                float(sets[branch]["aligned" + CONTROLLED][test] <= level)
                for sets in same
                for branch in BRANCHES
            ]
            for same in zip(*(result.details["sets"] for result in results.values()), strict=True)
        ]
        shares = [sum(scene) / len(scene) for scene in scenes]
        rows.append([test, level, sum(map(len, scenes)), with_interval(seed_interval(shares))])
    print_table(["rendered nulls", "level", "tests", "share"], rows)


if __name__ == "__main__":
    main()
