"""Counterfactual generativeness of an encoder that has a decoder, for `score_causal`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.baseline_codes import Baseline
from candlelight.evaluation.causal.interventions.counterfactual_generativeness import (
    counterfactual_generativeness,
)
from candlelight.evaluation.causal.interventions.decode_codes import Decoder, resize_decoded
from candlelight.evaluation.causal.interventions.factor_probabilities import FactorClassifier
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.causal.scoring.code_metrics import RHO
from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.shrink_for_heads import shrink_for_heads
from candlelight.evaluation.causal.select_codes import select_codes
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.evaluation.running.model_outputs import model_errors
from candlelight.evaluation.running.named_models import encode
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import Factors

ROWS = 1000  # most images whose codes are decoded, spread evenly


def find_decoder(named: NamedModel, device: str) -> Decoder | None:
    """Return the method ``decode`` of a model, with sRGB-encoded images; None if the model has none.

    The decoder runs in evaluation mode. It raises an InputError if the method fails or gives no tensor.

    Example:
        >>> from candlelight.evaluation.models import ModelIdentity
        >>> find_decoder(NamedModel(ModelIdentity("mean", "callable"), len, "srgb"), "cpu") is None
        True
    """
    model = getattr(named.model, "network", named.model)
    decode = getattr(model, "decode", None)
    if not callable(decode):
        return None

    name = f"{named.identity.name}.decode"

    def decoder(codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch channels height width"]:
        given = codes.float().to(device)
        with evaluation_mode(model), torch.no_grad(), model_errors(name, given):
            images = decode(given)
        if not isinstance(images, Tensor):
            raise InputError(
                f"{name}: expected a tensor of images [batch, 3, height, width], got {type(images).__name__}"
            )
        images = images.cpu().float()
        return encode(images) if named.colour_space == "linear" else images

    return decoder


def score_decoder(
    decoder: Decoder,
    codes: Float[Tensor, "images codes"],
    data: Factors,
    table: FactorTable,
    classifier: FactorClassifier,
    accuracy: Mapping[str, float],
    baseline: Baseline,
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Compute counterfactual generativeness for each of `RHO`, over at most `ROWS` images.

    Decoded images are resized to the size of the images that the classifier was trained on.

    Args:
        decoder: gives sRGB-encoded images in [0, 1].
        codes: codes of all images.
        data: the images, for the reconstruction error.
        table: factors of the images.
        classifier: gives the logits of each factor.
        accuracy: held-out accuracy of each factor.
        baseline: see `baseline_codes`.

    Returns:
        Scores by name, nan if fewer codes vary; and details: for each of `RHO` the effects inside and outside
        the codes of each factor, the factors that are left out, and the mean squared reconstruction error.

    Raises:
        InputError: the decoder fails, or see `counterfactual_generativeness`.
    """
    found = irs(codes, table.classes)
    rows = np.unique(np.linspace(0, len(codes) - 1, min(ROWS, len(codes))).round().astype(int)).tolist()
    images = torch.stack([shrink_for_heads(data[row]) for row in rows])
    groups = [data.groups[row] for row in rows]
    scores: dict[str, Score] = {}
    details: dict[str, Any] = {}
    for number in RHO:
        name = f"counterfactual_generativeness({number})"
        if number > len(found.codes):
            scores[name] = Score(math.nan, math.nan, math.nan)
            continue
        result = counterfactual_generativeness(
            codes[rows],
            table.classes[rows],
            select_codes(found, number),
            resize_decoded(decoder, images.shape[2:]),
            classifier,
            accuracy,
            baseline=baseline,
            images=images,
        )
        scores[name] = result.intervals(groups)["counterfactual_generativeness"]
        assert result.reconstruction_error is not None  # images were given
        details[name] = {
            "factors": list(result.factors),
            "by_factor": result.by_factor.tolist(),
            "inside": result.inside.tolist(),
            "outside": result.outside.tolist(),
            "left_out": result.left_out,
            "reconstruction_error": float(result.reconstruction_error.mean()),
            "rows": len(rows),
        }
    return scores, details
