"""Options of ``candlelight evaluate perception``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

TRANSFORM_KINDS = ("translation", "rotation", "scale", "illuminant")

# Frames of the recipe invariance are read in all their sets, and by scene.
_DATA = (
    click.argument("data"),
    click.option(
        "--set",
        "set_name",
        help="Image set.  [default: all in which camera or light moved; else needed if there are several]",
    ),
    click.option("--split", help="Split of the data; needed if there are several."),
    click.option("--rows", help="Images of the set, such as 0:100 or 3,5,8.  [default: all]"),
    click.option(
        "--limit",
        type=click.IntRange(1),
        help="Use only the first N images; of frames that moved, the first N scenes of each transform.",
    ),
)
_METRICS = (
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        required=True,
        metavar="[NAME=]SPEC",
        help="Distance of images: rmse, ssim, ms-ssim, lmse, dssim, lpips:FOLDER, lpips:NETWORK:FOLDER, "
        "pyiqa:NAME, package.module:callable or file.py:callable; repeatable.",
    ),
    click.option(
        "--rated",
        metavar="tid2013:PATH",
        help="Rated pairs, to which the transduction D = a d^b of each metric is fitted, as in the paper.  "
        "[default: published constants, where they hold]",
    ),
    click.option(
        "--preset",
        "presets",
        multiple=True,
        metavar="NAME=METRIC",
        help="The metric NAME is the paper's METRIC (RMSE, SSIM, LPIPS, DISTS, PerceptNet or PIM), its "
        "weights and images in [0, 1] included, so that its published constants hold; repeatable.  [default: "
        "rmse=RMSE]",
    ),
)
_MOVES = (
    click.option(
        "--moves",
        type=click.Choice(["physical", "image-plane", "both"]),
        help="Compare frames in which camera or light moved (physical), or transforms of each image, as the "
        "paper does (image-plane).  [default: physical for frames of the recipe invariance, else "
        "image-plane]",
    ),
    click.option(
        "--transform",
        "transforms",
        multiple=True,
        type=click.Choice([*TRANSFORM_KINDS, "parallax"]),
        help="Kind of transform; repeatable. Parallax is of frames alone.  [default: all but parallax, as in "
        "the paper]",
    ),
    click.option(
        "--hues",
        type=click.Choice(["20", "10", "5"]),
        default="20",
        show_default=True,
        help="Number of hues of the illuminant, evenly spread; the paper has 20.",
    ),
    click.option(
        "--pixels-per-degree",
        type=click.FloatRange(0, min_open=True),
        help="Pixels in a degree of visual angle, for images; frames have that of their camera.  [default: "
        "29.2, the paper's for ImageNet]",
    ),
    click.option(
        "--size",
        nargs=2,
        type=click.IntRange(1),
        metavar="HEIGHT WIDTH",
        help="Size to which pictures are scaled and cropped; the paper's is 256 256 for ImageNet.  [default: "
        "their own]",
    ),
    click.option(
        "--canvas",
        type=click.Choice(["mirror", "mnist"]),
        help="Surroundings of images that move: their mirror images, as the paper's photographs and CIFAR "
        "have, or a black canvas of 56 pixels for translations and 128 for scales, as its MNIST.  [default: "
        "mirror]",
    ),
    click.option(
        "--kernel",
        type=click.Choice(["linear", "cubic"]),
        help="Interpolation on the image plane; the paper's is linear.  [default: linear for images, cubic "
        "beside physical moves]",
    ),
    click.option(
        "--notebook-slip",
        is_flag=True,
        help="Multiply translations on the image plane by 1.1, as the paper's notebook does by mistake, to "
        "compare with its numbers.",
    ),
)
_PEOPLE = (
    click.option(
        "--answers",
        "logs",
        type=click.Path(path_type=Path),
        multiple=True,
        help="Log of `candlelight perception experiment`: of rated pairs, to which D_T is fitted, or of "
        "transforms, which give the thresholds of people; repeatable.  [default: the paper's D_T, 0.445 with "
        "quartiles 0.390 and 0.499, and its thresholds of people]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        show_default=True,
        help="Seed of the resampled scenes, from which the intervals are.",
    ),
)


def perception_options(command: _Command) -> _Command:
    """Add the argument DATA and all options but those for the device and the files of results."""
    for option in reversed((*_DATA, *_METRICS, *_MOVES, *_PEOPLE)):
        command = option(command)
    return command
