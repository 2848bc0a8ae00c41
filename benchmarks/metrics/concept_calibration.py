"""Measure how often concept sets are called significant: by permutation, and by the paper's t-test.

    python -m benchmarks.metrics.concept_calibration [--runs 2000]

Activations of 200 numbers, 42 test inputs, 499 exchanges. Concept and control images are drawn from one
distribution, and the concept's may be moved along a random unit vector v; the gradients are a common
direction plus noise of the same length. "Correlated" features have standard deviations 1, 1/2, 1/3, ... The
move is given in root mean square standard deviations of a feature.

Columns: share of the runs with a p-value of at most the level. "Derivative" and "share" are the scores of
`input_scores` for the defaults; "fitted" and "unit" are the derivative for these lengths of the vector, and
"ridge" for unit vectors of ridge. "T-test" is the paper's with 100 SVMs, against 60 negatives that are drawn
like the control images, in a tenth of the runs. "Cosine" is the mean cosine of the difference of means with
v. The last row is a run of 10 sets of the first kind with one control, corrected for the number of sets: the
share of runs, a quarter as many, in which any set is significant. Two CPU minutes on an idle machine.

The second table has images of scenes, of correlation 1/2 within a scene: the share of a fifth of the runs
that is significant at 0.05 with 299 exchanges of single images, and of scenes (`exchange_by_group`), for a
concept that does nothing and for one that moves its images by 1 along the mean gradient.
"""

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.processes import print_table
from candlelight.evaluation.concepts.cav import fit_concept, fit_random
from candlelight.evaluation.concepts.permutation import (
    exchanged_members,
    gram_exchange_derivatives,
    input_scores,
    permutation_test,
)
from candlelight.evaluation.concepts.rows import SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import derivatives_along, significant

DIM, INPUTS, NEGATIVES, SETS = 200, 42, 60, 10
EXCHANGES = 499
BOTH, ONE = (0.05, 0.01), (0.05,)
COLUMNS = {"derivative": BOTH, "share": BOTH, "fitted": ONE, "unit": ONE, "ridge": ONE, "t-test": BOTH}


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


# Images of each scene, of the concept and of its control.
SCENES: tuple[tuple[str, tuple[list[int], list[int]]], ...] = (
    ("4 and 4 of 8 images", ([8] * 4, [8] * 4)),
    ("10 and 10 of 4 images", ([4] * 10, [4] * 10)),
    ("5 and 5 of 1 to 16 images", ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16])),
    ("4 of 20 images, 80 of 1", ([20] * 4, [1] * 80)),
    ("8 in both, 4 images in each", ([4] * 8, [])),
    ("1 in both, 32 images in each", ([32], [])),
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


def variants(simulation: Simulation, number: int, members: Tensor) -> dict[str, Tensor]:
    """Score one concept set of a simulation and its exchanges with every variant of the test."""
    products = inner_products(simulation, number)
    student = gram_exchange_derivatives(*products, members)
    return {
        "derivative": input_scores(student).mean(1),
        "share": input_scores(student, "share").mean(1),
        "fitted": -gram_exchange_derivatives(*products, members, length="fitted").mean(1),
        "unit": -gram_exchange_derivatives(*products, members, length="unit").mean(1),
        "ridge": -gram_exchange_derivatives(*products, members, "ridge", "unit").mean(1),
    }


