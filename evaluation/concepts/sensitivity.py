"""Sensitivity of a loss or an output to concept activation vectors."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor

from candlelight.evaluation.concepts.cav import CAVs
from candlelight.evaluation.concepts.rows import RowSource, products_about_mean, row_norms
from candlelight.evaluation.run.model_outputs import describe_output
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean, within
from candlelight.loaders.files.python_files import user_file
from candlelight.loaders.verification.checksums import file_sha256

Scale = Literal["vector", "unit", "cosine"]
GradientOf = Literal["loss", "logit"]
# Cosines of a gradient with a vector below this value count as 0. Products in float32 leave cosines of about
# 1e-7 where the true one is 0.
COSINE_FLOOR = 1e-6


def directional_derivatives(
    cavs: CAVs,
    gradients: Float[Tensor, "inputs dim"] | RowSource,
    scale: Scale = "vector",
) -> Float[Tensor, "runs inputs"]:
    """Compute the derivative of the loss (or logit) along each vector at each input.

    ``S_C(x) = grad L(f(x)) . v_C`` (Gupta et al. 2022, eq. 2), computed as ``(G X^T) alpha`` without any
    explicit ``v_C``. The mean of the last block of X is subtracted; for the precision see
    `candlelight.evaluation.concepts.rows.SharedRows`.

    Args:
        cavs: the vectors.
        gradients: gradient by the activations for each input, flattened.
        scale: "vector" uses the learnt vectors, "unit" normalises them, "cosine" normalises the gradients
            too. A vector or gradient of norm 0 gives derivative 0.

    Returns:
        One derivative for each vector and input, float64.

    Raises:
        InputError: gradients are not finite or differ in length from the vectors, or ``scale`` is misspelt.

    Example:
        >>> from candlelight.evaluation.concepts.cav import fit_cavs
        >>> g = torch.Generator().manual_seed(0)
        >>> cavs = fit_cavs(torch.ones(4, 2), -torch.ones(4, 2), generator=g, runs=1)
        >>> directional_derivatives(cavs, torch.tensor([[3.0, 3.0], [1.0, -1.0]]), "cosine").round(decimals=6)
        tensor([[1., 0.]], dtype=torch.float64)
    """
    check_choice("scale", scale, Scale)
    rows: dict[str, tuple[object, str]] = {"cavs.rows[0]": (cavs.rows[0], "_ dim")}
    check_shapes(gradients=(gradients, "inputs dim"), **rows)
    lengths = row_norms(gradients)
    products = products_about_mean(gradients, cavs.rows)
    derivatives = derivatives_along(cavs.weights, products, cavs.norm, lengths)
    if scale != "vector":
        derivatives = torch.nan_to_num(derivatives / cavs.norm[:, None], 0, 0, 0)
    if scale == "cosine":
        derivatives = torch.nan_to_num(derivatives / lengths, 0, 0, 0)
    return derivatives


def derivatives_along(
    weights: Float[Tensor, "runs rows"],
    products: Float[Tensor, "inputs rows"],
    norms: Float[Tensor, " runs"],
    lengths: Float[Tensor, " inputs"],
) -> Float[Tensor, "runs inputs"]:
    """Compute derivatives along vectors ``weights @ X`` from the products of gradients with the rows X.

    A derivative of at most 1e-6 of the product of both lengths is exactly 0: its sign would be that of the
    rounding errors of the products.

    Args:
        weights: coefficients of the vectors.
        products: inner products of the gradients with the rows.
        norms: Euclidean norms of the vectors.
        lengths: Euclidean norms of the gradients.

    Raises:
        InputError: products are not finite.

    Example:
        >>> one = torch.ones(1)
        >>> derivatives_along(torch.tensor([[0.5, -0.5]]), torch.tensor([[4.0, 2.0]]), one, one)
        tensor([[1.]])
    """
    if not bool(products.isfinite().all()):
        raise InputError("`gradients` must be finite, got nan or inf; check the model and the ground truth")
    derivatives = weights @ products.T
    return derivatives.masked_fill(derivatives.abs() <= COSINE_FLOOR * norms[:, None] * lengths, 0)


def sensitivity(
    cavs: CAVs, gradients: Float[Tensor, "inputs dim"] | RowSource, gradient_of: GradientOf = "loss"
) -> Float[Tensor, " runs"]:
    """Compute the share of inputs on which the concept lowers the loss (or raises the logit): the TCAV score.

    ``|{x : S_C(x) < 0}| / |X|`` for the gradient of a loss (Gupta et al. 2022, eq. 3); ``> 0`` for the
    gradient of a logit (Kim et al. 2018, eq. 2). An input with derivative 0 does not count.

    Blind to: the size of a derivative. A share of 1 may come from tiny derivatives (see
    `directional_derivatives`), and inputs with similar gradients always count together.

    Args:
        cavs: the vectors, one per run.
        gradients: gradient by the activations for each input, flattened; at least one input.
        gradient_of: the differentiated function, a loss or a logit; it decides which sign counts.

    Returns:
        Score of each run in [0, 1]; higher means more inputs.

    Raises:
        InputError: there is no input, gradients are not finite or differ in length from the vectors, or
            ``gradient_of`` is misspelt.

    Example:
        >>> from candlelight.evaluation.concepts.cav import fit_cavs
        >>> g = torch.Generator().manual_seed(0)
        >>> cavs = fit_cavs(torch.ones(4, 2), -torch.ones(4, 2), generator=g, runs=1)
        >>> sensitivity(cavs, torch.tensor([[-1.0, 0.0], [-2.0, 1.0], [1.0, 0.0], [0.0, 0.0]]))
        tensor([0.5000], dtype=torch.float64)
    """
    check_choice("gradient_of", gradient_of, GradientOf)
    derivatives = directional_derivatives(cavs, gradients)
    if len(gradients) == 0:
        raise InputError("`gradients` needs at least one input, got none")
    return (derivatives < 0 if gradient_of == "loss" else derivatives > 0).double().mean(1)


@dataclass(frozen=True)
class Significance:
    """Outcome of `significant`: the p-value, and whether it is below the level."""

    p_value: float
    passed: bool


def significant(
    concept_scores: Float[Tensor, " runs"], random_scores: Float[Tensor, " random_runs"], p: float = 0.01
) -> Significance:
    """Test whether a concept's scores differ from those of random vectors.

    A two-sided Student t-test with equal variances (Gupta et al. 2022, sec. 4.2; p = 0.05 in Kim et al.
    2018) compares the scores of all runs of one concept set with the scores of random vectors on the same
    inputs. All runs of a set pass or fail together. A single run cannot be tested, because a single random
    vector often scores near 0 or 1 when inputs have similar gradients. So the paper's average "over the
    significant CAVs" is an average over the sets that pass.

    Blind to: the size of an effect. With enough runs any difference passes. As runs share images, p-values
    are too small.

    Args:
        concept_scores: scores of the runs of one concept set, at least 2.
        random_scores: scores of random vectors, at least 2.
        p: level, in (0, 1).

    Returns:
        The p-value (lower is stronger evidence) and whether it is below ``p``. If neither group varies,
        the p-value is 1 for equal and 0 for different means.

    Raises:
        InputError: a group has fewer than 2 scores, scores are not finite, or the level is out of range.

    Example:
        >>> significant(torch.tensor([0.9, 0.8, 0.9]), torch.tensor([0.4, 0.6, 0.5])).passed
        True
    """
    check_shapes(concept_scores=(concept_scores, "runs"), random_scores=(random_scores, "random_runs"))
    if not 0 < p < 1:
        raise InputError(f"`p` must lie between 0 and 1, got {p}")
    if min(len(concept_scores), len(random_scores)) < 2:
        raise InputError(
            f"a t-test needs at least 2 scores in each group, got {len(concept_scores)} and "
            f"{len(random_scores)}; use more {argument('runs')}"
        )
    if not bool(concept_scores.isfinite().all()) or not bool(random_scores.isfinite().all()):
        raise InputError("scores must be finite, got nan or inf; check the gradients behind them")
    concept, concept_squares = _mean_and_squares(concept_scores)
    random, random_squares = _mean_and_squares(random_scores)
    freedom = len(concept_scores) + len(random_scores) - 2
    variance = (concept_squares + random_squares) / freedom
    error = math.sqrt(variance * (1 / len(concept_scores) + 1 / len(random_scores)))
    distance = abs(concept - random)
    if error > 0:
        p_value = float(2 * stats.t.sf(distance / error, freedom))
    else:
        p_value = float(distance == 0)
    return Significance(p_value, p_value < p)


def _mean_and_squares(scores: Float[Tensor, " runs"]) -> tuple[float, float]:
    """Compute the mean and the sum of squared deviations; exact for any number of equal scores."""
    scores = scores.double()
    deviations = scores - scores[0]
    shift = deviations.mean()
    return (scores[0] + shift).item(), (deviations - shift).square().sum().item()


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
    with within("target"), user_file(path) as module:
        function = getattr(module, name, None)
        known = [other for other, value in vars(module).items() if callable(value) and other[:1] != "_"]
    if not callable(function):
        raise InputError(
            f"target `{path}:{name}`: expected a function `{name}` in the file{did_you_mean(name, known)}"
        )
    return function
