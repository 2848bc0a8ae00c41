"""IoUs over all images equal plain loops over concepts, images and pixels."""

from importlib import import_module

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage import heatmap_streams
from candlelight.evaluation.coverage import heatmap_streams as array_spool
from candlelight.evaluation.coverage import thresholds as exact
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.heatmap_streams import MaskStream
from candlelight.evaluation.coverage.network_dissection import ConceptStream, network_dissection
from tests.refusals import refused

HEIGHT, WIDTH, IMAGES, CONCEPTS = 9, 11, 12, 7
PARTS = ("head", "leg", "tail")


def _explanation(maps, concepts=None):
    """Explain images by maps; by default all images have the same concepts, as the units of a layer."""
    maps = torch.as_tensor(maps, dtype=torch.float32)
    numbers = torch.arange(maps.shape[1]).repeat(len(maps), 1) if concepts is None else concepts
    return Explanation(maps, torch.as_tensor(numbers), maps.sum((2, 3)), torch.zeros(len(maps)).long())


def _stream(explanation, *cuts):
    """Append the images in several batches."""
    stream = ConceptStream("units")
    for start, end in zip((0, *cuts), (*cuts, None), strict=True):
        stream.append(Explanation(*(field[start:end] for field in explanation)))
    return stream


def _masks(*images):
    masks = MaskStream()
    for image in images:
        masks.append({name: torch.as_tensor(mask).bool() for name, mask in image.items()})
    return masks


def _drawn(seed, height=4, width=5):
    """Draw smooth maps, for each image of 4 of 7 concepts or fewer, and masks; two images have no part."""
    rng = np.random.default_rng(seed)
    concepts = np.stack([rng.permutation(CONCEPTS)[:4] for _ in range(IMAGES)])
    concepts[concepts == 5] = -1  # nothing has concept 5
    maps = np.maximum(rng.normal(size=(IMAGES, 4, height, width)), 0).astype(np.float32)
    maps[concepts == 2] = 0.7  # a constant unit
    maps[concepts == -1] = np.nan
    drawn = rng.random((IMAGES, len(PARTS), HEIGHT, WIDTH)) < 0.4
    drawn[:, 2] &= drawn[:, 1]  # parts may overlap
    drawn[4] = False
    masks = [
        {name: drawn[image, part] for part, name in enumerate(PARTS) if part != image}
        for image in range(IMAGES - 1)
    ]
    return _explanation(maps, concepts), [*masks, {}]


def _weights(points, pixels):
    """Compute the bilinear weight of each point for each pixel, pixel by pixel."""
    weights = np.zeros((pixels, points))
    for pixel in range(pixels):
        place = min(max((pixel + 0.5) * points / pixels - 0.5, 0), points - 1)
        lower = min(int(place), points - 1)
        weights[pixel, lower] += 1 - (place - lower)
        weights[pixel, min(lower + 1, points - 1)] += place - lower
    return weights


def _slow(explanation, masks, share):
    """Compute thresholds and IoUs by loops."""
    maps, concepts = explanation.maps.double().numpy(), explanation.concepts.numpy()
    iou, thresholds = np.full((CONCEPTS, len(PARTS)), np.nan), np.full(CONCEPTS, np.nan)
    for concept in range(CONCEPTS):
        own = [
            (image, maps[image, place]) for image, place in zip(*np.nonzero(concepts == concept), strict=True)
        ]
        if not own:
            continue
        thresholds[concept] = np.quantile([one for _, one in own], 1 - share)
        for part, name in enumerate(PARTS):
            both, union, shown = 0, 0, 0
            for image, one in own:
                if not any(mask.any() for mask in masks[image].values()):
                    continue
                mask = masks[image].get(name, np.zeros((HEIGHT, WIDTH), bool))
                up, across = _weights(one.shape[0], HEIGHT), _weights(one.shape[1], WIDTH)
                marked = up @ one @ across.T > thresholds[concept] + 1e-6
                both += (marked & mask).sum()
                union += (marked | mask).sum()
                shown += mask.sum()
            iou[concept, part] = both / union if shown else np.nan
    return iou, thresholds


@pytest.fixture(params=["memory", "pieces"])
def limits(request, monkeypatch) -> None:
    """Keep everything in memory, or use files, one map at a time, and points counted in passes."""
    if request.param == "pieces":
        monkeypatch.setattr(array_spool, "BYTES_IN_MEMORY", 1)
        monkeypatch.setattr(heatmap_streams, "_POINTS", 1)
        monkeypatch.setattr(exact, "POINTS_IN_MEMORY", 0)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("cuts", [(), (1, 5)])
