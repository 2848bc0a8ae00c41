"""Decoded against rendered counterfactuals: pairs, errors and scores of planted decoders."""

import base64
import io
import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from candlelight.evaluation.causal import CounterfactualData
from candlelight.evaluation.causal.causal_report import COUNTERFACTUALS_PAGE
from candlelight.evaluation.causal.rendered_counterfactuals import (
    decoded_errors,
    find_rendered_pairs,
    rendered_counterfactuals,
    rendered_score,
    rendered_share,
)
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate, find_evaluation, start
from candlelight.evaluation.run.evaluate import score as score_run
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

SIZES = (3, 2, 2)
NAMES = ("red", "green", "blue")
CLASSES = torch.tensor(list(itertools.product(*map(range, SIZES))))
NEW = "rendered_counterfactual(1)"


def flat(codes):
    return codes[:, :, None, None].expand(-1, -1, 4, 4)


def pairs_by_hand():
    """Two pairs that differ in the first of two codes; the donors share it, and have another second code."""
    codes, targets = torch.tensor([[0.1, 0.5], [0.3, 0.2]]), torch.tensor([[0.9, 0.5], [0.4, 0.2]])
    donors = torch.tensor([[0.9, 0.5], [0.4, 0.6]])
    return codes, donors, targets, flat(codes).clone(), flat(targets).clone()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ([True, False], 0),
        ([False, True], 0.65 + 0.16),  # the second code of the donors is off by 0 and 0.4
        ([False, False], 0.65),
        ([True, True], 0.16),
    ],
)
def test_codes_that_hold_the_factor_score_one(changed, error):
    found = rendered_counterfactuals(flat, *pairs_by_hand(), torch.tensor([changed]))
    assert float(found.score) == pytest.approx(1 - math.sqrt(error / 0.65))
    assert float(found.share) == pytest.approx(1 - error / 0.65)
    np.testing.assert_allclose(found.none, [[0.64 / 2] * 2, [0.01 / 2] * 2], atol=1e-6)
    np.testing.assert_allclose(found.given_back, found.none)  # the reconstruction is exact
    assert found.all.tolist() == [[0, 0]] * 2


def test_the_region_is_where_the_pair_differs():
    codes, donors, targets, originals, rendered = pairs_by_hand()
    originals[:, :, :2] = rendered[:, :, :2] = 0.0  # black in both, but not in the decoded image
    given = (flat, codes, donors, targets, originals, rendered, torch.tensor([[True, False]]))
    found = rendered_counterfactuals(*given)
    assert float(found.region_score) == pytest.approx(1)
    outside = (0.81 + 0.25 + 0.16 + 0.04) / 2
    assert float(found.score) == pytest.approx(1 - math.sqrt(outside / (0.65 / 2)))
    np.testing.assert_allclose(found.given_back[:, 0], found.given_back[:, 1])


def test_decoder_that_ignores_codes_has_no_share():
    def gray(codes):
        return torch.full((len(codes), 2, 4, 4), 0.5)

    found = rendered_counterfactuals(gray, *pairs_by_hand(), torch.tensor([[True, False]]))
    assert math.isnan(found.share)
    assert float(found.score) == pytest.approx(1 - math.sqrt((0.16 + 0 + 0.01 + 0.09) / 0.65))


def test_score_of_no_pairs_is_undefined():
    codes = torch.zeros(0, 2)
    images = flat(codes), flat(codes)
    found = rendered_counterfactuals(flat, codes, codes, codes, *images, torch.tensor([[True, False]]))
    assert math.isnan(found.score)
    assert math.isnan(found.share)


def test_errors_equal_a_loop_over_images():
    draws = torch.Generator().manual_seed(0)
    codes, rendered = torch.rand(130, 3, generator=draws), torch.rand(130, 3, 4, 4, generator=draws)
    slow = [np.mean((flat(codes)[row].numpy() - rendered[row].numpy()) ** 2) for row in range(130)]
    region = torch.ones(130, 1, 4, 4, dtype=torch.bool)
    region[:, :, 2:] = False
    found = decoded_errors(flat, codes, rendered, region)
    np.testing.assert_allclose(found[:, 0], slow, rtol=1e-6)
    half = (flat(codes) - rendered)[:, :, :2].square().mean((1, 2, 3)) / 2
    np.testing.assert_allclose(found[:, 1], half, rtol=1e-6)


