"""Run models on the rows of a view in batches, whose finished steps are kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

import torch
from torch import Tensor

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.batches import Batch, Fingerprint, read_batches
from candlelight.evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from candlelight.loaders.views import View

_Item = TypeVar("_Item")
_Prepared = TypeVar("_Prepared")
Step = dict[str, Tensor]


def run_batches(
    named_models: Mapping[str, NamedModel],
    view: View[_Item],
    prepare: Callable[[Batch[_Item]], _Prepared],
    compute: Callable[[NamedModel, Sequence[str], _Prepared, str], Step],
    *,
    fingerprint: Fingerprint,
    settings: Mapping[str, object],
    device: str,
    batch_size: int,
    steps: FinishedSteps | None,
) -> Iterator[tuple[_Prepared, dict[str, Step]]]:
    """Compute a step of each model for each batch, or take it from finished steps.

    Args:
        named_models: the models, on ``device``.
        view: the rows; their items have an ``image``.
        prepare: makes the input of ``compute`` of a batch, once for all models.
        compute: computes the step of a model from the ids of the rows, the prepared batch and the device:
            CPU tensors by name.
        fingerprint: is extended by every row.
        settings: all arguments that ``compute`` depends on, with the metric and its version.
        device: torch device of the models.
        batch_size: maximal number of rows in a batch, whose images have one size.
        steps: keeps finished steps; None keeps nothing.

    Returns:
        An iterator over batches: the prepared batch, and the step of each model.

    Raises:
        InputError: there is no row, the batch size is below 1, or a step cannot be written.
    """
    kept = steps or FinishedSteps()
    keys = {name: model_key(named, device, **settings) for name, named in named_models.items()}
    for batch in read_batches(view, batch_size, attrgetter("image"), fingerprint, "score"):
        prepared = prepare(batch)
        made = {}
        for name, named in named_models.items():
            key = batch_key(keys[name], batch, fingerprint)
            made[name] = kept.get_or_compute(key, partial(compute, named, batch.ids, prepared, device))
        yield prepared, made


def join_steps(steps: Iterable[Mapping[str, Step]]) -> dict[str, Step]:
    """Join the steps of all batches: for each model, its tensors by name, along their first axis.

    Example:
        >>> step = {"net": {"failed": torch.tensor([True])}}
        >>> join_steps([step, step])
        {'net': {'failed': tensor([True, True])}}
    """
    parts: dict[str, list[Step]] = {}
    for made in steps:
        for name, step in made.items():
            parts.setdefault(name, []).append(step)
    return {
        name: {key: torch.cat([step[key] for step in some]) for key in some[0]}
        for name, some in parts.items()
    }