@pytest.mark.parametrize(("size", "share"), [((4, 5), 0.3), ((9, 11), 0.005), ((13, 3), 0.1), ((1, 1), 0.3)])
def test_equals_loops(size, share, cuts, monkeypatch):
    monkeypatch.setattr(
        import_module("candlelight.evaluation.coverage.network_dissection"), "TOP_SHARE", share
    )
    explanation, masks = _drawn(0, *size)
    expected, thresholds = _slow(explanation, masks, share)
    found = network_dissection(_stream(explanation, *cuts), _masks(*masks), PARTS)
    np.testing.assert_allclose(found.thresholds, thresholds, rtol=1e-6)
    np.testing.assert_array_equal(found.iou.isnan(), np.isnan(expected))
    np.testing.assert_allclose(found.iou, expected, rtol=1e-12)
    assert (expected > 0).any()
    best = [np.nanargmax(row) if (row > 0.04).any() else -1 for row in expected]
    assert found.labels.tolist() == best
    assert (found.score, found.detectors) == (len(set(best) - {-1}), sum(label >= 0 for label in best))
    present = [(explanation.concepts[[*range(4), *range(5, 11)]] == number).sum() for number in range(7)]
    assert found.images.tolist() == present


def test_by_hand():
    # 201 points each: the 0.995 quantile is the largest point but one, and one point exceeds it.
    line = torch.arange(201.0)
    maps = torch.stack([line, -line]).reshape(1, 2, 1, 201)
    head, leg = torch.zeros(2, 1, 201)
    head[0, -4:] = 1
    leg[0, :1] = 1
    found = network_dissection(_stream(_explanation(maps)), _masks({"head": head, "leg": leg}), PARTS)
    assert found.thresholds.tolist() == [199, -1]
    assert found.iou[:, :2].tolist() == [[1 / 4, 0], [0, 1]]
    assert found.iou[:, 2].isnan().all()
    assert found.labels.tolist() == [0, 1]
    assert (found.score, found.detectors) == (2, 2)


@pytest.mark.parametrize(("pixels", "label"), [(25, -1), (24, 0)])
def test_label_needs_more_than_the_smallest_iou(pixels, label):
    maps = torch.zeros(1, 1, 1, 201)
    maps[..., 0] = 1
    head = torch.arange(201)[None] < pixels
    found = network_dissection(_stream(_explanation(maps)), _masks({"head": head}), ["head"])
    assert found.iou.tolist() == [[1 / pixels]]
    assert found.labels.tolist() == [label]


@pytest.mark.parametrize("value", [0.1, 1e-40])
def test_constant_unit_marks_nothing(value):
    stream = _stream(_explanation(torch.full((5, 1, 3, 7), value)))
    found = network_dissection(stream, _masks(*[{"head": np.ones((HEIGHT, WIDTH))}] * 5), ["head"])
    assert found.iou.tolist() == [[0]]
    assert found.labels.tolist() == [-1]


def test_ties_at_the_largest_value_mark_nothing():
    # A unit that saturates at 0.1 in half of the points: interpolation must not lift a point above 0.1.
    maps = (torch.rand(40, 1, 7, 7, generator=torch.Generator().manual_seed(0)) < 0.5) * 0.1
    stream = _stream(_explanation(maps))
    found = network_dissection(stream, _masks(*[{"head": np.ones((50, 37))}] * 40), ["head"])
    assert found.iou.tolist() == [[0]]


def test_no_concepts():
    stream = _stream(_explanation(torch.zeros(1, 2, 3, 4), [[-1, -1]]))
    found = network_dissection(stream, _masks({"head": np.ones((3, 4))}), PARTS)
    assert found.iou.shape == (0, 3)
    assert (found.score, found.detectors) == (0, 0)


def test_part_that_no_concept_touches():
    explanation, masks = _drawn(1)
    whole = network_dissection(_stream(explanation), _masks(*masks), PARTS)
    some = network_dissection(_stream(explanation), _masks(*masks), ["tail", "head"])
    torch.testing.assert_close(some.iou, whole.iou[:, [2, 0]], equal_nan=True, rtol=0, atol=0)
    assert some.images.tolist() == whole.images.tolist()


def test_maps_that_are_refused():
    stream = _stream(_explanation(torch.zeros(2, 3, 4, 5)))
    with refused(r"units: expected maps of one size, got \[\[4, 5\], \[4, 6\]\]"):
        stream.append(_explanation(torch.zeros(2, 3, 4, 6)))
    for value in (torch.nan, torch.inf):
        with refused("units: `maps` must be finite, got nan or inf"):
            stream.append(_explanation(torch.full((2, 3, 4, 5), value)))
    with refused(r"expected `maps` \[images, concepts, height, width\], `concepts`"):
        stream.append(_explanation(torch.zeros(2, 3, 4, 5), [[0, 1], [0, 1]]))
    with refused("units: expected maps of 1 images, which have masks, got 2"):
        network_dissection(stream, _masks({"head": np.ones((3, 4))}), PARTS)
