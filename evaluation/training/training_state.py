"""Keep the state of an interrupted training in a file, so that it resumes and ends with the same weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch

from candlelight.loaders.errors import DAMAGED, InputError, argument
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.views import View

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
