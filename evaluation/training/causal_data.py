"""Settings, images and foreground masks for the training of causal models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.thresholds import resize_images
from candlelight.evaluation.models.poisson import named_stream
from candlelight.evaluation.training.loop import epoch_stream
from candlelight.evaluation.training.training_rows import ImageRows
from candlelight.evaluation.training.vae_losses import factor_targets
from candlelight.evaluation.views import (
    Factors,
    Images,
    PartImage,
    open_data,
    parse_data,
)
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.supervision import k_pairs

CausalModel = Literal[
    "beta-vae",
    "beta-tcvae",
    "dip-vae-i",
    "dip-vae-ii",
    "factor-vae",
    "ss-beta-vae",
    "ss-beta-tcvae",
    "ss-dip-vae-i",
    "ss-dip-vae-ii",
    "ss-factor-vae",
    "ada-gvae",
]
_SEMI_SUPERVISED = "ss-"
# Of the released configuration; of DIP-VAE-II and Ada-GVAE, which it lacks, of the papers of these models.
_WEIGHTS = {
    "beta-vae": {"beta": 10.0},
    "beta-tcvae": {"beta": 10.0},
    "dip-vae-i": {"lambda_od": 10.0, "lambda_d": 100.0},
    "dip-vae-ii": {"lambda_od": 10.0, "lambda_d": 10.0},
    "factor-vae": {"gamma": 4.0},
    "ada-gvae": {"beta": 1.0},
}
_LABELLED = 100
SUPERVISION = 256.0  # 4 for each image of a batch of 64: the released code adds the images, ours averages


@dataclass(frozen=True)
class CausalSettings:
    """A model and how it is trained; `causal_settings` makes it.

    Attributes:
        model: name of the model.
        codes: number of codes.
        steps: number of steps.
        batch_size: images of a step, drawn with replacement; pairs of images for "ada-gvae".
        rate: learning rate of Adam, constant.
        labelled: number of labelled images of a semi-supervised model; 0 for other models.
        foreground: additional weight of the foreground in the reconstruction, if masks or boxes are given.
        weights: weights of the terms of the loss, by the symbol of their paper.
    """

    model: CausalModel
    codes: int
    steps: int
    batch_size: int
    rate: float
    labelled: int
    foreground: float
    weights: dict[str, float]

    @property
    def unsupervised(self) -> str:
        """Name of the model without its labels."""
        return self.model.removeprefix(_SEMI_SUPERVISED)

    @property
    def needs_factors(self) -> bool:
        """Whether the training reads factors, to label images or to draw pairs."""
        return self.labelled > 0 or self.model == "ada-gvae"

    def term_weights(self) -> dict[str, float]:
        """Return the weight of each term of the loss, by name.

        Example:
            >>> causal_settings("beta-tcvae").term_weights()
            {'reconstruction': 1.0, 'kl': 1.0, 'total correlation': 9.0}
        """
        weights, model = self.weights, self.unsupervised
        found = {"reconstruction": 1.0, "kl": weights["beta"] if model in ("beta-vae", "ada-gvae") else 1.0}
        if model == "beta-tcvae":
            found["total correlation"] = weights["beta"] - 1
        if model == "factor-vae":
            found["total correlation"] = weights["gamma"]
        if model.startswith("dip-vae"):
            found["covariance"] = 1.0  # whose parts have weights of their own
        if "supervision" in weights:
            found["supervision"] = weights["supervision"]
        return found


def causal_settings(
    model: CausalModel,
    *,
    codes: int = 64,
    steps: int = 30_000,
    batch_size: int = 64,
    rate: float = 1e-4,
    labelled: int | None = None,
    foreground: float = 2.0,
    **weights: float,
) -> CausalSettings:
    """Take the settings of CANDLE's authors for a model, some of them replaced.

    Models: "beta-vae" (`gaussian_kl`), "beta-tcvae" (`total_correlation`), "dip-vae-i" and "dip-vae-ii"
    (`dip_penalty`), "factor-vae" (`density_ratio`), each also with a few labels as "ss-..."
    (`supervised_codes_loss`), and "ada-gvae" (`share_posterior`), which learns from pairs of images.

    Args:
        model: name of the model.
        codes: number of codes.
        steps: number of steps.
        batch_size: images of a step, at least 2.
        rate: learning rate of Adam.
        labelled: number of labelled images of a semi-supervised model; None for 100.
        foreground: additional weight of the foreground, if masks or boxes are given.
        weights: weights of the loss: ``beta``, ``gamma``, ``lambda_od``, ``lambda_d``, ``supervision``, if
            the model has them.

    Raises:
        InputError: there is no such model, the model has no such weight or no labels, or a number is out of
            range.

    Example:
        >>> causal_settings("dip-vae-i", steps=1000, lambda_od=5).weights
        {'lambda_od': 5, 'lambda_d': 100.0}
        >>> causal_settings("ss-factor-vae").weights
        {'gamma': 4.0, 'supervision': 256.0}
        >>> causal_settings("beta-vae", gamma=4)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `gamma`: beta-vae has no such weight; expected beta
    """
    check_choice("model", model, CausalModel)
    supervised = model.startswith(_SEMI_SUPERVISED)
    if labelled is not None and not supervised:
        raise InputError(f"`labelled`: {model} has no labels; the models {_SEMI_SUPERVISED} have some")
    labels = _LABELLED if labelled is None else labelled
    for name, count, least in (
        ("codes", codes, 1),
        ("steps", steps, 1),
        ("batch_size", batch_size, 2),
        ("labelled", labels, 1),
    ):
        if count < least:
            raise InputError(f"`{name}` must be at least {least}, got {count}")
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    known = dict(_WEIGHTS[model.removeprefix(_SEMI_SUPERVISED)])
    known |= {"supervision": SUPERVISION} if supervised else {}
    for name, value in {"foreground": foreground, **weights}.items():
        if name not in (*known, "foreground"):
            names = ", ".join(known)
            raise InputError(
                f"`{name}`: {model} has no such weight; expected {names}{did_you_mean(name, known)}"
            )
        if not 0 <= value < math.inf:
            raise InputError(f"`{name}` must be at least 0 and finite, got {value}")
    return CausalSettings(
        model, codes, steps, batch_size, rate, labels if supervised else 0, foreground, known | weights
    )


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
        settings: the model and its settings.
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
        settings: CausalSettings,
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
        if settings.labelled:
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
        count = self._settings.labelled
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
