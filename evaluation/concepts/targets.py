"""Targets of TCAV: scalar functions of a network's output, one number for each image."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.sensitivity import GradientOf
from candlelight.evaluation.models.user_code import user_file
from candlelight.evaluation.running.model_outputs import describe_output
from candlelight.loaders.errors import InputError, did_you_mean, nearest_file
from candlelight.loaders.verification.checksums import file_sha256

_LOSS = "loss:"
_LOGIT = re.compile(r"logit:(\d+)")
_FORMS = (
    "logit:K with the number K of a class, norm, or FILE.py:FUNCTION; with loss: before it, lower is better"
)


@dataclass(frozen=True)
class Target:
    """A scalar function of a network's output, and the direction in which a concept counts.

    Attributes:
        name: name in results.
        function: maps the output of the network for a batch to one number for each image, [batch], which
            must depend on this image alone; differentiable by torch.
        gradient_of: "logit" for a number that the concept should raise: positive derivatives count. "loss"
            for one that it should lower: negative derivatives count. A confusion of the two turns a TCAV
            score s into 1 - s.
        sha256: hash of the file of the function, if it is known.

    Example:
        >>> largest = Target("largest", lambda output: output.amax(1))
        >>> largest.values(torch.tensor([[1.0, 3.0]]), images=1)
        tensor([3.])
    """

    name: str
    function: Callable[[Any], Tensor]
    gradient_of: GradientOf = "logit"
    sha256: str | None = None

    def values(self, output: object, images: int) -> Float[Tensor, " batch"]:
        """Compute the number of each image.

        Args:
            output: output of the network for a batch.
            images: number of images in the batch.

        Raises:
            InputError: the output does not have what the target reads, or the function does not return one
                number for each image.
        """
        values = self.function(output)
        fits = isinstance(values, Tensor) and values.is_floating_point() and list(values.shape) == [images]
        if not fits:
            got = describe_output(values) if isinstance(values, Tensor) else type(values).__name__
            raise InputError(
                f"target `{self.name}`: expected one number for each image, a floating-point tensor "
                f"[{images}], got {got}; reduce all axes but the first"
            )
        return values


def parse_target(text: str) -> Target:
    """Make the target that a text names.

    Args:
        text: ``logit:K``, the value of class K, from 0, in an output [batch, classes]; ``norm``, the
            Euclidean norm of the output of each image; or ``FILE.py:FUNCTION``, the user's own function,
            which is run. ``loss:`` before one of them says that lower is better.

    Raises:
        InputError: the text has another form; or the file or function does not exist or cannot be imported.

    Example:
        >>> target = parse_target("loss:logit:1")
        >>> target.gradient_of, target.values(torch.tensor([[1.0, 3.0]]), images=1)
        ('loss', tensor([3.]))
        >>> parse_target("logit")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: target `logit`: expected logit:K with the number K of a \
class, norm, or FILE.py:FUNCTION; with loss: before it, lower is better
    """
    rest = text.removeprefix(_LOSS)
    gradient_of: GradientOf = "logit" if rest == text else "loss"
    if match := _LOGIT.fullmatch(rest):
        number = int(match[1])
        return Target(text, lambda output: _logit(output, number), gradient_of)
    if rest == "norm":
        return Target(text, _norm, gradient_of)
    place, _, name = rest.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        return Target(text, _user_function(path, name), gradient_of, file_sha256(path))
    raise InputError(f"target `{text}`: expected {_FORMS}")


def _logit(output: object, number: int) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim != 2 or number >= output.shape[1]:
        raise InputError(
            f"target logit:{number}: expected an output [batch, classes] with a class {number}, counted from "
            f"0, got {describe_output(output)}; choose another class, or FILE.py:FUNCTION"
        )
    return output[:, number]


def _norm(output: object) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim < 2:
        raise InputError(
            f"target norm: expected an output [batch, ...], got {describe_output(output)}; write "
            "FILE.py:FUNCTION, which chooses a part of it"
        )
    return torch.linalg.vector_norm(output.flatten(1), dim=1)


def _user_function(path: Path, name: str) -> Callable[[Any], Tensor]:
    if not path.is_file():
        raise InputError(f"target: expected a file of Python, there is no {path}{nearest_file(path)}")
    with user_file(path) as module:
        function = getattr(module, name, None)
        known = [other for other, value in vars(module).items() if callable(value) and other[:1] != "_"]
    if not callable(function):
        raise InputError(
            f"target `{path}:{name}`: expected a function `{name}` in the file{did_you_mean(name, known)}"
        )
    return function
