"""Labelled images for the training of a classifier: read once, and arranged in batches."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.run.batches import Fingerprint, check_srgb_image
from candlelight.evaluation.training.intrinsic_data import CACHE_BYTES
from candlelight.evaluation.views import Images
from candlelight.loaders.errors import InputError, argument


class LabelledRows:
    """Images of a view with one label each.

    Args:
        data: images of one size.
        labels: class of each row, from 0.
        classes: number of classes.

    Raises:
        InputError: there are more or fewer labels than rows, or a label is no class.
    """

    def __init__(self, data: Images, labels: Sequence[int], classes: int) -> None:
        if len(labels) != len(data):
            raise InputError(f"expected a label for each of the {len(data)} rows, got {len(labels)} labels")
        self.labels = [int(label) for label in labels]
        for label in self.labels:
            if not 0 <= label < classes:
                raise InputError(f"`labels` must lie in 0..{classes - 1}, got {label}")
        self._data, self._ids, self._classes = data, data.ids, classes
        self._most_kept = CACHE_BYTES // (data[0].numel() * 4)
        self._kept: dict[int, Tensor] = {}

    def check_classes(self, rows: Sequence[int]) -> None:
        """Refuse training rows without an example of some class.

        Raises:
            InputError: a class has no training row.
        """
        if lacking := set(range(self._classes)).difference(self.labels[row] for row in rows):
            raise InputError(
                f"expected training rows of all {self._classes} classes, got none of class {min(lacking)}; "
                "give other rows, hold out fewer, or build the network with fewer classes"
            )

    def sha256(self, rows: Sequence[int]) -> str:
        """Hash ids, images and labels of rows."""
        fingerprint = Fingerprint()
        for row in rows:
            fingerprint.add(self._ids[row], self._image(row))
            fingerprint.add("label", self.labels[row])
        return fingerprint.hexdigest()

    def read(
        self, rows: Sequence[int]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Int[Tensor, " batch"]]:
        """Read images and labels.

        Raises:
            InputError: an image is not sRGB-encoded in [0, 1], or the images have several sizes.
        """
        images = [check_srgb_image(self._image(row)) for row in rows]
        if len(sizes := sorted({tuple(image.shape[1:]) for image in images})) > 1:
            (height, width), (other_height, other_width) = sizes[:2]
            raise InputError(
                f"expected images of one size, got {height} x {width} and {other_height} x {other_width} "
                "(height x width); resize them "
                f"({argument('size', 'candlelight.evaluation.coverage.ResizedImages')})"
            )
        return torch.stack(images), torch.tensor([self.labels[row] for row in rows])

    def _image(self, row: int) -> Tensor:
        # The first rows are kept for good: in random order, the latest ones are rarely asked for again.
        if row in self._kept:
            return self._kept[row]
        image = self._data[row]
        if len(self._kept) < self._most_kept:
            self._kept[row] = image
        return image

    def shuffled(
        self, rows: Sequence[int], batch_size: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch 3 height width"], Int[Tensor, " batch"]]]:
        """Read rows in random order, a random half of them flipped left to right.

        All batches have nearly the same size, because batch normalisation learns badly from a last batch of
        very few images.
        """
        order = np.array(rows)[torch.randperm(len(rows), generator=generator).numpy()]
        for some in np.array_split(order, count_batches(len(rows), batch_size)):
            images, labels = self.read(some.tolist())
            flipped = torch.rand(len(images), generator=generator) < 0.5
            yield torch.where(flipped[:, None, None, None], images.flip(3), images), labels


def count_batches(rows: int, batch_size: int) -> int:
    """Count the batches of at most ``batch_size`` rows.

    Example:
        >>> count_batches(33, 16)
        3
    """
    return -(-rows // batch_size)
