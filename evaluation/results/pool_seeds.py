"""Mean scores of models that differ in their seed alone."""

import re
from collections.abc import Sequence
from dataclasses import replace

from candlelight.evaluation.results.mean_intervals import seed_interval
from candlelight.evaluation.results.result import StatisticResult, model_name

_SEED = re.compile(r"(.+)#(\d+)")


def pool_seeds(results: Sequence[StatisticResult]) -> list[StatisticResult]:
    """Make a result for each method of several seeds, whose models are named METHOD#SEED.

    Args:
        results: results of one call; names of another form are left out.

    Returns:
        For each method with two seeds or more, the mean of each score and its 95 % interval over seeds, with
        the values of the seeds as replicates. The interval describes other seeds on the same data.

    Example:
        >>> from candlelight.evaluation.results.mean_intervals import Score
        >>> from candlelight.evaluation.results.result import Provenance
        >>> def result(name, value):
        ...     about = Provenance("causal", 4, "higher", {"name": name}, {}, {}, {})
        ...     return StatisticResult(about, {"irs": Score(value, 0, 1)}, {}, (), (), {})
        >>> pooled = pool_seeds([result("vae#0", 0.25), result("vae#1", 0.75), result("net", 0.1)])
        >>> [(model_name(one), one.score) for one in pooled]
        [('vae, 2 seeds', 0.5)]
    """
    methods: dict[str, dict[int, StatisticResult]] = {}
    for result in results:
        if found := _SEED.fullmatch(model_name(result)):
            methods.setdefault(found[1], {})[int(found[2])] = result
    return [_pool(name, seeds) for name, seeds in methods.items() if len(seeds) > 1]


def _pool(name: str, seeds: dict[int, StatisticResult]) -> StatisticResult:
    some = [seeds[seed] for seed in sorted(seeds)]
    shared = [score for score in some[0].scores if all(score in one.scores for one in some)]
    values = {score: tuple(one.scores[score].value for one in some) for score in shared}
    model = {"name": f"{name}, {len(some)} seeds", "source": "seeds", "seeds": sorted(seeds)}
    scores = {score: seed_interval(column) for score, column in values.items()}
    # Codes of different seeds do not correspond, so lists and tables of the details have no mean.
    details = {label: type(part)() for label, part in some[0].details.items()} | {"seeds": len(some)}
    return StatisticResult(replace(some[0].about, model=model), scores, values, (), (), details)
