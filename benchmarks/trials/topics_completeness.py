"""Does completeness rise with the number of topics, and above that of random directions?

    candlelight render parts --out parts
    candlelight train classifier parts --label kind --size 64 --validation 0.25 --out kinds.pt
    python -m benchmarks.trials.topics_completeness parts kinds.pt --out topics.json

The controls have as many random directions, and as many activations of random points of training images, as
topics were found. Intervals are over seeds (Student's t). The second table has the ConceptSHAP shares of the
topics of the first seed, whose sum must be the gain in completeness. OUT with .png shows the first table.
"""

import itertools
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import torch
from torch import Tensor

from benchmarks.processes import print_table
from benchmarks.trials.regimes import with_interval
from benchmarks.trials.studied_classifier import parse_numbers, shared_options, study, unwrapped
from candlelight.evaluation.catalogue.coverage_options import ExplanationOptions
from candlelight.evaluation.coverage.causal_effects import rank_agreement
from candlelight.evaluation.coverage.explained_images import make_method
from candlelight.evaluation.coverage.topic_completeness import (
    Head,
    LabelledMaps,
    ReconstructionTraining,
    completeness,
)
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch, concept_shap, discover_topics
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing
from candlelight.evaluation.run.intervals import seed_interval
from candlelight.evaluation.run.json_values import to_json
from candlelight.evaluation.views.named_streams import named_generator

DIRECTIONS = ("topics", "random directions", "random activations")


class CompletenessCurves(NamedTuple):
    """Completeness by seed, number of topics and kind of `DIRECTIONS`; and numbers of distinct topics."""

    counts: tuple[int, ...]
    completeness: np.ndarray  # [seeds, counts, kinds]
    found: np.ndarray  # [seeds, counts]


def directions_completeness(
    head: Head, train: LabelledMaps, test: LabelledMaps, count: int, how: ReconstructionTraining
) -> dict[str, Tensor]:
    """Compute the completeness of topics, and of as many random directions and activations."""
    topics = discover_topics(train, head, TopicSearch(count), how)
    draws = named_generator(how.seed, "random directions", count)
    chosen = {
        "topics": topics,
        "random directions": torch.randn(topics.shape, generator=draws),
        "random activations": random_activations(train.activations, len(topics), draws),
    }
    scores = [completeness(chosen[kind], head, train, test, how) for kind in DIRECTIONS]
    return {"completeness": torch.tensor(scores, dtype=torch.float64), "found": torch.tensor([len(topics)])}


def random_activations(activations: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw activations [count, dim] that are not 0 from [images, dim, height, width], each point once."""
    points = (activations != 0).any(1).nonzero()
    images, rows, columns = points[torch.randperm(len(points), generator=generator)[:count]].T
    return activations[images, :, rows, columns]


def print_completeness(curves: CompletenessCurves) -> None:
    """Print completeness by number of topics, and its rank correlation with the number."""
    rows: list[list[object]] = []
    for place, count in enumerate(curves.counts):
        at = curves.completeness[:, place]
        differences = [at[:, 0] - at[:, control] for control in (1, 2)]
        cells = [with_interval(seed_interval(some.tolist())) for some in (*at.T, *differences)]
        rows.append([count, f"{curves.found[:, place].mean():.1f}", *cells])
    numbers = torch.tensor(curves.counts).double().expand(len(curves.completeness), -1)
    trends = [
        rank_agreement(torch.from_numpy(curves.completeness[:, :, kind]), numbers).tolist()
        for kind in range(len(DIRECTIONS))
    ]
    rows.append(["rank correlation", "", *(with_interval(seed_interval(some)) for some in trends), "", ""])
    gains = [f"topics - {name}" for name in DIRECTIONS[1:]]
    print_table(["number of topics", "distinct topics", *DIRECTIONS, *gains], rows)


def draw_completeness(curves: CompletenessCurves, path: Path) -> None:
    """Draw completeness by number of topics, with intervals over seeds."""
    with drawing(3.6) as figure:
        axes = figure.subplots()
        for kind, name in enumerate(DIRECTIONS):
            scores = [seed_interval(some.tolist()) for some in curves.completeness[:, :, kind].T]
            values, low, high = np.array([(one.value, one.low, one.high) for one in scores]).T
            reach = (values - low, high - values)
            axes.errorbar(
                curves.counts, values, reach, color=COLOURS[kind], marker="o", capsize=2, label=name
            )
        axes.axhline(1, color=INK, linewidth=0.6)
        axes.set(xlabel="number of topics", ylabel="completeness", xticks=curves.counts)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
        figure.savefig(path, dpi=150, facecolor="white")


def shap_shares(
    head: Head, train: LabelledMaps, test: LabelledMaps, count: int, how: ReconstructionTraining
) -> dict[str, Tensor]:
    """Compute the ConceptSHAP shares of topics, their completeness, and that without topics."""
    topics = discover_topics(train, head, TopicSearch(count), how)
    found = concept_shap(topics, head, train, test, how)
    ends = torch.tensor([found.completeness, found.without], dtype=torch.float64)
    return {"shares": found.values, "ends": ends}


def print_shares(shares: Tensor, ends: Tensor) -> None:
    """Print ConceptSHAP shares, and how far their sum is from the gain in completeness."""
    full, without = ends.tolist()
    ordered = shares.sort(descending=True).values
    cells = [", ".join(f"{one:.3f}" for one in ordered.tolist()), float(shares.sum()), full - without]
    print_table(
        ["topics", "ConceptSHAP", "sum", "gain", "completeness", "without topics", "|sum - gain|"],
        [[len(shares), *cells, full, without, f"{abs(float(shares.sum()) - full + without):.1e}"]],
    )


@click.command(help=unwrapped(__doc__))
@shared_options
@click.option("--counts", default="1,2,3,5,8,12,16", show_default=True, help="Numbers of topics.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--shap-topics", default=6, show_default=True, help="Topics of ConceptSHAP; 0 omits it.")
def main(
    data: str, model: str, fit_limit: int | None, out: Path, counts: str, seeds: int, shap_topics: int
) -> None:
    """Run the study."""
    numbers = tuple(int(one) for one in parse_numbers(counts))
    with study(data, model, out, fit_limit) as studied:
        layer = studied.network.explained_layer
        method = make_method("topics", studied.network, layer, ExplanationOptions())
        assert isinstance(method, TopicMethod)
        head = method.head
        train, test = (
            method.layer(one.images, one.labels) for one in (studied.fitted.training, studied.test)
        )
        cells: list[dict[str, Tensor]] = []
        for seed, count in itertools.product(range(seeds), numbers):
            how = ReconstructionTraining(seed)
            compute = partial(directions_completeness, head, train, test, count, how)
            cells.append(studied.get_or_compute(compute, study="completeness", seed=seed, count=count))
        shape = seeds, len(numbers), -1
        table = np.array([one["completeness"].tolist() for one in cells]).reshape(shape)
        found = np.array([int(one["found"]) for one in cells]).reshape(shape[:2])
        curves = CompletenessCurves(numbers, table, found)
        content: dict[str, Any] = {"model": studied.fitted.named.identity.name, "kinds": DIRECTIONS}
        print_completeness(curves)
        draw_completeness(curves, out.with_suffix(".png"))
        if shap_topics:
            compute = partial(shap_shares, head, train, test, shap_topics, ReconstructionTraining(0))
            shap = studied.get_or_compute(compute, study="shares", count=shap_topics)
            print_shares(**shap)
            content["shap"] = shap
        out.write_text(to_json(content | curves._asdict()), encoding="utf-8")


if __name__ == "__main__":
    main()
