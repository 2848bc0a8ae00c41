"""Compute something of every row of a view for each model, in batches whose finished steps are kept."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from evaluation.models.model_spec import NamedModel
from evaluation.running.batches import Batch, Fingerprint, read_batches
from evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from loaders.views import View

_Item = TypeVar("_Item")
_Prepared = TypeVar("_Prepared")


def compute_rows(
    named_models: Mapping[str, NamedModel],
    view: View[_Item],
    prepare: Callable[[Batch[_Item]], _Prepared],
    compute: Callable[[NamedModel, _Prepared], Mapping[str, Tensor]],
    *,
    device: str,
    batch_size: int,
    steps: FinishedSteps | None,
    settings: Mapping[str, object],
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read every row once, and compute tensors of it for each model.

    Args:
        named_models: the models, from `identify_models`.
        view: the rows; their items have an ``image``.
        prepare: makes of a batch the input of ``compute``, once for all models.
        compute: computes tensors by name, with one entry for each row along the first axis.
        device: torch device of the models.
        batch_size: maximal number of rows in a batch.
        steps: keeps finished batches; None keeps nothing.
        settings: all arguments that ``compute`` depends on, with the metric and its version.

    Returns:
        For each model, the tensors of all rows by name; and the description of the data for a result.

    Raises:
        InputError: there is no row, the batch size is below 1, or a step cannot be written.
    """
    steps = steps or FinishedSteps()
    keys = {name: model_key(named, device, **settings) for name, named in named_models.items()}
    fingerprint = Fingerprint()
    parts: dict[str, list[dict[str, Tensor]]] = {name: [] for name in named_models}

    def image(item: Any) -> Tensor:
        return item.image

    for batch in read_batches(view, batch_size, image, fingerprint, "score"):
        prepared = prepare(batch)
        for name, named in named_models.items():
            key = batch_key(keys[name], batch, fingerprint)
            parts[name].append(steps.get_or_compute(key, partial(compute, named, prepared)))
    joined = {
        name: {key: torch.cat([step[key] for step in some]) for key in some[0]}
        for name, some in parts.items()
    }
    return joined, fingerprint.describe(view)