def test_share_and_score_by_hand():
    errors = torch.tensor([[0.3, 0.5, 0.1], [0.6, 0.5, 0.1], [0.2, 0.1, 0.1], [0.2, 0.1, 0.4]])
    share = rendered_share(*errors.unbind(1))
    np.testing.assert_allclose(share, [0.5, -0.25, math.nan, math.nan], rtol=1e-6)
    score = rendered_score(torch.tensor([0.0, 0.04, 0.04, 1.0]), torch.tensor([0.0, 0.16, 0.04, 0.04]))
    np.testing.assert_allclose(score, [math.nan, 0.5, 0, -4], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"changed": torch.tensor([[1.0, 0.0]])}, "`changed` must be boolean"),
        ({"targets": torch.zeros(2, 3)}, r"expected `codes` \[pairs, codes\]"),
        ({"rendered": torch.zeros(2, 2, 3, 3)}, r"`rendered` \[pairs, channels, height, width\], got"),
        ({"decoder": lambda codes: flat(codes)[:, :, 1:]}, r"expected `decoder` \[batch"),
        ({"decoder": lambda codes: 3 * flat(codes)}, "must give images in"),
    ],
)
def test_invalid_arguments_are_refused(change, message):
    names = ("codes", "donors", "targets", "originals", "rendered")
    given = {"decoder": flat, **dict(zip(names, pairs_by_hand(), strict=True))}
    with refused(message):
        rendered_counterfactuals(**given | {"changed": torch.tensor([[True, False]])} | change)


@pytest.fixture
def grid(memory_view):
    """Make all combinations of three factors, each the value of a channel, several times."""

    def make(rows=None, repeats=6, groups=None, table=None):
        table = CLASSES.repeat(repeats, 1) if table is None else table
        table = table if rows is None else table[rows]
        values = 0.1 + 0.8 * table / (torch.tensor(SIZES) - 1)
        images = values.float()[:, :, None, None].expand(-1, -1, 4, 4)
        infos = tuple(
            FactorInfo(name=name, kind="categorical", values=tuple(map(str, range(size))))
            for name, size in zip(NAMES, SIZES, strict=True)
        )
        return memory_view(list(images), groups, factors=infos, table=table.double().numpy())

    return make


def test_pairs_differ_in_one_factor_and_no_image_occurs_twice(grid):
    view = grid()
    for name, pairs in find_rendered_pairs(view, view, NAMES, most=20, seed=3).items():
        differs = view.table[pairs.factual] != view.table[pairs.rendered]
        assert (differs == np.array([name == other for other in NAMES])).all()
        both = [*pairs.factual.tolist(), *pairs.rendered.tolist()]
        assert len(set(both)) == len(both) == 40
        assert not pairs.same_group.any()
    again = find_rendered_pairs(view, view, NAMES, most=20, seed=3)["red"]
    assert again.factual.tolist() == find_rendered_pairs(view, view, ["red"], 20, 3)["red"].factual.tolist()


