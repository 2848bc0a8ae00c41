"""Protocols (`typing.Protocol`) of models and frames that can be trained or scored."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.loaders.schema import SetInfo

RowNumbers = Sequence[int] | Int[ndarray, " rows"]


@runtime_checkable
class IntrinsicModel(Protocol):
    """A callable that decomposes an image into reflectance and shading.

    It may be a function, a `torch.nn.Module` in evaluation mode or an object with ``__call__``; a black box
    is enough. If its signature has a parameter ``mask`` (bool, batch height width), it receives the mask of
    the scored pixels. With an attribute ``colour_space = "srgb"`` it receives sRGB-encoded images.
    `candlelight.evaluation.run.model_outputs` lists the other accepted forms of the output.

    Example:
        >>> from candlelight.evaluation.models.retinex import constant_shading
        >>> isinstance(constant_shading, IntrinsicModel)
        True
    """

    def __call__(
        self, image: Float[Tensor, "batch 3 height width"], /
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image.

        Args:
            image: scene-linear Rec.709 (not sRGB-encoded), >= 0; frames with a layer `radiance` have values
                above 1.

        Returns:
            Reflectance, the share of light that each pixel's surface scatters, and shading, the light that
            reaches it; gray shading is repeated over the channels, or has one channel. Both are scene-linear
            (no logarithm, no gamma), >= 0, and defined up to one scale per image.
        """


@runtime_checkable
class SequenceIntrinsicModel(Protocol):
    """A callable that decomposes an image with the help of images of the same scene under other lights.

    A model whose signature has a parameter ``lights`` is called in this way; everything else is as for
    `IntrinsicModel`.

    Example:
        >>> from candlelight.evaluation.models.retinex import Weiss
        >>> isinstance(Weiss(), SequenceIntrinsicModel)
        True
    """

    def __call__(
        self,
        image: Float[Tensor, "batch 3 height width"],
        /,
        lights: Float[Tensor, "batch lights 3 height width"],
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image.

        Args:
            image: see `IntrinsicModel`.
            lights: the same scene under other lights, in the colour space of ``image``.

        Returns:
            Reflectance and shading of ``image``; see `IntrinsicModel`.
        """


@runtime_checkable
class IntrinsicFrames(Protocol):
    """Frames with ground truth; every reader in `loaders` follows this protocol.

    A sample is a dict with at least ``id`` (text), ``image`` (uint8 sRGB, 3 height width), ``albedo`` in
    [0, 1] and ``shading`` in scene radiance; the last two are scene-linear Rec.709 of the shape of the image.
    """

    @property
    def set_info(self) -> SetInfo:
        """The image set; its `exposure` scales scene radiance to the range of ``image``."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> dict[str, Any]: ...
