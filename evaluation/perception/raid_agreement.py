"""Agreement of distances with RAID: people who see rotated, shifted, scaled and noisy photographs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from candlelight.evaluation.catalogue.perception_options import RaidOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.detection import check_distances, invert_curves
from candlelight.evaluation.perception.distances import pair_distances
from candlelight.evaluation.run.evaluate import Measured, Run
from candlelight.evaluation.run.intervals import distinct_groups, resampled_interval
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.run.steps import join_steps
from candlelight.evaluation.views import DataIdentity, View
from candlelight.evaluation.views.named_rows import ChosenRows, NamedRows, Request, choose_rows
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.public.image_formats import read_rgb8
from candlelight.loaders.public.raid import SOURCE, read_raid_responses

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
class DistortedImages:
    """A photograph, its nine distorted copies, and the responses of people to the ten levels.

    Attributes:
        image: sRGB-encoded, in [0, 1].
        distorted: likewise, by level.
        distortion: "rotation", "translation", "scale" or "gaussian_noise".
        responses: in standard deviations of the observers' internal noise.
    """

    image: Float32[Tensor, "3 height width"]
    distorted: Float32[Tensor, "9 3 height width"]
    distortion: str
    responses: Float64[Tensor, "10"]


def open_raid(choice: Mapping[str, Any], options: RaidOptions, models: Any) -> View[DistortedImages]:
    """Open the folder of RAID, with one row for each distortion and photograph.

    Images are found by their names, in the folder or in any of its folders: ``img_01.png``,
    ``rot_img_01_level_02.png``. Level 1 is the photograph itself.

    Raises:
        InputError: a file or a level is missing or damaged, a set or split is named, or a row does not exist.
    """
    data = choice["data"]
    if is_view(data):
        return data
    for name in ("set_name", "split"):
        if choice[name] is not None:
            raise InputError(f"{argument(name)}: RAID has one set of images; leave it out")
    folder = SOURCE.require(Path(data))
    responses = read_raid_responses(folder / "responses.csv")
    files = {path.name: path for path in sorted(folder.rglob("*.png"))}
    rows = list(_rows_by_level(responses))
    numbers = choose_rows(len(rows), Request(str(data), rows=choice["rows"], limit=choice["limit"]))
    groups = [str(responses["reference"][own[0]]) for own in rows]
    ids = [f"{responses['transformation'][own[0]]}/{group}" for own, group in zip(rows, groups, strict=True)]
    chosen_ids, chosen_groups = (tuple(some[number] for number in numbers) for some in (ids, groups))
    identity = DataIdentity("RAID", "raid")
    named = NamedRows(identity, responses, numbers, chosen_ids, chosen_groups, lambda: ids)
    return ChosenRows(named, lambda number: _read(responses, rows[number], files, folder))


def _rows_by_level(responses: Mapping[str, ndarray]) -> Iterator[Int[ndarray, "10"]]:
    """Yield the responses to the levels of each distortion and photograph."""
    for distortion in dict.fromkeys(responses["transformation"].tolist()):
        chosen = np.flatnonzero(responses["transformation"] == distortion)
        rows = chosen[np.lexsort((responses["level"][chosen], responses["image"][chosen]))]
        count = len(np.unique(responses["image"][rows]))
        if not np.array_equal(responses["level"][rows], np.tile(np.arange(1, _LEVELS + 1), count)):
            raise InputError(
                f"{distortion}: expected levels 1 to {_LEVELS} of each image, once, got {len(rows)} "
                f"responses of {count} images; get responses.csv from {SOURCE}"
            )
        yield from rows.reshape(count, _LEVELS)


def _read(
    responses: Mapping[str, ndarray], rows: Int[ndarray, "10"], files: Mapping[str, Path], folder: Path
) -> DistortedImages:
    def read(name: str) -> Tensor:
        path = files[name] if name in files else SOURCE.require(folder / name)
        return torch.from_numpy(read_rgb8(path, SOURCE)).permute(2, 0, 1).float().div(255)

    image = read(str(responses["reference"][rows[0]]))
    names = [str(name) for name in responses["distorted"][rows[1:]]]
    distorted = [read(name) for name in names]
    for name, one in zip(names, distorted, strict=True):
        if one.shape != image.shape:
            raise InputError(
                f"{name}: expected the {_size(image)} pixels of its reference, got {_size(one)}; get it from "
                f"{SOURCE}"
            )
    people = torch.from_numpy(responses["response"][rows])
    return DistortedImages(image, torch.stack(distorted), str(responses["transformation"][rows[0]]), people)


def _size(image: Tensor) -> str:
    return f"{image.shape[1]}x{image.shape[2]}"


@dataclass(frozen=True)
class _Compared:
    """Distances of the copies of photographs; a distance that fails is an error, so no row fails."""

    distances: Float64[Tensor, "batch 9"]
    failed: Bool[Tensor, " batch"]


class _Batch(NamedTuple):
    image: Float32[Tensor, "batch 3 height width"]
    distorted: Float32[Tensor, "batch 9 3 height width"]
    responses: Float64[Tensor, "batch 10"]
    distortions: list[str]


def _prepare(items: Sequence[DistortedImages]) -> _Batch:
    return _Batch(
        torch.stack([item.image for item in items]),
        torch.stack([item.distorted for item in items]),
        torch.stack([item.responses for item in items]),
        [item.distortion for item in items],
    )


def _compare(named: NamedModel, ids: Sequence[str], batch: _Batch, device: str) -> _Compared:
    pairs = zip(batch.image, batch.distorted, strict=True)
    distances = torch.stack([pair_distances(named, moved, image.expand_as(moved)) for image, moved in pairs])
    distances = check_distances(distances, f"distances of {named.identity.name}")
    return _Compared(distances, torch.zeros(len(ids), dtype=torch.bool, device=device))


def level_number(transformed: Tensor, reference: Tensor) -> Tensor:
    """Number the copies of a photograph by their level: a control, which sees no image.

    Example:
        >>> level_number(torch.rand(3, 3, 2, 2), torch.rand(3, 3, 2, 2))
        tensor([1., 2., 3.])
    """
    return torch.arange(1.0, len(transformed) + 1, device=transformed.device)


def _rank(run: Run[RaidOptions], measured: Measured) -> dict[str, Result]:
    """Rank the distances of each metric with the responses of people, for each distortion.

    P. Dauden-Oliver et al.: RAID: human responses to affine image distortions and Gaussian noise, Scientific
    Data 2026 (arXiv 2412.10211). 24 photographs have 9 levels each of rotation, translation, scale and noise;
    responses were fitted to answers by maximum likelihood difference scaling, in standard deviations of the
    observers' internal noise. Scores are Spearman's rank correlations over all distorted images of a
    distortion, in [-1, 1], with intervals over resampled photographs.

    The magnitudes of the levels are taken to be evenly spaced up to the published largest ones: 18 degrees,
    0.63 degrees of visual angle, a factor of 1.09. With them people reach a response of 1 at 6.8 degrees,
    0.177 degrees and 1.035: medians over photographs, in ``details["people"]``; inf if most do not reach it.

    Blind to: the transduction, as it keeps ranks. A correlation is high for every metric that grows with the
    level: compare it with the control ``level``.
    """
    parts = [(batch.responses, batch.distortions, made) for batch, made in measured]
    steps = join_steps(made for _, _, made in parts)
    responses = torch.cat([some for some, _, _ in parts]).numpy(force=True)
    kinds = np.array([kind for _, some, _ in parts for kind in some])
    people = {kind: _people(kind, responses[kinds == kind]) for kind in dict.fromkeys(kinds.tolist())}
    notes = [f"{kind}: {_told(**one)}" for kind, one in people.items()]
    results: dict[str, Result] = {}
    for name in run.scored:
        statistic = partial(_correlations, steps[name]["distances"].numpy(), responses[:, 1:], kinds)
        scores, replicates = resampled_interval(statistic, run.data.groups, run.options.seed)
        results[name] = StatisticResult(
            run.provenance(name),
            scores,
            replicates,
            distinct_groups(run.data.groups),
            (),
            {"people": people, "notes": notes},
        )
    return results


def _people(distortion: str, responses: Float64[ndarray, "photographs 10"]) -> dict[str, Any]:
    """Find the magnitudes at which people reach a response of 1."""
    unit, least, largest = _RANGES[distortion]
    magnitudes = torch.linspace(least, largest, _LEVELS, dtype=torch.float64)
    reached = invert_curves(torch.from_numpy(responses), magnitudes, _SEEN)
    human = float(np.median(reached.nan_to_num(nan=torch.inf, posinf=torch.inf).numpy()))
    return {"unit": unit, "magnitudes": magnitudes, "human": human, "photographs": reached}


def _told(unit: str, magnitudes: Tensor, human: float, photographs: Tensor) -> str:
    reached = f"at {human:.3g} {unit}" if math.isfinite(human) else f"beyond {float(magnitudes[-1]):g} {unit}"
    return f"people respond with 1 {reached}, the median of {len(photographs)} photographs"


def _correlations(
    distances: Float64[ndarray, "rows 9"],
    responses: Float64[ndarray, "rows 9"],
    kinds: ndarray,
    drawn: Int[ndarray, " drawn"],
) -> dict[str, float]:
    """Correlate the ranks of drawn rows, for each distortion."""
    found = {}
    for kind in dict.fromkeys(kinds.tolist()):
        rows = drawn[kinds[drawn] == kind]
        found[kind] = pooled_correlation(distances[rows], responses[rows])
    return found


def pooled_correlation(one: Float64[ndarray, "rows levels"], other: Float64[ndarray, "rows levels"]) -> float:
    """Compute Spearman's rank correlation over all entries; nan if all entries of a table are equal.

    Example:
        >>> pooled_correlation(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [4.0, 9.0]]))
        1.0
    """
    first, second = (rankdata(values) for values in (one.ravel(), other.ravel()))
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.sqrt(first @ first * (second @ second)))
    return float(first @ second) / norm if norm > 0 else float("nan")


RAID = Evaluation(
    name="raid",
    version=1,
    better="higher",
    options=RaidOptions,
    reads=Reading(open=open_raid, prepare=_prepare, predict=_compare, space="srgb"),
    measure=lambda compared, images, options: {"distances": compared.distances},
    summarise=_rank,
    controls={"level": level_number},
    page="candlelight.evaluation.perception.perception_report:RAID_PAGE",
)
