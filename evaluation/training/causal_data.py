"""Images and foreground masks for the training of causal models."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.training_options import CausalTraining
from candlelight.evaluation.training.loop import epoch_stream
from candlelight.evaluation.training.losses import factor_targets
from candlelight.evaluation.training.training_rows import ImageRows
from candlelight.evaluation.views import Factors, Images, PartImage, open_data, parse_data
from candlelight.evaluation.views.image_tensors import resize_images
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.supervision import k_pairs


def mask_boxes(masks: Bool[Tensor, "batch height width"]) -> Int[Tensor, "batch 4"]:
    """Find the box of each mask as (left, top, right, bottom), right and bottom excluded; zeros if empty.

    Example:
        >>> mask = torch.zeros(1, 4, 5, dtype=torch.bool)
        >>> mask[0, 1:3, 2] = True
        >>> mask_boxes(mask)
        tensor([[2, 1, 3, 3]])
    """
    bounds = []
    for axis in (1, 2):
        inside = masks.any(axis).long()  # of columns, then of rows
        first, last = inside.argmax(1), inside.shape[1] - inside.flip(1).argmax(1)
        bounds.append((first, torch.where(inside.any(1), last, 0)))
    (left, right), (top, bottom) = bounds
    return torch.stack([left, top, right, bottom], 1)


def box_masks(
    boxes: Int[Tensor, "batch 4"], height: int, width: int
) -> Bool[Tensor, "batch {height} {width}"]:
    """Fill boxes (left, top, right, bottom), right and bottom excluded; parts outside the image are cut off.

    Example:
        >>> box_masks(torch.tensor([[1, -5, 9, 1]]), 2, 3).int()
        tensor([[[0, 1, 1],
                 [0, 0, 0]]], dtype=torch.int32)
    """
    left, top, right, bottom = boxes[:, :, None].unbind(1)
    rows, columns = (torch.arange(size, device=boxes.device) for size in (height, width))
    inside_rows = (rows >= top) & (rows < bottom)
    inside_columns = (columns >= left) & (columns < right)
    return inside_rows[:, :, None] & inside_columns[:, None]


def foreground_weights(
    masks: Float[Tensor, "batch height width"], extra: float
) -> Float[Tensor, "batch 1 h w"]:
    """Weigh pixels by ``1 + extra * mask`` for `bernoulli_error`.

    Args:
        masks: share of each pixel that is foreground, in [0, 1].
        extra: additional weight of the foreground; 2 in the semi-supervised models of CANDLE's authors, 100
            in their unsupervised one.

    Example:
        >>> foreground_weights(torch.tensor([[[0.0, 1.0]]]), 2)
        tensor([[[[1., 3.]]]])
    """
    return (1 + extra * masks)[:, None]


ForegroundKind = Literal["mask", "box"]


def read_foreground(
    data: Any, kind: ForegroundKind, size: int | None = None, **choice: Any
) -> Float[Tensor, "rows height width"]:
    """Read the foreground of each row, for `train_causal`.

    Args:
        data: frames or a pack with the layer `object`, or candle:PATH, which has boxes alone.
        kind: "mask" for the visible pixels of all objects; "box" for their bounding box, which is the box of
            the metadata if there is one object.
        size: side of the squares to which masks are resized, as images are; None keeps them.
        choice: set, split, rows and limit as for `open_data("factors", ...)`.

    Returns:
        Share of each pixel that is foreground, in [0, 1].

    Raises:
        InputError: the data cannot be read or have no such foreground, or the images have several sizes.
    """
    check_choice("kind", kind, ForegroundKind)
    read = _candle_boxes if parse_data(data).layout == "candle" else _object_masks
    masks = []
    for mask in read(data, kind, choice):
        one = mask.float()
        if size is not None:
            one = resize_images(one[None, None], (size, size))[0, 0]
        masks.append(one)
    if len(sizes := sorted({tuple(mask.shape) for mask in masks})) > 1:
        raise InputError(
            f"expected images of one size, got {sizes[0]} and {sizes[1]}; resize them ({argument('size')})"
        )
    return torch.stack(masks)


def _candle_boxes(data: Any, kind: ForegroundKind, choice: dict[str, Any]) -> Any:
    if kind == "mask":
        raise InputError(f"{data}: `candle` has no masks; take its boxes ({argument('kind')} box)")
    view = open_data("factors", data, **choice)
    for number in progress_bar(view.named.numbers, desc="boxes", unit="row"):
        sample = view.named.reader[number]
        yield box_masks(sample["bbox"][None], *sample["image"].shape[1:])[0]


def _object_masks(data: Any, kind: ForegroundKind, choice: dict[str, Any]) -> Any:
    view = open_data("parts", data, **choice)
    for row in progress_bar(range(len(view)), desc="masks", unit="row"):
        mask = _union(view[row])
        yield mask if kind == "mask" else box_masks(mask_boxes(mask[None]), *mask.shape)[0]


def _union(item: PartImage) -> Bool[Tensor, "height width"]:
    empty = torch.zeros(item.image.shape[1:], dtype=torch.bool)
    return torch.stack([empty, *item.masks.values()]).any(0)


_TRIES = 64  # draws of a batch of pairs, of which those without a second image are left out


class CausalBatches:
    """Batches by the number of the step, for `torch.utils.data.DataLoader` with any number of workers.

    A batch is a dict of ``images``, which for pairs holds all first and then all second images; of
    ``foreground``, their masks, if there are some; and of ``labelled`` and ``targets`` for a semi-supervised
    model. Every step draws its rows anew.

    Args:
        data: images of one size.
        rows: rows to train on.
        settings: the model and its options.
        seed: seed of all draws.
        factors: the factors of the rows of ``data``; only semi-supervised models and "ada-gvae" need them.
        foreground: share of each pixel that is foreground, for each row of ``data``; None without.

    Attributes:
        reader: the images, of which the first read are kept in memory.
        label_rows: rows whose labels are read.
        targets: factors that have several values among these rows.

    Raises:
        InputError: the model needs factors, and there are none; there are fewer rows than labels are asked
            for, fewer codes than factors, or no factor varies.
    """

    def __init__(
        self,
        data: Images,
        rows: Sequence[int],
        settings: CausalTraining,
        seed: int,
        factors: Factors | None = None,
        foreground: Float[Tensor, "rows height width"] | None = None,
    ) -> None:
        self.reader = ImageRows(data)
        self._rows, self._settings, self._seed = np.array(rows), settings, seed
        self._foreground, self.label_rows = foreground, self._rows[:0]
        self.targets: tuple[str, ...] = ()
        self._index: FactorIndex | None = None
        if not settings.needs_factors:
            return
        if factors is None or tuple(factors.ids) != tuple(data.ids):
            raise InputError(f"{settings.model}: expected `factors` of the same rows as the images")
        if settings.supervised:
            self._label(factors)
        else:
            self._index = FactorIndex.from_table(factors.factors, np.asarray(factors.table)[self._rows])

    def __getitem__(self, step: int) -> dict[str, Tensor]:
        """Read the batch of a step."""
        rows = self._draw(step) if self._index is None else self._draw_pairs(self._index, step)
        batch = {"images": self.reader.read(self._rows[rows].tolist())}
        if self._foreground is not None:
            batch["foreground"] = self._foreground[self._rows[rows]]
        if len(self.label_rows):
            draws = epoch_stream(self._seed, "labelled rows", step)
            places = torch.randint(len(self.label_rows), (self._settings.batch_size,), generator=draws)
            chosen = self.label_rows[places.numpy()]
            batch["labelled"] = self.reader.read(chosen.tolist())
            batch["targets"] = self._values[chosen]
        return batch

    def _label(self, factors: Factors) -> None:
        count = self._settings.labels
        if count > len(self._rows):
            raise InputError(
                f"expected at least {count} training images to label, got {len(self._rows)}; label fewer "
                f"({argument('labelled')}), or give more"
            )
        self.label_rows = np.sort(named_stream(self._seed, "labelled").permutation(self._rows)[:count])
        self.targets, self._values = factor_targets(factors, self.label_rows.tolist())
        if len(self.targets) > self._settings.codes:
            raise InputError(
                f"expected at least a code for each of the factors {', '.join(self.targets)}, got "
                f"{self._settings.codes}; give more ({argument('codes')})"
            )

    def _draw(self, step: int) -> Int[ndarray, " batch"]:
        draws = epoch_stream(self._seed, "rows", step)
        return torch.randint(len(self._rows), (self._settings.batch_size,), generator=draws).numpy()

    def _draw_pairs(self, index: FactorIndex, step: int) -> Int[ndarray, " rows"]:
        """Draw pairs that differ in 1 to all but one of the factors, all first and then all second rows."""
        size = self._settings.batch_size
        firsts, seconds = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for attempt in range(_TRIES):
            items = (step * _TRIES + attempt) * size + np.arange(size)
            pairs = k_pairs(index, self._seed, items, distinct=True, missing="mask")
            firsts = np.append(firsts, pairs.first[pairs.exists])
            seconds = np.append(seconds, pairs.second[pairs.exists])
            if len(firsts) >= size:
                return np.concatenate([firsts[:size], seconds[:size]])
        raise InputError(
            f"expected pairs of images that share some factors and differ in others, found {len(firsts)} in "
            f"{_TRIES * size} draws; give more images, or factors without continuous values"
        )
