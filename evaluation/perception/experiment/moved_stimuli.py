"""Frames of the recipe `invariance`, in which the camera or the illuminant moved, as pairs to show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.perception.experiment.stimuli import Stimulus, spaced_levels
from candlelight.evaluation.perception.human_thresholds import VISUAL_ANGLES
from candlelight.evaluation.perception.transform_families import unchanged_magnitude
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DataIdentity
from candlelight.loaders.views.moved_view import MovedRows


@dataclass(frozen=True, eq=False)
class MovedStimuli:
    """References and moved frames, at the magnitudes that were rendered.

    Of more magnitudes than levels, those nearest to evenly spaced ones are shown. A translation or parallax
    counts in degrees of the observer's visual angle: that of the frames, times their pixels per degree over
    those of the screen.

    Args:
        view: from `candlelight.loaders.views.open_moved_images`.
        transforms: names of transforms of the view; empty for all.
        pixels_per_degree: pixels per degree of visual angle on the screen.
        levels: largest number of levels.
        repeats: answers at each level.
        images: largest number of different scenes.
        seed: seed of the choice of scenes.

    Raises:
        InputError: the view lacks a transform, or has fewer than two magnitudes above the reference.
    """

    view: MovedRows
    transforms: Sequence[str]
    pixels_per_degree: float
    levels: int
    repeats: int
    images: int
    seed: int

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        return self.view.identity

    @cached_property
    def stimuli(self) -> tuple[Stimulus, ...]:
        """Each pair as often as it is shown."""
        found = tuple(dict.fromkeys(scene.transform for scene in self.view.scenes))
        for name in self.transforms:
            check_choice("transform", name, found)
        return tuple(stimulus for name in self.transforms or found for stimulus in self._of_transform(name))

    def pictures(
        self, stimulus: Stimulus
    ) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]:
        """Read the reference and the moved frame."""
        item = self.view[stimulus.row]
        shown = item.magnitudes.numpy() * self._zoom(stimulus.row)
        return item.reference, item.moved[int(np.abs(shown - stimulus.magnitude).argmin())]

    def _of_transform(self, name: str) -> list[Stimulus]:
        rows = [row for row, scene in enumerate(self.view.scenes) if scene.transform == name]
        order = named_stream(self.seed, f"scenes {name}").permutation(len(rows))[: self.images]
        chosen = [rows[place] for place in order]
        magnitudes = self._magnitudes(rows[0], name)
        return [
            Stimulus("transform", self.view.ids[row], name, round(magnitude * self._zoom(row), 9), level, row)
            for level, magnitude in enumerate(magnitudes)
            for row in (chosen[(level + repeat) % len(chosen)] for repeat in range(self.repeats))
        ]

    def _magnitudes(self, row: int, name: str) -> list[float]:
        """Choose magnitudes of the frames, which all scenes of a transform share."""
        rendered = sorted(self.view.scenes[row].by_magnitude)
        # As in `align_curves`: scales below 1 and angles below 0 are another family.
        there = np.array([magnitude for magnitude in rendered if magnitude > unchanged_magnitude(name)])
        if len(there) < 2:
            raise InputError(
                f"{self.identity.name}: expected at least 2 magnitudes of {name} above the reference, got "
                f"{len(there)}; render more values"
            )
        wanted = np.array(spaced_levels(float(there[0]), float(there[-1]), self.levels))
        return there[np.unique(np.abs(there - wanted[:, None]).argmin(1))].tolist()

    def _zoom(self, row: int) -> float:
        """Return the factor from degrees of the frame's camera to degrees on the screen."""
        scene = self.view.scenes[row]
        if not scene.transform.startswith(VISUAL_ANGLES):
            return 1.0
        of_frames = next(iter(scene.by_magnitude.values())).pixels_per_degree
        return of_frames / self.pixels_per_degree
