r"""Can a decoder have a high score of rendered counterfactuals without knowing the counterfactual?

    python -m benchmarks.trials.cheating_decoders

Images of a disc on a striped ground are drawn from four factors and nothing else, so that the counterfactual
of each image is known exactly. The codes are the four factors and the number of the image. The true decoder
draws the image of the four codes and ignores the number; each other decoder cheats in its own way, some of
them with the number, by which they know the image whose codes were changed. The table has the mean over
factors of each score. It fails unless the truth has 1, the input given back 0, and no cheat more than
`MOST` over the image.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.processes import print_table
from candlelight.evaluation.causal import CounterfactualData
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.views import DataIdentity
from candlelight.loaders.schema import FactorInfo

FACTORS = {"place": 4, "hue": 5, "size": 3, "ground": 4}
SIDE = 48
MOST = 0.6  # largest score of a cheat over the image
CONTRAST = 0.6  # of the truth whose contrast is scaled

Classes = Int[Tensor, "batch factors"]
Images = Float[Tensor, "batch 3 height width"]


def draw(classes: Classes) -> Images:
    """Draw a disc of a place, hue and size on stripes of a brightness; edges are soft by one pixel."""
    place, hue, size, ground = (classes / (torch.tensor([*FACTORS.values()]) - 1)).float().unbind(1)
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    stripes = 0.25 + 0.5 * ground[:, None, None] + 0.08 * torch.sin(0.8 * columns)
    centre = SIDE * (0.3 + 0.4 * place)[:, None, None]
    distance = ((rows - SIDE / 2) ** 2 + (columns - centre) ** 2).sqrt()
    inside = (SIDE * (0.12 + 0.12 * size)[:, None, None] - distance + 0.5).clamp(0, 1)[:, None]
    angles = 5 * hue[:, None] + torch.tensor([0.0, 2.1, 4.2])
    colour = (0.5 + 0.4 * torch.cos(angles))[:, :, None, None]
    return inside * colour + (1 - inside) * stripes[:, None]


class DrawnGrid:
    """One image for each combination of factors, as a view."""

    def __init__(self) -> None:
        self.classes = torch.tensor(list(product(*map(range, FACTORS.values()))))
        self.images = draw(self.classes)
        self.identity = DataIdentity("discs", "memory")
        self.ids = tuple(map(str, range(len(self.classes))))
        self.groups, self.known_ids = self.ids, frozenset(self.ids)
        self.table = self.classes.double().numpy()
        self.factors = tuple(
            FactorInfo(name=name, kind="categorical", values=tuple(map(str, range(size))))
            for name, size in FACTORS.items()
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> Float[Tensor, "3 height width"]:
        return self.images[row]


class LookUp(nn.Module):
    """An encoder that looks up factors and number of an image, and a decoder that may cheat.

    Args:
        grid: the images.
        cheat: gives images of the classes that the codes hold, and of the image that the number names.
    """

    def __init__(self, grid: DrawnGrid, cheat: Callable[[Classes, Int[Tensor, " batch"]], Images]) -> None:
        super().__init__()
        self.grid, self.cheat = grid, cheat

    def forward(self, images: Images) -> Float[Tensor, "batch codes"]:
        """Look up each image."""
        rows = torch.cdist(images.flatten(1), self.grid.images.flatten(1)).argmin(1)
        return torch.cat([self.grid.classes[rows], rows[:, None]], dim=1).double()

    def decode(self, codes: Float[Tensor, "batch codes"]) -> Images:
        """Decode as the cheat does."""
        codes = codes.round().long()
        return self.cheat(codes[:, :-1], codes[:, -1]).clamp(0, 1)


def decoders(grid: DrawnGrid) -> dict[str, Callable[[Classes, Int[Tensor, " batch"]], Images]]:
    """Make the true decoder and those that cheat, by name."""
    images, mean = grid.images, grid.images.mean(0)
    sizes = torch.tensor([*FACTORS.values()])
    distances = torch.cdist(images.flatten(1), images.flatten(1)).fill_diagonal_(torch.inf)
    signs = torch.randn(images[:1].shape, generator=torch.Generator().manual_seed(0)).sign()

    def nearest(classes: Classes, rows: Int[Tensor, " batch"]) -> Images:
        target = torch.cdist(draw(classes).flatten(1), images.flatten(1)).argmin(1)
        return images[distances[target].argmin(1)]

    def entangled(classes: Classes, rows: Int[Tensor, " batch"]) -> Images:
        moved = (classes != grid.classes[rows]).roll(1, 1)  # the next factor moves with each that moves
        return draw((classes + moved) % sizes)

    return {
        "truth": lambda classes, rows: draw(classes),
        "mean image + 3 % of contrast": lambda classes, rows: mean + 0.03 * (draw(classes) - mean),
        "blur of 9 pixels": lambda classes, rows: blur(draw(classes), 9),
        "blur of 17 pixels": lambda classes, rows: blur(draw(classes), 17),
        "input given back": lambda classes, rows: images[rows],
        "nearest other frame by pixels": nearest,
        "half-way from input to mean": lambda classes, rows: (images[rows] + mean) / 2,
        "constant gray": lambda classes, rows: torch.full((len(rows), *mean.shape), 0.5),
        f"truth with {CONTRAST:g} of its contrast": lambda classes, rows: (
            0.5 + CONTRAST * (draw(classes) - 0.5)
        ),
        "truth, another factor changed too": entangled,
        "change with the wrong sign": lambda classes, rows: 2 * images[rows] - draw(classes),
        "noise of the change's magnitude": lambda classes, rows: (
            images[rows] + signs * (draw(classes) - images[rows])
        ),
    }


def blur(images: Images, side: int) -> Images:
    """Average over squares; the edge of the image is repeated."""
    padded = functional.pad(images, [side // 2] * 4, mode="replicate")
    return functional.avg_pool2d(padded, side, stride=1)


def score_decoders() -> dict[str, tuple[dict[str, float], dict[str, Any]]]:
    """Score each decoder: means over factors, and details."""
    grid = DrawnGrid()
    models = {name: LookUp(grid, cheat) for name, cheat in decoders(grid).items()}
    found: Any = evaluate("counterfactuals", CounterfactualData(grid, grid), models, device="cpu")
    return {
        name: ({label: score.value for label, score in one.scores.items()}, one.details["rendered"])
        for name, one in found.items()
    }


def check_order(found: dict[str, tuple[dict[str, float], dict[str, Any]]]) -> None:
    """Fail unless the truth has 1, the input given back 0, and each cheat at most `MOST`."""
    score = {name: scores["rendered_counterfactual(1)"] for name, (scores, _) in found.items()}
    np.testing.assert_allclose([score.pop("truth"), score["input given back"]], [1, 0], atol=1e-5)
    assert max(score.values()) <= MOST, score


def main() -> None:
    """Print the table, and fail if a cheat comes near the truth."""
    found = score_decoders()
    labels = [f"rendered_counterfactual(1){part}" for part in ("", ", changed region", ", share")]
    rows = [
        [
            name,
            *(f"{scores[label]:.3f}" for label in labels),
            *(f"{one['scores'][labels[0]][0]:.2f}" for one in details["factors"].values()),
            ", ".join(details["not_decoded"]),
        ]
        for name, (scores, details) in found.items()
    ]
    print_table(["decoder", "image", "changed region", "share", *FACTORS, "not decoded"], rows)
    scores = next(iter(found.values()))[0]
    print("\nControls, over the image and in the changed region:")
    for label in ("input given back", "mean image", "nearest other frame"):
        values = (scores[f"rendered_counterfactual, {label}{part}"] for part in ("", ", changed region"))
        print(label, *(f"{value:.3f}" for value in values))
    check_order(found)


if __name__ == "__main__":
    main()
