import math
import weakref
from importlib import import_module

import pytest
import torch

from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.perception import (
    TransformFamily,
    image_plane_family,
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
from candlelight.loaders.illuminants import EQUAL_ENERGY
from tests.refusals import refused

FAMILIES = (
    TransformFamily("rotation", (0, 2, 5)),
    TransformFamily("illuminant 611", (0, 8)),
    TransformFamily("translation x", (1, 0, 2, 3), pixels_per_degree=1),
)
RMSE = {"rmse": open_distance("rmse")}


def drawn(count: int, height: int = 12, width: int = 16) -> list[torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return list(torch.rand(count, 3, height, width, generator=draws))


def moved_images(image, transform="rotation", magnitudes=(0, 3), pixels_per_degree=10.0):
    moved = torch.cat([rotate_images(image[None], magnitude) for magnitude in magnitudes])
    numbers = torch.tensor(magnitudes, dtype=torch.float64)
    return MovedImages(image, moved, transform, "degrees", numbers, 0.02 + numbers / 100, pixels_per_degree)


class Counted(torch.nn.Module):
    """RMSE that counts its calls, and stops at one of them."""

    def __init__(self, stops_at: int | None = None) -> None:
        super().__init__()
        self.calls, self.stops_at = 0, stops_at

    def forward(self, transformed, reference):
        self.calls += 1
        if self.calls == self.stops_at:
            raise KeyboardInterrupt
        return rmse_distance(transformed, reference)


def named(model) -> NamedModel:
    return NamedModel(ModelIdentity("mine", "callable", "mine.py:mine", "ab"), model, "srgb")


@pytest.mark.parametrize("batch_size", [2, 16])
def test_equals_loops_over_images_and_magnitudes(memory_view, batch_size):
    images = [*drawn(2), drawn(1, 15, 11)[0]]  # sizes may differ
    view = memory_view(images, groups=("a", "b", "b"))
    both = {**RMSE, "ssim": open_distance("ssim")}
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


def test_moved_frames_and_moved_images_have_one_form(memory_view):
    images = drawn(2)
    items = [moved_images(images[0]), moved_images(images[1]), moved_images(images[0], "parallax x")]
    view = memory_view(items, groups=("a", "b", "a"))
    read = Fingerprint()
    turned, aside = measure_distances(RMSE, view, fingerprint=read)["rmse"]
    assert (turned.transform, aside.transform) == ("rotation", "parallax x")
    assert (turned.groups, aside.groups) == (("a", "b"), ("a",))
    assert (turned.ids, aside.ids) == (view.ids[:2], view.ids[2:])
    torch.testing.assert_close(turned.clipped, torch.tensor([[0, 0.03]] * 2).double())  # beyond the reference
    [wanted] = measure_distances(RMSE, memory_view(images), [TransformFamily("rotation", (0, 3))])["rmse"]
    torch.testing.assert_close(turned.distances, wanted.distances)
    assert aside.distances[0].tolist() == turned.distances[0].tolist()
    wanted_hash = Fingerprint()
    for name, item in zip(view.ids, items, strict=True):
        wanted_hash.add(name, item)
    assert read.hexdigest() == wanted_hash.hexdigest()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("translation x", lambda image: translate_images(image, right=20)),
        ("translation y", lambda image: translate_images(image, down=20)),
        ("parallax x", lambda image: translate_images(image, right=20)),
        ("rotation", lambda image: rotate_images(image, 2)),
        ("illuminant 611", lambda image: shift_illuminant(image, 611, 2, EQUAL_ENERGY).images),
    ],
)
def test_references_are_transformed_by_the_magnitudes_of_their_frames(memory_view, name, wanted):
    [image] = drawn(1)
    item = moved_images(image, name, (0, 2, 4))
    moved, clipped = image_plane_family(item).transform(image[None], 2)
    assert torch.equal(moved, wanted(image[None]))
    view = memory_view([item])
    [physical] = measure_distances(RMSE, view)["rmse"]
    [flat] = measure_distances(RMSE, view, image_plane_family, batch_size=2)["rmse"]
    assert (flat.transform, flat.ids, flat.groups) == (physical.transform, physical.ids, physical.groups)
    assert torch.equal(flat.magnitudes, physical.magnitudes)
    distance = rmse_distance(moved, image[None]).item()
    assert flat.distances[0, :2].tolist() == pytest.approx([0, distance], abs=1e-6)
    assert flat.clipped[0, 1].item() == pytest.approx(clipped.item())


def test_frames_without_a_camera_have_no_visual_angle():
    with refused("`pixels_per_degree` must be above 0, got nan"):
        image_plane_family(moved_images(drawn(1)[0], "translation x", pixels_per_degree=math.nan))


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
        measure_distances(RMSE, view, [family], steps=steps)
        assert steps.reused == reused


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
    both = {**RMSE, "mine": named(Counted())}
    [found] = measure_distances(both, memory_view(drawn(1)), [family], batch_size=3)["rmse"]
    assert len(made) == 3  # batches, not metrics times batches
    assert found.distances.shape == found.clipped.shape == (1, 7)


def test_digits_are_compared_on_their_canvas(memory_view):
    family = TransformFamily("translation x", (0, 4), pixels_per_degree=1, canvas=20)
    [found] = measure_distances(RMSE, memory_view([torch.ones(3, 4, 4)]), [family])["rmse"]
    assert found.distances[0].tolist() == pytest.approx([0, (32 / 400) ** 0.5])


def test_undefined_distances_stay_nan(memory_view):
    black = memory_view([torch.zeros(3, 20, 20)])
    [found] = measure_distances({"lmse": open_distance("lmse")}, black, FAMILIES[:1])["lmse"]
    assert found.distances.isnan().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"families": []}, "expected at least one metric, one row of the view and one family"),
        ({"items": []}, "expected at least one metric, one row of the view and one family"),
        ({"metrics": {}}, "expected at least one metric"),
        ({"families": FAMILIES[:1] * 2}, "families of different names, got rotation, rotati"),
        ({"items": [torch.full((3, 4, 4), 9.0)]}, r"encoded in \[0, 1\], got float32 \[3"),
        (
            {"items": [moved_images(drawn(1)[0], magnitudes=(0, size)) for size in (3, 4)], "families": None},
            "rotation: expected the magnitudes of `row-0` for every scene, got others for `row-1`",
        ),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
    ],
)
def test_messages(memory_view, change, message):
    given = {"metrics": RMSE, "items": drawn(1), "families": FAMILIES, "batch_size": 16, **change}
    with refused(message):
        measure_distances(
            given["metrics"], memory_view(given["items"]), given["families"], batch_size=given["batch_size"]
        )
