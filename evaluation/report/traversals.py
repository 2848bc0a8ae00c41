"""Traversals: decoded images while one code changes, for a page of causal results."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.decode_codes import Decoder, decode_codes
from candlelight.evaluation.causal.scoring.compute_codes import encode_images
from candlelight.evaluation.causal.scoring.score_decoder import find_decoder
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, PicturesBlock, png_picture
from candlelight.evaluation.report.tiles import encoded_pixels, evenly_spaced_rows
from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.views import Factors

_IMAGES, _STEPS, _CODES = 2, 7, 10
_RANGE = 64  # images whose codes give the range of each code


def traversal_pictures(models: Mapping[str, object], data: Factors, device: str) -> list[Block]:
    """Decode images while one code at a time runs through its range, for each model with a decoder.

    Args:
        models: the encoders of `score_causal`, by name.
        data: the images.
        device: torch device of the models.

    Returns:
        A block for each model with a method ``decode`` that gives images like these in [0, 1]: one picture
        for each of two images. Its first row is the image and its reconstruction; each other row changes one
        code, from its smallest to its largest value among the images, at most ten codes of the largest
        spread.
    """
    blocks: list[Block] = []
    for name, named in models.items():
        if isinstance(named, NamedModel) and (decoder := find_decoder(named, device)) is not None:
            try:
                blocks.append(_traverse(name, named, decoder, data, device))
            except InputError:  # a note of the results tells why
                continue
    return blocks


def _traverse(name: str, named: NamedModel, decoder: Decoder, data: Factors, device: str) -> PicturesBlock:
    ranged = torch.stack([data[row] for row in evenly_spaced_rows(len(data), _RANGE)])
    codes = encode_images(named, ranged, device).float()
    chosen = codes.std(0).argsort(descending=True)[:_CODES].sort().values
    low, high = codes.amin(0), codes.amax(0)
    pictures = []
    for row in evenly_spaced_rows(len(data), _IMAGES):
        image = data[row]
        own = encode_images(named, image[None], device).float()
        reconstruction = _decode(decoder, own)
        check_shapes(
            image=(image[None], "batch channels h w"), decoder=(reconstruction, "batch channels h w")
        )
        rows = [_walk(decoder, own[0], int(code), low, high) for code in chosen]
        top = [encoded_pixels(image), encoded_pixels(reconstruction[0])]
        top += [np.full_like(top[0], 255)] * (_STEPS - len(top))
        pixels = np.concatenate([np.concatenate(one, axis=1) for one in (top, *rows)])
        listed = ", ".join(str(int(code)) for code in chosen)
        alt = f"Decoded images of {data.ids[row]}; each row changes one of the codes {listed}."
        pictures.append(png_picture(pixels, alt, f"{data.ids[row]}: codes {listed}"))
    caption = f"{name}: traversals. First row: image, reconstruction. Each other row changes one code from "
    caption += "its smallest to its largest value among the images."
    return PicturesBlock(tuple(pictures), caption)


def _walk(
    decoder: Decoder,
    own: Float[Tensor, " codes"],
    code: int,
    low: Float[Tensor, " codes"],
    high: Float[Tensor, " codes"],
) -> list[Pixels]:
    codes = own.repeat(_STEPS, 1)
    codes[:, code] = torch.linspace(float(low[code]), float(high[code]), _STEPS)
    return [encoded_pixels(image) for image in _decode(decoder, codes)]


def _decode(
    decoder: Decoder, codes: Float[Tensor, "batch codes"]
) -> Float[Tensor, "batch channels height width"]:
    return decode_codes(decoder, codes, codes, torch.zeros(codes.shape[1], dtype=torch.bool))
