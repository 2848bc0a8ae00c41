"""Explain images batch by batch: outputs of methods, merged maps, and steps that are kept."""

from dataclasses import replace

import pytest
import torch

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.explanations import Explanation, explain_images, merge_explanation
from candlelight.evaluation.coverage.score_coverage import COVERAGE, layer_heatmaps, read_explanations
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.evaluate import start
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import PartImage
from tests.refusals import refused

MERGES = ((1, "sum"), (3, "sum"), (5, "sum"), (1, "score"))
ROWS = 5


@pytest.fixture
def view(memory_view):
    draws = torch.Generator().manual_seed(0)
    images = [torch.rand(3, 6, 8, generator=draws) for _ in range(ROWS)]
    return memory_view([PartImage(image, {"bright": image[0] > 0.7}) for image in images])


class Channels:
    """Explain by the three channels; the score prefers blue."""

    def __init__(self, stop_at: int = ROWS) -> None:
        self.calls, self.stop_at = 0, stop_at

    def explain(self, images):
        self.calls += 1
        if self.calls > self.stop_at:
            raise KeyboardInterrupt
        concepts = torch.arange(3).expand(len(images), 3)
        scores = torch.tensor([1.0, 2.0, 3.0]).expand(len(images), 3)
        return Explanation(images.clone(), concepts, scores, images[:, 0, 0, 0].gt(0.5).long())


def options(merge):
    """Choose options that merge maps in this way."""
    return CoverageOptions(k=merge[0], rank=merge[1])


def named(model, source="weights"):
    return NamedModel(ModelIdentity("mine", source, None, "abc"), model, "srgb")


def read(view, model, steps=None, batch_size=2, **chosen):
    """Read a run of one method; its alternatives need the merges (1, sum), (3, sum), (5, sum), (1, score)."""
    run = start(
        COVERAGE, CoverageOptions(**chosen), {"data": view}, {"mine": named(model)}, "cpu", batch_size
    )
    return read_explanations(replace(run, data=view, steps=steps or FinishedSteps()))


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_heatmaps_are_those_of_all_images_at_once(view, batch_size) -> None:
    found = read(view, Channels(), batch_size=batch_size)
    images = torch.stack([item.image for item in view.items])
    whole = Channels().explain(images)
    assert found.predicted == {"mine": whole.predicted.tolist()}
    for merge in MERGES:
        expected = merge_explanation(whole, *merge).heatmap
        stream = found.stream("mine", options(merge))
        assert torch.allclose(stream.read(range(ROWS), None), expected, atol=1e-6)
    assert found.concepts["mine"].images == ROWS
    assert found.masks.annotated == [("bright",)] * ROWS


def test_a_method_with_one_map_has_one_stream(view) -> None:
    found = read(view, lambda images: images[:, 0])
    assert list(found.streams) == [("mine", (1, "sum"))]
    assert all(found.stream("mine", options(merge)) is found.streams["mine", (1, "sum")] for merge in MERGES)
    assert found.predicted["mine"] == [-1] * ROWS


def test_finished_batches_are_read_again_for_the_same_images_and_options(view, tmp_path) -> None:
    folder = tmp_path / "a.json.partial"
    with pytest.raises(KeyboardInterrupt):
        read(view, Channels(stop_at=2), FinishedSteps(folder))
    others = [({"size": (3, 4)}, 3), ({"quick": True}, 3), ({"k": 2}, 3), ({"batch_size": 3}, 2)]
    for change, calls in [({}, 1), ({}, 0), *others]:
        method = Channels()
        read(view, method, FinishedSteps(folder), **change)
        assert method.calls == calls


