"""Fixtures: a small folder of frames with all kinds of layers and hostile names, and results made by hand."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.evaluation.causal.information import mutual_information_matrix
from candlelight.evaluation.causal.irs import irs
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BranchScore, Ratios, SetScore
from candlelight.evaluation.intrinsic.intrinsic_records import LMSE
from candlelight.evaluation.run.intervals import Score, resampled_interval
from candlelight.evaluation.run.result import MeanResult, Provenance, StatisticResult
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, FactorInfo, Metadata, SetInfo, array_sha256, layer

HEIGHT, WIDTH = 6, 8
EXPOSURE = 0.5
HOSTILE = "<script>alert('1')</script>"
RECIPE = {"name": "tiny", "sha256": "a" * 64}
LAYERS = ("image", "radiance", "albedo", "depth", "normal", "object", "light/left")
FACTORS = (
    FactorInfo(name="color", kind="categorical", values=("red", HOSTILE, "never")),
    FactorInfo(name="size", kind="categorical", values=(1.5, 2), unit="m"),
    FactorInfo(name="angle", kind="continuous", low=0.0, high=90.0, unit="degrees"),
)


def _array(name: str, rng: np.random.Generator) -> ndarray:
    shape = layer(name).shape(HEIGHT, WIDTH)
    if name == "image":
        return rng.integers(0, 256, shape, np.uint8)
    if name == "object":
        return rng.integers(0, 12, shape, np.uint8)
    if name == "depth":
        depth = rng.uniform(1, 9, shape).astype(np.float32)
        depth[0] = np.inf
        return depth
    return rng.random(shape).astype(np.float16)


def tiny_frame(set_name: str, index: int, layers: dict[str, ndarray], factors: dict, **fields) -> Frame:
    """Make a frame with these layers and factors, and further fields of its metadata."""
    text = {
        **{"id": f"{set_name}-{index}", "set": set_name, "index": index, "unit": "u", "group": "g"},
        **{"recipe": RECIPE, "factors": factors, "exogenous": {}, "intervention": {}, "exposure": 1.0},
        **{"objects": [], "lights": [], "environment": None},
        "camera": {"intrinsics": np.eye(3).tolist(), "world_to_camera": np.eye(4).tolist()},
        "renderer": {
            **{"blender": "5.0.1", "device": "CPU", "cpu_features": "avx2"},
            **{"samples": 16, "denoiser": "none", "cycles_seed": 7},
        },
        "checks": {"identity_error": None, "stored_error": 0.0, "clipped": 0.0},
        "layers": {name: array_sha256(array) for name, array in layers.items()},
    }
    return Frame(Metadata.model_validate(text | fields), layers)


def write_info(root: Path, sets: dict[str, SetInfo], description: str = "d") -> None:
    about = {"licence": "CC0-1.0", "seed": 3, "candlelight": "0.1.0", "recipe": RECIPE}
    write_dataset_info(root, DatasetInfo(name="tiny", description=description, sets=sets, **about))


@pytest.fixture(scope="session")
def report_root(tmp_path_factory) -> Path:
    """Write eight frames of set `plain` with all layers, and two of set `caught` with images only."""
    root = tmp_path_factory.mktemp("report")
    common = {"width": WIDTH, "height": HEIGHT, "factors": FACTORS, "exposure": EXPOSURE}
    sets = {
        "plain": SetInfo(count=9, layers=LAYERS, varies=("color",), **common),
        "caught": SetInfo(count=2, layers=("image",), **common),
    }
    write_info(root, sets, f"Noise {HOSTILE}")
    for name, count in (("plain", 8), ("caught", 2)):
        for index in range(count):
            rng = np.random.default_rng(index)
            color, size = FACTORS[0].values[index % 2], FACTORS[1].values[index // 2 % 2]
            checks = {
                "identity_error": None if name == "caught" else 1e-7 * (index + 1),
                **{"stored_error": 0.0004, "clipped": 0.01 * index},
            }
            layers = {key: _array(key, rng) for key in sets[name].layers}
            factors = {"color": color, "size": size, "angle": 10.0 * index}
            write_frame(root, tiny_frame(name, index, layers, factors, exposure=EXPOSURE, checks=checks))
    return root


@pytest.fixture(scope="session")
def plain(report_root) -> FrameFolder:
    return FrameFolder(report_root, "plain")


@pytest.fixture(scope="session")
def caught(report_root) -> FrameFolder:
    return FrameFolder(report_root, "caught")


def about(metric: str, model: str, better: str = "higher", **settings: Any) -> Provenance:
    return Provenance(
        metric, 1, better, {"name": model}, {"name": "tiny", "rows": 3}, settings, {"numpy": "2.0"}
    )


@pytest.fixture(scope="session")
def intrinsic() -> list[MeanResult]:
    """Two models on three rows; for the second model, LMSE is undefined in row 1 and row 3 failed."""

    def result(name: str, *lmse: float, failed: tuple[str, ...] = ()) -> MeanResult:
        columns = {column: lmse for column in LMSE.ranges}
        columns["lmse_reflectance"] = tuple(2 * value for value in lmse)
        ids = ("a", "b", "c")
        return MeanResult(about("lmse", name, "lower"), ids, ids, columns, failed)

    first = result("first $x$ & <b>", 0.1, 0.2, 0.3)
    return [first, result("second", math.nan, 0.01, 0.03, failed=("c",))]


def branch(value: float, significant: bool = True) -> dict[str, BranchScore]:
    p_value = 0.001 if significant else 0.5
    score = BranchScore(
        (value,), 0.05, 0.9, p_value, 0.2, (2.0, 1.0, 3.0), permutation_p=p_value, adjusted_p=p_value
    )
    return dict.fromkeys(ALIGNMENTS, score)


def concept_result(name: str, sets: list[SetScore], runs: int) -> StatisticResult:
    scores, replicates = resampled_interval(Ratios(sets), ["test"], seed=0, resamples=3)
    details = {"sets": [one.describe() for one in sets]}
    return StatisticResult(about("csm", name, runs=runs), scores, replicates, ("test",), (), details)


@pytest.fixture(scope="session")
def concepts() -> list[StatisticResult]:
    """Results of `model`: CSM_S 5.5 over all sets and 2 by the both branches, CSM_R infinite."""

    def item(concept: str, reflectance: dict[str, BranchScore], shading: dict[str, BranchScore]) -> SetScore:
        branches = {"reflectance": reflectance, "shading": shading}
        return SetScore(concept, {"scene": HOSTILE, "temperature": 4500}, 20, branches)

    sets = [
        item("albedo", branch(0.8), branch(0.4)),
        item("albedo", branch(0.9, significant=False), branch(0.1)),
        item("illumination", branch(0.0), branch(0.7)),
    ]
    blind = [item("albedo", branch(0.0, False), branch(0.0, False))]
    return [concept_result("model", sets, 20), concept_result("blind", blind, 20)]


@pytest.fixture(scope="session")
def coverage() -> list[StatisticResult]:
    """Two methods and two parts; no image shows the second part, the second method has one dead image."""

    def result(
        name: str, best: int, iou: float, waiou: float, failed: tuple[str, ...] = ()
    ) -> StatisticResult:
        settings = {"parts": ["cube", "torus"], "proportions": [0.01, 0.1], "k": 1}
        details = {
            "best_proportion": best,
            "average_iou": [iou, iou],
            "curve": [waiou, waiou],
            "parts": [waiou, None],
            "mean_iou": [iou, None],
            "counts": [1, 0],
        }
        scores = {"waiou": Score(waiou, 0.1, 0.4)}
        return StatisticResult(about("waiou", name, **settings), scores, {}, ("a", "b"), failed, details)

    return [result("conv1", 0, 0.5, 0.25), result("conv2", 1, 0.25, 0.125, ("a",))]


@pytest.fixture(scope="session", name="causal_result")
def _causal_result() -> Callable[..., StatisticResult]:
    return causal_result


def causal_result(name: str, codes: Tensor, factors: Tensor) -> StatisticResult:
    found = irs(codes, factors)
    scores = {"irs": Score(float(found.score), 0.9, 1.0), "mig": Score(math.nan, math.nan, math.nan)}
    details = {
        "codes": found.codes,
        "matrix": found.matrix,
        "parents": found.parents,
        "weights": found.weights,
        "matrices": {"information": mutual_information_matrix(discretise(codes, 2), factors)},
        "notes": ["images with each value: color 2, size 3"],
    }
    settings = {"factors": ["color", "size"]}
    return StatisticResult(about("codes", name, **settings), scores, {}, ("a", "b"), (), details)


@pytest.fixture(scope="session")
def causal() -> list[StatisticResult]:
    """Two codes that equal one factor each."""
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(2))
    return [causal_result("codes", factors.double(), factors)]
