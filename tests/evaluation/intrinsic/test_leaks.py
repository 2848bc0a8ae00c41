"""Leaks of light and paint over grids: shares of variance, planted leaks, failures, and frames."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.intrinsic_options import LeaksOptions
from candlelight.evaluation.intrinsic import variance_shares
from candlelight.evaluation.intrinsic.leaks import COLUMNS, LEAKS
from candlelight.evaluation.intrinsic.leaks_report import leak_lines, leak_pictures
from candlelight.evaluation.models import constant_shading
from candlelight.evaluation.run.evaluate import score as run_score
from candlelight.evaluation.run.evaluate import start
from candlelight.evaluation.views import PaintLightGrid, open_data
from candlelight.loaders.schema import FactorInfo
from tests.evaluation.noise_frames import load_builders, write_frames
from tests.refusals import refused

PAINTS, LIGHTS, HEIGHT, WIDTH = 3, 4, 6, 8
MASK = torch.ones(1, HEIGHT, WIDTH, dtype=torch.bool)
REFLECTANCE, SHADING = (
    ("light_in_reflectance", "interaction_reflectance"),
    ("paint_in_shading", "interaction_shading"),
)


def grid(seed: int) -> PaintLightGrid:
    """Draw a scene whose reflectance depends on the paint alone, and its shading on the light alone."""
    rng = torch.Generator().manual_seed(seed)
    shape = PAINTS, LIGHTS, 3, HEIGHT, WIDTH
    reflectance = (0.1 + 0.8 * torch.rand(PAINTS, 1, *shape[2:], generator=rng)).expand(shape).contiguous()
    shading = (0.2 + 2 * torch.rand(1, LIGHTS, *shape[2:], generator=rng)).expand(shape).contiguous()
    frames = tuple(f"{seed}-{cell}" for cell in range(PAINTS * LIGHTS))
    return PaintLightGrid(reflectance * shading, reflectance, shading, MASK[0], frames)


@pytest.fixture
def grids(memory_view):
    return memory_view([grid(0), grid(1)], ("a", "b"))


def by_loops(prediction, mask, floor):
    """Restate the shares of one grid: values by paint, light, channel, row and column."""
    cells = [(y, x) for y in range(HEIGHT) for x in range(WIDTH) if mask[y, x]]
    places = [(c, y, x) for c in range(prediction.shape[2]) for y, x in cells]
    logs = {}
    for p, light in product(range(PAINTS), range(LIGHTS)):
        some = [float(prediction[p, light][place]) for place in places]
        mean = sum(some) / len(some)
        some = [math.log(max(value / mean, floor)) for value in some]
        for place, value in zip(places, some, strict=True):
            logs[p, light, place] = value - sum(some) / len(some)
    sums = np.zeros(3)
    for place in places:
        y = np.array([[logs[p, light, place] for light in range(LIGHTS)] for p in range(PAINTS)])
        for p, light in product(range(PAINTS), range(LIGHTS)):
            of_paint, of_light = y[p].mean() - y.mean(), y[:, light].mean() - y.mean()
            sums += np.square([of_paint, of_light, y[p, light] - y.mean() - of_paint - of_light])
    return sums / sums.sum()


def test_two_paints_and_two_lights_by_hand():
    # Logs at the left pixel; the right one has the negative, so that the mean of each image is 0: the grid
    # 3 1 / -1 1 has the grand mean 1, paints +-1, lights 0 and interactions +-1.
    left = torch.tensor([[3.0, 1.0], [-1.0, 1.0]])
    image = torch.stack([left, -left], -1).exp()[None, :, :, None, None]
    found = variance_shares(image, torch.ones(1, 1, 2, dtype=torch.bool), floor=1e-9)
    assert [float(share) for share in found] == pytest.approx([0.5, 0, 0.5], abs=1e-6)


@pytest.mark.parametrize("floor", [1e-6, 0.5])
def test_shares_are_those_of_loops_in_any_scale_of_an_image(floor):
    rng = torch.Generator().manual_seed(3)
    prediction = torch.rand(2, PAINTS, LIGHTS, 3, HEIGHT, WIDTH, generator=rng)
    prediction[0, 1, 1, 0, 0, 0] = -1  # counts as the floor
    mask = torch.rand(2, HEIGHT, WIDTH, generator=rng) > 0.4
    scales = torch.rand(2, PAINTS, LIGHTS, 1, 1, 1, generator=rng) + 0.5
    found = torch.stack(
        variance_shares(
            (prediction * scales).masked_fill(~mask[:, None, None, None], torch.nan), mask, floor
        ),
        1,
    )
    for row in range(2):
        np.testing.assert_allclose(found[row], by_loops(prediction[row], mask[row], floor), rtol=1e-5)
    tinted = (
        prediction * torch.tensor([1.0, 0.5, 2.0])[:, None, None] ** torch.arange(LIGHTS)[:, None, None, None]
    )
    assert float(variance_shares(tinted, mask).light[0]) > 1.5 * float(found[0, 1])  # colour is no scale


def test_planted_leaks_lie_at_their_places(grids):
    results = evaluate("leaks", grids, {"image": constant_shading}, floor=1e-9)
    for row, item in enumerate(grids.items):
        logs = [layer.double().log() for layer in (item.reflectance, item.shading)]
        centred = [log - log.mean((2, 3, 4), keepdim=True) for log in logs]
        of_paint, of_light = (float((log - log.mean((0, 1))).square().sum()) for log in centred)
        for name, leak in {
            "truth": 0,
            "leak 10 %": 0.1,
            "leak 50 %": 0.5,
            "leak 100 %": 1,
            "image": 1,
        }.items():
            columns = {column: results[name].columns[column][row] for column in COLUMNS}
            wanted = leak**2 * of_light / (of_paint + leak**2 * of_light)
            assert columns["light_in_reflectance"] == pytest.approx(wanted, abs=1e-6)
            assert columns["light_in_reflectance_above_noise"] == pytest.approx(wanted, abs=1e-6)
            assert columns["interaction_reflectance"] == pytest.approx(0, abs=1e-6)
            if name != "image":
                wanted = leak**2 * of_paint / (of_light + leak**2 * of_paint)
                assert columns["paint_in_shading"] == pytest.approx(wanted, abs=1e-6)


def test_black_shadows_do_not_decide_on_the_planted_leaks(memory_view):
    """A pixel of black had a log of minus infinity, and R S^0.1 ten times the share of R S^0.1 without it."""
    one = grid(0)
    shading = one.shading.clone()
    shading[:, 1, :, 0, 0] = 0
    found = evaluate("leaks", memory_view([replace(one, shading=shading)]), ["constant-shading"], floor=1e-9)
    means = shading.mean((2, 3, 4), keepdim=True)
    for leak in (0.1, 0.5, 1):
        made = one.reflectance * shading.maximum(1e-3 * means) ** leak
        wanted = variance_shares(made[None], MASK, 1e-9)
        share = found[f"leak {100 * leak:.0f} %"].score
        assert share == pytest.approx(float(wanted.light), rel=1e-3)
    assert found["leak 10 %"].score < found["leak 50 %"].score / 10


def test_noise_is_interaction_and_no_leak():
    rng = torch.Generator().manual_seed(0)
    noise = torch.randn(1, PAINTS, LIGHTS, 3, 100, 100, generator=rng).exp()
    shares = variance_shares(noise, torch.ones(1, 100, 100, dtype=torch.bool), 1e-9)
    freedom = np.array([PAINTS - 1, LIGHTS - 1, (PAINTS - 1) * (LIGHTS - 1)])
    np.testing.assert_allclose(torch.cat(shares), freedom / freedom.sum(), atol=0.01)
    above = shares.light - shares.interaction / (PAINTS - 1), shares.paint - shares.interaction / (LIGHTS - 1)
    assert all(abs(float(share)) < 0.01 for share in above)


def test_a_constant_layer_or_a_missing_one_is_undefined_and_said_so(grids):
    models = {"flat": lambda image: (0.3 * torch.ones_like(image), image), "bare": lambda image: image}
    found = evaluate("leaks", grids, models)
    for name, lost in {"flat": REFLECTANCE, "bare": SHADING, "constant": (*REFLECTANCE, *SHADING)}.items():
        for column in (*REFLECTANCE, *SHADING):
            assert np.isnan(found[name].columns[column]).all() == (column in lost)
        if name == "constant":  # a control, of which this is known
            assert found[name].details["notes"] == []
            continue
        [note] = found[name].details["notes"]
        assert note.startswith(f"`{name}`: no shares, as the layer is constant or missing: ")
        assert note.endswith(f"{lost[-1].split('_')[-1]} in 2 of 2 grids")
        assert found[name].failed == ()


def test_undefined_layers_are_told_and_not_drawn(grids):
    models = {"bare": lambda image: image, "bad": lambda image: (math.nan * image, image)}
    run = start(LEAKS, LeaksOptions(), {"data": grids}, models, device="cpu")
    found = run_score(run)
    captions = {block.caption: len(block.pictures) for block in leak_pictures(run, found)[1:]}
    assert captions["bare; shading is missing"] == captions["bad; reflectance failed"] == 1
    assert captions["truth"] == 2
    lines = "\n".join(leak_lines(list(found.values())))
    assert "paint_in_shading ↓: bare - bad = undefined (no interval, 0 rows in 0 groups" in lines
    assert "nan" not in lines


@pytest.mark.parametrize("bad", [math.nan, 0.0])
def test_a_failed_layer_is_the_worst_and_spares_the_other(grids, bad):
    def failing(image):
        shading = image.clone()
        shading[3] = bad
        return image, torch.where(image == grids.items[1].image.flatten(0, 1), shading, image)

    models = {"failing": failing, "image": lambda image: (image, image)}
    failing, whole, *_ = evaluate("leaks", grids, models).values()
    assert failing.failed == ("row-1",)
    for column in SHADING:
        assert failing.columns[column] == (whole.columns[column][0], 1)
    for column in REFLECTANCE:
        assert failing.columns[column] == whole.columns[column]


def test_a_model_of_several_lights_gets_those_of_its_paint(grids):
    def known(image, lights):
        for row in range(PAINTS * LIGHTS):
            assert torch.equal(lights[row], image.unflatten(0, (PAINTS, LIGHTS))[row // LIGHTS])
        return lights.prod(1) ** (1 / LIGHTS), image

    found = evaluate("leaks", grids, {"known": known})["known"]
    assert max(found.columns["light_in_reflectance"]) < 1e-6


# --------------------------------------------------------------------------------------------------- frames


def lit(name, index, metadata):
    """Let the factor `color` name the material, and `size` the light, of one unit."""
    values = metadata.factors
    objects = tuple(one.model_copy(update={"material": values["color"]}) for one in metadata.objects[:1])
    lights = tuple(one.model_copy(update={"power": 10 * values["size"]}) for one in metadata.lights)
    return metadata.model_copy(update={"objects": objects, "lights": lights, "unit": "scene"})


def painted(name, index, metadata):
    return lit(name, index, metadata).model_copy(update={"lights": metadata.lights})


def write_grids(root, change=lit):
    """Write frames of noise, which are one grid."""
    write_frames(root, {"grid": {}}, ("image", "radiance", "albedo", "shading", "object"), change=change)


def test_frames_of_a_unit_form_a_grid(tmp_path):
    write_grids(tmp_path)
    view = open_data("grids", tmp_path)
    frames = open_data("decompositions", tmp_path)
    assert (view.ids, view.groups) == (("scene",), ("scene",))
    item = view[0]
    assert item.frames == frames.ids
    lights = len(frames) // 2
    for row, frame in enumerate(frames):
        assert torch.equal(item.image[row // lights, row % lights], frame.image)
        assert torch.equal(item.shading[row // lights, row % lights], frame.shading)
    assert torch.equal(item.mask, torch.stack([(frame.reflectance > 0).all(0) for frame in frames]).all(0))


def repeated(name, index, metadata):
    """Leave a difference unsaid: frames of two steps have the factors of one."""
    made = lit(name, index, metadata)
    return made.model_copy(update={"factors": made.factors | {"step": "0"}})


def test_two_images_of_a_paint_in_a_light_are_refused(tmp_path):
    step = FactorInfo(name="step", kind="categorical", values=("0", "1"))
    factors = step, *load_builders("loaders/conftest.py").GRID
    layers = ("image", "radiance", "albedo", "shading")
    write_frames(tmp_path, {"grid": {"factors": factors}}, layers, change=repeated)
    with refused("demo: `grid-000006`: another image has this paint and light"):
        open_data("grids", tmp_path)


def moved(name, index, metadata):
    """Let the factor `color` move the camera too."""
    rows = tuple(tuple(float(place == index // 3 + 1) for place in range(row, row + 4)) for row in range(4))
    camera = metadata.camera.model_copy(update={"world_to_camera": rows})
    return lit(name, index, metadata).model_copy(update={"camera": camera})


def lacking(name, index, metadata):
    """Put the last frame into a scene of its own."""
    return lit(name, index, metadata).model_copy(
        update={"unit": "other"} if index == 5 else {"unit": "scene"}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lacking, "demo: `scene`: expected an image of each paint in each light, .*, got 5 of 2 x 3"),
        (moved, "demo: expected factors .*, got none for the paint and size for the light"),
        (painted, "demo: expected factors .*, got color, size for the paint and none for the light"),
    ],
)
def test_frames_that_are_no_grid_are_refused(tmp_path, change, message):
    write_grids(tmp_path, change)
    with refused(message):
        open_data("grids", tmp_path)


def of_scene(name, index, metadata):
    return lit(name, index, metadata).model_copy(update={"unit": metadata.factors["scene"]})


def test_rows_and_the_limit_count_grids(tmp_path):
    scenes = FactorInfo(name="scene", kind="categorical", values=("one", "two", "three"))
    factors = scenes, *load_builders("loaders/conftest.py").GRID[::-1]  # images of a paint are no neighbours
    layers = ("image", "radiance", "albedo", "shading")
    write_frames(tmp_path, {"grid": {"factors": factors}}, layers, change=of_scene)
    whole, frames = (open_data(kind, tmp_path) for kind in ("grids", "decompositions"))
    rows = {name: row for row, name in enumerate(frames.ids)}
    assert whole.ids == ("one", "two", "three")
    for choice, ids in (({"limit": 2}, ("one", "two")), ({"rows": "2,0"}, ("three", "one"))):
        some = open_data("grids", tmp_path, **choice)
        assert some.ids == some.groups == ids
        assert some.views[0].ids == some[0].frames + some[1].frames  # of files, those of the grids alone
        assert some.views[0].known_ids == whole.views[0].known_ids
        for item, scene in zip(some, ids, strict=True):
            told = [frames.named.reader.metadata(rows[name]).factors for name in item.frames]
            assert [(one["scene"], one["color"]) for one in told] == [
                (scene, color) for color in ("red", "blue") for _ in range(3)
            ]
            for name, image in zip(item.frames, item.image.flatten(0, 1), strict=True):
                assert torch.equal(image, frames[rows[name]].image)
    with refused("rows: expected each at most once, from 0 to 2 of .*, got row 3 of 3"):
        open_data("grids", tmp_path, rows="0:6")


def test_a_grid_without_a_pixel_is_refused(tmp_path):
    write_grids(tmp_path)
    view = open_data("grids", tmp_path, leave_edges=20)
    with refused("demo: `scene`: no pixel has a known truth in all images; choose a smaller `leave_edges`"):
        view[0]
