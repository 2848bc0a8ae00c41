"""Fixtures: views in memory, drawn scenes with a known decomposition, and quick evaluations."""

import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from numpy import ndarray
from torch import Tensor, nn

from candlelight.evaluation.run.intervals import Score, resampled_interval
from candlelight.evaluation.run.result import Provenance, StatisticResult
from candlelight.evaluation.views import DataIdentity, DecomposedImage


@pytest.fixture(scope="module", autouse=True)
def quick_evaluations() -> Iterator[None]:
    """Compute intervals from 40 resamples; the tests of intervals take thousands."""
    few = functools.partial(resampled_interval, resamples=40)
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            "candlelight.evaluation.causal.score_counterfactuals",
            "candlelight.evaluation.concepts.csm",
            "candlelight.evaluation.concepts.score_csm",
            "candlelight.evaluation.coverage.score_causal_check",
            "candlelight.evaluation.coverage.score_coverage",
            "candlelight.evaluation.intrinsic.intrinsic_records",
            "candlelight.evaluation.perception.raid_agreement",
            "candlelight.evaluation.perception.score_perception",
            "candlelight.evaluation.intrinsic.score_protocols",
        ):
            patch.setattr(import_module(module), "resampled_interval", few)
        patch.setattr(import_module("candlelight.evaluation.causal.measure_codes"), "MOST_RESAMPLES", 40)
        yield


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Leave out the checks of annotations, as for users, so that the functions themselves answer."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class MemoryView:
    """A view of a list of items, with further members."""

    def __init__(self, items: Sequence[Any], groups: Sequence[str] | None, name: str, **members: Any) -> None:
        self.items = list(items)
        self.identity = DataIdentity(name, "memory")
        self.ids = tuple(f"{name}-{row}" for row in range(len(self.items)))
        self.groups = self.ids if groups is None else tuple(groups)
        self.known_ids = frozenset(self.ids)
        for member, value in members.items():
            setattr(self, member, value)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


@pytest.fixture(scope="session")
def memory_view() -> Callable[..., MemoryView]:
    """Make a view of items: name, groups, and further members such as ``sets`` or ``factors``."""

    def make(items: Sequence[Any], groups: Sequence[str] | None = None, name: str = "row", **members: Any):
        return MemoryView(items, groups, name, **members)

    return make


class Attention(nn.Module):
    """Self-attention over the blocks of an image, [tokens, batch, channels] as torch has it by default.

    The layer `attention` gives its weights too, `tokens_first` gives the tokens alone, and `images_first`
    the same tokens as [batch, tokens, channels].
    """

    def __init__(self, side: int = 2) -> None:
        """Draw the weights; the image is averaged in ``side`` x ``side`` blocks."""
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.attention = nn.MultiheadAttention(3, 1)
        self.blocks = nn.AdaptiveAvgPool2d(side)
        self.tokens_first, self.images_first = nn.Identity(), nn.Identity()

    def forward(self, image: Tensor) -> Tensor:
        """Add up the squares of each channel over the tokens."""
        tokens = self.blocks(image).flatten(2).permute(2, 0, 1)
        tokens = self.tokens_first(self.attention(tokens, tokens, tokens)[0])
        return self.images_first(tokens.transpose(0, 1)).square().sum(1)


@pytest.fixture(scope="session")
def attention() -> type[Attention]:
    """Return the class of a network with tokens before images."""
    return Attention


@pytest.fixture(scope="session")
def coverage_call() -> Callable[..., list[StatisticResult]]:
    """Make results of one comparison of coverage with all optional details.

    Method m of the call, counted from 0, has an average IoU of 0.1 (m + 1) + 0.01 p at share p, 0.005 less
    with a threshold by image; its WAIoU is half of that. No image shows the last part.
    """

    def make(
        classifier: str, methods: Sequence[str] = ("vebi", "topics", "prototypes"), data: str = "birds"
    ) -> list[StatisticResult]:
        names = [f"{classifier} {method}" for method in methods]
        settings = {
            **{"parts": ["head", "tail", "wing"], "proportions": [0.01, 0.05, 0.1], "pooling": "set", "k": 1},
            **{"compared": names, "missing": "error"},
        }
        whole = {
            "controls": {
                "noise": {"mean_iou": 0.05, "waiou": 0.06},
                "centre": {"mean_iou": 0.2, "waiou": 0.3},
                "constant": {"mean_iou": 0.0, "waiou": None},
                "object": {"mean_iou": 0.15, "waiou": 0.1},
                "exact parts": {"mean_iou": 0.15, "waiou": 0.4},
                "ideal": {"mean_iou": 0.9, "waiou": 0.95},
            },
            "mask_controls": {"object": 0.08, "exact parts": 0.04},
            "sensitivity": [
                {
                    "setting": "k=3",
                    "scores": {name: 0.3 - 0.1 * place for place, name in enumerate(names)},
                    "order": names,
                    "differs": [True] * (len(names) - 1),
                    "agreement": -1.0,
                }
            ],
        }
        results = []
        for place, name in enumerate(names):
            iou = [0.1 * (place + 1) + 0.01 * share for share in range(3)]
            details = {
                **{"best_proportion": 2, "average_iou": iou, "curve": [value / 2 for value in iou]},
                "by_pooling": {"set": iou, "image": [value - 0.005 for value in iou]},
                **{"parts": [iou[2] / 2, iou[2] / 2, None], "mean_iou": [iou[2], 0.5, None]},
                **{"counts": [8, 6, 0], "labels": [6, 3, 0], "unlabelled": 1, "completeness": 0.75},
                "accuracy": {"classifier": 0.93, "explained": 0.9 + place / 100},
                "network": {"of": name, "accuracy": [0.9 - place / 3, 0.8 - place / 3, 1.0], "chance": 0.2},
                "extremes": {
                    "highest": [["row-1", 0.5], ["row-0", 0.4]],
                    "lowest": [["row-2", 0.0], ["row-0", 0.1]],
                },
                "dissection": {"concepts": 64, "labelled": 3, "detectors": {"tail": 1, "sky": 2}},
            } | (whole if place == 0 else {})
            about = Provenance("waiou", 3, "higher", {"name": name}, {"name": data}, settings, {})
            # A little less than in sample.
            scores = {"waiou": Score(iou[2] / 2, 0.01, 0.4), "mean_iou": Score(iou[2] - 0.01, 0.02, 0.5)}
            results.append(StatisticResult(about, scores, {}, ("a", "b"), (), details))
        return results

    return make


