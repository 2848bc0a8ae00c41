"""What every training shares.

Optimiser, streams of randomness, split, and the state from which it resumes.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch
from torch import Tensor, nn

from candlelight.evaluation.models.poisson import named_stream
from candlelight.evaluation.views import View
from candlelight.loaders.errors import DAMAGED, InputError, argument
from candlelight.loaders.files.safe_writing import replacing


def epoch_stream(seed: int, name: str, epoch: int) -> torch.Generator:
    """Make the stream of one use, such as "order", in one epoch.

    Example:
        >>> one, other = (torch.rand(1, generator=epoch_stream(0, "order", epoch)) for epoch in (0, 1))
        >>> one == other
        tensor([False])
    """
    return torch.Generator().manual_seed(int(named_stream(seed, f"{name} {epoch}").integers(2**63)))


_FORMAT = "candlelight training 1"


def describe_rows(data: View[Any], training: Sequence[int], held_out: Sequence[int]) -> dict[str, Any]:
    """Describe the rows of a training for its state: the data, and the ids of both kinds of rows."""
    ids = {"ids": [data.ids[row] for row in training], "held_out": [data.ids[row] for row in held_out]}
    return {"data": asdict(data.identity)} | ids


class TrainingState:
    """The state after each epoch, in a file that is replaced atomically.

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


class Optimisation:
    """A network that Adam trains, with its learning rate.

    Args:
        network: the network, on its device.
        rate: learning rate; with ``steps`` the largest one.
        steps: number of steps of a one-cycle learning rate, with gradients clipped to the norm 1; None for a
            constant learning rate without clipping.
    """

    def __init__(self, network: nn.Module, rate: float, steps: int | None = None) -> None:
        self.network, self._rate = network, rate
        self._parameters = [values for values in network.parameters() if values.requires_grad]
        self._optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        self._schedule = None
        if steps is not None:
            self._schedule = torch.optim.lr_scheduler.OneCycleLR(self._optimiser, rate, total_steps=steps)

    def step(self, loss: Tensor) -> None:
        """Change the weights of this network, and of no other one, to lower a loss."""
        self._optimiser.zero_grad()
        torch.autograd.backward(loss, inputs=self._parameters)
        if self._schedule is not None:
            # Dark batches have large gradients; clipping keeps one of them from undoing many steps.
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimiser.step()
        if self._schedule is not None:
            self._schedule.step()

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser and learning rate for a `TrainingState`."""
        state = {"network": self.network.state_dict(), "optimiser": self._optimiser.state_dict()}
        return state if self._schedule is None else state | {"schedule": self._schedule.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self.network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])
        if self._schedule is not None:
            self._schedule.load_state_dict(state["schedule"])

    def check_finite(self, loss: float, where: str, kept: TrainingState | None = None) -> None:
        """Refuse a training that diverged, and delete its state, from which it would diverge again.

        Args:
            loss: the last loss.
            where: the last part of the training, such as "epoch 3".
            kept: the state.

        Raises:
            InputError: the loss or a weight is nan or infinite.
        """
        if math.isfinite(loss) and all(bool(values.isfinite().all()) for values in self.network.parameters()):
            return
        if kept is not None:
            kept.remove()
        raise InputError(
            f"the training diverged in {where}: a loss or a weight is nan or infinite; give a smaller "
            f"learning rate ({argument('rate')}) than {self._rate:g}"
        )


def split_training(
    count: int, rows: Sequence[int] | None, validation: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Check the row numbers of a training.

    Args:
        count: number of rows of the data.
        rows: rows to train on; None for all that are not held out.
        validation: rows that are held out.

    Returns:
        Rows to train on, and held-out rows.

    Raises:
        InputError: a row does not exist or is in both lists, or no row is left for training.

    Example:
        >>> split_training(4, None, [2])
        ([0, 1, 3], [2])
    """
    held_out = [int(row) for row in validation]
    others = sorted(set(range(count)).difference(held_out))
    training = others if rows is None else [int(row) for row in rows]
    for name, chosen in (("validation", held_out), ("rows", training)):
        for row in chosen:
            if not 0 <= row < count:
                raise InputError(f"`{name}` must lie in 0..{count - 1}, got {row}")
    if not training:
        raise InputError(f"`rows` must name at least one row, got none of {count}")
    if both := set(training).intersection(held_out):
        raise InputError(f"`rows` and `validation` must share no row, got {min(both)} in both")
    return training, held_out
