"""The one loop of every training.

A `Task` gives batches, losses and a validation. The loop takes the steps and owns optimisers and learning
rates, streams of random numbers, learning curves, the check for divergence, the state from which a training
resumes, and its record.
"""

import json
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from candlelight.evaluation.run.batches import repeatable
from candlelight.evaluation.run.json_values import to_json
from candlelight.evaluation.run.result import package_versions
from candlelight.evaluation.views import View
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import DAMAGED, InputError, argument
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.progress_bars import progress_bar

_Batch = TypeVar("_Batch")
Curves = dict[str, list[Any]]


def epoch_stream(seed: int, name: str, epoch: int) -> torch.Generator:
    """Make the stream of one use, such as "order", in one epoch, or in one step.

    Example:
        >>> one, other = (torch.rand(1, generator=epoch_stream(0, "order", epoch)) for epoch in (0, 1))
        >>> one == other
        tensor([False])
    """
    return torch.Generator().manual_seed(int(named_stream(seed, f"{name} {epoch}").integers(2**63)))


def mixed_precision(device: torch.device) -> torch.autocast:
    """Let networks run in bfloat16 where that is safe, on a GPU; on other devices nothing changes."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


class Optimisation:
    """A network, or some of its weights, that Adam trains.

    Args:
        network: the network, on its device.
        rate: learning rate; with ``one_cycle`` the largest one.
        groups: groups of weights with options of their own, see `torch.optim.Adam`; None for all weights.
        clip: whether gradients are clipped to the norm 1.
        schedule: makes the schedule of the learning rate by steps; None for a constant rate.
    """

    def __init__(
        self,
        network: nn.Module,
        rate: float,
        *,
        groups: Sequence[dict[str, Any]] | None = None,
        clip: bool = False,
        schedule: Callable[[torch.optim.Adam], LRScheduler] | None = None,
    ) -> None:
        self.network, self.rate, self._clip = network, rate, clip
        self._adam = torch.optim.Adam(network.parameters() if groups is None else groups, lr=rate)
        self._schedule = None if schedule is None else schedule(self._adam)
        chosen = (values for group in self._adam.param_groups for values in group["params"])
        self._weights = [values for values in chosen if values.requires_grad]

    def step(self, loss: Tensor) -> None:
        """Change the weights of this optimisation, and no other ones, to lower a loss."""
        self._adam.zero_grad()
        torch.autograd.backward(loss, inputs=self._weights)
        if self._clip:
            # Dark batches have large gradients; clipping keeps one of them from undoing many steps.
            torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._adam.step()
        if self._schedule is not None:
            self._schedule.step()

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser and learning rate for a `TrainingState`."""
        state = {"network": self.network.state_dict(), "optimiser": self._adam.state_dict()}
        return state if self._schedule is None else state | {"schedule": self._schedule.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        self.network.load_state_dict(state["network"])
        self._adam.load_state_dict(state["optimiser"])
        if self._schedule is not None:
            self._schedule.load_state_dict(state["schedule"])

    def is_finite(self) -> bool:
        """Tell whether all weights of the network are finite."""
        return all(bool(values.isfinite().all()) for values in self.network.parameters())


def one_cycle(network: nn.Module, rate: float, steps: int) -> Optimisation:
    """Train a network with a one-cycle learning rate, and gradients clipped to the norm 1.

    Args:
        network: the network, on its device.
        rate: largest learning rate.
        steps: number of all steps.
    """
    return Optimisation(
        network, rate, clip=True, schedule=lambda adam: OneCycleLR(adam, rate, total_steps=steps)
    )


class Losses(NamedTuple):
    """Losses of one batch.

    Attributes:
        minimised: the loss of each optimisation that takes a step, by its name.
        curves: numbers on the device whose means over a part are the learning curves, by name.
        weight: weight of the batch in these means.
    """

    minimised: dict[str, Tensor]
    curves: dict[str, Tensor]
    weight: int = 1


class Task(ABC, Generic[_Batch]):
    """The part of a training that differs between kinds of networks.

    A training has parts, epochs or blocks of steps. After each part there is a point of each learning curve.

    Attributes:
        optimisations: networks and their optimisers, by name; the first one is the network that is wanted.
        ends: number of epochs or steps at the end of each part.
        unit: "epoch" or "step".
    """

    optimisations: dict[str, Optimisation]
    ends: Sequence[int]
    unit: Literal["epoch", "step"] = "epoch"

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        first = next(iter(self.optimisations.values()))
        return next(first.network.parameters()).device

    @abstractmethod
    def batches(self, part: int) -> Iterable[_Batch]:
        """Read the batches of a part; a step is taken after each. Parts are read in order.

        A training can go on from any part, so random numbers come from an `epoch_stream` of the part, or from
        torch's own stream, which the loop seeds for each part.
        """

    @abstractmethod
    def losses(self, batch: _Batch) -> Losses:
        """Compute the losses of a batch, differentiable by the weights."""

    def validate(self) -> Mapping[str, Any]:
        """Measure the networks after a part: further learning curves, by name."""
        return {}


def train_task(task: Task[Any], seed: int, kept: "TrainingState | None" = None) -> Curves:
    """Train the networks of a task; they are in evaluation mode afterwards.

    Args:
        task: the task.
        seed: seed of torch's own stream, from which dropout draws; it is restored afterwards.
        kept: the state after each part, from which the training goes on; None keeps nothing. The caller
            removes it.

    Returns:
        The learning curves by name, one value for each part.

    Raises:
        InputError: the training diverges, a loss or a weight is nan or infinite, and ``kept`` is removed,
            because it would diverge again; or see `TrainingState`.
    """
    kept = kept or TrainingState(None, {})
    curves, done = _restore(task, kept)
    bar = progress_bar(
        total=task.ends[-1], desc="train", unit=task.unit, initial=task.ends[done - 1] if done else 0
    )
    for part in range(done, len(task.ends)):
        means = _train_part(task, seed, part)
        _check_finite(task, part, means, kept)
        for name, value in {**means, **task.validate()}.items():
            curves[name].append(value)
        states = {name: one.state() for name, one in task.optimisations.items()}
        kept.write({"parts": part + 1, "curves": dict(curves), "optimisations": states})
        bar.set_postfix(**means, refresh=False)
        bar.update(task.ends[part] - (task.ends[part - 1] if part else 0))
    bar.close()
    for one in task.optimisations.values():
        one.network.eval()
    return curves


def _restore(task: Task[Any], kept: "TrainingState") -> tuple[Curves, int]:
    """Go back to the kept state, and return its learning curves and the number of finished parts."""
    state = kept.read()
    if state is None:
        return defaultdict(list), 0
    for name, one in task.optimisations.items():
        one.restore(state["optimisations"][name])
    return defaultdict(list, state["curves"]), state["parts"]


def _train_part(task: Task[Any], seed: int, part: int) -> dict[str, float]:
    """Take the steps of a part, and return the means of its curves."""
    found: defaultdict[str, list[Tensor]] = defaultdict(list)
    weights = []
    device = task.device
    # Dropout draws from the global generator, whose state is restored afterwards.
    with repeatable(device), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(epoch_stream(seed, "dropout", part).initial_seed())
        for batch in task.batches(part):
            losses = task.losses(batch)
            for name, loss in losses.minimised.items():
                task.optimisations[name].step(loss)
            for name, value in losses.curves.items():
                found[name].append(value.detach())
            weights.append(losses.weight)
    # Numbers of curves leave the device here, all at once: no step waits for them.
    numbers = {name: torch.stack(values).tolist() for name, values in found.items()}
    return {name: float(np.average(values, weights=weights)) for name, values in numbers.items()}


def _check_finite(task: Task[Any], part: int, means: Mapping[str, float], kept: "TrainingState") -> None:
    optimisations = task.optimisations.values()
    if all(map(math.isfinite, means.values())) and all(one.is_finite() for one in optimisations):
        return
    kept.remove()
    raise InputError(
        f"the training diverged in {task.unit} {task.ends[part]}: a loss or a weight is nan or infinite; "
        f"give a smaller learning rate ({argument('rate')}) than {max(one.rate for one in optimisations):g}"
    )


_FORMAT = "candlelight training 2"


class TrainingState:
    """The state after each part of a training, in a file that is replaced atomically.

    Args:
        path: the file; None keeps nothing.
        settings: everything that the weights depend on, as JSON values.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self.path, self._settings = path, json.dumps(settings, sort_keys=True)

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state.

        Raises:
            InputError: the file cannot be written.
        """
        if self.path is None:
            return
        try:
            with replacing(self.path) as partial, partial.open("wb") as file:
                torch.save({"format": _FORMAT, "settings": self._settings, **state}, file)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}; free some room there") from error

    def read(self) -> dict[str, Any] | None:
        """Read the state; None if there is none. Code in the file is never executed.

        Raises:
            InputError: the file is no state of this training.
        """
        if self.path is None or not self.path.exists():
            return None
        other = argument("out", "state")
        cure = f"continue with the settings of that training, delete {self.path}, or give another {other}"
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            known = isinstance(state, dict) and state.get("format") == _FORMAT
        except (*DAMAGED, UnpicklingError):
            known = False
        if not known:
            raise InputError(f"{self.path}: damaged, or no state of an interrupted training; {cure}")
        if state["settings"] != self._settings:
            found, wanted = json.loads(state["settings"]), json.loads(self._settings)
            names = [name for name in wanted if wanted[name] != found.get(name)]
            raise InputError(f"{self.path}: of a training with another {', '.join(names)}; {cure}")
        return dict(state)

    def remove(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def training_state(
    path: str | Path | None,
    settings: Mapping[str, Any],
    data: View[Any],
    rows: tuple[Sequence[int], Sequence[int]],
    content: Callable[[], str],
) -> TrainingState:
    """Make the state of a training on rows of a view.

    Args:
        path: the file; None keeps nothing, and no content is read.
        settings: options and seed.
        data: all rows.
        rows: numbers of the training rows and of the held-out rows.
        content: hashes the content of these rows.
    """
    if path is None:
        return TrainingState(None, {})
    ids = [[data.ids[row] for row in some] for some in rows]
    facts = {
        "data": asdict(data.identity),
        "ids": ids[0],
        "held_out": ids[1],
        "content of the data": content(),
    }
    return TrainingState(Path(path), {**settings, **facts})


def split_ids(data: View[Any], held_out: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the training rows, and those of the held-out rows."""
    unseen = set(held_out)
    training = tuple(name for row, name in enumerate(data.ids) if row not in unseen)
    return training, tuple(data.ids[row] for row in held_out)


def write_record(
    path: Path, data: View[Any], held_out: Sequence[int], settings: Mapping[str, Any], history: Any
) -> None:
    """Write settings, data and learning curves of a training as JSON, atomically.

    Args:
        path: the file; an existing file is replaced.
        data: all rows.
        held_out: numbers of the held-out rows.
        settings: settings of the training.
        history: the learning curves that the training has returned.

    Raises:
        OSError: the file cannot be written.
    """
    training_ids, held_out_ids = split_ids(data, held_out)
    facts = {
        "settings": dict(settings),
        "data": {name: value for name, value in asdict(data.identity).items() if value is not None},
        "training_rows": len(data) - len(held_out),
        "training_ids": training_ids,
        "held_out_ids": held_out_ids,
        "versions": package_versions(),
        "history": asdict(history),
    }
    with replacing(path) as partial:
        partial.write_text(to_json(facts), encoding="utf-8")
