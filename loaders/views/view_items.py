"""Rows of the views: images with what an evaluation compares a model with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxtyping import Bool, Float32, Float64, Int64

from loaders.schema import FactorValue

# Importing views must not import torch; shapes and dtypes are checked all the same.
if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


@dataclass(frozen=True)
class DataIdentity:
    """Which data a view reads.

    Attributes:
        name: name of the data set.
        layout: "frames", "pictures", or a public data set's layout as in ``LAYOUT:PATH``.
        set_name: image set; None where the data have none.
        split: split; None where the data have none, or where a reader was given that does not name its own.
        recipe: SHA-256 of the recipe that frames were planned from; None for other data.

    Example:
        >>> DataIdentity("demo", "frames", "tabletop").split is None
        True
    """

    name: str
    layout: str
    set_name: str | None = None
    split: str | None = None
    recipe: str | None = None


@dataclass(frozen=True, eq=False)
class DecomposedImage:
    """An image and its true decomposition, scene-linear Rec.709, channels first, on the CPU.

    Attributes:
        image: radiance times the exposure, unbounded above; of frames without radiance the decoded 8-bit
            image, in [0, 1].
        reflectance: true reflectance, of rendered frames in [0, 1].
        shading: true shading, gray or coloured; of rendered frames times the exposure.
        mask: pixels whose decomposition is known.
        lights: the same object under other lights; None unless asked for and there.
    """

    image: Float32[Tensor, "3 height width"]
    reflectance: Float32[Tensor, "3 height width"]
    shading: Float32[Tensor, "channels height width"]
    mask: Bool[Tensor, "height width"]
    lights: Float32[Tensor, "lights 3 height width"] | None = None


@dataclass(frozen=True)
class ConceptSet:
    """Images that differ in one concept alone.

    Attributes:
        fixed: factors that all rows of the set share.
        rows: row numbers in the view.
    """

    fixed: dict[str, FactorValue]
    rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PartImage:
    """An image with masks of what it shows.

    Attributes:
        image: sRGB-encoded, in [0, 1].
        masks: pixels of each part, by the part's name.
        label: type of the object or class of the image, where there is exactly one.
    """

    image: Float32[Tensor, "3 height width"]
    masks: dict[str, Bool[Tensor, "height width"]]
    label: str | None = None


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of points of one image that count, as `loaders.public.IIW` gives them.

    Attributes:
        points: x and y of either point in [0, 1), of width and of height: the pixel is
            [int(y * height), int(x * width)].
        darker: 1 or 2 for the darker point, 0 for equal reflectance.
        score: weight of each comparison, above 0.
    """

    points: Float64[Tensor, "n 2 2"]
    darker: Int64[Tensor, " n"]
    score: Float64[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class JudgedImage:
    """A photograph and the judgements of people.

    Attributes:
        image: scene-linear Rec.709, in [0, 1].
        comparisons: comparisons of reflectance; None where the data set has none.
        labels: of shading, 0 and 1 not smooth, 2 smooth, 100 to be ignored (`loaders.public.SAW`); None where
            the data set has none.
    """

    image: Float32[Tensor, "3 height width"]
    comparisons: Comparisons | None = None
    labels: Int64[Tensor, "height width"] | None = None


@dataclass(frozen=True, eq=False)
class RatedPair:
    """An image, a distorted copy, and the opinion of people on the copy.

    Attributes:
        reference: sRGB-encoded, in [0, 1].
        distorted: sRGB-encoded, in [0, 1].
        score: mean opinion score, higher is better.
        deviation: standard deviation of the opinions.
    """

    reference: Float32[Tensor, "3 height width"]
    distorted: Float32[Tensor, "3 height width"]
    score: float
    deviation: float
