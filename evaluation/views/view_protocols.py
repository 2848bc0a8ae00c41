"""Protocols (`typing.Protocol`) of views: the members of data that an evaluation needs."""

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.views.view_items import (
    ConceptSet,
    DataIdentity,
    DecomposedImage,
    JudgedImage,
    PartImage,
    RatedPair,
    RegionImage,
)
from candlelight.loaders.schema import FactorInfo

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Explains = Literal["image", "objects"]
Varies = Literal["albedo", "illumination", "camera", "pose"]
Origin = Literal["human", "synthetic"]
ItemOf = TypeVar("ItemOf", covariant=True)


@runtime_checkable
class View(Protocol[ItemOf]):
    """Rows of data for an evaluation."""

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row, unique."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene, object or unit of each row; rows of one group are not independent."""

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data, including rows that ``rows`` and ``limit`` leave out."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, row: int, /) -> ItemOf:
        """Read one row."""


@runtime_checkable
class Decompositions(View[DecomposedImage], Protocol):
    """Images with their true reflectance and shading."""

    @property
    def explains(self) -> Explains:
        """Part of the image that reflectance times shading explains; "objects" over a shadow catcher."""


@runtime_checkable
class ConceptSets(View[Tensor], Protocol):
    """Images, float32 [3, height, width], sRGB-encoded in [0, 1], in sets that differ in one concept."""

    @property
    def sets(self) -> tuple[ConceptSet, ...]:
        """Sets, with their rows in this view."""

    @property
    def varies(self) -> Varies | None:
        """Concept in which the images of a set differ, found from the data; None if it is unclear.

        "camera" and "pose" are controls, in which neither albedo nor illumination changes.
        """


@runtime_checkable
class Parts(View[PartImage], Protocol):
    """Images with masks of their parts."""


@runtime_checkable
class Factors(View[Tensor], Protocol):
    """Images, float32 [3, height, width], sRGB-encoded in [0, 1], with known factors."""

    @property
    def factors(self) -> tuple[FactorInfo, ...]:
        """Descriptions of the factors, one per column of ``table``."""

    @property
    def table(self) -> Float64[ndarray, "n k"]:
        """Class index of each categorical factor and value of each continuous one, one row per image."""


@runtime_checkable
class Judgements(View[JudgedImage], Protocol):
    """Images with comparisons of reflectance, labels of shading, or both."""

    @property
    def origin(self) -> Origin:
        """Origin of the judgements: people, or the ground truth of rendered frames."""


@runtime_checkable
class Regions(View[RegionImage], Protocol):
    """Images with regions of one material; the groups are scenes."""

    @property
    def synthetic(self) -> bool:
        """Whether the images are rendered; results record it."""


@runtime_checkable
class RatedPairs(View[RatedPair], Protocol):
    """Images with distorted copies and opinion scores."""


@runtime_checkable
class Images(View[Tensor], Protocol):
    """Images alone, float32 [3, height, width], sRGB-encoded in [0, 1]."""
