"""A network with its optimiser and its learning rate: the state of a training, and its steps."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from candlelight.evaluation.training.training_state import TrainingState
from candlelight.loaders.errors import InputError, argument


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
