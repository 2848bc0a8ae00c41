"""Open images with comparisons of reflectance and labels of shading, of people or of the ground truth."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import FRAMES, Content, open_rows
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons, synthetic_labels
from candlelight.evaluation.views.view_colours import to_linear
from candlelight.evaluation.views.view_items import Comparisons, JudgedImage
from candlelight.evaluation.views.view_protocols import Origin
from candlelight.loaders.samples import Frames

_TRUTH = ("albedo", "shading", "depth", "normal", "object")


@dataclass(frozen=True, eq=False)
class JudgementRows(ChosenRows[JudgedImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Judgements`."""

    origin: Origin


def open_judgements(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
) -> JudgementRows:
    """Open images with judgements.

    Photographs have the judgements of people: comparisons (IIW) or labels (SAW). Frames have both, made of
    their ground truth by `synthetic_comparisons` and `synthetic_labels`. The image of frames is `radiance`
    times the set's exposure, or the decoded 8-bit `image` of sets without `radiance`.

    Args:
        data: PATH, LAYOUT:PATH (iiw, saw) or hf:NAME, see `parse_data`; any reader of frames, or one of
            `candlelight.loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: split of the data set; may be left out for frames where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.

    Returns:
        The view: `candlelight.evaluation.views.Judgements`.

    Raises:
        InputError: the data are missing or have no judgements; the set, split, row or a layer of the ground
            truth does not exist; or there are several sets or splits, and none is named.

    Example:
        >>> open_judgements("mit:MIT-intrinsic")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: mit:MIT-intrinsic: `mit` has no judgements; expected frames \
or one of the layouts iiw, saw
    """
    request = Request(data, set_name, split, rows, limit)
    named = open_rows(request, Content("judgements", ("iiw", "saw"), _layers))
    if named.identity.layout == FRAMES:
        return JudgementRows(named, partial(_read_frame, named.reader), "synthetic")
    return JudgementRows(named, partial(_read_public, named.reader), "human")


def _layers(available: Collection[str]) -> tuple[str, ...]:
    return ("radiance" if "radiance" in available else "image", *_TRUTH)


def _read_frame(frames: Frames, row: int) -> JudgedImage:
    import torch

    exposure, sample = frames.set_info.exposure, frames[row]
    linear = "radiance" in sample
    image = to_linear(sample["radiance"]) * exposure if linear else to_linear(sample["image"])
    albedo, shading, depth, normal, objects = (sample[name].numpy() for name in _TRUTH)
    points, darker, weight = synthetic_comparisons(sample["id"], albedo, objects)
    labels = synthetic_labels(albedo, shading, depth, normal, objects)
    made = Comparisons(torch.from_numpy(points), torch.from_numpy(darker), torch.from_numpy(weight))
    return JudgedImage(image, made, torch.from_numpy(labels))


def _read_public(data: Any, row: int) -> JudgedImage:
    item = data[row]
    image = to_linear(item["image"])
    if "labels" in item:
        return JudgedImage(image, None, item["labels"])
    return JudgedImage(image, Comparisons(item["points"], item["darker"], item["score"]), None)