def inner_products(simulation: Simulation, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute Gram matrix, products and lengths of one concept set with its control."""
    shared = SharedRows(simulation.control, [simulation.gradients])
    gram, (products,) = shared.stacked(simulation.concepts[number])
    return gram, products, simulation.gradients.norm(dim=1)


def paper_p_value(simulation: Simulation, seed: int) -> float:
    """Compute the p-value of the t-test as the evaluation `csm` does."""
    concept, stream = simulation.concepts[0], torch.Generator().manual_seed(seed)
    shared = SharedRows(simulation.negatives, [simulation.gradients])
    gram, (products,) = shared.stacked(concept)
    fit = fit_concept(gram, len(concept), stream)
    null_gram, (null_products,) = shared.stacked()
    null = fit_random(null_gram, min(len(concept), NEGATIVES // 2), stream)
    lengths = row_norms(simulation.gradients)
    shares = (derivatives_along(fit.weights, products, fit.norm, lengths) < 0).double().mean(1)
    null_derivatives = derivatives_along(null.weights, null_products, null.norm, lengths)
    null_shares = (null_derivatives < 0).double().mean(1)
    return significant(shares, null_shares).p_value


def rates(case: Case, runs: int) -> list[str]:
    """Measure one row of the table."""
    draws: list[dict[str, Tensor]] = []
    paper, cosines = [], []
    for seed in range(runs):
        simulation = Simulation(case, seed)
        draws.append(variants(simulation, 0, exchanged_members(*case.sizes, EXCHANGES, seed)))
        difference = simulation.concepts[0].mean(0) - simulation.control.mean(0)
        cosines.append(float(difference @ simulation.v / difference.norm()))
        if seed % 10 == 0:
            paper.append(paper_p_value(simulation, seed))
    stacked = {name: torch.stack([one[name] for one in draws]) for name in draws[0]}
    found = {name: permutation_test(one).p_value for name, one in stacked.items()}
    found["t-test"] = torch.tensor(paper, dtype=torch.float64)
    return [case.name, *shares_found(found), f"{sum(cosines) / runs:.2f}"]


def shares_found(p_values: dict[str, Tensor]) -> list[str]:
    """Format the shares of p-values of at most each level."""
    return [
        f"{float((one <= level).double().mean()):.3f}"
        for name, one in p_values.items()
        for level in COLUMNS[name]
    ]


def family_rates(runs: int) -> list[str]:
    """Measure how often any of several sets of one run is significant after correction."""
    smallest: dict[str, list[Tensor]] = {}
    for seed in range(runs):
        simulation = Simulation(CASES[0], seed, SETS)
        members = exchanged_members(*CASES[0].sizes, EXCHANGES, seed)
        sets = [variants(simulation, number, members) for number in range(SETS)]
        for name in sets[0]:
            scores = torch.stack([one[name] for one in sets])
            smallest.setdefault(name, []).append(permutation_test(scores).adjusted.min())
    found = {name: torch.stack(one) for name, one in smallest.items()}
    return [f"nothing, any of {SETS} sets, corrected", *shares_found(found), "", "", ""]


def scene_p_value(sizes: tuple[list[int], list[int]], move: float, seed: int, by_scene: bool) -> float:
    """Compute the p-value of a concept set and its control, of scenes with these numbers of images.

    Without sizes of its own the control has images of the same scenes, as many of each.
    """
    stream = torch.Generator().manual_seed(seed)
    shared = not sizes[1]
    scenes = [torch.randn(len(some), DIM, generator=stream) for some in sizes]
    names, parts = [], []
    for number, counts in enumerate((sizes[0], sizes[0] if shared else sizes[1])):
        own = 0 if shared else number
        names.append([f"{own} {scene}" for scene, count in enumerate(counts) for _ in range(count)])
        rows = scenes[own].repeat_interleave(torch.tensor(counts), 0)
        parts.append((rows + torch.randn(rows.shape, generator=stream)) / 2**0.5)
    direction = torch.randn(DIM, generator=stream)
    direction /= direction.norm()
    gradients = -direction + torch.randn(INPUTS, DIM, generator=stream) / DIM**0.5
    gram, (products,) = SharedRows(parts[1], [gradients]).stacked(parts[0] + move * direction)
    groups = (names[0], names[1]) if by_scene else None
    members = exchanged_members(len(parts[0]), len(parts[1]), 299, seed, groups)
    derivatives = gram_exchange_derivatives(gram, products, row_norms(gradients), members)
    return float(permutation_test(input_scores(derivatives).mean(1)[None]).p_value)


def scene_rates(name: str, sizes: tuple[list[int], list[int]], runs: int) -> list[str]:
    """Measure one row of the second table."""
    cells = [name]
    for move in (0, 1):
        for by_scene in (False, True):
            found = [scene_p_value(sizes, move, seed, by_scene) <= 0.05 for seed in range(runs)]
            cells.append(f"{sum(found) / runs:.3f}")
    return cells


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    torch.set_num_threads(1)
    columns = [f"{name} {level}" for name, levels in COLUMNS.items() for level in levels]
    header = ("the concept does", *columns, "cosine")
    print_table(header, [*(rates(case, runs) for case in CASES), family_rates(runs // 4)])
    columns = [f"{does}, {what}" for does in ("nothing", "moves") for what in ("images", "scenes")]
    print_table(("scenes", *columns), [scene_rates(*case, runs // 5) for case in SCENES])


if __name__ == "__main__":
    main()
