"""Effects of interventions on codes and images: interventional effects, CDM, counterfactual axioms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import all_finite
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

ClassifierOutput = Literal["logits", "probabilities"]
FactorClassifier = Callable[
    [Float[Tensor, "batch channels height width"]], Sequence[Float[Tensor, "batch _"]]
]

_SUM_TOLERANCE = 1e-3  # also of probabilities in half precision


def factor_probabilities(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    output: ClassifierOutput = "logits",
) -> Float[Tensor, "batch factors"]:
    """Compute the probability that a classifier gives to one class of each factor.

    Args:
        classifier: gives, for images, a tensor [batch, classes] for each factor.
        images: images in the colour space of the classifier.
        factors: class of each factor, from 0.
        output: whether the classifier gives "logits", of which the softmax is taken, or "probabilities".

    Returns:
        Probabilities in [0, 1], float64.

    Raises:
        InputError: the classifier does not give a finite tensor for each factor, a class is no integer or
            does not exist, probabilities do not add up to 1, or ``output`` is misspelt.

    Example:
        >>> def classify(images):  # two classes of one factor
        ...     return [torch.stack([images.mean((1, 2, 3)), 1 - images.mean((1, 2, 3))], dim=1)]
        >>> images = torch.full((1, 3, 2, 2), 0.25)
        >>> factor_probabilities(classify, images, torch.tensor([[1]]), "probabilities")
        tensor([[0.7500]], dtype=torch.float64)
    """
    check_choice("output", output, ClassifierOutput)
    columns = []
    for number, values in enumerate(classify_factors(classifier, images, factors)):
        probabilities = values.double()
        if output == "logits":
            probabilities = probabilities.softmax(1)
        elif not bool(
            (probabilities >= 0).all() and ((probabilities.sum(1) - 1).abs() < _SUM_TOLERANCE).all()
        ):
            raise InputError(
                f"probabilities of factor {number} must be at least 0 and add up to 1, got values from "
                f"{float(values.min()):g} to {float(values.max()):g}; are they logits? Then give `output` "
                '"logits"'
            )
        columns.append(probabilities.gather(1, factors[:, number : number + 1].long()))
    return torch.cat(columns, dim=1)


def classify_factors(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
) -> list[Float[Tensor, "batch _"]]:
    """Run a classifier of several factors, and check that its output fits the classes of the images.

    Raises:
        InputError: the classifier does not give a finite tensor for each factor, or a class is no integer or
            does not exist.

    Example:
        >>> images = torch.zeros(1, 2, 4, 4)
        >>> classify_factors(lambda images: [images.mean((2, 3))], images, torch.tensor([[2]]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: classes of factor 0 must lie in 0..1, as the classifier has \
2, got 2 to 2
    """
    check_shapes(images=(images, "batch _ _ _"), factors=(factors, "batch factors"))
    check_class_indices(factors)
    found = list(classifier(images))
    if len(found) != factors.shape[1]:
        raise InputError(
            f"expected a classifier with an output for each of the {factors.shape[1]} factors, got "
            f"{len(found)}"
        )
    for number, values in enumerate(found):
        check_shapes(images=(images, "batch _ _ _"), classifier=(values, "batch classes"))
        if not bool(values.isfinite().all()):
            raise InputError(f"the classifier gives nan or inf for factor {number}; check its weights")
        low, high = factors[:, number].aminmax() if len(factors) else (0, 0)
        if not 0 <= int(low) <= int(high) < values.shape[1]:
            raise InputError(
                f"classes of factor {number} must lie in 0..{values.shape[1] - 1}, as the classifier has "
                f"{values.shape[1]}, got {int(low)} to {int(high)}"
            )
    return found


def check_class_indices(factors: Tensor) -> None:
    """Refuse factors that are no integers.

    Raises:
        InputError: the factors are floats.

    Example:
        >>> check_class_indices(torch.ones(2, 1))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `factors` must be class indices, got floats; cast indices \
with .long()
    """
    if factors.is_floating_point():
        raise InputError("`factors` must be class indices, got floats; cast indices with .long()")


CodeOutput = Callable[[Float[Tensor, "batch codes"]], Float[Tensor, "batch units"]]


def ice(
    output: CodeOutput,
    codes: Float[Tensor, "rows codes"],
    columns: Sequence[int],
    values: Float[Tensor, "values columns"],
    baseline: Float[Tensor, "rows columns"] | Float[Tensor, " columns"],
    batch_size: int = 64,
) -> Float[Tensor, "rows values units"]:
    """Compute the individual causal effect of setting codes to values, in each row.

    ``ICE_n(a) = y(z_n; do(z_I = a)) - y(z_n; do(z_I = b_n))`` with I the ``columns``, a one of the
    ``values``, b the ``baseline`` and y the ``output``; all other codes keep their values (definition 7.2 of
    the supplement of CANDLE, Reddy et al. 2022).

    Blind to: dependence between codes. Other codes keep their values, so codes that the encoder would not
    give for any image are possible; and a code that causes another code has its direct effect alone.

    Args:
        output: gives the output units of codes, each row by itself, such as the probabilities of classes
            after a decoder and a classifier. A `torch.nn.Module` runs in evaluation mode. It runs without
            gradients.
        codes: code vectors.
        columns: numbers of the codes that are set together.
        values: values to which they are set, one row for each intervention.
        baseline: reference values, the same for all rows or one row for each, such as
            ``baseline_codes(codes)[:, columns]``.
        batch_size: rows per call of ``output``.

    Returns:
        Effects with their signs, in the dtype of the outputs; nan where an output is nan.

    Raises:
        InputError: shapes do not agree, there is no row, value or column, a column does not exist, the output
            is not one row of units for each row of codes, or ``batch_size`` is below 1.

    Example:
        >>> def product(codes):  # one unit
        ...     return codes.prod(1, keepdim=True)
        >>> codes = torch.tensor([[1.0, 2.0], [1.0, 5.0]])
        >>> ice(product, codes, [0], torch.tensor([[0.0], [3.0]]), torch.tensor([1.0]))[:, :, 0]
        tensor([[-2.,  4.],
                [-5., 10.]])
    """
    _check_intervention(codes, columns, values, batch_size)
    if baseline.ndim == 1:
        check_shapes(values=(values, "values columns"), baseline=(baseline, "columns"))
        baseline = baseline.expand(len(codes), -1)
    check_shapes(
        codes=(codes, "rows codes"), values=(values, "values columns"), baseline=(baseline, "rows columns")
    )
    effects = []
    with evaluation_mode(output), torch.no_grad():
        for some, start in zip(
            torch.split(codes, batch_size), torch.split(baseline, batch_size), strict=True
        ):
            before = _intervened_output(output, some, columns, start)
            after = [_intervened_output(output, some, columns, value) for value in values]
            effects.append(torch.stack([one - before for one in after], dim=1))
    return torch.cat(effects)


def ace(
    output: CodeOutput,
    codes: Float[Tensor, "rows codes"],
    columns: Sequence[int],
    values: Float[Tensor, "values columns"],
    baseline: Float[Tensor, "rows columns"] | Float[Tensor, " columns"],
    batch_size: int = 64,
) -> Float[Tensor, "values units"]:
    """Compute the average causal effect of setting codes to values.

    ``ACE(a) = E[y | do(z_I = a)] - E[y | do(z_I = b)]``, the mean of `ice` over the rows (definition 7.1 of
    the supplement of CANDLE). The expectation is over the other codes as they are in the rows.

    Blind to: everything that `ice` is blind to, and effects of opposite signs in different rows.

    Args:
        output: see `ice`.
        codes: see `ice`.
        columns: see `ice`.
        values: see `ice`.
        baseline: see `ice`.
        batch_size: see `ice`.

    Returns:
        Effects with their signs, in the dtype of the outputs; nan where an output is nan.

    Raises:
        InputError: see `ice`.

    Example:
        >>> def product(codes):  # one unit
        ...     return codes.prod(1, keepdim=True)
        >>> codes = torch.tensor([[1.0, 2.0], [1.0, 5.0]])
        >>> ace(product, codes, [0], torch.tensor([[0.0], [3.0]]), torch.tensor([1.0]))[:, 0]
        tensor([-3.5000,  7.0000])
    """
    effects = ice(output, codes, columns, values, baseline, batch_size)
    return effects.double().mean(0).to(effects.dtype)


def _check_intervention(codes: Tensor, columns: Sequence[int], values: Tensor, batch_size: int) -> None:
    check_shapes(codes=(codes, "rows codes"), values=(values, f"values {len(columns)}"))
    for name, given in (("codes", codes), ("values", values)):
        if len(given) == 0:
            raise InputError(f"`{name}` needs at least one row, got none")
    check_columns("columns", columns, codes.shape[1])
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")


def check_columns(name: str, columns: Sequence[int], count: int) -> None:
    """Refuse an empty list of columns, and columns that do not exist.

    Args:
        name: name of the argument.
        columns: numbers of columns.
        count: number of columns that exist.

    Raises:
        InputError: there is no column, or one does not exist.

    Example:
        >>> check_columns("columns", [0, 3], 3)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `columns` must lie in 0..2, got 3
    """
    if not len(columns):
        raise InputError(f"`{name}` needs at least one code, got none")
    for column in columns:
        if not 0 <= column < count:
            raise InputError(f"`{name}` must lie in 0..{count - 1}, got {column}")


def _intervened_output(output: CodeOutput, codes: Tensor, columns: Sequence[int], values: Tensor) -> Tensor:
    """Compute the output with some codes set to values."""
    changed = codes.clone()
    changed[:, list(columns)] = values.to(codes.dtype)
    found = output(changed)
    check_shapes(codes=(codes, "rows codes"), output=(found, "rows units"))
    return found


@dataclass(frozen=True)
class CDM:
    """Effects of each code on each output unit, from one end of its range to the other.

    Attributes:
        lower: size of the average effect, at least 0; at most 1 for probabilities.
        upper: average of the sizes of the effects in each row, at least ``lower``.
    """

    lower: Float[Tensor, "codes units"]
    upper: Float[Tensor, "codes units"]


def cdm(output: CodeOutput, codes: Float[Tensor, "rows codes"], batch_size: int = 64) -> CDM:
    """Measure which factors of decoded images change if each code goes from its least to its largest value.

    With u_c the output of a predictor of factor c for the decoded image:

        lower(s, c) = |E[u_c | do(z_s = max)] - E[u_c | do(z_s = min)]|
        upper(s, c) = E |u_c(do(z_s = max)) - u_c(do(z_s = min))|

    An, Song and Jeon 2023 (Causally Disentangled Generative Variational AutoEncoder, arXiv 2302.11737), as in
    the authors' program: ``lower`` is the size of `ace`, ``upper`` the mean size of `ice`. There is no single
    number: with code s meant for factor s, entries of factors that s does not cause should be 0
    (interventional robustness), and those of s and of its effects large (counterfactual generativeness).

    Holds for dependent factors: interventions on codes leave no confounding. The effect of a code on other
    codes counts only if ``output`` computes it, as the causal layer of the paper does; otherwise other codes
    keep their values, and entries of effects of s should be 0 as well.

    Blind to: values of a code between both ends, so that a code with equal ends, such as an angle, has no
    effect; faults of the predictor on unusual images; the encoder. A single outlier sets an end of the range.

    Args:
        output: gives predictions of factors, one unit each, from codes, such as the probabilities of classes
            after a decoder and a classifier; see `ice`.
        codes: code vectors, of which the rows and the ranges count.
        batch_size: rows per call of ``output``.

    Returns:
        Values in the dtype of the outputs; nan where an output is nan. 0 for a constant code.

    Raises:
        InputError: there are no rows or codes, codes are not finite, the output is not one row of units for
            each row of codes, or ``batch_size`` is below 1.

    Example:
        >>> def decode_and_predict(codes):  # factor 1 is the product of both codes
        ...     return torch.stack([codes[:, 0], codes.prod(1)], dim=1)
        >>> found = cdm(decode_and_predict, torch.tensor([[0.0, -1.0], [1.0, 1.0]]))
        >>> found.lower
        tensor([[1., 0.],
                [0., 1.]])
        >>> found.upper
        tensor([[1., 1.],
                [0., 1.]])
    """
    check_shapes(codes=(codes, "rows codes"))
    if not codes.numel():
        raise InputError(f"`codes` needs at least one row and one code, got {list(codes.shape)}")
    if not all_finite(codes):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    low, high = codes.aminmax(dim=0)
    lower, upper = [], []
    for code in range(codes.shape[1]):
        ends = high[code].view(1, 1), low[code].view(1)
        effects = ice(output, codes, [code], *ends, batch_size)[:, 0]
        lower.append(effects.double().mean(0).abs().to(effects.dtype))
        upper.append(effects.double().abs().mean(0).to(effects.dtype))
    return CDM(torch.stack(lower), torch.stack(upper))


CounterfactualModel = Callable[
    [
        Float[Tensor, "batch channels height width"],
        Int[Tensor, "batch factors"],
        Int[Tensor, "batch factors"],
    ],
    Float[Tensor, "batch channels height width"],
]


def effectiveness(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
) -> Float[Tensor, "batch factors"]:
    """Tell whether counterfactual images show the factors that they were made for.

    1 if the classifier's most probable class of factor i is the class of the intervention, else 0
    (Monteiro et al. 2023, ICLR, arXiv 2303.01274, with the zero-one distance, for categorical factors). The
    mean over images of a changed factor tells whether the intervention succeeded; that of the other factors,
    whether they stayed as they were.

    Blind to: everything but the classes: the identity of the object, the rest of the image, and an image
    that only the classifier takes for one of its class. Rendered counterfactuals are the control: their
    effectiveness is the accuracy of the classifier.

    Args:
        classifier: gives, for images, a tensor [batch, classes] for each factor, such as `FactorHeads`;
            logits or probabilities. It runs in evaluation mode and without gradients.
        images: counterfactual images, in the colour space of the classifier.
        factors: class of each factor after the intervention, from 0.

    Returns:
        1 or 0 for each image and factor, float32; higher is better. 0 for an image with nan or infinity.

    Raises:
        InputError: the shapes do not agree, the classifier does not give a finite tensor for each factor, or
            a class is no integer or does not exist.

    Example:
        >>> def classify(images):  # two classes of one factor
        ...     return [torch.stack([1 - images.mean((1, 2, 3)), images.mean((1, 2, 3))], dim=1)]
        >>> effectiveness(classify, torch.full((1, 3, 2, 2), 0.9), torch.tensor([[1]]))
        tensor([[1.]])
    """
    check_shapes(images=(images, "batch channels height width"), factors=(factors, "batch factors"))
    check_class_indices(factors)
    failed = ~images.isfinite().all(3).all(2).all(1)
    with evaluation_mode(classifier), torch.no_grad():
        found = classify_factors(classifier, images.masked_fill(failed[:, None, None, None], 0), factors)
    predicted = torch.stack([values.argmax(1) for values in found], dim=1)
    return ((predicted == factors) & ~failed[:, None]).float()


def composition(
    counterfactual: CounterfactualModel,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    cycles: int = 1,
) -> Float[Tensor, " batch"]:
    """Measure how much interventions that change nothing change the image.

    ``d(x, x_m)`` with ``x_0 = x`` and ``x_{j + 1} = f(x_j, pa, pa)``: f makes the counterfactual of an image
    with factors pa whose factors would have been pa as well, and d is the mean absolute difference over
    pixels and channels (Monteiro et al. 2023). For an autoencoder and one cycle this is its reconstruction
    error.

    Blind to: interventions that do nothing, for which it is 0. Read it beside `effectiveness`.

    Args:
        counterfactual: gives counterfactual images of images, their factors and the factors after the
            intervention. A `torch.nn.Module` runs in evaluation mode. It runs without gradients.
        images: factual images in [0, 1].
        factors: class of each factor in the images.
        cycles: number m of interventions in a row, at least 1; the paper uses 1 and 10.

    Returns:
        Errors in the dtype of the images, lower is better; nan if a counterfactual image has a nan.

    Raises:
        InputError: the shapes do not agree, counterfactual images do not have the shape of the images, or
            ``cycles`` is below 1.

    Example:
        >>> def darker(images, factors, changed):
        ...     return images / 2
        >>> composition(darker, torch.ones(1, 3, 2, 2), torch.tensor([[0]]), cycles=2)
        tensor([0.7500])
    """
    return cycle_errors(counterfactual, images, [(factors, factors)], cycles)[:, -1]


def reversibility(
    counterfactual: CounterfactualModel,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    changed: Int[Tensor, "batch factors"],
    cycles: int = 1,
) -> Float[Tensor, " batch"]:
    """Measure how far interventions there and back lead away from the image.

    ``d(x, x_m)`` with ``x_0 = x`` and ``x_{j + 1} = f(f(x_j, pa, pa*), pa*, pa)``: f makes the counterfactual
    of an image with factors pa whose factors would have been pa*, and back; d is the mean absolute difference
    over pixels and channels (Monteiro et al. 2023).

    Blind to: interventions that do nothing, for which it is 0. Read it beside `effectiveness`.

    Args:
        counterfactual: see `composition`.
        images: factual images in [0, 1].
        factors: class of each factor in the images.
        changed: class of each factor after the intervention.
        cycles: number m of cycles there and back, at least 1.

    Returns:
        Errors in the dtype of the images, lower is better; nan if a counterfactual image has a nan.

    Raises:
        InputError: see `composition`.

    Example:
        >>> def brighten(images, factors, changed):  # by the class, but values end at 1
        ...     return (images + (changed - factors)[:, :, None, None] / 8).clamp(max=1)
        >>> images = torch.tensor([0.5, 0.75]).reshape(2, 1, 1, 1)
        >>> reversibility(brighten, images, torch.tensor([[0], [0]]), torch.tensor([[4], [4]]))
        tensor([0.0000, 0.2500])
    """
    check_shapes(factors=(factors, "batch factors"), changed=(changed, "batch factors"))
    return cycle_errors(counterfactual, images, [(factors, changed), (changed, factors)], cycles)[:, -1]


def cycle_errors(
    counterfactual: CounterfactualModel, images: Tensor, cycle: Sequence[tuple[Tensor, Tensor]], cycles: int
) -> Float[Tensor, "batch cycles"]:
    """Compute the errors after 1, 2, ... cycles of interventions, each from some factors to others.

    Args:
        counterfactual: see `composition`.
        images: see `composition`.
        cycle: factors before and after each intervention of a cycle.
        cycles: number of cycles, at least 1.

    Raises:
        InputError: see `composition`.

    Example:
        >>> def darker(images, factors, changed):
        ...     return images / 2
        >>> factors = torch.tensor([[0]])
        >>> cycle_errors(darker, torch.ones(1, 3, 2, 2), [(factors, factors)], 2)
        tensor([[0.5000, 0.7500]])
    """
    if cycles < 1:
        raise InputError(f"`cycles` must be at least 1, got {cycles}")
    shape = (images, "batch channels height width")
    check_shapes(images=shape, factors=(cycle[0][0], "batch factors"))
    found, errors = images, []
    with evaluation_mode(counterfactual), torch.no_grad():
        for _ in range(cycles):
            for before, after in cycle:
                found = counterfactual(found, before, after)
                check_shapes(images=shape, counterfactual=(found, shape[1]))
            errors.append((found - images).abs().mean((1, 2, 3)))
    return torch.stack(errors, dim=1)