def test_images_whose_maps_or_scores_are_not_finite_have_no_class_and_no_concepts() -> None:
    class Broken(Channels):
        def explain(self, images):
            found = super().explain(images)
            scores, concepts = found.scores.clone(), found.concepts.clone()
            found.maps[1, 2, 0, 0] = torch.inf
            scores[2, 0] = torch.nan
            concepts[3, 0], scores[3, 0] = -1, -torch.inf  # no concept, so its score does not count
            return found._replace(scores=scores, concepts=concepts)

    found = explain_images(named(Broken()), ["a", "b", "c", "d"], torch.rand(4, 3, 6, 8))
    assert [number >= 0 for number in found.predicted.tolist()] == [True, False, False, True]
    none = [-1, -1, -1]
    assert found.concepts.tolist() == [[0, 1, 2], none, none, [-1, 1, 2]]
    assert not found.maps[1:3].any()
    members = merge_explanation(found, 2, "score").members.tolist()
    assert members == [[1, 2], [-1, -1], [-1, -1], [1, 2]]


def _made(images, maps, concepts, rows=8, columns=10):
    """Make an explanation whose number of images, maps and concepts may disagree."""
    numbers = torch.arange(concepts).expand(2, concepts)
    return Explanation(
        torch.zeros(images, maps, rows, columns), numbers, 1.0 * numbers, torch.zeros(2).long()
    )


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (None, "expected an `Explanation` with maps .* got NoneType"),
        (torch.zeros(2, 3, 6, 8), "expected an `Explanation`"),
        (_made(1, 3, 3), r"\[2, concepts, height, width\]"),
        (_made(2, 3, 2), "expected an `Explanation`"),
        (_made(2, 3, 3, rows=8, columns=6), "columns first; exchange the last two axes"),
    ],
)
def test_output_of_another_form(output, message) -> None:
    method = type("Method", (), {"explain": lambda self, images: output})()
    with refused(f"mine: .*{message}"):
        explain_images(named(method), ["a", "b"], torch.rand(2, 3, 6, 8))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((80, 60), "got .1, 80, 60. for images of 60 x 80, which looks like columns first"),
        ((2, 8, 6), "columns first; exchange the last two axes"),
        ((60, 80, 1), "channels last"),
        ((3, 60, 80), "an attribution of each colour channel; merge the channels"),
        ((60, 80), None),
        ((3, 30, 40), None),
        ((4, 60, 80), None),
        ((2, 7, 7), None),  # of resized images
    ],
)
def test_axes_in_another_order(shape, message) -> None:
    maps = torch.rand(2, *shape)
    given, images = named(lambda images: maps), torch.rand(2, 3, 60, 80)
    if message is None:
        assert explain_images(given, ["a", "b"], images).maps.shape[2:] == shape[-2:]
    else:
        with refused(message):
            explain_images(given, ["a", "b"], images)


def test_three_channels_of_a_hidden_layer_are_concepts() -> None:
    method = layer_heatmaps(torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1)), "0")
    assert explain_images(named(method), ["a"], torch.rand(1, 3, 6, 8)).maps.shape == (1, 3, 6, 8)


def test_error_in_a_method_names_it() -> None:
    method = type("Method", (), {"explain": lambda self, images: 1 / 0})()
    with refused(r"model `mine` raised ZeroDivisionError: division by zero \(test_explain"):
        explain_images(named(method), ["a"], torch.rand(1, 3, 6, 8))


def test_sizes_that_differ(memory_view) -> None:
    shapes = [(6, 8), (8, 6)]
    items = [PartImage(torch.rand(3, *one), {"all": torch.ones(one, dtype=torch.bool)}) for one in shapes]
    with refused(r"several sizes, \[\(6, 8\), \(8, 6\)\]; give one `size`"):
        read(memory_view(items), Channels())
    found = read(memory_view(items), Channels(), size=(4, 4))
    assert found.masks.shape == found.stream("mine", options(MERGES[0])).shape == (4, 4)
    items[1].masks["all"] = torch.ones(6, 8, dtype=torch.bool)
    with refused(r"`row-0`, part `all`: expected a mask bool \[8, 6\], got bool \[6, 8\]"):
        read(memory_view(items[1:]), Channels())
    nan = PartImage(torch.full((3, 6, 8), torch.nan), {"all": torch.ones(6, 8, dtype=torch.bool)})
    for others in ([], [items[0]] * 2):  # alone in its batch
        with refused(r"expected images float32 .* from nan to nan"):
            read(memory_view([*others, nan]), Channels())
