"""Regimes: kinds of supervision, each with its loss."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.training.consistency_loss import consistency_loss
from candlelight.evaluation.training.style_loss import style_content_loss
from candlelight.evaluation.training.supervised_loss import intrinsic_loss
from candlelight.evaluation.training.training_rows import TrainingBatch

Regime = Literal["supervised", "multi-illumination", "unsupervised"]


def regime_loss(
    regime: Regime,
    prediction: tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]],
    batch: TrainingBatch,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Compute the loss of a regime.

    Args:
        regime: "supervised" (`intrinsic_loss` of both parts), "multi-illumination" (`consistency_loss`, which
            reads the images alone) or "unsupervised" (`style_content_loss`, which reads the images, and the
            reflectance and shading of other scenes).
        prediction: reflectance and shading of the images, scene-linear.
        batch: the images, on the device of the prediction.
        generator: source of random numbers, on the CPU.
    """
    truth = batch.truth
    if regime == "supervised":
        reflectance, shading = prediction[0], truth.comparable(prediction[1])
        error = intrinsic_loss(reflectance, truth.reflectance, truth.mask)
        return (error + intrinsic_loss(shading, truth.shading.expand_as(shading), truth.mask)).mean()
    if regime == "multi-illumination":
        return consistency_loss(*prediction, truth.image, truth.mask, batch.scenes)
    assert batch.others is not None
    return style_content_loss(*prediction, truth.image, truth.mask, batch.others, generator)
