"""Compare CAVs of a layer of 256x256x16 numbers, 100 runs, with captum's TCAV.

    pip install --no-deps captum
    python -m benchmarks.metrics.cavs [--side 256] [--images 100] [--runs 100] [--rounds 3] [--batch 1]

The data are two concepts of 100 images each and 42 test images of noise, for a network of four convolutions.
On one thread, in CPU seconds, both programs by turns in one process. The time of ours is complete:
activations, loss gradients, vectors and scores of all runs. The time of captum is one run (the vector by its
default classifier, and the scores) on activations that are on disk already, in a file per batch, multiplied
by the number of runs, because a complete measurement would take too long. Each program draws its own splits,
and captum uses another classifier, so the scores may differ; the second table compares our scores with scores
from float64 Gram matrices. The last table compares the classifiers of `fit_cavs`, trained on one Gram matrix,
with the vectors of captum (SGD on rows of full length, neither centred nor scaled), and with SGDClassifier of
scikit-learn with captum's settings on such rows, on centred rows, and on centred and scaled rows; a run per
round.
"""

import argparse
import importlib
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import torch
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.processes import print_table
from candlelight.evaluation.catalogue.concepts_options import Classifier
from candlelight.evaluation.concepts import CAVs, fit_cavs, layer_activations, layer_gradients, sensitivity
from candlelight.evaluation.concepts.cav import Fit, fit_concept
from candlelight.evaluation.concepts.rows import SharedRows, columns_of, row_norms
from candlelight.evaluation.concepts.sensitivity import derivatives_along

WANTED = 350
TESTS = 42
LAYER = "2"
LOGIT = 1  # the last layer of this network sets the other logit to 0, without a gradient


