import itertools
import json
import math

import pytest
import torch
from torch import nn

from evaluation.causal.irs import irs
from evaluation.causal.protocol import score_causal
from evaluation.causal.unconfoundedness import unconfoundedness
from loaders.errors import InputError
from loaders.schema import FactorInfo

SIZES = (3, 4, 2)


@pytest.fixture
def grid(memory_frames):
    """All of shape, angle (continuous) and light, encoded in pixels; the scene never varies."""
    rows = torch.tensor(list(itertools.product(*(range(size) for size in SIZES))))
    image = (rows * torch.tensor([100, 60, 200])).byte()[:, :, None, None].expand(-1, -1, 2, 2)
    infos = [
        FactorInfo(name="shape", kind="categorical", values=("cube", "cone", "torus")),
        FactorInfo(name="angle", kind="continuous", low=0, high=1),
        FactorInfo(name="light", kind="categorical", values=("left", "right")),
        FactorInfo(name="scene", kind="categorical", values=("hall", "street")),
    ]
    columns = {
        "shape": rows[:, 0].tolist(),
        "angle": (rows[:, 1] / 3).tolist(),
        "light": rows[:, 2].tolist(),
        "scene": [1] * len(rows),
    }
    return memory_frames({"image": image.contiguous()}, columns, infos)


def _pure(image):
    assert image.max() <= 1
    return image.mean((2, 3))


def test_pure_codes_score_one(grid):
    scores = score_causal(_pure, grid, batch_size=5)
    assert float(scores.irs.score) == pytest.approx(1)
    assert scores.irs.parents.tolist() == [0, 1, 2]
    assert scores.unconfoundedness[1] == scores.score == 1
    assert scores.factors == ("shape", "angle", "light")
    assert scores.frames == 24


def test_mixed_codes_equal_the_metrics_themselves(grid):
    mix = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    scores = score_causal(lambda image: _pure(image) @ mix, grid, rho=(1, 2, 3), quantile=0.9)
    codes = torch.stack([sample["image"][:, 0, 0] for sample in grid.samples]).float() / 255 @ mix
    classes = torch.tensor(list(itertools.product(*(range(size) for size in SIZES))))
    expected = irs(codes, classes, 0.9)
    torch.testing.assert_close(scores.irs.matrix, expected.matrix, rtol=1e-5, atol=1e-5)
    for rho in (1, 2, 3):
        assert scores.unconfoundedness[rho] == float(unconfoundedness(expected, rho))
        candle = float(unconfoundedness(expected, rho, "candle2021"))
        assert scores.unconfoundedness_candle2021[rho] == candle


def test_bins_of_a_continuous_factor(grid):
    # In two bins, angles 0 and 1/3 are one class: the angle's code then moves within it.
    scores = score_causal(_pure, grid, bins=2)
    assert float(scores.irs.matrix[1, 1]) == pytest.approx(1 - (1 / 6) / 0.5, abs=0.01)


def test_network_is_evaluated_without_gradients(grid):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(12, 4))
    one, other = (score_causal(model, grid).to_json() for _ in range(2))
    assert one == other
    assert model.training


def test_rows(grid):
    scores = score_causal(_pure, grid, rows=range(8))
    assert scores.factors == ("angle", "light")
    assert scores.frames == 8


def test_collapsed_encoder_and_strict_json(grid):
    scores = score_causal(lambda image: torch.ones(len(image), 3), grid)
    assert math.isnan(scores.score)
    result = json.loads(scores.to_json())
    assert result["score"] is None
    assert result["irs"]["score"] == 0
    assert result["unconfoundedness"] == {"1": None, "2": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": []}, "no frames to encode"),
        ({"rho": ()}, "`rho` needs at least one number"),
        ({"rho": (0,)}, "`rho` must be 1 to 3"),
        ({"rows": [0, 1]}, r"at least two factors must vary among the frames, got \['light'\]"),
    ],
)
def test_what_is_refused(grid, arguments, message):
    with pytest.raises(InputError, match=message):
        score_causal(_pure, grid, **arguments)
