"""Measure how often concept sets are called significant: by permutation, and by the paper's t-test.

    python -m benchmarks.metrics.concept_calibration [--runs 2000]

Activations of 200 numbers, 42 test inputs, 999 exchanges. Concept and control images are drawn from one
distribution, and the concept's may be moved along a random unit vector v; the gradients are a common
direction plus noise of the same length. "Correlated" features have standard deviations 1, 1/2, 1/3, ... The
move is given in standard deviations of the mean feature. Columns: share of the runs with a p-value of at most
the level, for the mean derivative along the difference of means ("mean"), for the share of inputs along the
same vector, for the mean derivative along its unit vector and along that of ridge; and for the t-test with
100 SVMs, against 60 negatives that are drawn like the control images, in a fifth of the runs. "Cosine" is the
mean cosine of the difference of means with v. The last row is a run of 10 sets of the first kind with one
control, corrected for the number of sets: the share of half as many runs in which any set is significant.
About four minutes.
"""

import argparse
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.processes import print_table
from evaluation.concepts.cav import fit_concept, fit_random
from evaluation.concepts.exchanged_vectors import exchange_derivatives
from evaluation.concepts.gram import SharedRows
from evaluation.concepts.permutation_test import input_scores, permutation_test
from evaluation.concepts.sensitivity import derivatives_along, significant

DIM, INPUTS, NEGATIVES, SETS = 200, 42, 60, 10
LEVELS = 0.05, 0.01


@dataclass(frozen=True)
class Case:
    """A distribution of images and gradients.

    Attributes:
        name: words for the table.
        sizes: images of the concept set and of its control.
        move: distance by which the concept's images are moved along v.
        cosine: cosine of the common direction of the gradients with v.
        correlated: whether the features differ in their spread, and v with them.
        skewed: whether activations are lognormal instead of normal.
        spread: standard deviation of the concept's images, relative to the control's.
    """

    name: str
    sizes: tuple[int, int] = (30, 30)
    move: float = 0
    cosine: float = 0
    correlated: bool = False
    skewed: bool = False
    spread: float = 1


CASES = (
    Case("nothing"),
    Case("nothing, 20 and 60 images, correlated, skewed", (20, 60), correlated=True, skewed=True),
    Case("nothing, but three times the spread", spread=3),
    Case("nothing, but three times the spread, 20 and 60 images", (20, 60), spread=3),
    Case("moved by 4.9, gradients at right angles to v", move=4.9),
    Case("the same, correlated", move=4.9, correlated=True),
    Case("moved by 4.9, cosine of gradients 0.2", move=4.9, cosine=0.2),
    Case("moved by 50, cosine of gradients 0.2", move=50, cosine=0.2),
)


class Simulation:
    """Images, gradients and v of one run."""

    def __init__(self, case: Case, seed: int, sets: int = 1) -> None:
        stream = torch.Generator().manual_seed(seed)
        spreads = 1 / torch.arange(1, DIM + 1) if case.correlated else torch.ones(DIM)

        def rows(count: int) -> Tensor:
            drawn = torch.randn(count, DIM, generator=stream)
            return (drawn.exp() if case.skewed else drawn) * spreads

        def direction() -> Tensor:
            drawn = torch.randn(DIM, generator=stream) * spreads
            return drawn / drawn.norm()

        self.v = direction()
        across = direction()
        across = across - (across @ self.v) * self.v
        common = case.cosine * self.v + (1 - case.cosine**2) ** 0.5 * across / across.norm()
        noise = torch.randn(INPUTS, DIM, generator=stream) / DIM**0.5
        if case.cosine == 0:
            noise -= (noise @ self.v)[:, None] * self.v
        self.gradients = common + noise
        self.control, self.negatives = rows(case.sizes[1]), rows(NEGATIVES)
        shift = case.move * spreads.square().mean().sqrt() * self.v
        self.concepts = [case.spread * rows(case.sizes[0]) + shift for _ in range(sets)]


def mean_scores(simulation: Simulation, number: int, seed: int, score: str, **options: str) -> Tensor:
    """Score one concept set of a simulation and its exchanges."""
    concept, control = simulation.concepts[number], simulation.control
    derivatives = exchange_derivatives(concept, control, simulation.gradients, seed=seed, **options)  # type: ignore[arg-type]
    return input_scores(derivatives, score).mean(1)  # type: ignore[arg-type]


def paper_p_value(simulation: Simulation, seed: int) -> float:
    """Compute the p-value of the t-test as `evaluation.concepts.score_concepts` does."""
    concept, stream = simulation.concepts[0], torch.Generator().manual_seed(seed)
    shared = SharedRows(simulation.negatives, [simulation.gradients])
    gram, (products,) = shared.stacked(concept)
    fit = fit_concept(gram, len(concept), stream)
    null_gram, (null_products,) = shared.stacked()
    null = fit_random(null_gram, min(len(concept), NEGATIVES // 2), stream)
    shares = [
        (derivatives_along(one.weights, some) < 0).double().mean(1)
        for one, some in ((fit, products), (null, null_products))
    ]
    return significant(*shares).p_value


def rates(case: Case, runs: int) -> list[str]:
    """Measure one row of the table."""
    variants = {
        "mean": {"score": "derivative"},
        "share": {"score": "share"},
        "unit": {"score": "derivative", "length": "unit"},
        "ridge": {"score": "derivative", "fit": "ridge", "length": "unit"},
    }
    draws: dict[str, list[Tensor]] = {name: [] for name in variants}
    paper, cosines = [], []
    for seed in range(runs):
        simulation = Simulation(case, seed)
        for name, options in variants.items():
            draws[name].append(mean_scores(simulation, 0, seed, **options))
        difference = simulation.concepts[0].mean(0) - simulation.control.mean(0)
        cosines.append(float(difference @ simulation.v / difference.norm()))
        if seed % 5 == 0:
            paper.append(paper_p_value(simulation, seed))
    found = {name: permutation_test(torch.stack(one)).p_value for name, one in draws.items()}
    found["t"] = torch.tensor(paper, dtype=torch.float64)
    return [case.name, *shares_found(found), f"{sum(cosines) / runs:.2f}"]


def shares_found(p_values: dict[str, Tensor]) -> list[str]:
    """Format the shares of p-values of at most each level."""
    return [
        f"{float((one <= level).double().mean()):.3f}"
        for name, one in p_values.items()
        for level in (LEVELS if name in ("mean", "share", "t") else LEVELS[:1])
    ]


def family_rates(runs: int) -> list[str]:
    """Measure how often any of several sets of one run is significant after correction."""
    smallest: dict[str, list[Tensor]] = {"mean": [], "share": []}
    for seed in range(runs):
        simulation = Simulation(CASES[0], seed, SETS)
        for name, score in (("mean", "derivative"), ("share", "share")):
            scores = [mean_scores(simulation, number, seed, score) for number in range(SETS)]
            smallest[name].append(permutation_test(torch.stack(scores)).adjusted.min())
    found = {name: torch.stack(one) for name, one in smallest.items()}
    return [f"nothing, any of {SETS} sets, corrected", *shares_found(found), *[""] * 5]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    both = [f"{name} {level}" for name in ("mean", "share") for level in LEVELS]
    header = ("the concept does", *both, "unit 0.05", "ridge 0.05", "t-test 0.05", "t-test 0.01", "cosine")
    print_table(header, [*(rates(case, runs) for case in CASES), family_rates(runs // 2)])


if __name__ == "__main__":
    main()
