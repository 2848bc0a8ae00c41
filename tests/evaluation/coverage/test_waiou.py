import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage.waiou import part_iou, waiou, weigh_iou
from tests.refusals import refused


def _bool(shape, seed, share=0.5):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def _slow(binary, masks, threshold):
    """List IoUs above the threshold by method and part, and the part of largest IoU by method and image."""
    methods, images, parts = len(binary), len(masks), masks.shape[1]
    lists = [[[] for _ in range(parts)] for _ in range(methods)]
    labels = np.full((methods, images), -1)
    for z in range(methods):
        for i in range(images):
            best = 0
            for j in range(parts):
                b, m = binary[z, i].numpy(), masks[i, j].numpy()
                if not m.any():
                    continue
                iou = np.logical_and(b, m).sum() / np.logical_or(b, m).sum()
                if iou > threshold:
                    lists[z][j].append(iou)
                if iou > best:
                    best, labels[z, i] = iou, j
    return lists, labels


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.9])
def test_equals_lists(threshold):
    binary, masks = _bool((3, 7, 4, 5), 0), _bool((7, 4, 4, 5), 1, 0.4)
    masks[2, 1] = False
    masks[:, 3] = False
    result = waiou(binary, masks, threshold)
    lists, labels = _slow(binary, masks, threshold)
    np.testing.assert_array_equal(result.labels, labels)
    for part in range(3):
        total = sum(len(lists[z][part]) for z in range(3))
        for z in range(3):
            kept = lists[z][part]
            assert result.counts[z, part] == len(kept)
            assert float(result.parts[z, part]) == pytest.approx(sum(kept) / total if total else 0)
            mean = float(result.mean_iou[z, part])
            assert mean == pytest.approx(np.mean(kept)) if kept else math.isnan(mean)
    assert result.parts[:, 3].isnan().all()
    np.testing.assert_allclose(result.score, result.parts[:, :3].mean(1))


def test_by_hand():
    masks = torch.tensor([[[[1, 1, 0, 0]]], [[[1, 1, 0, 0]]]]).bool()
    good = torch.tensor([[[1, 1, 0, 0]], [[1, 0, 0, 0]]]).bool()
    poor = torch.tensor([[[0, 1, 1, 0]], [[0, 0, 1, 1]]]).bool()
    result = waiou(torch.stack([good, poor]), masks)
    # IoUs 1 and 1/2 against 1/3 and a miss: three explanations cover the part.
    np.testing.assert_allclose(result.parts, [[1.5 / 3], [(1 / 3) / 3]])
    assert result.counts.tolist() == [[2], [1]]
    assert result.labels.tolist() == [[0, 0], [0, -1]]


def test_perfect_and_disjoint():
    masks = torch.zeros(3, 2, 4, 4, dtype=torch.bool)
    masks[:, 0, :2] = True
    masks[:, 1, 2:] = True
    result = waiou(masks[None, :, 0], masks)
    assert result.parts.tolist() == [[1, 0]]
    assert waiou(masks[None, :, 0], masks, reduce="sum").score.tolist() == [1]
    assert waiou(masks[None, :, 0], masks).score.tolist() == [0.5]


@pytest.mark.parametrize(
    ("binary", "masks"),
    [((3, 4, 4), (1, 2, 4, 4)), ((1, 4, 4), (3, 2, 4, 4)), ((3, 4, 1), (3, 2, 4, 4)), ((3, 4, 4), (3, 4, 4))],
)
def test_shapes_are_not_broadcast(binary, masks):
    message = r"expected `binary` \[.*images, height, width\], `masks` \[images, parts, height, width\], got"
    with refused(message):
        part_iou(_bool(binary, 0), _bool(masks, 1))
    with refused(message):
        waiou(_bool(binary, 0)[None], _bool(masks, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: part_iou(torch.ones(1, 2, 2), _bool((1, 1, 2, 2), 0)), "`binary` must be boolean, got"),
        (lambda: weigh_iou(torch.zeros(1, 1, 1), -0.1), "`iou_threshold` must be at least 0 and"),
        (lambda: weigh_iou(torch.zeros(1, 1, 1), 1.0), "at least 0 and below 1, got 1.0"),
        (lambda: weigh_iou(torch.full((1, 2, 2), -0.1)), "`iou` must lie from 0 to 1, or be nan where"),
        (lambda: weigh_iou(torch.zeros(1, 1, 1), reduce="means"), "`reduce` must be one of: mean, sum; got"),
    ],
)
def test_arguments_that_are_refused(call, message):
    with refused(message):
        call()
