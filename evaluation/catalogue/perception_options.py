"""Options of the evaluations of distances; the docstring of each class is the help of its command."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.record import At, Help, Models, options_of
from candlelight.loaders.errors import InputError, argument

DISTANCES_OF_IMAGES = Models(
    "metric",
    "Distance of images: rmse, ssim, ms-ssim, lmse, dssim, lpips:FOLDER, lpips:NETWORK:FOLDER, pyiqa:NAME, "
    "package.module:callable or file.py:callable; repeatable.",
    "candlelight.evaluation.perception.distances:open_distance",
)
TransformKind = Literal["translation", "rotation", "scale", "illuminant"]
Kernel = Literal["linear", "cubic"]


@dataclass(frozen=True, kw_only=True)
class PerceptionOptions:
    """Options of all comparisons with the thresholds of people."""

    models: ClassVar[Models] = DISTANCES_OF_IMAGES
    rated: Annotated[
        str | None,
        Help(
            "Rated pairs, to which the transduction D = a d^b of each metric is fitted, as in the paper.",
            metavar="tid2013:PATH",
            default="published constants, where they hold",
        ),
    ] = None
    preset: Annotated[
        tuple[str, ...],
        Help(
            "The metric NAME is the paper's METRIC (RMSE, SSIM, LPIPS, DISTS, PerceptNet or PIM), its "
            "weights and images in [0, 1] included, so that its published constants hold; repeatable.",
            metavar="NAME=METRIC",
            default="rmse=RMSE",
        ),
    ] = ()
    hues: Annotated[
        int,
        At(least=1),
        Help("Number of hues of the illuminant, evenly spread: 20, as in the paper, 10 or 5."),
    ] = 20
    answers: Annotated[
        tuple[str, ...],
        Help(
            "Log of `candlelight perception experiment`: of rated pairs, to which D_T is fitted, or of "
            "transforms, which give the thresholds of people; repeatable.",
            metavar="ANSWERS.jsonl",
            default="the paper's D_T, 0.445 with quartiles 0.390 and 0.499, and its thresholds of people",
        ),
    ] = ()
    seed: Annotated[int, At(least=0), Help("Seed of the resampled scenes, from which the intervals are.")] = 0


@dataclass(frozen=True, kw_only=True)
class TransformsOptions(PerceptionOptions):
    """Compare distances of transformed images with people: thresholds, and the order of sensitivities.

    DATA are any images, such as a folder of pictures. A metric with a transduction to ratings has thresholds
    and verdicts; any other has curves and an order (Alabau-Bosque et al. 2024).

    \b
    candlelight evaluate transforms photographs --size 256 256 --metric rmse --rated tid2013:tid2013
    candlelight evaluate transforms photographs --metric dists=dists.py:DISTS --preset dists=DISTS --hues 10
    candlelight evaluate transforms photographs --metric rmse --answers rated.jsonl --answers turned.jsonl
    """

    transform: Annotated[
        tuple[TransformKind, ...],
        Help("Kind of transform; repeatable.", default="all, as in the paper"),
    ] = ()
    pixels_per_degree: Annotated[
        float | None,
        At(above=0),
        Help("Pixels in a degree of visual angle.", default="29.2, the paper's for ImageNet"),
    ] = None
    size: Annotated[
        tuple[int, int] | None,
        At(least=1),
        Help(
            "Size to which pictures are scaled and cropped; the paper's is 256 256 for ImageNet.",
            metavar="HEIGHT WIDTH",
            default="their own",
        ),
    ] = None
    canvas: Annotated[
        Literal["mirror", "mnist"],
        Help(
            "Surroundings of images that move: their mirror images, as the paper's photographs and CIFAR "
            "have, or a black canvas of 56 pixels for translations and 128 for scales, as its MNIST."
        ),
    ] = "mirror"
    kernel: Annotated[Kernel, Help("Interpolation; the paper's is linear.")] = "linear"
    notebook_slip: Annotated[
        bool,
        Help(
            "Multiply magnitudes of translations by 1.1, as the paper's notebook does by mistake, to compare "
            "with its numbers."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class MovedFramesOptions(PerceptionOptions):
    """Compare distances of frames with people where the camera or the light moved: thresholds, and the order.

    DATA are frames of the recipe invariance, by default of all its sets; --limit counts the scenes of each
    transform. Scores are those of `evaluate transforms`.

    \b
    candlelight evaluate moved-frames invariance --metric rmse --metric ssim --moves both --report page.html
    candlelight evaluate moved-frames invariance --metric rmse --rated tid2013:tid2013 --transform parallax
    """

    moves: Annotated[
        Literal["physical", "image-plane", "both"],
        Help(
            "Compare the frames (physical), the same moves of each reference on the image plane, or both "
            "side by side."
        ),
    ] = "physical"
    transform: Annotated[
        tuple[Literal[TransformKind, "parallax"], ...],
        Help("Kind of transform; repeatable.", default="all but parallax, as in the paper"),
    ] = ()
    kernel: Annotated[Kernel, Help("Interpolation on the image plane.")] = "cubic"


@dataclass(frozen=True, kw_only=True)
class RaidOptions:
    """Measure how distances of images rank with the responses of people to distortions (RAID).

    DATA is the folder of RAID: responses.csv, and the images in any folders (Dauden-Oliver et al. 2026). The
    control `level` ranks by the number of the level alone: a good metric lies above it.

    \b
    candlelight evaluate raid raid --metric rmse --metric ssim --report raid.html
    """

    models: ClassVar[Models] = DISTANCES_OF_IMAGES
    seed: Annotated[int, At(least=0), Help("Seed of the resampled images, from which the intervals are.")] = 0


@dataclass(frozen=True)
class ExperimentSettings:
    """All that the pairs of a forced-choice experiment depend on, but the data, and the screen.

    Raises:
        InputError: an option is out of range, see `Option.check`; or a transform has no number or is given
            twice.
    """

    transform: Annotated[
        tuple[str, ...],
        Help(
            "Transform of images, and its largest magnitude; repeatable.",
            metavar="NAME[=LARGEST]",
            default="translation x, rotation and scale, to three times the human threshold of the paper",
        ),
    ] = ()
    largest: Annotated[
        float | None,
        At(above=0, most=1),
        Help("Largest D of rated pairs.", default="that of the data"),
    ] = None
    moved: Annotated[bool, Help("DATA are frames of the recipe invariance: show their moves.")] = False
    levels: Annotated[
        int, At(least=2), Help("Number of levels; translations have at most one for each pixel.")
    ] = 20
    repeats: Annotated[int, At(least=1), Help("Answers at each level.")] = 15
    images: Annotated[
        int | None,
        At(least=1),
        Help("Most different images, or rated pairs at each level.", default="as many as repeats"),
    ] = None
    size: Annotated[
        int | None,
        At(least=16, most=4096),
        Help("Side in pixels to which pictures of a folder are scaled and cropped.", default="256"),
    ] = None
    pixels_per_degree: Annotated[
        float | None,
        At(above=0),
        Help(
            "Pixels of an image per degree of visual angle; the page says the distance that is right.",
            default="29.2, the paper's",
        ),
    ] = None
    scale: Annotated[
        int | None,
        At(least=1, most=16),
        Help("Pixels of the screen for each pixel of an image.", default="1 with --pitch, else what fits"),
    ] = None
    reminder: Annotated[
        bool | None,
        Help("Show the original above the pair.", default="with transforms, and not with rated pairs"),
    ] = None
    seed: Annotated[int, At(least=0), Help("Seed of the choice of images, the order and the sides.")] = 0
    distance: Annotated[
        float | None,
        At(above=0),
        Help("With --pitch, in place of --pixels-per-degree: from the eyes to the screen, in mm."),
    ] = None
    pitch: Annotated[float | None, At(above=0), Help("Width of a pixel of the screen, in mm.")] = None

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            one.check(getattr(self, one.name))
        split_transforms(self.transform)

    @property
    def transforms(self) -> dict[str, float | None]:
        """Largest magnitude of each transform, None where it is not given; empty for the default ones."""
        return split_transforms(self.transform)

    @property
    def pairs(self) -> int:
        """Largest number of different pairs or images at each level."""
        return self.images or self.repeats


def split_transforms(texts: Sequence[str]) -> dict[str, float | None]:
    """Split NAME or NAME=LARGEST.

    Raises:
        InputError: a transform is given twice, or its largest magnitude is no number.

    Example:
        >>> split_transforms(["rotation=6", "scale"])
        {'rotation': 6.0, 'scale': None}
    """
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, largest = text.partition("=")
        name = name.strip()
        if name in found:
            raise InputError(f"{argument('transform')} {name}: given twice; name each transform once")
        try:
            found[name] = float(largest) if equals else None
        except ValueError:
            raise InputError(
                f"{argument('transform')}: expected NAME or NAME=LARGEST with a number, got {text!r}"
            ) from None
    return found