@pytest.fixture(scope="session")
def decompositions(memory_view) -> Callable[..., MemoryView]:
    """Make a view of stacked reflectance and shading; the image is their product."""

    def make(
        reflectance: Tensor, shading: Tensor, groups: Sequence[str] | None = None, name: str = "row"
    ) -> MemoryView:
        items = [
            DecomposedImage(r.float() * s.float(), r.float(), s.float(), (r > 0).any(0))
            for r, s in zip(reflectance, shading, strict=True)
        ]
        return memory_view(items, groups, name, explains="image")

    return make


def patches(rng: np.random.Generator, height: int, width: int) -> ndarray:
    """Draw the reflectance of a Mondrian: each pixel has the colour of the nearest of a few random points."""
    rows, columns = np.mgrid[:height, :width]
    points = rng.uniform(0, 1, (5, 2)) * (height, width)
    distance = (rows - points[:, 0, None, None]) ** 2 + (columns - points[:, 1, None, None]) ** 2
    return rng.uniform(0.1, 0.9, (5, 3))[distance.argmin(0)]


def scene(rng: np.random.Generator, height: int, width: int) -> tuple[ndarray, ndarray]:
    """Draw reflectance and gray shading of a sphere in front of a Mondrian, float32, channels first."""
    rows, columns = np.mgrid[:height, :width]
    albedo = patches(rng, height, width)
    slope = rng.uniform(-0.3, 0.3, 2)
    shading = 0.6 + slope[0] * (rows / height - 0.5) + slope[1] * (columns / width - 0.5)
    radius = rng.uniform(0.2, 0.4) * height
    y, x = (
        (axis - rng.uniform(0.3, 0.7) * size) / radius for axis, size in ((rows, height), (columns, width))
    )
    inside = x**2 + y**2 < 1
    light = rng.uniform(-1, 1, 2)
    lit = light @ np.stack([x, y]).reshape(2, -1) + np.sqrt(np.clip(1 - x**2 - y**2, 0, 1)).ravel()
    shading = np.where(inside, 0.1 + 0.5 * np.clip(lit.reshape(height, width), 0, 1.5), shading)
    albedo = np.where(inside[..., None], rng.uniform(0.1, 0.9, 3), albedo)
    shading = np.repeat(shading[None], 3, axis=0)
    return albedo.transpose(2, 0, 1).astype(np.float32), shading.astype(np.float32)


@pytest.fixture(scope="session")
def scenes(decompositions) -> Callable[..., Any]:
    """Make a view of drawn scenes: count, seed, height, width."""

    def make(count: int, seed: int, height: int = 24, width: int = 32) -> Any:
        rng = np.random.default_rng(seed)
        albedo, shading = map(np.stack, zip(*(scene(rng, height, width) for _ in range(count)), strict=True))
        return decompositions(torch.from_numpy(albedo), torch.from_numpy(shading))

    return make


@pytest.fixture(scope="session")
def mondrian() -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """Draw the reflectance of a Mondrian and a smooth gray shading, float64, by seed."""

    def make(seed: int, height: int = 60, width: int = 80) -> tuple[torch.Tensor, torch.Tensor]:
        rng = np.random.default_rng(seed)
        albedo = patches(rng, height, width).transpose(2, 0, 1)
        rows, columns = np.mgrid[:height, :width]
        # One soft bump: at most 4 percent from one pixel to the next, far below the thresholds.
        centre = rng.uniform(0.2, 0.8, 2) * (height, width)
        bump = np.exp(-((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2) / (2 * 20.0**2))
        shading = np.repeat((0.3 + 0.7 * bump)[None], 3, axis=0)
        return torch.from_numpy(albedo)[None], torch.from_numpy(shading)[None]

    return make


@pytest.fixture(scope="module")  # its event loop runs until it is closed, and asyncio has one at a time
def browser():
    """A browser without a window, whose screen is scaled by 150 %."""
    playwright = pytest.importorskip("playwright.sync_api", reason="drives a browser: pip install playwright")
    names = "chromium", "chromium-browser", "google-chrome"
    if (program := next(filter(None, map(shutil.which, names)), None)) is None:
        pytest.skip("needs chromium or google-chrome on the PATH")
    with playwright.sync_playwright() as driver:
        # Scaled by the screen, as on a laptop; a scale of the page alone would resample.
        flags = ["--force-device-scale-factor=1.5", "--window-size=1000,800"]
        opened = driver.chromium.launch(executable_path=program, args=flags, chromium_sandbox=False)
        yield opened
        opened.close()
