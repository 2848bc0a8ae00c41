"""Decoded counterfactuals beside rendered ones, for a page of causal results."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.decode_codes import Decoder
from candlelight.evaluation.causal.scoring.compute_codes import encode_images
from candlelight.evaluation.causal.scoring.score_decoder import find_decoder
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, PicturesBlock, png_picture
from candlelight.evaluation.report.tiles import encoded_pixels, scale_for_page
from candlelight.evaluation.results.result import Result
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.views import Factors

_FACTORS = 6
_GAP = 2  # white pixels between images


def rendered_pictures(
    models: Mapping[str, object],
    results: Mapping[str, Result],
    data: Factors,
    counterfactuals: Factors,
    device: str,
) -> list[Block]:
    """Show decoded counterfactuals beside rendered ones, for each model with a decoder.

    Args:
        models: the encoders of `score_causal`, by name.
        results: its results, by name.
        data: the images.
        counterfactuals: images among which the counterfactuals were found.
        device: torch device of the models.

    Returns:
        A block for each model with a decoder, with a picture for each of at most six factors: an image, its
        reconstruction, the decoded image with the code of the factor set to its value for the counterfactual,
        and the rendered counterfactual. The value of the code is that of another image with the new factor.
    """
    blocks: list[Block] = []
    for name, named in models.items():
        if not isinstance(named, NamedModel) or (decoder := find_decoder(named, device)) is None:
            continue
        found = results[name].details.get("rendered")
        if not found:
            continue
        pictures = []
        for factor, one in list(found["factors"].items())[:_FACTORS]:
            if not (codes := one["codes"].get("1")):
                continue  # no code varies
            own, *others = one["example"]
            pair = data.ids.index(own), counterfactuals.ids.index(others[0])
            donor = counterfactuals[counterfactuals.ids.index(others[1])]
            pixels = _row(named, decoder, data[pair[0]], counterfactuals[pair[1]], donor, codes, device)
            change = _change(data, counterfactuals, pair, factor)
            alt = f"Image, reconstruction, decoded and rendered counterfactual: {factor} {change}."
            pictures.append(png_picture(scale_for_page(pixels), alt, f"{factor}: {change}; code {codes[0]}"))
        caption = (
            f"{name}: decoded and rendered counterfactuals. From the left: image, reconstruction, decoded "
            "with one code set to its value in another image with the new factor, rendered counterfactual."
        )
        if pictures:
            blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks


def _row(
    named: NamedModel,
    decoder: Decoder,
    image: Float[Tensor, "3 h w"],
    rendered: Float[Tensor, "3 h w"],
    donor: Float[Tensor, "3 h w"],
    changed: list[int],
    device: str,
) -> Pixels:
    """Join the four images of a pair."""
    own, target = encode_images(named, torch.stack([image, donor]), device).float()
    moved = own.clone()
    moved[changed] = target[changed]
    shown = [image, *decoder(torch.stack([own, moved])).clamp(0, 1), rendered]
    tiles = [encoded_pixels(one) for one in shown]
    height = max(tile.shape[0] for tile in tiles)
    padded = [
        np.pad(tile, ((0, height - len(tile)), (0, _GAP), (0, 0)), constant_values=255) for tile in tiles
    ]
    return np.concatenate(padded, axis=1)[:, :-_GAP]


def _change(data: Factors, counterfactuals: Factors, pair: tuple[int, int], factor: str) -> str:
    """Write the two values of a factor."""
    values: list[FactorValue] = []
    for view, row in zip((data, counterfactuals), pair, strict=True):
        column = [info.name for info in view.factors].index(factor)
        number, known = float(view.table[row, column]), view.factors[column].values
        values.append(known[int(number)] if known else number)
    return " → ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)
