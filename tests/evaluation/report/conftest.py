"""A small folder of frames with every kind of layer and hostile names, and scores made by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy import ndarray

from evaluation.causal.irs import irs
from evaluation.causal.protocol import CausalScores
from evaluation.causal.unconfoundedness import unconfoundedness
from evaluation.concepts.protocol import BranchScore, ConceptScores, SetScore
from evaluation.coverage.protocol import CoverageScores
from evaluation.coverage.waiou import weigh_iou
from evaluation.intrinsic.protocol import IntrinsicScores
from loaders.frames import FrameFolder, write_dataset_info, write_frame
from loaders.samples import Frame
from loaders.schema import DatasetInfo, FactorInfo, Metadata, SetInfo, array_sha256, layer

HEIGHT, WIDTH = 6, 8
EXPOSURE = 0.5
HOSTILE = "<script>alert('1')</script>"
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


def _metadata(set_name: str, index: int, layers: dict[str, ndarray]) -> Metadata:
    text = {
        **{"id": f"{set_name}-{index}", "set": set_name, "index": index, "unit": "u", "group": "g"},
        "recipe": {"name": "tiny", "sha256": "a" * 64},
        "factors": {
            "color": FACTORS[0].values[index % 2],
            "size": FACTORS[1].values[index // 2 % 2],
            "angle": 10.0 * index,
        },
        **{"exogenous": {}, "intervention": {}, "objects": [], "lights": [], "environment": None},
        "camera": {"intrinsics": np.eye(3).tolist(), "world_to_camera": np.eye(4).tolist()},
        "exposure": EXPOSURE,
        "renderer": {
            **{"blender": "5.0.1", "device": "CPU", "cpu_features": "avx2"},
            **{"samples": 16, "denoiser": "none", "cycles_seed": 7},
        },
        "checks": {
            "identity_error": None if set_name == "caught" else 1e-7 * (index + 1),
            "stored_error": 0.0004,
            "clipped": 0.01 * index,
        },
        "layers": {name: array_sha256(array) for name, array in layers.items()},
    }
    return Metadata.model_validate(text)


@pytest.fixture(scope="session")
def report_root(tmp_path_factory) -> Path:
    """Eight frames of set `plain` with all layers, two of set `caught` with images only."""
    root = tmp_path_factory.mktemp("report")
    common = {"width": WIDTH, "height": HEIGHT, "factors": FACTORS, "exposure": EXPOSURE}
    sets = {
        "plain": SetInfo(count=9, layers=LAYERS, varies=("color",), **common),
        "caught": SetInfo(count=2, layers=("image",), **common),
    }
    info = DatasetInfo(
        **{"name": "tiny", "description": f"Noise {HOSTILE}", "licence": "CC0-1.0", "seed": 3, "sets": sets},
        **{"recipe": {"name": "tiny", "sha256": "a" * 64}, "candlelight": "0.1.0"},
    )
    write_dataset_info(root, info)
    for name, count in (("plain", 8), ("caught", 2)):
        for index in range(count):
            rng = np.random.default_rng(index)
            layers = {key: _array(key, rng) for key in sets[name].layers}
            write_frame(root, Frame(_metadata(name, index, layers), layers))
    return root


@pytest.fixture(scope="session")
def plain(report_root) -> FrameFolder:
    return FrameFolder(report_root, "plain")


@pytest.fixture(scope="session")
def caught(report_root) -> FrameFolder:
    return FrameFolder(report_root, "caught")


@pytest.fixture(scope="session")
def intrinsic() -> dict[str, IntrinsicScores]:
    """Two models on three samples; the LMSE of the first sample of the second is not defined."""

    def scores(*lmse: float) -> IntrinsicScores:
        values = torch.tensor(lmse)
        return IntrinsicScores(("a", "b", "c"), values, 2 * values, values, values, values, values)

    return {"first $x$ & <b>": scores(0.1, 0.2, 0.3), "second": scores(torch.nan, 0.01, 0.03)}


def branch(value: float, significant: bool = True) -> BranchScore:
    return BranchScore(value, 0.05, 0.9, 0.001 if significant else 0.5, significant)


@pytest.fixture(scope="session")
def concepts() -> dict[str, ConceptScores]:
    """CSM_S of `model` is 0.8 / 0.4, its CSM_R infinite; `blind` has no set that is significant."""

    def item(concept: str, reflectance: BranchScore, shading: BranchScore) -> SetScore:
        return SetScore(concept, {"scene": HOSTILE, "temperature": 4500}, 20, reflectance, shading)

    sets = (
        item("albedo", branch(0.8), branch(0.4)),
        item("albedo", branch(0.9, significant=False), branch(0.1)),
        item("illumination", branch(0.0), branch(0.7)),
    )
    blind = (item("albedo", branch(0.5, False), branch(0.5, False)),)
    return {"model": ConceptScores(sets, {"runs": 20}), "blind": ConceptScores(blind, {"runs": 30})}


@pytest.fixture(scope="session")
def coverage() -> CoverageScores:
    """Two methods, two parts of which no image shows the second; IoU 0.5 and 0.25 of the first."""
    iou = torch.tensor([[[0.5, torch.nan]], [[0.25, torch.nan]]], dtype=torch.float64)
    best = weigh_iou(iou)
    return CoverageScores(
        methods=("conv1", "conv2"),
        parts=("cube", "torus"),
        proportions=(0.01, 0.1),
        average_iou=torch.tensor([[0.5, 0.4], [0.2, 0.25]], dtype=torch.float64),
        curve=torch.zeros(2, 2, dtype=torch.float64),
        best_proportion={"conv1": 0.01, "conv2": 0.1},
        best=best,
        settings={"k": 1, "pooling": "set"},
    )


@pytest.fixture(scope="session")
def causal() -> CausalScores:
    """Two codes that are one factor each, asked for three codes per factor too."""
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(2))
    result = irs(factors.double(), factors)
    exact = {1: float(unconfoundedness(result, 1)), 3: float("nan")}
    return CausalScores(result, exact, exact, ("color", "size"), 6)
