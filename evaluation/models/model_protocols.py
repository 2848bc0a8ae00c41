"""What a model has to be callable with, and what frames have to offer, to be trained or scored here."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from loaders.schema import SetInfo

RowNumbers = Sequence[int] | Int[ndarray, " rows"]


@runtime_checkable
class IntrinsicModel(Protocol):
    """Anything callable that splits an image into reflectance and shading.

    A function, a `torch.nn.Module` in evaluation mode or an object with ``__call__``; a black box will do. A
    model whose signature has a parameter ``mask`` (bool, batch height width) is given the pixels that count.
    An attribute ``colour_space = "srgb"`` has images sRGB-encoded for it. `evaluation.running.model_outputs`
    says in which forms reflectance and shading are taken besides.

    Example:
        >>> from evaluation.models.baselines import constant_shading
        >>> isinstance(constant_shading, IntrinsicModel)
        True
    """

    def __call__(
        self, image: Float[Tensor, "batch 3 height width"], /
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Split each image.

        Args:
            image: scene-linear Rec.709 (not sRGB-encoded) in [0, 1], clipped where over-exposed.

        Returns:
            Reflectance, the share of light that each pixel's surface scatters, and shading, the light that
            reaches it; gray shading is repeated over the channels, or has one channel. Both scene-linear (no
            logarithm, no gamma), >= 0, and each defined up to one scale per image.
        """


@runtime_checkable
class IntrinsicFrames(Protocol):
    """Frames with ground truth: what every reader in `loaders` offers, and all that is asked of others.

    A sample is a dict with at least ``id`` (text), ``image`` (uint8 sRGB, 3 height width) and, both
    scene-linear Rec.709 of the same shape, ``albedo`` in [0, 1] and ``shading`` in scene radiance.
    """

    @property
    def set_info(self) -> SetInfo:
        """The image set; its `exposure` takes scene radiance to the range of ``image``."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> dict[str, Any]: ...
