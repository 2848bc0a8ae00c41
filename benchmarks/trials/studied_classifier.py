"""The classifier of a study of explanations: its training images, its held-out images, finished steps.

DATA is PATH[:SET]. Methods learn on the images that the classifier was trained on; scores are of the images
that were held out (--validation). An interrupted run resumes from OUT.partial.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import ExplanationOptions
from candlelight.evaluation.coverage.explained_images import (
    FittedClassifier,
    TrainingImages,
    fit_classifier,
    open_concept_sources,
    read_training_images,
)
from candlelight.evaluation.models import open_models
from candlelight.evaluation.run.result_files import check_writable
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import open_secondary
from candlelight.loaders.errors import InputError


@dataclass(frozen=True, eq=False)
class StudiedClassifier:
    """A classifier, the images that it has learned and those that were held out, and finished steps.

    Attributes:
        fitted: classifier, training images, and methods that have learned.
        test: held-out images.
        groups: their groups.
        steps: keeps results.
    """

    fitted: FittedClassifier
    test: TrainingImages
    groups: tuple[str, ...]
    steps: FinishedSteps

    @property
    def network(self) -> Any:
        """The classifier's network, a `Backbone`."""
        return self.fitted.named.model

    def get_or_compute(self, compute: Callable[[], Mapping[str, Tensor]], **facts: Any) -> dict[str, Tensor]:
        """Compute a step, or read it if it is finished; the facts tell steps apart."""
        hashes = {"fitted": self.fitted.training.sha256, "tested": self.test.sha256}
        found = self.steps.get_or_compute(model_key(self.fitted.named, "cpu", **hashes, **facts), compute)
        click.echo(f"finished: {' '.join(map(str, facts.values()))}", err=True)
        return found


@contextmanager
def study(
    data: str, model: str, out: Path, fit_limit: int | None, *methods: str, **settings: Any
) -> Iterator[StudiedClassifier]:
    """Open a classifier within a ``with`` block, after which finished steps are deleted."""
    check_writable(out, (".json",))
    torch.set_num_threads(1)
    factors = open_secondary("factors", None, data)
    # Grad-CAM learns nothing.
    options = ExplanationOptions(methods or ("grad-cam",), fit_limit=fit_limit, **settings)
    steps, models = FinishedSteps(out.with_name(f"{out.name}.partial")), open_models([model], "cpu", "srgb")
    (source,) = open_concept_sources(data, options, models, factors)
    fitted = fit_classifier(source, models[source.name], options, steps)
    rows = [row for row, name in enumerate(factors.ids) if name not in source.seen_ids]
    if not rows:
        raise InputError(f"{data}: has no held-out image of {model}; train it with --validation 0.25")
    labels = source.numbers(factors)
    test = read_training_images(factors, rows, [labels[row] for row in rows], source.size)
    click.echo(f"{len(fitted.training.labels)} images to learn from, {len(rows)} held out", err=True)
    yield StudiedClassifier(fitted, test, tuple(factors.groups[row] for row in rows), steps)
    steps.remove()


def parse_numbers(text: str) -> tuple[float, ...]:
    """Parse numbers that are separated by commas."""
    return tuple(float(word) for word in text.split(","))


def unwrapped(text: str | None) -> str:
    """Mark all paragraphs of a help text, so that click keeps their lines."""
    return "\b\n" + (text or "").replace("\n\n", "\n\n\b\n")


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of all studies."""
    for decorate in (
        click.option("--out", type=click.Path(path_type=Path), required=True, help="File of results, .json."),
        click.option("--fit-limit", type=int, help="Learn on N of the training images, evenly spaced."),
        click.argument("model"),
        click.argument("data"),
    ):
        command = decorate(command)
    return command
