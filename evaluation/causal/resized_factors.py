"""Images with factors, resized for networks of one size."""

from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.coverage.resized_images import ResizedImages
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.views import Factors


class ResizedFactors(ResizedImages):
    """Square images with factors, resized; the members of `candlelight.loaders.views.Factors`.

    Args:
        data: images of any size with factors.
        side: height and width in pixels.
    """

    def __init__(self, data: Factors, side: int) -> None:
        super().__init__(data, (side, side))
        self.factors: tuple[FactorInfo, ...] = tuple(data.factors)
        self.table: Float64[ndarray, "n k"] = data.table
