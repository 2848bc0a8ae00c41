"""A view of drawn images for each score of intrinsic images, and a model that knows its outputs."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.views import Comparisons, JudgedImage, RegionImage

PALETTE = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.4, 0.9]])
LIGHTS = 3


def paint(regions: Tensor) -> Tensor:
    """Paint regions in the true colours, over gray."""
    return torch.cat([torch.full((1, 3), 0.5), PALETTE])[regions].permute(2, 0, 1)


@pytest.fixture
def looked_up() -> Callable[..., Callable[[Tensor], tuple[Tensor, Tensor]]]:
    """Make a model that has a reflectance and, unless it is white, a shading for each image."""

    def make(
        images: Sequence[Tensor], reflectance: Sequence[Tensor], shading: Sequence[Tensor] | None = None
    ):
        def model(image: Tensor) -> tuple[Tensor, Tensor]:
            rows = [next(row for row, one in enumerate(images) if torch.equal(one, each)) for each in image]
            white = torch.ones_like(image)
            return (
                torch.stack([reflectance[row] for row in rows]),
                white if shading is None else torch.stack([shading[row] for row in rows]),
            )

        return model

    return make


@pytest.fixture
def decomposed(decompositions):
    """Five images; in the first two the albedo is 0 in a corner, the fourth has no light."""
    rng = np.random.default_rng(0)
    albedo, shading = (rng.uniform(0.1, 1, (5, 3, 24, 30)).astype(np.float32) for _ in range(2))
    albedo[:2, :, :6, :9] = 0
    shading[3] = 0
    return decompositions(torch.from_numpy(albedo), torch.from_numpy(shading), groups=tuple("aabbc"))


def judge(row: int) -> JudgedImage:
    """Draw a photograph with comparisons and labels; the one of row 3 has neither."""
    rng = np.random.default_rng(row)
    height, width = (36, 24) if row == 1 else (24, 36)
    count = 0 if row == 3 else 30
    points, darker = rng.random((count, 2, 2)), rng.integers(0, 3, count)
    made = Comparisons(*map(torch.from_numpy, (points, darker, rng.uniform(0.1, 1, count))))
    labels = np.kron(rng.choice([0, 1, 2, 2, 100], (height // 4, width // 4)), np.ones((4, 4), int))
    labels = labels if count else np.full_like(labels, 100)
    image = rng.random((3, height, width), np.float32)
    return JudgedImage(torch.from_numpy(image), made, torch.from_numpy(labels))


@pytest.fixture
def judged(memory_view):
    """Four photographs of two sizes; the last has no valid judgement."""
    return memory_view([judge(row) for row in range(4)], origin="human")


@pytest.fixture
def painted(memory_view):
    """Four images of noise; the first has three regions, the fourth none."""
    items = []
    for row in range(4):
        regions = torch.zeros(24, 32, dtype=torch.int64)
        for number in range(1, 4 - row):
            regions[2 : 22 - number, 8 * number : 8 * number + 6] = number
        draws = torch.Generator().manual_seed(row)
        items.append(RegionImage(torch.rand(3, 24, 32, generator=draws), regions, PALETTE[: 3 - row]))
    return memory_view(items, groups=tuple("aabb"), synthetic=False)


@pytest.fixture
def scene_items() -> Callable[..., list[RegionImage]]:
    """Draw two scenes of three bands under three coloured lights with a gradient."""

    def draw(colours: Tensor | None = PALETTE) -> list[RegionImage]:
        draws = torch.Generator().manual_seed(0)
        items = []
        for scene in range(2):
            regions = torch.zeros(12, 16, dtype=torch.int64)
            for number in range(1, 4):
                regions[1 + scene : 11, 5 * number - 4 : 5 * number - 1] = number
            for _ in range(LIGHTS):
                light = 0.2 + torch.rand(3, 1, 1, generator=draws)
                shading = light * torch.linspace(0.5, 1, 16) ** (4 * torch.rand(1, generator=draws))
                items.append(RegionImage(paint(regions) * shading, regions.clone(), colours))
        return items

    return draw


@pytest.fixture
def lit(memory_view, scene_items):
    """A kitchen and an office, each under three lights."""
    return memory_view(scene_items(), ("kitchen",) * LIGHTS + ("office",) * LIGHTS, synthetic=True)
