"""Run the benchmark of Grosse et al. 2009 for ``candlelight evaluate intrinsic --methods``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from candlelight.loaders.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from candlelight.evaluation.intrinsic.score_methods import BenchmarkRun
    from candlelight.evaluation.run.result import Result
    from candlelight.evaluation.run.steps import FinishedSteps
    from candlelight.evaluation.views import Decompositions


def method_names(text: str) -> tuple[str, ...]:
    """Read the names of ``--methods``: `all`, or names separated by commas.

    Raises:
        InputError: no such method.
    """
    from candlelight.evaluation.intrinsic.benchmark_methods import METHODS

    given = [name.strip().upper() for name in text.split(",") if name.strip()]
    names = METHODS if given == ["ALL"] else tuple(dict.fromkeys(given))
    if not names:
        raise InputError(f"--methods: expected all, or some of {', '.join(METHODS)}, got none")
    if unknown := [name for name in names if name not in METHODS]:
        known, near = ", ".join(METHODS), did_you_mean(unknown[0], METHODS)
        raise InputError(f"--methods: expected all, or some of {known}, got `{unknown[0]}`{near}")
    return names


def needs_lights(names: Sequence[str]) -> bool:
    """Tell whether a method needs images under several lights."""
    from candlelight.evaluation.intrinsic.benchmark_methods import GRADIENT_METHODS

    return any(GRADIENT_METHODS[name].takes_lights for name in names if name in GRADIENT_METHODS)


def run_benchmark(
    names: Sequence[str], view: "Decompositions", sources: Mapping[str, Any], l1: bool, steps: "FinishedSteps"
) -> "BenchmarkRun":
    """Run methods of the benchmark.

    Args:
        names: methods.
        view: the data.
        sources: models and files that are scored beside the methods.
        l1: whether to integrate gradients with p = 1 too.
        steps: finished steps.

    Raises:
        InputError: a model has the name of a method, or the data do not suffice.
    """
    from candlelight.evaluation.intrinsic.benchmark_methods import FIXED_BASELINES, METHODS
    from candlelight.evaluation.intrinsic.score_methods import ABSOLUTE, score_methods

    taken = {*METHODS, *FIXED_BASELINES, *(name + ABSOLUTE for name in METHODS)}
    if same := taken & sources.keys():
        raise InputError(f"`{min(same)}` is the name of a method; give the model another name: NAME=SPEC")
    return score_methods(view, names, absolute=l1, steps=steps)


def rank_results(results: Mapping[str, Any]) -> "tuple[list[Result], list[str]]":
    """Add ranks to results, and sort them: the lowest LMSE first. Return their table and comparisons too."""
    from candlelight.evaluation.intrinsic.score_methods import (
        add_ranks,
        in_order,
        neighbour_comparisons,
        summary_rows,
    )
    from candlelight.evaluation.run.result import align_columns

    ranked = in_order(add_ranks(results))
    return [*ranked], [align_columns(summary_rows(ranked)), *map(str, neighbour_comparisons(ranked))]
