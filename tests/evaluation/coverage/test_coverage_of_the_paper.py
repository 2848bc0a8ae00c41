"""All numbers of coverage against a slow computation with loops, written from sec. 3 of the paper."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.views import PartImage

# Ratios of the sides, and values of the maps, are sums of powers of 2: all interpolated values are exact.
HEIGHT, WIDTH, ROWS, COLUMNS, IMAGES = 16, 16, 4, 5, 11
GROUPS = list("aabcdefghhi")
SHARES = (0.03, 0.1, 0.25)
PARTS = ("body", "head", "wing")


class Planted:
    """Explain image n, whose first pixel has the value n, by concepts that were drawn before."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        drawn = rng.normal(0.25 * seed, 1, (IMAGES, 4, ROWS, COLUMNS))
        self.maps = (np.round(drawn * 64) / 64).astype(np.float32)
        self.concepts = np.stack([rng.permutation(6)[:4] for _ in range(IMAGES)])
        self.concepts[: IMAGES // 2] = [0, 1, 2, 3]
        self.scores = rng.normal(size=(IMAGES, 4))
        self.concepts[3, 2:] = -1  # fewer concepts
        self.concepts[7] = -1  # none
        self.maps[self.concepts < 0] = 0
        self.maps[:, 1] = np.maximum(self.maps[:, 1], 0)  # zeros, as after a ReLU

    def explain(self, images):
        rows = (images[:, 0, 0, 0] * IMAGES).round().long().numpy()
        given = (self.maps, self.concepts, self.scores)
        return Explanation(*(torch.from_numpy(one[rows]) for one in given), torch.full((len(rows),), -1))


@pytest.fixture(scope="module")
def masks():
    rng = np.random.default_rng(9)
    found = []
    for _ in range(IMAGES):
        shown = {}
        for part in PARTS:
            top, left = rng.integers(0, 6), rng.integers(0, 8)
            mask = np.zeros((HEIGHT, WIDTH), bool)
            mask[top : top + 5, left : left + 6] = True
            if rng.random() < 0.75:
                shown[part] = mask
        found.append(shown)
    return found


def strongest(method, image, k, rank):
    """Eq. 1 and 2: the maximum over the k maps of largest strength, and the set of their numbers."""
    places = [place for place in range(4) if method.concepts[image, place] >= 0]
    if rank == "sum":
        strength = {place: math.fsum(method.maps[image, place].ravel().tolist()) for place in places}
    else:
        strength = {place: method.scores[image, place] for place in places}
    chosen = sorted(places, key=lambda place: -strength[place])[:k]
    heatmap = np.zeros((ROWS, COLUMNS))
    for row, column in np.ndindex(ROWS, COLUMNS):
        if chosen:
            heatmap[row, column] = max(method.maps[image, place, row, column] for place in chosen)
    return heatmap, frozenset(int(method.concepts[image, place]) for place in chosen)


def enlarged(heatmap):
    """Interpolate bilinearly; the centres of the pixels of either grid divide its side evenly."""
    large = np.zeros((HEIGHT, WIDTH))
    for row, column in np.ndindex(HEIGHT, WIDTH):
        y = min(max((row + 0.5) * ROWS / HEIGHT - 0.5, 0), ROWS - 1)
        x = min(max((column + 0.5) * COLUMNS / WIDTH - 0.5, 0), COLUMNS - 1)
        top, left = int(y), int(x)
        for down, right in itertools.product((0, 1), (0, 1)):
            weight = (y - top if down else 1 - y + top) * (x - left if right else 1 - x + left)
            if weight:
                large[row, column] += weight * heatmap[top + down, left + right]
    return large


def threshold(points, share):
    """Intensity that a share of the points exceeds, between the neighbouring points."""
    points = sorted(points)
    position = (len(points) - 1) * (1 - share)
    lower = math.floor(position)
    upper = min(lower + 1, len(points) - 1)
    return points[lower] + (position - lower) * (points[upper] - points[lower])


@functools.cache
def heatmaps(method, k, rank):
    """Merged heatmaps of all images, the sets of their concepts, and the heatmaps enlarged to the masks."""
    small, sets = zip(*(strongest(method, image, k, rank) for image in range(IMAGES)), strict=True)
    return small, sets, [enlarged(one) for one in small]


def ious(method, masks, share, parameters):
    """Eq. 3 for each image and part, nan if the image does not show the part."""
    small, sets, large = heatmaps(method, parameters.k, parameters.rank)
    counted = large if parameters.threshold_at == "mask" else small
    found = np.full((IMAGES, len(PARTS)), np.nan)
    for image in range(IMAGES):
        alike = (
            [image] if parameters.pooling == "image" else [n for n in range(IMAGES) if sets[n] == sets[image]]
        )
        limit = threshold([value for n in alike for value in counted[n].ravel().tolist()], share)
        marked = large[image] >= limit - 1e-9
        if parameters.compat == "exact":
            marked &= large[image] > large[image].min() + 1e-9
        for number, part in enumerate(PARTS):
            if part in masks[image]:
                mask = masks[image][part]
                found[image, number] = (marked & mask).sum() / (marked | mask).sum()
    return found


def best_on(found, images):
    """Number of the share of largest mean IoU on some images; the first of equal ones."""
    return int(np.argmax([np.nanmean(one[images]) for one in found]))


def chosen_ious(found, choose):
    """Take for each image its IoUs at the share that is best on the groups of the other four folds."""
    order = list(dict.fromkeys(GROUPS))
    fold = [order.index(group) % 5 for group in GROUPS]
    result = np.empty((IMAGES, len(PARTS)))
    for image in range(IMAGES):
        others = [n for n in range(IMAGES) if choose == "same" or fold[n] != fold[image]]
        result[image] = found[best_on(found, others)][image]
    return result


def weighed(tables, limit):
    """Eq. 4 and 5: sum of a method's IoUs above the limit, over the number of those of all methods."""
    parts = np.zeros((len(tables), len(PARTS)))
    for part in range(len(PARTS)):
        kept = [[value for value in table[:, part] if value > limit] for table in tables]
        total = sum(map(len, kept))
        for method, values in enumerate(kept):
            parts[method, part] = sum(values) / total if total else 0
    return parts


def kendall(one, other):
    """Kendall's tau-b: agreeing less disagreeing pairs, over the pairs that are not tied."""
    pairs = list(itertools.combinations(range(len(one)), 2))
    signs = [(np.sign(one[a] - one[b]), np.sign(other[a] - other[b])) for a, b in pairs]
    untied = [sum(1 for sign in column if sign) for column in zip(*signs, strict=True)]
    return sum(a * b for a, b in signs) / math.sqrt(untied[0] * untied[1])


def scores(methods, masks, parameters):
    tables = []
    for method in methods.values():
        found = [ious(method, masks, share, parameters) for share in parameters.proportions]
        tables.append(chosen_ious(found, parameters.choose))
    return weighed(tables, parameters.iou_threshold).mean(1), tables


@pytest.mark.parametrize(
    "options",
    [
        {"k": 2, "quick": False},
        {
            **{"k": 3, "rank": "score", "choose": "same", "pooling": "image", "threshold_at": "map"},
            **{"iou_threshold": 0.1, "quick": True},
        },
    ],
    ids=["SetHM", "IndivHM"],
)
def test_every_number_equals_the_slow_one(memory_view, masks, options) -> None:
    parameters = CoverageOptions(proportions=SHARES, **options)
    images = [torch.full((3, HEIGHT, WIDTH), row / IMAGES) for row in range(IMAGES)]
    items = [
        PartImage(image, {part: torch.from_numpy(mask) for part, mask in shown.items()})
        for image, shown in zip(images, masks, strict=True)
    ]
    methods = {name: Planted(seed) for seed, name in enumerate(("first", "second", "third"))}
    view = memory_view(items, groups=GROUPS)
    named = {name: NamedModel(ModelIdentity(name, "callable"), one, "srgb") for name, one in methods.items()}
    how = {"device": "cpu", "batch_size": 4, "proportions": SHARES}
    results = evaluate("coverage", view, named, **how, **options)
    expected, tables = scores(methods, masks, parameters)
    limit = parameters.iou_threshold
    parts = weighed(tables, limit)
    every = [[ious(method, masks, share, parameters) for share in SHARES] for method in methods.values()]
    curves = [weighed(one, limit).mean(1) for one in zip(*every, strict=True)]
    for number, name in enumerate(methods):
        result, table = results[name], tables[number]
        assert result.score == pytest.approx(expected[number])
        assert result.scores["mean_iou"].value == pytest.approx(np.nanmean(table))
        assert result.details["parts"] == pytest.approx(parts[number])
        assert result.details["counts"] == [(table[:, part] > limit).sum() for part in range(len(PARTS))]
        assert result.details["curve"] == pytest.approx([curve[number] for curve in curves])
        assert result.details["average_iou"] == pytest.approx([np.nanmean(one) for one in every[number]])
        assert result.details["best_proportion"] == best_on(every[number], range(IMAGES))
        labels = [int(np.nanargmax(row)) if np.nanmax(row, initial=0) > 0 else -1 for row in table]
        assert result.details["labels"] == [labels.count(part) for part in range(len(PARTS))]
        assert result.details["unlabelled"] == labels.count(-1)
    for tried in results["first"].details.get("sensitivity", ()):
        other, _ = scores(methods, masks, parameters.alternatives()[tried["setting"]])
        assert list(tried["scores"].values()) == pytest.approx(other)
        assert tried["order"] == sorted(methods, key=tried["scores"].get, reverse=True)
        assert tried["agreement"] == pytest.approx(kendall(expected, other)), tried["setting"]
