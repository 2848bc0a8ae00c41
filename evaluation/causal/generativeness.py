"""Counterfactual generativeness (CG) of a decoder, with baseline codes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.causal_options import Baseline
from candlelight.evaluation.causal.effects import (
    ClassifierOutput,
    FactorClassifier,
    check_class_indices,
    check_columns,
    factor_probabilities,
)
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.intervals import Score, mean_interval
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


def baseline_codes(
    codes: Float[Tensor, "rows codes"], baseline: Baseline = "farthest"
) -> Float[Tensor, "rows codes"]:
    """Compute the baseline value of each code in each row.

    Args:
        codes: finite codes of at least one row.
        baseline: "farthest" is the value among the rows that is farthest from the row's own value: the
            smallest or the largest, whichever is farther, and the largest if both are equally far. It is the
            "maximally deviated" baseline of Reddy et al. 2022. "mean" is the mean over the rows, and "zero"
            is 0, the mean of the prior of a variational autoencoder.

    Returns:
        Baselines in the dtype of the codes. "farthest" gives a constant code its own value.

    Raises:
        InputError: a dimension is missing, there is no row, codes are not finite, or ``baseline`` is
            misspelt.

    Example:
        >>> baseline_codes(torch.tensor([[0.0], [1.0], [4.0]])).flatten()
        tensor([4., 4., 0.])
    """
    check_choice("baseline", baseline, Baseline)
    check_shapes(codes=(codes, "rows codes"))
    if len(codes) == 0:
        raise InputError("`codes` needs at least one row, got none")
    if not bool(codes.isfinite().all()):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    if baseline == "zero":
        return torch.zeros_like(codes)
    if baseline == "mean":
        return codes.double().mean(0).to(codes.dtype).expand_as(codes)
    low, high = codes.amin(0), codes.amax(0)
    return torch.where(high - codes >= codes - low, high, low)


Decoder = Callable[[Float[Tensor, "batch codes"]], Float[Tensor, "batch channels height width"]]


@dataclass(frozen=True)
class DecodedCounterfactuals:
    """Decoded images of a few rows, in the colour space of the decoder.

    Attributes:
        rows: row numbers.
        original: images of the codes as they are.
        inside: images with the codes of one factor at their baseline.
        outside: images with all other codes at their baseline.
    """

    rows: tuple[int, ...]
    original: Float[Tensor, "shown channels height width"]
    inside: Float[Tensor, "kept shown channels height width"]
    outside: Float[Tensor, "kept shown channels height width"]


def decode_codes(
    decoder: Decoder,
    codes: Float[Tensor, "batch codes"],
    values: Float[Tensor, "batch codes"],
    changed: Bool[Tensor, "*rows codes"],
) -> Float[Tensor, "batch channels height width"]:
    """Decode codes of which some are set to other values, and check the images.

    Args:
        decoder: gives images in [0, 1] of codes.
        codes: code vectors.
        values: values of the codes that are set.
        changed: codes that are set, the same for all rows, or for each row.

    Raises:
        InputError: the decoder does not give an image in [0, 1] for each row.

    Example:
        >>> codes = torch.tensor([[0.1, 0.2]])
        >>> changed = torch.tensor([False, True])
        >>> decode_codes(lambda z: z[:, :, None, None], codes, codes + 0.5, changed).flatten()
        tensor([0.1000, 0.7000])
    """
    images = decoder(torch.where(changed, values, codes))
    check_shapes(codes=(codes, "batch codes"), decoder=(images, "batch channels height width"))
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise InputError(
            f"the decoder must give images in [0, 1], got {float(images.min()):g} to "
            f"{float(images.max()):g}; apply a sigmoid to logits, or clamp"
        )
    return images


def resize_decoded(decoder: Decoder, shape: torch.Size) -> Decoder:
    """Resize the images of a decoder to a height and width, if they differ.

    Example:
        >>> small = resize_decoded(lambda z: z[:, :, None, None].expand(-1, -1, 8, 8), torch.Size([2, 2]))
        >>> small(torch.ones(1, 3)).shape
        torch.Size([1, 3, 2, 2])
    """

    def resized(codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch channels height width"]:
        decoded = decoder(codes)
        if decoded.ndim != 4 or decoded.shape[2:] == shape:
            return decoded
        return functional.interpolate(decoded, shape, mode="bilinear", antialias=True)

    return resized


LEAST_ACCURACY = 0.95


@dataclass(frozen=True)
class CounterfactualGenerativeness:
    """The score and its parts; "kept" are the factors that are not left out.

    Attributes:
        score: mean of ``by_factor``, in [0, 1]; higher is better.
        by_factor: mean over rows of ``by_row``.
        by_row: ``| ICE_I - ICE_rest |`` of each row, in [0, 1].
        signed: ``ICE_I - ICE_rest`` of each row, in [-1, 1]; negative if the other codes change the factor.
        chance: ``signed`` of codes that are chosen at random; None without ``random_codes``.
        inside: mean over rows of ICE_I, the effect of the codes of the factor; 1 is best.
        outside: mean over rows of ICE_rest, the effect of all other codes; 0 is best.
        certainty: mean over rows of P(z_n), the probability of the true class before an intervention; the
            score of perfect codes is near it.
        factors: names of the kept factors.
        left_out: reason for each factor that is left out, by name.
        reconstruction_error: mean squared error of the decoded images of each row; None without ``images``.
        pictures: counterfactual images of some rows.
    """

    score: Float[Tensor, ""]
    by_factor: Float[Tensor, " kept"]
    by_row: Float[Tensor, "rows kept"]
    signed: Float[Tensor, "rows kept"]
    chance: Float[Tensor, "rows kept"] | None
    inside: Float[Tensor, " kept"]
    outside: Float[Tensor, " kept"]
    certainty: Float[Tensor, " kept"]
    factors: tuple[str, ...]
    left_out: dict[str, str]
    reconstruction_error: Float[Tensor, " rows"] | None
    pictures: DecodedCounterfactuals

    def intervals(self, groups: Sequence[str]) -> dict[str, Score]:
        """Compute 95 % intervals of the score and of each factor over groups of rows.

        The codes of each factor, the decoder, the classifier and the baselines count as given.

        Args:
            groups: the group of each row.

        Returns:
            Scores by name: "counterfactual_generativeness"; the same followed by ", signed", ", random
            choice" and ", signed, random choice"; and with the name of each kept factor in parentheses.

        Raises:
            InputError: the numbers of rows and groups differ.
        """
        name = "counterfactual_generativeness"
        columns = {name: self.by_row.mean(1), f"{name}, signed": self.signed.mean(1)}
        if self.chance is not None:
            columns[f"{name}, random choice"] = self.chance.abs().mean(1)
            columns[f"{name}, signed, random choice"] = self.chance.mean(1)
        columns |= {f"{name}({factor})": self.by_row[:, column] for column, factor in enumerate(self.factors)}
        intervals = {label: mean_interval(values.tolist(), groups) for label, values in columns.items()}
        return {
            label: score.within(-1 if ", signed" in label else 0, 1) for label, score in intervals.items()
        }


def counterfactual_generativeness(
    codes: Float[Tensor, "rows codes"],
    factors: Int[Tensor, "rows factors"],
    code_sets: Sequence[Sequence[int]] | Int[Tensor, "factors selected"],
    decoder: Decoder,
    classifier: FactorClassifier,
    accuracy: Mapping[str, float],
    *,
    baseline: Baseline = "farthest",
    output: ClassifierOutput = "logits",
    least_accuracy: float = LEAST_ACCURACY,
    images: Float[Tensor, "rows channels height width"] | None = None,
    random_codes: Int[Tensor, "rows selected"] | None = None,
    pictures: int = 4,
    batch_size: int = 64,
) -> CounterfactualGenerativeness:
    """Measure whether the codes of each factor, and no others, change the factor in decoded images.

    For factor i with its codes Z_I and the true class g_n of row n, ``P(z)`` is the probability that the
    classifier gives to g_n for the decoded image of the codes z. With b_n the baseline of the row,

    ``ICE_I = |P(z_n) - P(z_n; do(Z_I = b_n))|``, ``ICE_rest = |P(z_n) - P(z_n; do(Z_rest = b_n))|``,
    ``CG = mean over factors and rows of |ICE_I - ICE_rest|``

    (Reddy et al. 2022, Algorithm 2 of the supplement, which leaves out the 1 / k of the mean over k factors).
    Factors that the classifier does not know, and factors of one class among the rows, are left out.

    Blind to: which of the two sets of codes changes the factor. If only codes outside Z_I do, the score is 1
    as well, so read ``signed``, or ``inside`` and ``outside``. A row whose class the classifier mistakes
    counts as 1, too, if the other codes correct it. Blind also to codes that change several factors and
    are in the sets of all of these, which `unconfoundedness` detects, and to everything that the
    classifier does not see, such as a counterfactual image unlike any image of the set. A blurred decoder
    lowers the score as mixed codes do: see ``reconstruction_error``; and so does a classifier that is
    right but not certain: see ``certainty``. Published values used a decoder without its sigmoid and a
    classifier trained on scrambled pixels, so they cannot be reproduced.

    Args:
        codes: code vectors of the evaluated rows, all of them that the decoder takes.
        factors: class of each factor, from 0, as the classifier numbers them.
        code_sets: numbers of the codes Z_I of each factor, from `select_codes`.
        decoder: gives images in [0, 1] of codes, in the colour space that the classifier takes; a decoder of
            logits needs a sigmoid. Networks run in evaluation mode and without gradients.
        classifier: gives, for images, one tensor of classes for each factor, such as `FactorHeads`.
        accuracy: held-out accuracy of the classifier by name of the factor, in the order of the columns of
            ``factors``, such as ``history.accuracy[-1]`` of `train_factor_heads`.
        baseline: see `baseline_codes`; "farthest" is the authors'.
        output: see `factor_probabilities`.
        least_accuracy: least accuracy of a factor that is kept.
        images: the images that the codes are of, for the reconstruction error.
        random_codes: for each row, codes that take the place of those of every factor, as a control.
        pictures: number of rows, evenly spread, whose counterfactual images are returned.
        batch_size: rows per call of the decoder; each row is decoded 2 k + 1 times for k kept factors, and
            twice more for ``random_codes``.

    Returns:
        The score and its parts, in float64.

    Raises:
        InputError: shapes do not agree, there is no row, codes are not finite, a set of codes is empty or
            names a code that does not exist, every factor is left out, the decoder gives no images in [0, 1],
            the classifier does not fit the factors, or an argument is out of range or misspelt.

    Example:
        >>> codes = torch.cartesian_prod(torch.arange(2.0), torch.arange(2.0))
        >>> def decode(codes):  # one pixel for each factor
        ...     return codes[:, None, None, :].clamp(0, 1)
        >>> def classify(images):
        ...     return [torch.stack([1 - images[:, 0, 0, i], images[:, 0, 0, i]], 1) for i in range(2)]
        >>> known = {"colour": 1.0, "shape": 1.0}
        >>> counterfactual_generativeness(
        ...     codes, codes.long(), [[0], [1]], decode, classify, known, output="probabilities"
        ... ).by_factor
        tensor([1., 1.], dtype=torch.float64)
    """
    check_choice("output", output, ClassifierOutput)
    members = code_sets.tolist() if isinstance(code_sets, Tensor) else code_sets
    _check_arguments(codes, factors, members, accuracy, images)
    for name, value in (("pictures", pictures), ("batch_size", batch_size)):
        if value < 1:
            raise InputError(f"`{name}` must be at least 1, got {value}")
    reference = baseline_codes(codes, baseline)
    left_out = _left_out(factors, accuracy, least_accuracy)
    sets = {
        column: _mask(codes, members[column]) for column, name in enumerate(accuracy) if name not in left_out
    }
    chance = None if random_codes is None else _mask_rows(codes, random_codes)
    run = _Interventions(decoder, classifier, output, codes, reference, factors, sets, chance)
    effects, errors = [], []
    with evaluation_mode(decoder), evaluation_mode(classifier), torch.no_grad():
        for rows in torch.split(torch.arange(len(codes), device=codes.device), batch_size):
            decoded = run.decode(rows, _mask(codes, ()))
            effects.append(run.effects(rows, decoded))
            if images is not None:
                errors.append(_squared_error(decoded, images[rows]))
        shown = torch.linspace(0, len(codes) - 1, min(pictures, len(codes))).round().long()
        examples = run.pictures(shown.to(codes.device))
    effect = torch.cat(effects)
    signed = effect[:, :, 0] - effect[:, :, 1]
    by_row = signed.abs()
    return CounterfactualGenerativeness(
        by_row.mean(),
        by_row.mean(0),
        by_row,
        signed,
        None if chance is None else effect[:, :, 3] - effect[:, :, 4],
        effect[:, :, 0].mean(0),
        effect[:, :, 1].mean(0),
        effect[:, :, 2].mean(0),
        tuple(name for name in accuracy if name not in left_out),
        left_out,
        torch.cat(errors) if errors else None,
        examples,
    )


class _Interventions(NamedTuple):
    """Networks, codes, baselines, classes, codes of each kept factor by column, and random ones of rows."""

    decoder: Decoder
    classifier: FactorClassifier
    output: ClassifierOutput
    codes: Float[Tensor, "rows codes"]
    baselines: Float[Tensor, "rows codes"]
    factors: Int[Tensor, "rows factors"]
    sets: dict[int, Bool[Tensor, " codes"]]
    chance: Bool[Tensor, "rows codes"] | None

    def decode(
        self, rows: Int[Tensor, " batch"], changed: Bool[Tensor, "*rows codes"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Decode rows, some codes of which are set to their baseline."""
        return decode_codes(self.decoder, self.codes[rows], self.baselines[rows], changed)

    def effects(
        self, rows: Int[Tensor, " batch"], decoded: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch kept parts"]:
        """Compute ICE_I, ICE_rest and P(z) of each kept factor; then ICE of random codes and of the rest."""

        def true(images: Tensor) -> Float[Tensor, "batch factors"]:
            return factor_probabilities(self.classifier, images, self.factors[rows], self.output)

        before = true(decoded)
        found = []
        for column, members in self.sets.items():
            after = [true(self.decode(rows, changed))[:, column] for changed in (members, ~members)]
            start = before[:, column]
            found.append(torch.stack([*((one - start).abs() for one in after), start], dim=1))
        parts = torch.stack(found, dim=1)
        if self.chance is None:
            return parts
        kept, chosen = list(self.sets), self.chance[rows]
        after = [true(self.decode(rows, changed)) for changed in (chosen, ~chosen)]
        control = torch.stack([(one - before).abs()[:, kept] for one in after], dim=2)
        return torch.cat([parts, control], dim=2)

    def pictures(self, rows: Int[Tensor, " shown"]) -> DecodedCounterfactuals:
        """Decode rows, as they are and after each intervention."""
        inside = torch.stack([self.decode(rows, members) for members in self.sets.values()])
        outside = torch.stack([self.decode(rows, ~members) for members in self.sets.values()])
        original = self.decode(rows, _mask(self.codes, ()))
        return DecodedCounterfactuals(tuple(rows.tolist()), original, inside, outside)


def _mask(codes: Float[Tensor, "rows codes"], numbers: Sequence[int]) -> Bool[Tensor, " codes"]:
    """Mark some columns of the codes."""
    marked = torch.zeros(codes.shape[1], dtype=torch.bool, device=codes.device)
    marked[list(numbers)] = True
    return marked


def _mask_rows(
    codes: Float[Tensor, "rows codes"], numbers: Int[Tensor, "rows selected"]
) -> Bool[Tensor, "rows codes"]:
    """Mark some codes of each row."""
    check_shapes(codes=(codes, "rows codes"), random_codes=(numbers, "rows selected"))
    return torch.zeros(codes.shape, dtype=torch.bool, device=codes.device).scatter(1, numbers, True)


def _check_arguments(
    codes: Tensor,
    factors: Tensor,
    code_sets: Sequence[Sequence[int]],
    accuracy: Mapping[str, float],
    images: Tensor | None,
) -> None:
    check_shapes(codes=(codes, "rows codes"), factors=(factors, "rows factors"))
    check_class_indices(factors)
    if images is not None:
        check_shapes(codes=(codes, "rows codes"), images=(images, "rows channels height width"))
    for name, given in (("code_sets", code_sets), ("accuracy", accuracy)):
        if len(given) != factors.shape[1]:
            raise InputError(
                f"`{name}` needs one entry for each of the {factors.shape[1]} factors, got {len(given)}"
            )
    for numbers in code_sets:
        check_columns("code_sets", numbers, codes.shape[1])


def _left_out(factors: Tensor, accuracy: Mapping[str, float], least: float) -> dict[str, str]:
    """Return the reason for each factor that is left out, and refuse to leave out all."""
    left_out = {}
    for column, (name, share) in enumerate(accuracy.items()):
        if not share >= least:
            left_out[name] = f"held-out accuracy {share:.3f}, below {least:g}"
        elif bool((factors[:, column] == factors[:1, column]).all()):
            left_out[name] = "one class among the rows"
    if len(left_out) == len(accuracy):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InputError(
            f"every factor is left out ({reasons}); train the classifier longer, or give rows that vary"
        )
    return left_out


def _squared_error(decoded: Tensor, images: Tensor) -> Float[Tensor, " batch"]:
    check_shapes(
        decoder=(decoded, "batch channels height width"), images=(images, "batch channels height width")
    )
    return (decoded.double() - images.double()).square().mean((1, 2, 3))
