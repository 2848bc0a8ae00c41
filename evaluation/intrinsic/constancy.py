"""Constancy of predicted reflectance over lights, on regions of one material."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.masked import is_finite, result_dtype
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

_FLOOR = 1e-6  # of denominators, where the mean of a scene is 1
LEAST_CHROMA = 1e-6  # smaller variance of the true chroma counts as none; rounded gray has less

_Scenes = Float[Tensor, "batch lights materials 3"]


def material_variation(prediction: _Scenes, align: bool = True) -> Float[Tensor, " batch"]:
    """Compute the variation of each material over the lights, ``C_mat``, averaged over the materials.

    ``mean_m std_k(mu_mk) / mean_k(mu_mk)``, where mu_mk is the mean of channels of material m in light k and
    std is that of the population. Intrinsic images are defined up to one scale per image, which is no error
    of constancy. So with ``align`` the prediction of each light is first divided by its mean over materials.
    This scale needs no reference, treats all lights alike, and brings any prediction that is right up to a
    scale to 0. Without it the value also counts how the exposure of predictions changes, as in CARI.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale.
        align: whether each light has a scale of its own.

    Returns:
        One value per scene in [0, sqrt(lights - 1)], lower is better; nan if a prediction is not finite or a
        light's mean is not positive (a failed prediction), or, with ``align``, if there are fewer than two
        materials. Blind to colour, to variation within a material, and to anything that is wrong under all
        lights alike: a constant prediction gives 0.

    Raises:
        InputError: the shape is another one, or there are fewer than two lights.

    Example:
        >>> albedo = torch.tensor([[0.2, 0.2, 0.2], [0.6, 0.6, 0.6]])
        >>> lights = torch.stack([albedo, 3 * albedo])[None]
        >>> material_variation(lights).round(decimals=6), material_variation(lights, align=False)
        (tensor([0.]), tensor([0.5000]))
    """
    values, usable = _checked(prediction)
    gray = _aligned(values, (2, 3) if align else (1, 2, 3)).mean(3)
    variation = _variance(gray, 1).sqrt() / gray.mean(1).clamp(min=_FLOOR)
    if align and prediction.shape[2] < 2:
        usable = torch.zeros_like(usable)
    return variation.mean(1).masked_fill(~usable, torch.nan).to(result_dtype(prediction))


def chroma_drift(prediction: _Scenes) -> Float[Tensor, " batch"]:
    """Compute the drift of each material's chroma over the lights, averaged over the materials.

    ``E_m[Var_k(R/G)] + E_m[Var_k(B/G)]`` over lights k and materials m, of mean colours. Only variance within
    a material counts: pooled over materials, the variance would fall when a model makes all of them gray.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale per light.

    Returns:
        One value per scene, >= 0, lower is better; nan if a prediction is not finite or a light's mean is not
        positive (a failed prediction). Blind to intensity and to lost chroma: gray predictions give 0, so
        read it beside `chroma_retention`.

    Raises:
        InputError: the shape is another one, or there are fewer than two lights.

    Example:
        >>> one, other = torch.tensor([[0.4, 0.4, 0.4]]), torch.tensor([[0.6, 0.4, 0.4]])
        >>> chroma_drift(torch.stack([one, other])[None]).round(decimals=4)
        tensor([0.0625])
    """
    values, usable = _checked(prediction)
    drift = _variance(_chroma(_aligned(values)), 1).sum(2).mean(1)
    return drift.masked_fill(~usable, torch.nan).to(result_dtype(prediction))


def chroma_retention(
    prediction: _Scenes, target: Float[Tensor, "batch materials 3"]
) -> Float[Tensor, " batch"]:
    """Compute how much of the chroma that tells the materials apart a prediction retains.

    ``(Var_m(r) + Var_m(b)) / (Var_m(R/G) + Var_m(B/G))`` over materials m, where r and b are the prediction's
    R/G and B/G, averaged over the lights, and the denominator is that of the truth.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale per light.
        target: true reflectance of each material, scene-linear, in any scale.

    Returns:
        One value per scene, >= 0: 1 is right, 0 is gray or constant, above 1 is too much; nan if a prediction
        is not finite or a light's mean is not positive (a failed prediction), or if the truth is not finite
        or has a variance below `LEAST_CHROMA`. Blind to which material has which chroma.

    Raises:
        InputError: the shapes do not agree, or there are fewer than two lights.

    Example:
        >>> albedo = torch.tensor([[0.2, 0.4, 0.4], [0.6, 0.4, 0.4]])
        >>> chroma_retention(torch.stack([albedo, 3 * albedo])[None], albedo[None]).round(decimals=6)
        tensor([1.])
    """
    axes = "batch lights materials 3"
    check_shapes(prediction=(prediction, axes), target=(target, "batch materials 3"))
    values, usable = _checked(prediction)
    true = target.double()
    known = is_finite(true)
    true = torch.where(known[:, None, None], true, 1.0)[:, None]
    spread, true_spread = (
        _variance(_chroma(_aligned(colours)).mean(1), 1).sum(1) for colours in (values, true)
    )
    known &= true_spread >= LEAST_CHROMA
    retained = spread / true_spread.clamp(min=LEAST_CHROMA)
    return retained.masked_fill(~(usable & known), torch.nan).to(result_dtype(prediction))


def _checked(
    prediction: Tensor,
) -> tuple[Float64[Tensor, "batch lights materials 3"], Bool[Tensor, " batch"]]:
    """Check the shape, tell which scenes are usable, and set the other scenes to 1."""
    check_shapes(prediction=(prediction, "batch lights materials 3"))
    if prediction.shape[1] < 2:
        raise InputError(f"constancy needs at least 2 lights, got {prediction.shape[1]}")
    values = prediction.double()
    usable = is_finite(values) & (values.mean((2, 3)) > 0).all(1)
    return torch.where(usable[:, None, None, None], values, 1.0), usable


def _aligned(
    values: Float64[Tensor, "batch lights materials 3"], axes: tuple[int, ...] = (2, 3)
) -> Float64[Tensor, "batch lights materials 3"]:
    """Divide by the mean: of each light, or of ``axes``."""
    return values / values.mean(axes, keepdim=True)


def _chroma(
    values: Float64[Tensor, "batch lights materials 3"],
) -> Float64[Tensor, "batch lights materials 2"]:
    """Compute R/G and B/G."""
    return values[..., [0, 2]] / values[..., 1:2].clamp(min=_FLOOR)


def _variance(values: Tensor, axis: int) -> Tensor:
    """Compute the variance of a population; `Tensor.var` warns where the result is empty."""
    return (values - values.mean(axis, keepdim=True)).square().mean(axis)


def gray_reflectance(
    image: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the mean of the image's channels as reflectance, and shading 1: a control without chroma.

    Args:
        image: scene-linear Rec.709, [batch, 3, height, width].

    Example:
        >>> gray_reflectance(torch.tensor([0.2, 0.4, 0.6]).reshape(1, 3, 1, 1))[0].flatten()
        tensor([0.4000, 0.4000, 0.4000])
    """
    return image.mean(1, keepdim=True).expand_as(image), torch.ones_like(image)
