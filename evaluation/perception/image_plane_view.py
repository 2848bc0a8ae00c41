"""Moved frames and the same moves on the image plane, side by side."""

from dataclasses import dataclass, replace
from typing import SupportsIndex

import torch

from evaluation.perception.mirror_resampling import ResamplingKernel
from evaluation.perception.transform_families import TransformFamily
from loaders.illuminants import EQUAL_ENERGY
from loaders.samples import row_number
from loaders.views import DataIdentity, MovedImages, View

_FLAT = {"parallax x": "translation x"}  # an image has no depth


@dataclass(frozen=True, eq=False)
class ImagePlaneView:
    """A view whose moved images are transforms of each reference, at the magnitudes of the frames.

    With `measure_distances`, it gives the curves of image-plane transforms beside the curves of the frames,
    for the same references. Where they differ, the frames show what no transform of an image can: the scene
    beyond the border, parallax, detail that was not resolved, and noise that does not move. The counterpart
    of "parallax x" is the translation by the same angle.

    Args:
        view: moved frames, from `loaders.views.open_moved_images`.
        kernel: see `rotate_images`.

    Example:
        >>> image, magnitudes = torch.rand(3, 4, 6), torch.tensor([0.0, 0.5]).double()
        >>> moved = torch.zeros(2, 3, 4, 6)
        >>> frames = MovedImages(image, moved, "rotation", "degrees", magnitudes, magnitudes, 29.2)
        >>> class Rows(list):
        ...     identity, ids, groups, known_ids = None, ("a",), ("a",), {"a"}
        >>> torch.equal(ImagePlaneView(Rows([frames]))[0].moved[0], image)
        True
    """

    view: View[MovedImages]
    kernel: ResamplingKernel = "cubic"

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data; the images are said to be of the image plane."""
        return replace(self.view.identity, image="image plane")

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row of the frames."""
        return self.view.ids

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene of each row."""
        return self.view.groups

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of the rows."""
        return self.view.known_ids

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.view)

    def __getitem__(self, row: SupportsIndex, /) -> MovedImages:
        """Read the reference of one row, and transform it."""
        item = self.view[row_number(row, len(self))]
        magnitudes = tuple(item.magnitudes.tolist())
        name = _FLAT.get(item.transform, item.transform)
        family = TransformFamily(name, magnitudes, item.pixels_per_degree, self.kernel, None, EQUAL_ENERGY)
        moved = [family.transform(item.reference[None], magnitude) for magnitude in magnitudes]
        clipped = torch.cat([one.clipped for one in moved]).double()
        return replace(item, moved=torch.cat([one.images for one in moved]), clipped=clipped)
