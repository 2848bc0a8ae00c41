"""Batches for the training of autoencoders: each depends on the seed and on the number of its step alone."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.training.causal_settings import CausalSettings
from candlelight.evaluation.training.code_supervision import factor_targets
from candlelight.evaluation.training.epoch_stream import epoch_stream
from candlelight.evaluation.training.labelled_rows import LabelledRows
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.supervision import k_pairs
from candlelight.loaders.views import Factors, Images

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
        # The reader's labels are not used: targets are numbers, not classes.
        self.reader = LabelledRows(data, range(len(data)), len(data))
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
        images, _ = self.reader.read(self._rows[rows].tolist())
        batch = {"images": images}
        if self._foreground is not None:
            batch["foreground"] = self._foreground[self._rows[rows]]
        if len(self.label_rows):
            draws = epoch_stream(self._seed, "labelled rows", step)
            places = torch.randint(len(self.label_rows), (self._settings.batch_size,), generator=draws)
            chosen = self.label_rows[places.numpy()]
            batch["labelled"], _ = self.reader.read(chosen.tolist())
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
