"""Response curves of a distance by scene, and its sensitivity to transforms."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Float64, Real
from torch import Tensor

from candlelight.evaluation.perception.detection import COLOUR_AXES
from candlelight.evaluation.perception.measure_distances import TransformDistances
from candlelight.evaluation.perception.transduction import check_distances, check_magnitudes
from candlelight.evaluation.perception.transform_families import ILLUMINANT, unchanged_magnitude
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

GEOMETRIC_TRANSFORMS = ("translation", "parallax x", "rotation", "scale")
TRANSLATION_AXES = ("translation x", "translation y")
_Key = tuple[str, int]  # group of a row, and its place among the rows of the group


@dataclass(frozen=True, eq=False)
class SceneCurve:
    """Distances of each scene from itself over one transform.

    Attributes:
        name: "translation" (mean over x and y), "parallax x", "rotation", "scale", "illuminant HUE", or "RG"
            and "YB" (mean over both ends of the axis); of one direction alone if only that was measured.
        unit: unit of the magnitudes.
        magnitudes: ascending from the identity: 0, or 1 for scale.
        distances: in the unit of the metric.
        energies: sums of the squared differences of the sRGB-encoded images, over the values of the scene's
            own image: means, unless the images lie on a canvas, which adds pixels and no difference.
        clipped: share of pixels that are cut, see `TransformDistances`.
        directions: transforms that are averaged; empty if there is one by definition.
    """

    name: str
    unit: str
    magnitudes: Float64[Tensor, " magnitudes"]
    distances: Float64[Tensor, "scenes magnitudes"]
    energies: Float64[Tensor, "scenes magnitudes"]
    clipped: Float64[Tensor, "scenes magnitudes"]
    directions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AlignedCurves:
    """Curves of several metrics over the same scenes.

    Attributes:
        groups: group of each scene.
        curves: by kind of moves, metric and transform.
        missing: number of scenes left out because a transform lacks them.
        undefined: for each metric, groups of the scenes on which it is undefined; they are left out for all.
    """

    groups: tuple[str, ...]
    curves: dict[str, dict[str, dict[str, SceneCurve]]]
    missing: int
    undefined: dict[str, tuple[str, ...]]


def align_curves(
    measured: Mapping[str, Mapping[str, Sequence[TransformDistances]]], energy: str
) -> AlignedCurves:
    """Bring the curves of all metrics and transforms to the same scenes, and average those of an axis.

    Args:
        measured: by kind of moves, such as "physical", and metric, from `measure_distances`.
        energy: name of RMSE among the metrics.

    Returns:
        Curves at magnitudes from the identity upwards; smaller ones, such as scales below 1, are another
        family. A scene on which a metric is undefined (nan) is left out for all, so that all are compared
        on the same scenes.

    Raises:
        InputError: no scene is left, distances are negative, or axes or hues differ in their magnitudes.

    Example:
        >>> def table(axis, distances):
        ...     both = torch.tensor([distances]).double()
        ...     magnitudes = torch.tensor([0.0, 1.0]).double()
        ...     names = f"translation {axis}", "degrees"
        ...     area = torch.ones(1).double()
        ...     return TransformDistances(*names, magnitudes, ("a",), ("a",), both, both, area)
        >>> tables = [table("x", [0.0, 0.1]), table("y", [0.0, 0.3])]
        >>> found = align_curves({"physical": {"rmse": tables}}, "rmse").curves["physical"]["rmse"]
        >>> found["translation"].distances
        tensor([[0.0000, 0.2000]], dtype=torch.float64)
    """
    by_metric: dict[str, list[TransformDistances]] = {}
    for metrics in measured.values():
        for name, tables in metrics.items():
            by_metric.setdefault(name, []).extend(tables)
    keys = [_keys(table) for table in by_metric[energy]]
    shared = [key for key in keys[0] if all(key in some for some in keys)]
    missing = len({key for some in keys for key in some}) - len(shared)
    defined = {name: _defined(tables, shared) for name, tables in by_metric.items()}
    kept = torch.stack(list(defined.values())).all(0).tolist()
    chosen = [key for key, is_kept in zip(shared, kept, strict=True) if is_kept]
    if not chosen:
        never = [name for name, some in defined.items() if shared and not bool(some.any())]
        raise InputError(
            "expected a scene on which every metric is defined under every transform, got none"
            + (f"; undefined on all scenes: {', '.join(never)}" if never else "")
        )
    undefined = {
        name: tuple(key[0] for key, is_defined in zip(shared, some.tolist(), strict=True) if not is_defined)
        for name, some in defined.items()
    }
    curves = {
        moves: {name: _curves(name, tables, metrics[energy], chosen) for name, tables in metrics.items()}
        for moves, metrics in measured.items()
    }
    return AlignedCurves(tuple(group for group, _ in chosen), curves, missing, undefined)


def _keys(table: TransformDistances) -> list[_Key]:
    """Name each row by its group and its place in it, because frames have other ids for each transform."""
    counts: Counter[str] = Counter()
    keys = []
    for group in table.groups:
        keys.append((group, counts[group]))
        counts[group] += 1
    return keys


def _rows(table: TransformDistances, chosen: Sequence[_Key]) -> list[int]:
    places = {key: row for row, key in enumerate(_keys(table))}
    return [places[key] for key in chosen]


def _defined(tables: Iterable[TransformDistances], shared: Sequence[_Key]) -> Bool[Tensor, " scenes"]:
    return torch.stack([table.distances[_rows(table, shared)].isfinite().all(1) for table in tables]).all(0)


def _curves(
    metric: str,
    tables: Iterable[TransformDistances],
    energy: Iterable[TransformDistances],
    chosen: Sequence[_Key],
) -> dict[str, SceneCurve]:
    found: dict[str, SceneCurve] = {}
    for table, rmse in zip(tables, energy, strict=True):
        identity = unchanged_magnitude(table.transform)
        order = [
            place for place in table.magnitudes.argsort().tolist() if table.magnitudes[place] >= identity
        ]
        distances, energies, clipped = (
            values[_rows(table, chosen)][:, order]
            for values in (table.distances, rmse.distances.square() * rmse.areas[:, None], table.clipped)
        )
        distances = check_distances(distances, f"distances of {metric}")
        curve = (table.unit, table.magnitudes[order], distances, energies, clipped)
        found[table.transform] = SceneCurve(table.transform, *curve)
    means = {"translation": [found[name] for name in TRANSLATION_AXES if name in found]}
    for axis, hues in COLOUR_AXES.items():
        means[axis] = [found[name] for hue in hues if (name := f"{ILLUMINANT}{hue}") in found]
    averaged = {name: _mean(name, some) for name, some in means.items() if some}
    single = {name: curve for name, curve in found.items() if name not in TRANSLATION_AXES}
    return averaged | single


def _mean(name: str, curves: Sequence[SceneCurve]) -> SceneCurve:
    """Average curves over directions, scene by scene."""
    for curve in curves:
        if not torch.equal(curve.magnitudes, curves[0].magnitudes):
            raise InputError(
                f"{name}: expected the magnitudes of `{curves[0].name}` for `{curve.name}` too, got others; "
                "measure the same ones"
            )
    distances, energies, clipped = (
        torch.stack([getattr(curve, part) for curve in curves]).mean(0)
        for part in ("distances", "energies", "clipped")
    )
    names = tuple(curve.name for curve in curves)
    return SceneCurve(name, curves[0].unit, curves[0].magnitudes, distances, energies, clipped, names)


# Transforms from the one to which people are most sensitive: Alabau-Bosque et al. 2024, section II.D, of
# thresholds in energy. Illuminants are along the short (red-green) and long (yellow-blue) axis of the human
# ellipse.
HUMAN_ORDER = ("scale", "translation", "rotation", "RG", "YB")


def transform_sensitivity(
    energies: Real[Tensor, "scenes magnitudes"], magnitudes: Real[Tensor, " magnitudes"], threshold: float
) -> float:
    """Compute the inverse of the energy of a transform at a threshold.

    ``S = 1 / |i - T_theta(i)|^2``, with theta the threshold of people or of a metric: Alabau-Bosque et al.
    2024, eq. 5. Here the square is over the number of values of the image (the square of the RMSE, which the
    paper names as unit), so that S does not grow with the image, and averaged over scenes. Between the
    magnitudes the RMSE is linear, as it nearly is for small moves. On a curve of D over the energy, D_T S is
    the slope of the line from the origin to the threshold, the "slope" by which the paper orders metrics.

    Blind to: the image: the same angle is more energy in a picture with more contrast, so compare transforms
    on the same scenes only.

    Args:
        energies: of each scene at each magnitude, see `SceneCurve`.
        magnitudes: of the transform, strictly increasing from the identity.
        threshold: in the unit of the magnitudes; inf for a metric that never moves, nan for a threshold that
            is not reached.

    Returns:
        Sensitivity, >= 0, larger for what is seen earlier; 0 for a threshold of inf, nan for nan, inf if the
        energy at the threshold is 0.

    Raises:
        InputError: the shapes do not agree, energies that are not finite or negative, magnitudes that do not
            increase, or a threshold outside them.

    Example:
        >>> import torch
        >>> magnitudes = torch.tensor([0.0, 1.0, 2.0])
        >>> round(transform_sensitivity(torch.tensor([[0.0, 0.01, 0.04]]), magnitudes, 1.5), 3)
        44.444
    """
    check_shapes(energies=(energies, "scenes magnitudes"), magnitudes=(magnitudes, "magnitudes"))
    mean = check_distances(energies, "energies").mean(0)
    if not math.isfinite(threshold):
        return 0.0 if threshold == math.inf else math.nan
    steps = check_magnitudes(magnitudes).numpy(force=True)
    if not float(steps[0]) <= threshold <= float(steps[-1]):
        raise InputError(
            f"`threshold` must lie within the magnitudes, {float(steps[0]):g} to {float(steps[-1]):g}, got "
            f"{threshold:g}; measure larger magnitudes"
        )
    rmse = float(np.interp(threshold, steps, mean.sqrt().numpy(force=True)))
    return 1 / rmse**2 if rmse > 0 else math.inf


@dataclass(frozen=True)
class SensitivityOrder:
    """The order of sensitivities, and its agreement with that of people.

    Attributes:
        score: share of the pairs of known transforms in the order of people, in [0, 1], equal sensitivities
            counting a half; nan with fewer than two known.
        order: known transforms from the most to the least sensitive.
        unknown: transforms whose threshold is not reached, which have no place.
        is_human: whether all transforms of `HUMAN_ORDER` are known, in this order.
    """

    score: float
    order: tuple[str, ...]
    unknown: tuple[str, ...]
    is_human: bool


def sensitivity_order(sensitivities: Mapping[str, float]) -> SensitivityOrder:
    """Order sensitivities to transforms, and compare the order with that of people.

    The second, weaker test of Alabau-Bosque et al. 2024 (section II.D and Table III): people are most
    sensitive to scale, then translation, rotation, red-green and yellow-blue illuminants (`HUMAN_ORDER`).

    Blind to: sizes. A metric with nearly equal sensitivities may have any order by chance, and 1 of 120
    random orders of five is that of people.

    Args:
        sensitivities: by the names of `HUMAN_ORDER`, not all of them necessarily; nan if unknown.

    Raises:
        InputError: another name, or a negative sensitivity.

    Example:
        >>> found = sensitivity_order({"scale": 9.0, "rotation": 5.0, "translation": 4.0, "RG": 0.0})
        >>> found.order, round(found.score, 3), found.is_human
        (('scale', 'rotation', 'translation', 'RG'), 0.833, False)
    """
    for name, value in sensitivities.items():
        check_choice("sensitivities", name, HUMAN_ORDER)
        if value < 0:
            raise InputError(f"sensitivities must be at least 0, got {value:g} for {name}; see eq. 5")
    known = [name for name in HUMAN_ORDER if not math.isnan(sensitivities.get(name, math.nan))]
    pairs = [(sensitivities[first], sensitivities[second]) for first, second in combinations(known, 2)]
    agreeing = sum(1.0 if first > second else 0.5 if first == second else 0.0 for first, second in pairs)
    return SensitivityOrder(
        score=agreeing / len(pairs) if pairs else math.nan,
        order=tuple(sorted(known, key=lambda name: -sensitivities[name])),
        unknown=tuple(name for name in sensitivities if name not in known),
        is_human=len(known) == len(HUMAN_ORDER) and agreeing == len(pairs),
    )