def network() -> nn.Module:
    """Make a classifier whose hidden layer 2 has 16 channels of the image's size."""
    torch.manual_seed(0)
    first = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()
    rest = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(32, 2, 3, padding=1), nn.ReLU()
    return nn.Sequential(*first, *rest, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def drawn_images(images: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw concept images with a colour cast of varying strength, negatives and coloured test images."""
    concept, negatives = torch.rand(2, images, 3, side, side)
    cast = torch.tensor([0.1, 0.0, -0.1])[:, None, None] * torch.rand(images, 1, 1, 1)
    tests = torch.rand(TESTS, 3, 1, 1) * torch.rand(TESTS, 3, side, side)
    return (concept + cast).clamp(0, 1), negatives, tests


def ours(
    model: nn.Module, images: tuple[Tensor, Tensor, Tensor], runs: int, batch: int
) -> tuple[Tensor, CAVs]:
    """Score the logit along all vectors."""
    concept, negatives = (layer_activations(model, [LAYER], some, batch)[LAYER] for some in images[:2])
    gradients = layer_gradients(model, LAYER, images[2], lambda output, _: output[:, LOGIT], batch)
    cavs = fit_cavs(concept, negatives, generator=torch.Generator().manual_seed(0), runs=runs)
    return sensitivity(cavs, gradients, "logit"), cavs


def in_memory(model: nn.Module, images: Tensor, batch: int) -> Tensor:
    """Compute the activations, however large they are, as a tensor."""
    return columns_of(layer_activations(model, [LAYER], images, batch)[LAYER], slice(None))


def in_float64(model: nn.Module, images: tuple[Tensor, Tensor, Tensor], runs: int, batch: int) -> Tensor:
    """Compute the scores of `ours` from the same activations and gradients, with all products in float64."""
    concept, negatives = (in_memory(model, some, batch).double() for some in images[:2])
    gradients = layer_gradients(model, LAYER, images[2], lambda output, _: output[:, LOGIT], batch)
    cavs = fit_cavs(concept, negatives, generator=torch.Generator().manual_seed(0), runs=runs)
    return sensitivity(cavs, gradients, "logit")


def compare_classifiers(
    model: nn.Module, images: tuple[Tensor, Tensor, Tensor], runs: int, batch: int
) -> list[tuple[object, ...]]:
    """Score the vectors of each classifier, all trained on the same rows."""
    concept, negatives = (layer_activations(model, [LAYER], some, batch)[LAYER] for some in images[:2])
    gradients = layer_gradients(model, LAYER, images[2], lambda output, _: output[:, LOGIT], batch)
    gram, (products,) = SharedRows(negatives, [gradients]).stacked(concept)
    table: list[tuple[object, ...]] = []
    for classifier in get_args(Classifier):

        def fit(name: Classifier = classifier) -> Fit:
            return fit_concept(gram, len(concept), torch.Generator().manual_seed(0), runs, name)

        fit()  # the first call imports and allocates
        seconds, trained = timed(fit)
        derivatives = derivatives_along(trained.weights, products, trained.norm, row_norms(gradients))
        scores = (derivatives > 0).double().mean(1)
        accuracy = float(trained.accuracy.mean())
        table.append((classifier, seconds, float(scores.mean()), float(scores.std()), accuracy))
    return table


def full_rows(
    model: nn.Module, images: tuple[Tensor, Tensor, Tensor], rounds: int, batch: int
) -> list[tuple[object, ...]]:
    """Score the vectors of scikit-learn on rows of full length, prepared in three ways."""
    rows = torch.cat([in_memory(model, some, batch) for some in images[:2]])
    found = layer_gradients(model, LAYER, images[2], lambda output, _: output[:, LOGIT], batch)
    gradients = columns_of(found, slice(None)).numpy()
    labels = np.repeat([1, -1], len(rows) // 2)
    table: list[tuple[object, ...]] = []
    for name in ("as they are", "centred", "centred and scaled"):
        if name == "centred":
            rows -= rows.mean(0)
        if name == "centred and scaled":
            rows /= rows.square().sum(1).mean().sqrt()
        scores, accuracies = [], []
        for seed in range(rounds):
            split = train_test_split(rows.numpy(), labels, test_size=0.33, stratify=labels, random_state=seed)
            train, test, known, hidden = split
            trained = SGDClassifier(alpha=0.01, max_iter=1000, tol=1e-3, random_state=seed).fit(train, known)
            scores.append(float((gradients @ trained.coef_[0] > 0).mean()))
            accuracies.append(float(trained.score(test, hidden)))
        mean, spread = statistics.mean(scores), statistics.stdev(scores)
        table.append((f"scikit-learn, rows {name}", None, mean, spread, statistics.mean(accuracies)))
    return table


class Captum:
    """TCAV of captum on activations that were computed before."""

    def __init__(
        self, model: nn.Module, images: tuple[Tensor, Tensor, Tensor], batch: int, folder: Path
    ) -> None:
        self._library: Any = importlib.import_module("captum.concept")
        names = ("concept", "negatives")
        self._sets = [
            self._library.Concept(number, name, DataLoader(cast(Any, some), batch_size=batch))
            for number, (name, some) in enumerate(zip(names, images[:2], strict=True))
        ]
        self._model, self._tests, self._folder = model, images[2], folder
        made = self._tcav()
        made.concepts.update(self._sets)
        made.generate_all_activations()

    def run(self) -> float:
        """Train a new vector, and return its score."""
        for trained in self._folder.rglob("*.pkl"):
            trained.unlink()
        scores = self._tcav().interpret(self._tests, [self._sets], target=LOGIT)
        return float(scores["0-1"][LAYER]["sign_count"][0])

    def _tcav(self) -> Any:
        return self._library.TCAV(self._model, [LAYER], model_id="network", save_path=str(self._folder))


def timed(program: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = program()
    return time.process_time() - before, result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, usual in (("side", 256), ("images", 100), ("runs", 100), ("rounds", 3), ("batch", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model, images = network(), drawn_images(options.images, options.side)
    rounds, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        made, captum = timed(lambda: Captum(model, images, options.batch, Path(folder)))
        for _ in range(options.rounds):
            seconds, (scores, cavs) = timed(lambda: ours(model, images, options.runs, options.batch))
            seconds_of_run, score = timed(captum.run)
            rounds.append((seconds, seconds_of_run, options.runs * seconds_of_run / seconds))
            theirs.append(score)
    print(f"captum's activations: {made:.1f} CPU s, not counted")
    header = ("round", f"ours, {options.runs} runs, CPU s", "a run", "captum, a run", "ratio", "wanted")
    print_table(
        header,
        [
            (number, seconds, seconds / options.runs, seconds_of_run, ratio, f"at least {WANTED}")
            for number, (seconds, seconds_of_run, ratio) in enumerate(rounds, 1)
        ],
    )
    print(f"median ratio: {statistics.median(ratio for *_, ratio in rounds):.0f}")
    exact = in_float64(model, images, options.runs, options.batch)
    print_table(
        ("mean score", "captum's", "mean accuracy", "largest difference from float64"),
        [
            (
                float(scores.mean()),
                statistics.mean(theirs),
                float(cavs.accuracy.mean()),
                float((scores - exact).abs().max()),
            )
        ],
    )
    table = compare_classifiers(model, images, options.runs, options.batch)
    table += full_rows(model, images, options.rounds, options.batch)
    table.append(("captum", None, statistics.mean(theirs), statistics.stdev(theirs), None))
    print_table(
        ("classifier", f"training of {options.runs} runs, CPU s", "mean score", "sd", "accuracy"), table
    )


if __name__ == "__main__":
    main()
