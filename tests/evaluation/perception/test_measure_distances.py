import weakref
from importlib import import_module

import pytest
import torch

from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.perception import (
    TransformFamily,
    measure_distances,
    open_distance,
    rmse_distance,
    rotate_images,
    shift_illuminant,
    translate_images,
)
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import MovedImages
from tests.refusals import refused

FAMILIES = (
    TransformFamily("rotation", (0, 2, 5)),
    TransformFamily("illuminant 611", (0, 8)),
    TransformFamily("translation x", (1, 0, 2, 3), pixels_per_degree=1),
)


def drawn(count: int, height: int = 12, width: int = 16) -> list[torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return list(torch.rand(count, 3, height, width, generator=draws))


def moved_images(image: torch.Tensor, transform: str = "rotation", magnitudes: tuple[float, ...] = (0, 3)):
    moved = torch.cat([rotate_images(image[None], magnitude) for magnitude in magnitudes])
    numbers = torch.tensor(magnitudes, dtype=torch.float64)
    return MovedImages(image, moved, transform, "degrees", numbers, 0.02 + numbers / 100, 29.2)


class Counted(torch.nn.Module):
    """RMSE that counts its calls and the pairs, and stops at one of the calls."""

    def __init__(self, stops_at: int | None = None) -> None:
        super().__init__()
        self.calls, self.pairs, self.stops_at = 0, [], stops_at

    def forward(self, transformed, reference):
        self.calls += 1
        self.pairs.append(len(transformed))
        if self.calls == self.stops_at:
            raise KeyboardInterrupt
        return rmse_distance(transformed, reference)


def named(model) -> NamedModel:
    return NamedModel(ModelIdentity("mine", "callable", "mine.py:mine", "ab"), model, "srgb")


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_equals_loops_over_images_and_magnitudes(memory_view, batch_size):
    images = [*drawn(2), drawn(1, 15, 11)[0]]  # sizes may differ
    view = memory_view(images, groups=("a", "b", "b"))
    both = {"rmse": open_distance("rmse"), "ssim": open_distance("ssim")}
    found = measure_distances(both, view, FAMILIES, batch_size=batch_size)
    assert list(found) == ["rmse", "ssim"]
    for name, tables in found.items():
        assert [table.transform for table in tables] == ["rotation", "illuminant 611", "translation x"]
        assert [table.unit for table in tables] == ["degrees", "steps", "degrees"]
        for table, family in zip(tables, FAMILIES, strict=True):
            assert table.magnitudes.tolist() == list(family.magnitudes)
            assert (table.ids, table.groups) == (view.ids, ("a", "b", "b"))
            for row, image in enumerate(images):
                for column, magnitude in enumerate(family.magnitudes):
                    moved = {
                        "rotation": lambda one, size: rotate_images(one, size),
                        "illuminant 611": lambda one, size: shift_illuminant(one, 611, size).images,
                        "translation x": lambda one, size: translate_images(one, right=size),
                    }[family.name](image[None], magnitude)
                    wanted = both[name].model(moved, image[None]).item()
                    assert table.distances[row, column].item() == pytest.approx(wanted, abs=1e-6)
        assert tables[0].clipped.tolist() == [[0] * 3] * 3
        shares = [shift_illuminant(image[None], 611, 8).clipped.item() for image in images]
        assert tables[1].clipped[:, 1].tolist() == pytest.approx(shares)
        assert min(shares) > 0


def test_a_metric_that_is_linear_in_the_shift(memory_view):
    """A ramp differs from its shift by a step of the ramp for each pixel, but for the borders."""
    ramp = torch.arange(100).float().expand(3, 4, 100) / 128
    inner = named(lambda one, other: (one - other)[..., 20:80].abs().mean((1, 2, 3)))
    constant = named(lambda one, other: 0 * rmse_distance(one, other))
    family = TransformFamily("translation x", (0, 1, 2.5, 4), pixels_per_degree=1)
    found = measure_distances({"linear": inner, "constant": constant}, memory_view([ramp]), [family])
    assert found["linear"][0].distances[0].tolist() == pytest.approx([0, 1 / 128, 2.5 / 128, 4 / 128])
    assert found["constant"][0].distances.tolist() == [[0, 0, 0, 0]]


def test_moved_frames_and_moved_images_have_one_form(memory_view):
    images = drawn(2)
    items = [moved_images(images[0]), moved_images(images[1]), moved_images(images[0], "parallax x")]
    view = memory_view(items, groups=("a", "b", "a"))
    read = Fingerprint()
    turned, aside = measure_distances({"rmse": open_distance("rmse")}, view, fingerprint=read)["rmse"]
    assert (turned.transform, aside.transform) == ("rotation", "parallax x")
    assert (turned.groups, aside.groups) == (("a", "b"), ("a",))
    assert (turned.ids, aside.ids) == (view.ids[:2], view.ids[2:])
    torch.testing.assert_close(turned.clipped, torch.tensor([[0, 0.03]] * 2).double())  # beyond the reference
    family = TransformFamily("rotation", (0, 3))
    [wanted] = measure_distances({"rmse": open_distance("rmse")}, memory_view(images), [family])["rmse"]
    torch.testing.assert_close(turned.distances, wanted.distances)
    assert aside.distances[0].tolist() == turned.distances[0].tolist()
    wanted_hash = Fingerprint()
    for name, item in zip(view.ids, items, strict=True):
        wanted_hash.add(name, item)
    assert read.hexdigest() == wanted_hash.hexdigest()


def test_an_interrupted_run_resumes(memory_view, tmp_path):
    view = memory_view(drawn(3))
    whole = measure_distances({"mine": named(Counted())}, view, FAMILIES)["mine"]
    stopped = Counted(stops_at=6)  # one call checks the metric, one for each family of an image
    with pytest.raises(KeyboardInterrupt):
        measure_distances({"mine": named(stopped)}, view, FAMILIES, steps=FinishedSteps(tmp_path / "steps"))
    steps, last = FinishedSteps(tmp_path / "steps"), Counted()
    resumed = measure_distances({"mine": named(last)}, view, FAMILIES, steps=steps)["mine"]
    assert (steps.reused, steps.computed, last.calls) == (4, 5, 6)
    for one, other in zip(resumed, whole, strict=True):
        assert torch.equal(one.distances, other.distances)
        assert torch.equal(one.clipped, other.clipped)


def test_other_magnitudes_are_measured_anew(memory_view, tmp_path):
    view = memory_view(drawn(1))
    for magnitude, reused in ((2, 0), (3, 0), (2, 1)):
        steps = FinishedSteps(tmp_path / "steps")
        family = TransformFamily("rotation", (0, magnitude))
        measure_distances({"rmse": open_distance("rmse")}, view, [family], steps=steps)
        assert steps.reused == reused


def test_batches_are_limited(memory_view):
    counted = Counted()
    family = TransformFamily("rotation", tuple(range(7)))
    measure_distances({"mine": named(counted)}, memory_view(drawn(1)), [family], batch_size=3)
    assert counted.pairs == [1, 3, 3, 1]  # the first call checks the metric


def test_memory_holds_one_batch_of_transformed_images(memory_view, monkeypatch):
    module = import_module("candlelight.evaluation.perception.measure_distances")
    made, transform = [], module._transform

    def watched(family, reference, some):
        assert not any(image() is not None for image in made)  # the last batch is gone
        images, clipped = transform(family, reference, some)
        made.append(weakref.ref(images))
        assert len(images) <= 3
        return images, clipped

    monkeypatch.setattr(module, "_transform", watched)
    family = TransformFamily("rotation", tuple(range(7)))
    both = {"rmse": open_distance("rmse"), "mine": named(Counted())}
    [found] = measure_distances(both, memory_view(drawn(1)), [family], batch_size=3)["rmse"]
    assert len(made) == 3  # batches, not metrics times batches
    assert found.distances.shape == found.clipped.shape == (1, 7)


def test_digits_are_compared_on_their_canvas(memory_view):
    family = TransformFamily("translation x", (0, 4), pixels_per_degree=1, canvas=20)
    digit = torch.ones(3, 4, 4)
    [found] = measure_distances({"rmse": open_distance("rmse")}, memory_view([digit]), [family])["rmse"]
    assert found.distances[0].tolist() == pytest.approx([0, (32 / 400) ** 0.5])


def test_undefined_distances_stay_nan(memory_view):
    black = memory_view([torch.zeros(3, 20, 20)])
    [found] = measure_distances({"lmse": open_distance("lmse")}, black, FAMILIES[:1])["lmse"]
    assert found.distances.isnan().all()


RMSE = {"rmse": open_distance("rmse")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda view: (view(drawn(1)), []),
            "expected at least one metric, one row of the view and one family",
        ),
        (
            lambda view: (view([]), FAMILIES),
            "expected at least one metric, one row of the view and one family",
        ),
        (
            lambda view: (view(drawn(1)), FAMILIES[:1] * 2),
            "families of different names, got rotation, rotati",
        ),
        (
            lambda view: (view([torch.full((3, 4, 4), 9.0)]), FAMILIES),
            r"encoded in \[0, 1\], got float32 \[3",
        ),
        (
            lambda view: (view([moved_images(drawn(1)[0]), moved_images(drawn(1)[0], magnitudes=(0, 4))]),),
            "rotation: expected the magnitudes of `row-0` for every scene, got others for `row-1`",
        ),
    ],
)
def test_messages(memory_view, arguments, message):
    with refused(message):
        measure_distances(RMSE, *arguments(memory_view))


def test_messages_of_the_options(memory_view):
    view = memory_view(drawn(1))
    with refused("`batch_size` must be at least 1, got 0"):
        measure_distances(RMSE, view, FAMILIES, batch_size=0)
    with refused("expected at least one metric"):
        measure_distances({}, view, FAMILIES)
    similar = named(lambda one, other: 1 - rmse_distance(one, other))
    with refused("expected 0 for equal images, got 1; return 1 - similarity"):
        measure_distances({"mine": similar}, view, FAMILIES)
    with refused("MS-SSIM needs images of at least 161x161 pixels, got 12x16"):
        measure_distances({"ms-ssim": open_distance("ms-ssim")}, view, FAMILIES)
