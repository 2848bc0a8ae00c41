r"""Compute all metrics of codes on codes with known truth, and write docs/causal-validity.md.

    python -m benchmarks.trials.causal_validity RESULTS

The factors are those of planned images of several recipes, drawn again for each seed; the codes are those of
`planted_codes`. Values are kept in a file for each metric in RESULTS, so that only a new metric is computed,
and the page and its pictures can be written again. `dci_fast` stands for `dci`, whose values are the same for
so few rows.
"""

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.trials.planned_factors import FACTOR_SOURCES, planned_counterfactuals, planned_factors
from benchmarks.trials.validity_grid import draw_grid
from benchmarks.trials.validity_page import write_page
from benchmarks.trials.validity_pictures import draw_reasons
from benchmarks.trials.validity_rule import CLAIMS
from candlelight.evaluation.causal.control_codes import PLANTED_CODES, PlantedName, planted_codes
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.irs import irs_by_interventions
from candlelight.evaluation.causal.measure_codes import CODE_METRICS, OFF_DIAGONAL
from candlelight.loaders.errors import InputError

SEEDS, SLOW_SEEDS = 5, 3
ROWS, SLOW_ROWS = 1000, 400
FAST = ("irs", "unconfoundedness", "mig", "modularity", "minimality")  # all others have `SLOW_ROWS` images
INTERVENTIONS, UNITS = "irs_do", 100  # images, each with two counterfactuals of every factor
SLOWEST = ("dci_fast", "dci_es", "mcc", "blocks", INTERVENTIONS)  # have `SLOW_SEEDS` seeds
WITHOUT = {
    "dci_fast": ("candle-confounded-color 0.5", "candle-confounded-size 1", "teapot"),
    "blocks": ("candle, 100 images", "candle-confounded-color 0.5", "candle-confounded-size 1"),
}
METRICS = (*(name for name in CODE_METRICS if name != "dci"), INTERVENTIONS)
DOCS = Path(__file__).parents[2] / "docs"


# By name of the table of factors, score and codes: a value for each seed.
Matrix = dict[str, dict[str, dict[PlantedName, list[float]]]]


@cache
def drawn_factors(title: str, rows: int, seed: int) -> FactorTable:
    """Plan images once for all metrics of a process."""
    return planned_factors(FACTOR_SOURCES[title], rows, seed)


def scores_of(name: str, codes: torch.Tensor, table: FactorTable, seed: int) -> dict[str, float]:
    """Compute the scores of one metric, none if the metric refuses the codes or the factors.

    Scores of which lower values are better are subtracted from 1.
    """
    draws = torch.Generator().manual_seed(seed)
    training = torch.randperm(len(codes), generator=draws) % 2 == 0
    try:
        found = CODE_METRICS[name].compute(codes, table, training, seed).scores
    except InputError:
        return {}
    lower = {f"1 - {score}": 1 - value for score, value in found.items() if score.endswith(OFF_DIAGONAL)}
    left_out = ("candle2021", OFF_DIAGONAL)
    return {score: value for score, value in found.items() if not score.endswith(left_out)} | lower


def intervened_scores(title: str, seed: int) -> dict[PlantedName, dict[str, float]]:
    """Score all planted codes of images and of their counterfactuals by interventions."""
    table, rows, samples, changed = planned_counterfactuals(FACTOR_SOURCES[title], UNITS, seed)
    found = {}
    for kind in PLANTED_CODES:
        codes = planted_codes(kind, table.values, seed)
        given = codes[rows], codes[len(rows) :], samples, changed
        found[kind] = {INTERVENTIONS: float(irs_by_interventions(*given).score)}
    return found


def run_job(metric: str, title: str, seed: int) -> tuple[dict[PlantedName, dict[str, float]], float]:
    """Score all planted codes by one metric on one draw of a table of factors, and measure CPU seconds."""
    torch.set_num_threads(1)
    started = time.process_time()
    if metric == INTERVENTIONS:
        return intervened_scores(title, seed), time.process_time() - started
    table = drawn_factors(title, ROWS if metric in FAST else SLOW_ROWS, seed)
    found = {
        kind: scores_of(metric, planted_codes(kind, table.values, seed), table, seed)
        for kind in PLANTED_CODES
    }
    return found, time.process_time() - started


def run_metric(metric: str, pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Compute the scores of one metric in all tables of factors."""
    titles = [title for title in FACTOR_SOURCES if title not in WITHOUT.get(metric, ())]
    matrix: Matrix = {title: {} for title in titles}
    jobs = list(product([metric], titles, range(SLOW_SEEDS if metric in SLOWEST else SEEDS)))
    seconds = 0.0
    scored = pool.map(run_job, *zip(*jobs, strict=True))
    for (_, title, seed), (found, spent) in zip(jobs, scored, strict=True):
        seconds += spent
        add_seed(matrix[title], found, seed)
    print(f"{metric}: {seconds:.0f} CPU s", flush=True)
    return {"matrix": matrix, "seconds": seconds}


def add_seed(
    table: dict[str, dict[PlantedName, list[float]]], found: dict[PlantedName, dict[str, float]], seed: int
) -> None:
    """Append the values of one seed to each list; nan for codes without the score."""
    for score in dict.fromkeys([*table, *(score for scores in found.values() for score in scores)]):
        lists = table.setdefault(score, {kind: [math.nan] * seed for kind in found})
        for kind, scores in found.items():
            lists[kind].append(scores.get(score, math.nan))


def class_sizes() -> dict[str, tuple[int, int]]:
    """Count the images of the rarest value of a factor, in tables of `ROWS` and of `SLOW_ROWS` images."""
    tables = {
        title: [drawn_factors(title, rows, 0) for rows in (ROWS, SLOW_ROWS)] for title in FACTOR_SOURCES
    }
    return {title: (rarest(one), rarest(other)) for title, (one, other) in tables.items()}


def rarest(table: FactorTable) -> int:
    """Count the images of the rarest class of any factor."""
    return min(int(torch.bincount(column).min()) for column in table.classes.T)


def main() -> None:
    """Compute the metrics that are missing, then write the page and its pictures."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("results", type=Path, help="folder of the values")
    folder = parser.parse_args().results
    folder.mkdir(exist_ok=True)
    matrix: Matrix = {title: {} for title in FACTOR_SOURCES}
    seconds = 0.0
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for metric in METRICS:
            file = folder / f"{metric}.json"
            if not file.exists():
                file.write_text(json.dumps(run_metric(metric, pool)) + "\n")
            kept = json.loads(file.read_text())
            seconds += kept["seconds"]
            for title, scores in kept["matrix"].items():
                matrix[title].update(scores)
    if unknown := {score for table in matrix.values() for score in table} - set(CLAIMS):
        raise SystemExit(f"{', '.join(unknown)}: state in validity_rule.CLAIMS which properties it measures")
    print(f"{seconds:.0f} CPU s")
    write_page(DOCS / "causal-validity.md", matrix, class_sizes())
    draw_grid(DOCS / "causal-validity.png", matrix)
    draw_reasons(DOCS)


if __name__ == "__main__":
    main()