def test_donors_have_the_new_value_and_are_no_image_of_the_pair(grid):
    view = grid(groups=[str(row // 12) for row in range(72)])
    for column, name in enumerate(NAMES):
        pairs = find_rendered_pairs(view, view, [name], 20)[name]
        assert (view.table[pairs.donors, column] == view.table[pairs.rendered, column]).all()
        for row, other, donor in zip(pairs.factual, pairs.rendered, pairs.donors, strict=True):
            assert view.groups[donor] not in {view.groups[row], view.groups[other]}
        assert len(set(map(tuple, view.table[pairs.donors]))) > 3  # their other factors are any
    alone = grid(rows=[0, 1, 2])  # no other image has the value of the counterfactual
    assert len(find_rendered_pairs(alone, alone, ["green"], 9)["green"].factual) == 0


def test_pairs_of_one_group_are_preferred(grid):
    view = grid(groups=[str(row // len(CLASSES)) for row in range(6 * len(CLASSES))])
    pairs = find_rendered_pairs(view, view, ["green"], most=10)["green"]
    assert pairs.same_group.all()
    assert (pairs.factual // len(CLASSES) == pairs.rendered // len(CLASSES)).all()


def test_units_with_counterfactuals_come_first(grid):
    view = grid(groups=[f"unit {row // len(CLASSES)}" for row in range(6 * len(CLASSES))])
    some = grid(rows=range(2 * len(CLASSES)), groups=[f"unit {row // 12}" for row in range(24)])
    some.ids = [f"other {row}" for row in range(24)]
    for most in (10, 40):  # there are 24 pairs of one unit, and no image is left for others
        pairs = find_rendered_pairs(view, some, ["green"], most=most)["green"]
        assert pairs.same_group.all()
        assert len(pairs.factual) == min(most, 24)


def test_counterfactuals_of_another_view_may_have_other_values(grid, memory_view):
    toys = CLASSES[(CLASSES[:, 0] % 2 == CLASSES[:, 1]) & (CLASSES[:, 0] < 2)]  # red determines green
    view = grid(table=toys.repeat(3, 1))
    assert not any(len(one.factual) for one in find_rendered_pairs(view, view, ["red", "green"], 9).values())
    whole = grid()
    whole.factors = (whole.factors[0].model_copy(update={"values": ("2", "1", "0")}), *whole.factors[1:])
    pairs = find_rendered_pairs(view, whole, ["green"], 9)["green"]
    assert len(pairs.factual) > 0
    assert (view.table[pairs.factual, 0] == 2 - whole.table[pairs.rendered, 0]).all()
    whole.factors = whole.factors[:2]
    whole.table = whole.table[:, :2]
    with refused(r"expected the factors of the data \(red, green, blue\), got red"):
        find_rendered_pairs(view, whole, ["green"], 9)


class Planted(nn.Module):
    """Codes are the three channels, from which the decoder draws the image, or gray."""

    def __init__(self, contrast=1.0):
        super().__init__()
        self.contrast = contrast

    def forward(self, images):
        return images.mean((2, 3))

    def decode(self, codes):
        return 0.5 + self.contrast * (flat(codes) - 0.5)


def score(model, view, counterfactuals=None, **options):
    data = CounterfactualData(view, counterfactuals or view)
    return evaluate("counterfactuals", data, {"model": model}, **options)["model"]


def run_of(model, view):
    record = find_evaluation("counterfactuals")
    choice = dict.fromkeys(("set_name", "split", "rows", "limit")) | {"data": view}
    return start(record, record.options(), choice, {"model": model})


def test_planted_codes_score_one(grid):
    result = score(Planted(), grid())
    found = {name: one.value for name, one in result.scores.items()}
    # There is another image with the same factors, and no variable but these.
    controls = [f"rendered_counterfactual, {name}" for name in ("all codes", "nearest other frame")]
    for name in (NEW, f"{NEW}, changed region", f"{NEW}, share", *controls):
        assert found[name] == pytest.approx(1, abs=1e-4), name
    assert (result.scores[NEW].low, result.scores[NEW].high) == pytest.approx((1, 1), abs=1e-4)
    assert found[f"{NEW}, random choice"] < 0.5
    assert found["rendered_counterfactual, input given back"] == 0
    assert found["rendered_counterfactual, mean image"] < 0.3
    details = result.details["rendered"]
    assert details["not_decoded"] == details["without_pairs"] == []
    assert [details["factors"][name]["codes"]["1"] for name in NAMES] == [[0], [1], [2]]
    assert all(one["scores"][NEW][0] == pytest.approx(1, abs=1e-4) for one in details["factors"].values())
    assert "but no unit" in result.details["notes"][-1]


@pytest.mark.parametrize("contrast", [0, 1e-3])
def test_decoder_that_ignores_codes_scores_zero_and_names_the_factors(grid, contrast):
    result = score(Planted(contrast), grid())
    assert result.scores[NEW].value <= 0  # though gray is nearer than the input, if a factor goes to its end
    assert result.scores[f"{NEW}, share"].value == 0
    assert result.details["rendered"]["not_decoded"] == list(NAMES)
    named = ", ".join(NAMES)
    note = f"model: rendered_counterfactual: {named} count as 0 or less: images come no nearer"
    assert note in result.details["notes"]


def test_a_factor_that_is_not_decoded_counts_as_zero(grid):
    class Blind(Planted):
        def decode(self, codes: torch.Tensor) -> torch.Tensor:
            return super().decode(codes * torch.tensor([1.0, 1.0, 0.0]))

    result = score(Blind(), grid())
    assert result.details["rendered"]["not_decoded"] == [NAMES[2]]
    assert result.scores[f"{NEW}, share"].value == pytest.approx(2 / 3, abs=1e-4)
    factors = result.details["rendered"]["factors"]
    values = [factors[name]["scores"][NEW][0] for name in NAMES]
    assert result.scores[NEW].value == pytest.approx((sum(values[:2]) + min(values[2], 0)) / 3)


def test_confounded_toys_need_counterfactuals(grid):
    toys = CLASSES[(CLASSES[:, 0] == CLASSES[:, 1]) & (CLASSES[:, 2] == 0)].repeat(20, 1)
    view = grid(table=toys)
    result = score(Planted(), view)
    assert math.isnan(result.scores[NEW].value)
    assert "no two images differ in one factor only; give a grid" in result.details["notes"][-1]
    result = score(Planted(), view, counterfactuals=grid())
    assert result.about.settings["counterfactuals"]["rows"] == 6 * len(CLASSES)
    # IRS cannot tell which code is red, and which green: one of the factors has a wrong code.
    values = [one["scores"][NEW][0] for one in result.details["rendered"]["factors"].values()]
    assert max(values) == pytest.approx(1, abs=1e-4)
    assert min(values) < 0  # another image with this red has another green


def test_dead_model_is_undefined_and_has_no_pictures(grid, tmp_path):
    model = Planted()
    model.forward = lambda images: torch.zeros(len(images), 3)
    run = run_of(model, grid())
    found = score_run(run)
    assert math.isnan(found["model"].scores[NEW].value)
    assert len(COUNTERFACTUALS_PAGE.pictures(run, found)) == 1  # of the images alone
    assert write_report(tmp_path / "page.html", list(found.values()), title="t").exists()


def test_counterfactuals_of_another_size_and_unchanged_images_have_no_score(grid):
    larger, black = grid(), grid()
    larger.items = [image.repeat(1, 2, 2) for image in larger.items]
    notes = score(Planted(), grid(), counterfactuals=larger).details["notes"]
    assert "expected `data` [pairs, channels, height, width], `counterfactuals` [pairs" in notes[-1]
    black.items = [torch.zeros(3, 4, 4)] * len(black)
    notes = score(Planted(), black).details["notes"]
    assert "no two images that differ in one factor only look different" in notes[-1]


def test_a_factor_that_no_pair_shows_is_left_out(grid):
    view = grid()
    view.items = [image * torch.tensor([1.0, 1.0, 0.0])[:, None, None] for image in view.items]
    result = score(Planted(), view)
    assert result.details["rendered"]["without_pairs"] == ["blue"]
    assert result.scores[NEW].value == pytest.approx(1, abs=1e-4)
    assert "leaves out blue: no two images that differ in it alone look different" in " ".join(
        result.details["notes"]
    )


def test_page_shows_the_four_images_of_each_factor(grid, tmp_path):
    run = run_of(Planted(), grid())
    found = score_run(run)
    block, _ = COUNTERFACTUALS_PAGE.pictures(run, found)
    assert len(block.pictures) == len(NAMES)
    for place, (name, picture) in enumerate(zip(NAMES, block.pictures, strict=True)):
        assert picture.caption.startswith(f"{name}: ")
        assert picture.caption.endswith(f"; code {place}")
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2])))).astype(
            int
        )
        scale = pixels.shape[0] // 4
        image, decoded, changed, rendered = (
            pixels[scale // 2, scale * (8 * column + 1)] for column in range(4)
        )
        assert abs(image - decoded).max() <= 1  # the reconstruction of a planted code is exact
        assert abs(changed - rendered).max() <= 1
        assert [channel for channel in range(3) if abs(image - rendered)[channel] > 9] == [place]
    page = write_report(
        tmp_path / "page.html", list(found.values()), title="t", pictures={"counterfactuals": [block]}
    )
    text = page.read_text()
    assert "decoded against rendered counterfactuals, one code of each factor changed" in text
    assert "From the left: image, reconstruction" in text
