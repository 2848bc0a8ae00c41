"""Two checks of the concepts by which VEBI and prototypes explain a classifier.

    candlelight render parts --out parts
    candlelight train classifier parts --label kind --size 64 --validation 0.25 --out kinds.pt
    python -m benchmarks.trials.concept_checks filter-ablation parts kinds.pt --out filters.json
    python -m benchmarks.trials.concept_checks prototypes parts kinds.pt --out prototypes.json

- `filter-ablation`: does a classifier need the filters that VEBI chooses for the class of each image more
  than as many random ones? The p-value is the share of random sets that lower the accuracy as much or more.
- `prototypes`: is each prototype equal to a patch of a training image of its own class, how many patches are
  different, and how accurate is the prototype network beside the classifier? Intervals are over groups.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.processes import print_table
from benchmarks.trials.regimes import with_interval
from benchmarks.trials.studied_classifier import parse_numbers, shared_options, study, unwrapped
from candlelight.evaluation.coverage.explained_images import TrainingImages
from candlelight.evaluation.coverage.filter_methods import VEBI
from candlelight.evaluation.coverage.network_dissection import ablate_filters
from candlelight.evaluation.coverage.prototypes import PrototypeNetwork
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.intervals import Score, mean_interval
from candlelight.evaluation.run.json_values import to_json


def chosen_ablation(
    network: nn.Module,
    layer: str,
    training: TrainingImages,
    test: TrainingImages,
    method: VEBI,
    draws: int,
) -> dict[str, Tensor]:
    """Choose filters by VEBI, and ablate the filters of each test image's class."""
    chosen = method.fit(training.images, training.labels).chosen.cpu()
    found = ablate_filters(network, layer, chosen[test.labels], test.images, test.labels, seed=0, draws=draws)
    accuracies = torch.tensor([found.intact, found.ablated], dtype=torch.float64)
    p_value = torch.tensor([found.p_value], dtype=torch.float64)
    return {"filters": chosen.sum(1), "accuracies": accuracies, "random": found.random, "p_value": p_value}


class PatchCheck(NamedTuple):
    """Comparison of prototypes with the patches that they were moved to.

    Attributes:
        owners: class of each prototype.
        own_class: whether the patch is of a training image of this class.
        equal: whether the prototype is equal to the patch, to the bit.
        difference: largest absolute difference of any prototype from its patch.
        patches: image, row and column of each patch.
    """

    owners: Tensor
    own_class: Tensor
    equal: Tensor
    difference: float
    patches: Tensor


@torch.no_grad()
def check_patches(
    network: PrototypeNetwork, images: Tensor, labels: Tensor, batch_size: int = 80
) -> PatchCheck:
    """Compute the patches of all prototypes again, and compare; equal batches round equally."""
    assert network.patches is not None
    with evaluation_mode(network):
        maps = torch.cat([network.add_on(network.backbone(some)) for some in torch.split(images, batch_size)])
    places = network.patches.images, network.patches.rows, network.patches.columns
    found = maps[places[0], :, places[1], places[2]]
    owners = network.belongs().int().argmax(1)
    equal = (found == network.prototypes).all(1)
    difference = float((found - network.prototypes).abs().max())
    return PatchCheck(owners, labels[places[0]] == owners, equal, difference, torch.stack(places, 1))


def print_patches(check: PatchCheck, classes: Sequence[str]) -> None:
    """Print for each class how many prototypes are equal to a patch of it, and how many patches differ."""
    rows: list[list[object]] = []
    for name, mine in [(one, check.owners == number) for number, one in enumerate(classes)] + [
        ("all", check.owners >= 0)
    ]:
        patches = check.patches[mine]
        different = [len(torch.unique(some, dim=0)) for some in (patches, patches[:, :1])]
        right = int((check.own_class & check.equal)[mine].sum())
        rows.append([name, int(mine.sum()), right, *different])
    head = ["class", "prototypes", "equal to a patch of the class", "different patches", "different images"]
    print_table(head, rows)
    print(f"largest difference of a prototype from its patch: {check.difference:.3g}")


@torch.no_grad()
def right_predictions(classifier: Callable[[Tensor], Tensor], test: TrainingImages) -> np.ndarray:
    """Tell for each image whether the classifier predicts its class."""
    predicted = torch.cat([classifier(some).argmax(1) for some in torch.split(test.images, 80)])
    return (predicted == test.labels).numpy().astype(np.float64)


@click.group(help=unwrapped(__doc__))
def main() -> None:
    """Run a check."""


@main.command()
@shared_options
@click.option("--bounds", default="0.1,0.3,1,10,30,100,300", show_default=True, help="Bounds mu of VEBI.")
@click.option("--draws", default=199, show_default=True, help="Random sets of filters.")
def filter_ablation(data: str, model: str, fit_limit: int | None, out: Path, bounds: str, draws: int) -> None:
    """Does a classifier need the filters that VEBI chooses more than as many random ones?"""
    rows, content = [], []
    with study(data, model, out, fit_limit) as studied:
        network, layer = studied.network, studied.network.explained_layer
        for indicators, bound in itertools.product(("labels", "predicted"), parse_numbers(bounds)):
            method = VEBI(network, layer, bound, indicators)
            training, test = studied.fitted.training, studied.test
            compute = partial(chosen_ablation, network, layer, training, test, method, draws)
            facts = {"study": "ablation", "bound": bound, "indicators": indicators, "draws": draws}
            found = studied.get_or_compute(compute, **facts)
            filters = ", ".join(map(str, found["filters"].tolist()))
            random = found["random"]
            spread = f"{random.mean():.3f} ({random.min():.3f} to {random.max():.3f})"
            accuracies = (f"{one:.3f}" for one in found["accuracies"].tolist())
            rows.append([indicators, bound, filters, *accuracies, spread, f"{float(found['p_value']):.3f}"])
            content.append(facts | found)
        head = ["indicators", "mu", "filters by class", "intact", "ablated", "random (least to most)", "p"]
        print_table(head, rows)
        name = studied.fitted.named.identity.name
        out.write_text(to_json({"model": name, "ablations": content}), encoding="utf-8")


@main.command()
@shared_options
@click.option("--per-class", default=10, show_default=True, help="Prototypes of each class.")
@click.option("--epochs", default=30, show_default=True, help="Epochs of the prototype network.")
@click.option("--seed", default=0, show_default=True)
def prototypes(
    data: str, model: str, fit_limit: int | None, out: Path, per_class: int, epochs: int, seed: int
) -> None:
    """Is each prototype equal to a patch of a training image of its own class?"""
    chosen = {"prototypes": per_class, "epochs": epochs, "seed": seed}
    with study(data, model, out, fit_limit, "prototypes", **chosen) as studied:
        (method,) = (one.model for one in studied.fitted.methods.values())
        training = studied.fitted.training
        check = check_patches(method.network, training.images, training.labels)
        print_patches(check, studied.fitted.source.classes)
        ours, theirs = (right_predictions(one, studied.test) for one in (method.classifier, studied.network))
        columns = {"prototype network": ours, "classifier": theirs, "difference": ours - theirs}
        scores: dict[str, Score] = {
            name: mean_interval(some.tolist(), studied.groups) for name, some in columns.items()
        }
        print()
        print_table(["accuracy of", "mean"], [[name, with_interval(one)] for name, one in scores.items()])
        content = {"model": studied.fitted.named.identity.name, "scores": scores, **check._asdict()}
        out.write_text(to_json(content), encoding="utf-8")


if __name__ == "__main__":
    main()
