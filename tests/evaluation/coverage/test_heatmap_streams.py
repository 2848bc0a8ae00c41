"""IoUs from streams equal, bit for bit, IoUs with all maps in memory and one threshold at a time."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage import heatmap_streams
from candlelight.evaluation.coverage import thresholds as exact
from candlelight.evaluation.coverage.heatmap_streams import (
    ExplanationStream,
    MaskStream,
    TensorSpool,
    stream_iou,
)
from candlelight.evaluation.coverage.thresholds import (
    Explanations,
    binarise,
    quantiles,
    set_threshold,
)
from candlelight.evaluation.coverage.waiou import part_iou
from tests.refusals import refused

HEIGHT, WIDTH, IMAGES = 13, 17, 9
PARTS = ("head", "leg", "tail", "wing")
SHARES = (0.1, 0.03, 0.37)


@pytest.fixture(params=["memory", "pieces"])
def limits(request, monkeypatch) -> None:
    """Keep everything in memory, or use files, two images at a time, and points counted in passes."""
    if request.param == "pieces":
        monkeypatch.setattr(heatmap_streams, "BYTES_IN_MEMORY", 1)
        monkeypatch.setattr(heatmap_streams, "_POINTS", 2 * HEIGHT * WIDTH)
        monkeypatch.setattr(exact, "POINTS_IN_MEMORY", 0)


def _explanations(kind, seed, height=5, width=4):
    rng = np.random.default_rng(seed)
    maps, members = rng.normal(size=(IMAGES, height, width)), rng.integers(3, size=(IMAGES, 1))
    if kind == "ties":
        maps = np.maximum(maps.round(1), 0)
        maps[3] = 0.5
        maps[5] = 0
    return Explanations(torch.from_numpy(maps.astype(np.float32)), torch.from_numpy(members))


def _masks(seed, disjoint):
    """Draw masks of each image by part; some masks are empty or missing, and one image has no masks."""
    rng = np.random.default_rng(seed)
    label = rng.integers(len(PARTS) + 1, size=(IMAGES, HEIGHT, WIDTH))
    masks = np.stack([label == part for part in range(len(PARTS))], axis=1)
    if not disjoint:
        masks |= rng.random(masks.shape) < 0.4
    masks[2, 1] = False
    return [
        {name: torch.from_numpy(masks[image, part]) for part, name in enumerate(PARTS) if part != image}
        for image in range(IMAGES - 1)
    ] + [{}]


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("compat", ["exact", "waiou2023"])
@pytest.mark.parametrize("threshold_at", ["mask", "map"])
@pytest.mark.parametrize("pooling", ["set", "image"])
@pytest.mark.parametrize(("kind", "disjoint"), [("noise", True), ("ties", False)])
def test_iou_equals_all_maps_in_memory(kind, pooling, threshold_at, compat, disjoint):
    methods = [_explanations(kind, 0), _explanations(kind, 1, height=HEIGHT, width=WIDTH)]
    masks = _masks(2, disjoint)
    shown = MaskStream()
    for image in masks:
        shown.append(image)
    explained = [ExplanationStream(name) for name in "ab"]
    for stream, one in zip(explained, methods, strict=True):
        for rows in (slice(0, 1), slice(1, 6), slice(6, None)):
            stream.append(Explanations(one.heatmap[rows], one.members[rows]))
    at = shown.shape if threshold_at == "mask" else None
    thresholds = [stream.thresholds(SHARES, pooling, at) for stream in explained]
    parts = ("wing", "head", "tail")
    found = stream_iou(explained, thresholds, shown, parts, compat)
    nothing = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    stacked = torch.stack([torch.stack([image.get(part, nothing) for part in parts]) for image in masks])
    for number, one in enumerate(methods):
        resized = one.resized(HEIGHT, WIDTH)
        for share, iou in zip(SHARES, found[number], strict=True):
            limits = set_threshold(resized if threshold_at == "mask" else one, share, pooling)
            np.testing.assert_array_equal(iou, part_iou(binarise(resized.heatmap, limits, compat), stacked))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("count", [1, 2, 50, 5000])
@pytest.mark.parametrize("kind", ["normal", "ties", "extreme"])
def test_quantiles_equal_a_sort(kind, count):
    rng = np.random.default_rng(count)
    points = rng.normal(size=count).astype(np.float32)
    if kind == "ties":
        points = points.round(1)
    if kind == "extreme":
        signs = rng.choice(np.array([-1, 1], np.float32), count)
        points = signs * rng.choice(np.array([0, 1e-45, 1e-38, 1, 1 + 1e-7, 3e38], np.float32), count)
    ordered = np.sort(points)
    for levels in ([0.0, 0.01, 0.5, 0.63, 0.99, 1.0], [0.97, 0.9, 0.95]):
        found = quantiles(torch.from_numpy(points).tensor_split(3).__iter__, count, levels)
        for level, value in zip(levels, found, strict=True):
            position = (count - 1) * level
            low, high = (torch.tensor(ordered[min(int(position) + step, count - 1)]) for step in (0, 1))
            assert value == torch.lerp(low, high, position - int(position))


def test_spool_reads_from_memory_and_from_a_file(monkeypatch):
    given = [torch.arange(6.0).reshape(2, 3), torch.zeros(0, 0, dtype=torch.uint8), torch.ones(5).bool()]
    for limit in (1, 2**20):
        monkeypatch.setattr(heatmap_streams, "BYTES_IN_MEMORY", limit)
        spool = TensorSpool()
        for tensor in given:
            spool.append(tensor)
        assert len(spool) == 3
        for number in (2, 0, 1, 0):
            assert spool[number].dtype == given[number].dtype
            assert torch.equal(spool[number], given[number])


def test_heatmaps_of_several_sizes():
    stream = ExplanationStream("gradient")
    stream.append(_explanations("noise", 0))
    with refused(r"gradient: expected heatmaps of one size, got \[\[5, 4\], \[5, 5\]\]"):
        stream.append(_explanations("noise", 0, width=5))
