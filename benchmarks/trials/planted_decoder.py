r"""Counterfactual generativeness of a decoder that is perfect, on codes that are mixed by known amounts.

    grid="--set image.width=64 --set image.height=64"
    grid="$grid --set sets.candle.factors.scene.values=[indoor,playground,outdoor]"
    still="$grid --set sets.candle.factors.rotation.values=[0]"
    place="--set sets.candle.variables={} --set sets.candle.layout.objects.0.location=[0,1.5]"
    place="$place --set sets.candle.layout.camera.pitch=0 --set sets.candle.layout.camera.yaw=0"
    candlelight render candle $grid --out drawn
    candlelight render candle $still --seed 1 --out fresh
    candlelight render candle $still --set sets.candle.factors.size.values=[1.5,2.5] $place --out fixed
    python -m benchmarks.trials.planted_decoder drawn drawn-results --other fresh
    python -m benchmarks.trials.planted_decoder fixed fixed-results --epochs 60

The codes of an image are its factors, each from 0 to 1, plus a share of the next factor (of the first, for
the last one). The decoder solves for the factors, rounds them to classes, and looks up the rendered image of
these classes, so it reconstructs each image exactly. Heads are trained on GRID without a fifth of its images,
on which their accuracy is measured; the scored rows are that fifth, and all rows of each OTHER. Beside each
score is that of a classifier that knows the true classes of each image.

Effectiveness, composition and reversibility are those of four models of counterfactuals: the look-up, a
model that gives the image back, a look-up that also moves the next factor, and a look-up in GRID for images
of OTHER, whose place and camera were drawn again. Each factor in turn moves to its next class.

RESULTS gets the heads, which the same command uses again, `planted.json`, `mixing.png` and
`counterfactuals.jpg`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.processes import print_table
from benchmarks.trials.regimes import with_interval
from benchmarks.trials.rendered_grid import MixedCodes, RenderedGrid, score_codes
from candlelight.evaluation.causal import (
    CounterfactualGenerativeness,
    composition,
    effectiveness,
    reversibility,
)
from candlelight.evaluation.causal.effects import CounterfactualModel
from candlelight.evaluation.models.classifiers import FactorHeads
from candlelight.evaluation.run.intervals import Score, mean_interval
from candlelight.evaluation.run.json_values import to_json
from candlelight.evaluation.training import train_factor_heads
from candlelight.evaluation.training.training_rows import hold_out
from candlelight.evaluation.views import Factors, open_data

AMOUNTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
DRAWN = (0.0, 0.3)  # amounts whose counterfactuals are drawn
SHOWN = 3  # rows at each of these amounts
AXIOMS = ("changed", "others", "composition", "reversibility", "difference")
SCORE = "counterfactual_generativeness"


def next_class(grid: RenderedGrid, classes: Tensor, column: int, moved: Tensor | bool = True) -> Tensor:
    """Move a factor to its next class, of the last one to the first."""
    found = classes.clone()
    found[:, column] = (classes[:, column] + torch.as_tensor(moved).long()) % grid.cells.shape[column]
    return found


def counterfactual_models(
    grid: RenderedGrid, seen: RenderedGrid, kept: Sequence[int]
) -> dict[str, CounterfactualModel]:
    """Make the models of counterfactuals of a grid; the last looks up in another grid, if there is one."""

    def look_up(images: Tensor, before: Tensor, after: Tensor) -> Tensor:
        return grid.images[grid.rows(after)]

    def give_back(images: Tensor, before: Tensor, after: Tensor) -> Tensor:
        return images

    def move_another(images: Tensor, before: Tensor, after: Tensor) -> Tensor:
        found = after
        for column, beside in zip(kept, [*kept[1:], kept[0]], strict=True):
            found = next_class(grid, found, beside, before[:, column] != after[:, column])
        return grid.images[grid.rows(found)]

    def look_up_seen(images: Tensor, before: Tensor, after: Tensor) -> Tensor:
        return seen.images[seen.rows(after)]

    models = {"look-up": look_up, "image back": give_back, "look-up, next factor too": move_another}
    return models if grid is seen else {**models, "look-up, place drawn again": look_up_seen}


def score_axioms(
    model: CounterfactualModel, grid: RenderedGrid, rows: Tensor, heads: Any, kept: Sequence[int]
) -> dict[str, Score]:
    """Score a model of counterfactuals on rows of a grid, in which each factor in turn moves."""

    def classify(images: Tensor) -> list[Tensor]:
        parts = [heads(some) for some in torch.split(images, 64)]
        return [torch.cat(logits) for logits in zip(*parts, strict=True)]

    images, classes = grid.images[rows], grid.classes[rows]
    columns: dict[str, list[Tensor]] = {name: [] for name in AXIOMS}
    columns["composition"].append(composition(model, images, classes))
    for column in kept:
        changed = next_class(grid, classes, column)
        found = model(images, classes, changed)
        shown = effectiveness(classify, found, changed)
        columns["changed"].append(shown[:, column])
        columns["others"].append(shown[:, [one for one in kept if one != column]].mean(1))
        columns["reversibility"].append(reversibility(model, images, classes, changed))
        columns["difference"].append((found - images).abs().mean((1, 2, 3)))
    groups = [grid.groups[row] for row in rows.tolist()]
    return {
        name: mean_interval(torch.stack(some).double().mean(0).tolist(), groups)
        for name, some in columns.items()
    }


def known_heads(
    view: Factors, grid: RenderedGrid, results: Path, epochs: int
) -> tuple[FactorHeads, dict[str, Any]]:
    """Read the heads, or train and write them; with held-out rows and accuracy."""
    file = results / "heads.pt"
    held_out = hold_out(view.groups, 0.2, seed=0)
    if not file.exists():
        labels = {name: grid.classes[:, column].tolist() for column, name in enumerate(grid.values)}
        heads, history = train_factor_heads(view, labels, seed=0, validation=held_out, epochs=epochs)
        torch.save(
            {"weights": heads.state_dict(), "accuracy": history.accuracy, "loss": history.training}, file
        )
    stored = torch.load(file, weights_only=True)
    heads = FactorHeads("vgg_small", {name: len(some) for name, some in grid.values.items()}, seed=0)
    heads.load_state_dict(stored["weights"])
    return heads, {**stored, "held_out": held_out}


def print_scores(
    title: str, found: dict[float, list[CounterfactualGenerativeness]], groups: Sequence[str]
) -> None:
    """Print the scores of all amounts."""
    rows = []
    for amount, (heads, truth) in found.items():
        factors = [
            f"{float(a):.3f} / {float(b):.3f}" for a, b in zip(heads.by_factor, truth.by_factor, strict=True)
        ]
        effects = [float(some.mean()) for some in (heads.inside, heads.outside, heads.certainty)]
        rows.append(
            [amount, with_interval(heads.intervals(groups)[SCORE]), float(truth.score), *effects, *factors]
        )
    kept = next(iter(found.values()))[0]
    print(f"\n{title}: {len(groups)} rows; left out: {kept.left_out}\n")
    print_table(["mixed", "CG by heads", "by truth", "inside", "outside", "certainty", *kept.factors], rows)


def print_axioms(title: str, scores: dict[str, dict[str, Score]]) -> None:
    """Print the scores of all models of counterfactuals."""
    print(f"\n{title}\n")
    rows = [[model, *(with_interval(some[name]) for name in AXIOMS)] for model, some in scores.items()]
    print_table(["model", "effectiveness, changed", "effectiveness, others", *AXIOMS[2:]], rows)


def draw_scores(file: Path, scores: dict[str, dict[float, list[CounterfactualGenerativeness]]]) -> None:
    """Draw the score of each factor against the amount of mixing, a panel for each grid."""
    figure = Figure(figsize=(3.6 * len(scores), 3.2), layout="constrained")
    for axes, (title, found) in zip(
        figure.subplots(1, len(scores), squeeze=False)[0], scores.items(), strict=True
    ):
        amounts, heads, truth = list(found), *zip(*found.values(), strict=True)
        for column, name in enumerate(heads[0].factors):
            line = axes.plot(amounts, [float(one.by_factor[column]) for one in heads], label=name)[0]
            exact = [float(one.by_factor[column]) for one in truth]
            axes.plot(amounts, exact, "x", color=line.get_color(), markersize=5)
        axes.plot(amounts, [float(one.score) for one in heads], "k", linewidth=2.5, label="score")
        axes.set(title=title, xlabel="share of the next factor in a code", ylim=(0, 1.03))
    axes.legend(frameon=False, fontsize=8)
    figure.supylabel("counterfactual generativeness", fontsize=10)
    figure.savefig(file, dpi=110)


def draw_counterfactuals(file: Path, found: dict[float, list[CounterfactualGenerativeness]]) -> None:
    """Draw images of a few rows: as they are, and with the codes of a factor or all others at baseline."""
    results = {amount: found[amount][0] for amount in DRAWN}
    factors = next(iter(results.values())).factors
    figure = Figure(figsize=(1 + 2 * len(factors), 0.35 + 0.98 * SHOWN * len(results)), layout="constrained")
    grid = figure.subplots(SHOWN * len(results), 1 + 2 * len(factors))
    for block, (amount, one) in enumerate(results.items()):
        for row in range(SHOWN):
            line = grid[block * SHOWN + row]
            pairs = [
                images[i, row]
                for i in range(len(factors))
                for images in (one.pictures.inside, one.pictures.outside)
            ]
            for axes, image in zip(line, [one.pictures.original[row], *pairs], strict=True):
                axes.imshow(image.permute(1, 2, 0).numpy())
                axes.set(xticks=[], yticks=[])
            line[0].set_ylabel(f"mixed {amount:g}", fontsize=8)
    titles = ["original", *(f"{name}\n{part}" for name in factors for part in ("its code", "all others"))]
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=8)
    figure.savefig(file, dpi=100, pil_kwargs={"quality": 88})


def main() -> None:
    """Train the heads if there are none, print the tables and draw the figures."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("grid", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--other", type=Path, action="append", default=[])
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    given.results.mkdir(exist_ok=True)
    view = open_data("factors", given.grid)
    seen = RenderedGrid.read(view)
    heads, stored = known_heads(view, seen, given.results, given.epochs)
    accuracy = stored["accuracy"][-1]
    print(f"held-out accuracy on {len(stored['held_out'])} images: {accuracy}")
    grids = {given.grid.name: (seen, torch.tensor(stored["held_out"]))}
    for folder in given.other:
        other = RenderedGrid.read(open_data("factors", folder), seen)
        grids[folder.name] = (other, torch.arange(len(other.classes)))
    scores, axioms = {}, {}
    for title, (grid, rows) in grids.items():
        groups = [grid.groups[row] for row in rows.tolist()]
        scores[title] = {
            amount: list(score_codes(MixedCodes.with_share(grid, amount), rows, heads, accuracy))
            for amount in AMOUNTS
        }
        print_scores(title, scores[title], groups)
        kept = [list(seen.values).index(name) for name in scores[title][0.0][0].factors]
        axioms[title] = {
            name: score_axioms(model, grid, rows, heads, kept)
            for name, model in counterfactual_models(grid, seen, kept).items()
        }
        print_axioms(title, axioms[title])
    draw_scores(given.results / "mixing.png", scores)
    draw_counterfactuals(given.results / "counterfactuals.jpg", scores[given.grid.name])
    kept_scores = {
        title: {amount: [one.by_factor.tolist() for one in both] for amount, both in found.items()}
        for title, found in scores.items()
    }
    record = {"accuracy": accuracy, "scores": kept_scores, "axioms": axioms}
    (given.results / "planted.json").write_text(to_json(record), encoding="utf-8")


if __name__ == "__main__":
    main()
