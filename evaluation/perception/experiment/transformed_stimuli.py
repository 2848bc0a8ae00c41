"""Natural images under transforms of the image plane, for the human threshold of each transform."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.perception.experiment.stimuli import Stimulus, spaced_levels
from candlelight.evaluation.perception.human_thresholds import HUMAN_THRESHOLDS
from candlelight.evaluation.perception.illuminant_shift import PAPER_SATURATIONS
from candlelight.evaluation.perception.scene_curves import TRANSLATION_AXES
from candlelight.evaluation.perception.transform_families import TransformFamily, unchanged_magnitude
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DataIdentity, View

DEFAULT_TRANSFORMS = ("translation x", "rotation", "scale")
_RANGE = 3.0  # largest magnitude of a transform, in human thresholds of the paper


def default_largest(transform: str) -> float:
    """Return the largest magnitude that is shown: three times the human threshold of the paper.

    For illuminants it is the paper's largest saturation, 8 steps.

    Example:
        >>> default_largest("rotation"), round(default_largest("scale"), 3), default_largest("illuminant 611")
        (10.8, 1.078, 8.0)
    """
    threshold = HUMAN_THRESHOLDS.get(transform.split(" ")[0])
    if threshold is None:
        return float(max(PAPER_SATURATIONS))
    start = unchanged_magnitude(transform)
    return round(start + _RANGE * (threshold - start), 9)


@dataclass(frozen=True, eq=False)
class TransformedImageSet:
    """Images and their transforms at levels that are evenly spaced from the first change to the largest.

    All transforms and levels show the same images, chosen at random; the repeats of a level go through them.
    Translations are shown at the nearest whole pixels, as in the paper, at most one level for each: between
    pixels an image would be softer than its original, which gives it away. Rotation and scale resample the
    changed image alone, and illuminants resample nothing.

    Args:
        view: from `candlelight.loaders.views.open_images`.
        largest: largest magnitude of each transform, by name.
        pixels_per_degree: pixels per degree of visual angle on the screen, for translations.
        levels: largest number of levels, at least 2.
        repeats: answers at each level.
        images: largest number of different images.
        seed: seed of the choice of images.

    Raises:
        InputError: a transform is unknown, or its largest magnitude is not above the unchanged one, is out of
            range, or is a translation of less than two pixels.
    """

    view: View[Tensor]
    largest: Mapping[str, float]
    pixels_per_degree: float
    levels: int
    repeats: int
    images: int
    seed: int

    def __post_init__(self) -> None:
        """Check the transforms before the first of them is shown."""
        for name, magnitude in self.largest.items():
            if not magnitude > (start := unchanged_magnitude(name)):
                raise InputError(
                    f"transform `{name}`: expected a largest magnitude above {start:g}, which changes "
                    f"nothing, got {magnitude:g}; levels rise from there"
                )
            self._family(name, magnitude)
            if len(self._magnitudes(name)) < 2:
                least = 2 / self.pixels_per_degree
                raise InputError(
                    f"transform `{name}`: expected a largest magnitude of at least 2 pixels, {least:.2g} "
                    f"degrees, got {magnitude:g}; levels are whole pixels, and a fit needs two"
                )

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        return self.view.identity

    @cached_property
    def stimuli(self) -> tuple[Stimulus, ...]:
        """Each pair as often as it is shown."""
        order = named_stream(self.seed, "images").permutation(len(self.view))
        rows = order[: self.images].tolist()
        return tuple(
            Stimulus("transform", self.view.ids[row], name, magnitude, level, row)
            for name in self.largest
            for level, magnitude in enumerate(self._magnitudes(name))
            for row in (rows[(level + repeat) % len(rows)] for repeat in range(self.repeats))
        )

    def pictures(
        self, stimulus: Stimulus
    ) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]:
        """Read the image, and transform it."""
        image = self.view[stimulus.row]
        family = self._family(str(stimulus.transform), stimulus.magnitude)
        return image, family.transform(image[None], stimulus.magnitude).images[0]

    def _magnitudes(self, name: str) -> list[float]:
        levels = spaced_levels(unchanged_magnitude(name), self.largest[name], self.levels + 1)[1:]
        if name not in TRANSLATION_AXES:
            return list(levels)
        pixels = {max(1, round(level * self.pixels_per_degree)) for level in levels}
        return [one / self.pixels_per_degree for one in sorted(pixels)]

    def _family(self, name: str, magnitude: float) -> TransformFamily:
        return TransformFamily(name, (magnitude,), self.pixels_per_degree)
