"""Compute the codes of encoders for all images of a view."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.match_ids import first_three
from candlelight.evaluation.inputs.predictions import Codes
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.batches import Fingerprint, check_srgb_image, read_batches
from candlelight.evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from candlelight.evaluation.running.model_outputs import checked_codes
from candlelight.evaluation.running.named_models import decode, run_model
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import Factors


def compute_codes(
    named_models: Mapping[str, NamedModel],
    data: Factors,
    batch_size: int,
    device: str,
    fingerprint: Fingerprint,
    steps: FinishedSteps,
    **key: Any,
) -> dict[str, Float[Tensor, "samples codes"]]:
    """Compute the codes of all rows, on the CPU, for each encoder.

    Args:
        named_models: encoders of images, or codes of another program, by name.
        data: images with factors.
        batch_size: images per pass.
        device: torch device of the encoders.
        fingerprint: takes the ids, images and factors of the rows.
        steps: keeps the codes of finished batches.
        key: metric and version, of which these codes are a part.

    Raises:
        InputError: codes are not finite, or differ in number between images.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in named_models}
    keys = {name: model_key(named, device, **key) for name, named in named_models.items()}
    for batch in read_batches(data, batch_size, check_srgb_image, fingerprint, "encode"):
        images = batch.stack(lambda image: image)
        for name, named in named_models.items():
            if isinstance(named.model, Codes):
                continue

            def encode(named: NamedModel = named, images: Tensor = images) -> dict[str, Tensor]:
                return {"codes": encode_images(named, images, device)}

            step = steps.get_or_compute(batch_key(keys[name], batch, fingerprint), encode)
            parts[name].append(step["codes"])
    for name, some in parts.items():
        if len(widths := sorted({part.shape[1] for part in some})) > 1:
            raise InputError(
                f"`{name}`: expected as many codes of each image, got {widths[0]} and {widths[-1]} codes"
            )
    for row, name in enumerate(data.ids):
        fingerprint.add(name, torch.from_numpy(np.asarray(data.table)[row]))
    codes = {
        name: named.model.matched(data.ids, data.known_ids, None)
        if isinstance(named.model, Codes)
        else torch.cat(parts[name])
        for name, named in named_models.items()
    }
    for name, rows in codes.items():
        if failed := [data.ids[row] for row in (~rows.isfinite().all(1)).nonzero().flatten().tolist()]:
            raise InputError(f"`{name}`: codes must be finite, got nan or inf for {first_three(failed)}")
    return codes


def encode_images(
    named: NamedModel, images: Float[Tensor, "batch 3 height width"], device: str
) -> Float[Tensor, "batch codes"]:
    """Compute the codes of sRGB-encoded images, on the CPU, in float32 at least."""
    (codes,) = run_model(named, decode(images), device, lambda *output: (checked_codes(*output),))
    return codes.to(torch.promote_types(codes.dtype, torch.float32))
