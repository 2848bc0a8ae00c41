"""Validation of a metric against RAID: human responses to rotated, shifted, scaled and noisy photographs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.distances import pair_distances
from candlelight.evaluation.perception.transduction import check_distances, invert_curves
from candlelight.evaluation.run.intervals import Score, resampled_interval
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.raid import SOURCE

# Unit, magnitude without distortion, and magnitude at the last level; the authors give no other level.
_RANGES = {
    "rotation": ("degrees", 0.0, 18.0),
    "translation": ("degrees", 0.0, 0.63),
    "scale": ("factor", 1.0, 1.09),
    "gaussian_noise": ("levels", 0.0, 9.0),
}
_LEVELS = 10  # of them the first is undistorted
_SEEN = 1.0  # a response of one standard deviation of the observers' internal noise


@dataclass(frozen=True, eq=False)
class RaidAgreement:
    """Agreement of a metric with people for one distortion of RAID.

    Attributes:
        unit: unit of the magnitudes: "degrees" (for translation, of visual angle), "factor" or "levels".
        magnitudes: of the ten levels.
        correlation: Spearman's rank correlation of the metric's distances with the human responses over all
            distorted images, in [-1, 1], with its 95 % interval over resampled references.
        control: the same correlation for the number of the level, which knows no image.
        human: median over references of the magnitude at which the response of people is 1; inf if most do
            not reach it.
        references: that magnitude for each reference; nan where it is not reached.
    """

    unit: str
    magnitudes: Float64[Tensor, "10"]
    correlation: Score
    control: float
    human: float
    references: Float64[Tensor, " references"]


def raid_agreement(
    named: NamedModel,
    responses: Mapping[str, ndarray],
    images: Path | str,
    *,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, RaidAgreement]:
    """Compare a metric with the people of RAID, for each distortion.

    P. Dauden-Oliver et al.: RAID: human responses to affine image distortions and Gaussian noise, Scientific
    Data 2026 (arXiv 2412.10211). 24 photographs have 9 levels each of rotation, translation, scale and noise;
    responses were fitted to answers by maximum likelihood difference scaling, in standard deviations of the
    observers' internal noise. The magnitudes of the levels are taken to be evenly spaced up to the published
    largest ones: 18 degrees, 0.63 degrees of visual angle, a factor of 1.09. With them people reach a
    response of 1 at 6.8 degrees, 0.177 degrees and 1.035 (medians over photographs).

    Blind to: the transduction, as it keeps ranks. A correlation is high for every metric that grows with the
    level: compare it with its ``control``.

    Args:
        named: the metric, from `open_distance` on ``device``.
        responses: from `candlelight.loaders.public.raid.read_raid_responses`; some of the references or
            distortions are enough, with all ten levels of each.
        images: folder of the images, in which, or in whose folders, their names are those of the responses:
            ``img_01.png``, ``rot_img_01_level_02.png``. Level 1 is the reference.
        device: torch device on which images are compared.
        seed: of the resampled references.

    Returns:
        The agreement by distortion: "rotation", "translation", "scale" and "gaussian_noise".

    Raises:
        InputError: an image or a level is missing, an image cannot be read, or the metric fails or has a
            distance that is not finite or negative.

    Example:
        >>> from candlelight.evaluation.perception import open_distance
        >>> from candlelight.loaders.public.raid import read_raid_responses
        >>> def rmse_and_people(folder):
        ...     responses = read_raid_responses(f"{folder}/responses.csv")
        ...     return raid_agreement(open_distance("rmse"), responses, folder)["rotation"]
        >>> rmse_and_people("nowhere")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/responses.csv is missing; get it from
            https://github.com/paudauo/BBDD_Affine_Transformations
    """
    folder = require_path(Path(images), SOURCE)
    files = {path.name: path for path in sorted(folder.rglob("*.png"))}
    found: dict[str, RaidAgreement] = {}
    for distortion in dict.fromkeys(responses["transformation"].tolist()):
        rows = _rows_by_level(responses, distortion)
        distances = torch.stack([_distances(named, responses, own, files, folder, device) for own in rows])
        found[distortion] = _agreement(distortion, distances, responses["response"][rows], seed)
    return found


def _rows_by_level(responses: Mapping[str, ndarray], distortion: str) -> Int[ndarray, "references 10"]:
    chosen = np.flatnonzero(responses["transformation"] == distortion)
    rows = chosen[np.lexsort((responses["level"][chosen], responses["image"][chosen]))]
    count = len(np.unique(responses["image"][rows]))
    if not np.array_equal(responses["level"][rows], np.tile(np.arange(1, _LEVELS + 1), count)):
        raise InputError(
            f"{distortion}: expected levels 1 to {_LEVELS} of each image, once, got {len(rows)} responses of "
            f"{count} images; get responses.csv from {SOURCE}"
        )
    return rows.reshape(count, _LEVELS)


def _distances(
    named: NamedModel,
    responses: Mapping[str, ndarray],
    rows: Int[ndarray, "10"],
    files: Mapping[str, Path],
    folder: Path,
    device: str,
) -> Float64[Tensor, "10"]:
    """Compare the levels of one reference with it; the first level is 0 by definition."""

    def read(name: str) -> Tensor:
        path = files[name] if name in files else require_path(folder / name, SOURCE)
        return torch.from_numpy(read_rgb8(path, SOURCE)).permute(2, 0, 1).float().div(255).to(device)

    reference = read(str(responses["reference"][rows[0]]))
    moved = [read(str(name)) for name in responses["distorted"][rows[1:]]]
    for image, name in zip(moved, responses["distorted"][rows[1:]], strict=True):
        if image.shape != reference.shape:
            raise InputError(
                f"{name}: expected the {_size(reference)} pixels of its reference, got {_size(image)}; get "
                f"it from {SOURCE}"
            )
    transformed = torch.stack(moved)
    compared = pair_distances(named, transformed, reference.expand_as(transformed)).cpu()
    whole = torch.cat([compared.new_zeros(1), compared])
    return check_distances(whole, f"distances of {named.identity.name}")


def _size(image: Tensor) -> str:
    return f"{image.shape[1]}x{image.shape[2]}"


def _agreement(
    distortion: str,
    distances: Float64[Tensor, "references 10"],
    responses: Float64[ndarray, "references 10"],
    seed: int,
) -> RaidAgreement:
    unit, least, largest = _RANGES[distortion]
    magnitudes = torch.linspace(least, largest, _LEVELS, dtype=torch.float64)
    names = [str(reference) for reference in range(len(distances))]
    measured, human = distances[:, 1:].numpy(), responses[:, 1:]
    scores, _ = resampled_interval(
        lambda rows: {"correlation": _rank_correlation(measured[rows], human[rows])}, names, seed
    )
    references = invert_curves(torch.from_numpy(responses), magnitudes, _SEEN)
    return RaidAgreement(
        unit=unit,
        magnitudes=magnitudes,
        correlation=scores["correlation"],
        control=_rank_correlation(np.tile(np.arange(_LEVELS - 1.0), (len(human), 1)), human),
        human=_median(references),
        references=references,
    )


def _rank_correlation(one: Float64[ndarray, "rows 9"], other: Float64[ndarray, "rows 9"]) -> float:
    first, second = (rankdata(values) for values in (one.ravel(), other.ravel()))
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.sqrt(first @ first * (second @ second)))
    return float(first @ second) / norm if norm > 0 else float("nan")


def _median(values: Float64[Tensor, " references"]) -> float:
    """Return the median, for which a level that is not reached is infinite."""
    return float(np.median(values.nan_to_num(nan=torch.inf, posinf=torch.inf).numpy()))
