import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from candlelight.generators.engine.dead_leaves import (
    CORNERS,
    SUBSAMPLES,
    develop_painting,
    draw_radii,
    inside_leaf,
    paint_dead_leaves,
)
from candlelight.generators.language.dead_leaves_fields import SHAPES, DeadLeaves
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.random_streams import stream
from candlelight.loaders import FrameFolder, HDF5Frames, HubFrames, pack_hdf5, pack_hub
from candlelight.loaders.colour import srgb_to_linear
from tests.refusals import refused

PLAIN = DeadLeaves(
    **{"shape": "disc", "exponent": 3.0, "size": (0.02, 0.5), "colors": "rgb", "low": 0.1, "high": 0.9},
    **{"contrast": 0.0, "falloff": 0.0, "azimuth": 0.0},
)
SMALL = ["image={width: 40, height: 30}", "sets.dead_leaves.draws=2"]


def paint(width=32, height=32, seed=0, **changes):
    return paint_dead_leaves(PLAIN.model_copy(update=changes), seed, width, height)


# ------------------------------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize("exponent", [0.0, 1.0, 3.0])
def test_radii_follow_the_power_law(exponent):
    low, high = 0.5, 20.0
    radii = draw_radii(np.random.default_rng(1), 4000, exponent, low, high)

    def share_below(r):
        """Integrate r^-a numerically instead of by the formula."""
        grid = np.geomspace(low, high, 20001)
        area = np.cumsum(np.diff(grid) * (grid[1:] ** -exponent + grid[:-1] ** -exponent) / 2)
        return np.interp(r, grid[1:], area / area[-1])

    assert low <= radii.min() < radii.max() <= high
    assert stats.kstest(radii, share_below).pvalue > 0.01
    # The test tells a neighbouring exponent.
    other = draw_radii(np.random.default_rng(1), 4000, exponent + 0.3, low, high)
    assert stats.kstest(other, share_below).pvalue < 1e-4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [0.0, 0.4, 0.999])
def test_every_shape_has_the_area_of_the_disc(shape, form):
    line = np.arange(-40, 40, 0.1) + 0.05
    x, y = (part.ravel() for part in np.meshgrid(line, line))
    hit = inside_leaf(shape, x, y, 20.0, 0.7, form)
    assert hit.sum() * 0.01 == pytest.approx(math.pi * 400, rel=0.002)
    # It lies about its centre.
    assert abs(x[hit].mean()) < 0.02
    assert abs(y[hit].mean()) < 0.02


def test_a_polygon_has_three_to_eight_corners():
    for k in range(CORNERS[0], CORNERS[1] + 1):
        form = (k - CORNERS[0] + 0.5) / (CORNERS[1] - CORNERS[0] + 1)
        angles = np.linspace(0, 2 * math.pi, 3600, endpoint=False)
        # Along the circle that has half its length inside, the outline is crossed twice at each corner.
        apothem = 10 * math.sqrt(math.pi / k / math.tan(math.pi / k))
        radius = apothem / math.cos(math.pi / k / 2)
        hit = inside_leaf("polygon", radius * np.cos(angles), radius * np.sin(angles), 10.0, 0.1, form)
        assert (hit != np.roll(hit, 1)).sum() == 2 * k
        assert hit.mean() == pytest.approx(0.5, abs=0.01)


# ------------------------------------------------------------------------------------------ what is painted


def test_the_spectrum_falls_as_the_square_of_the_frequency():
    # Power ~ f^-2, amplitude ~ f^-1 (Lee, Mumford, Huang 2001).
    side = 96
    window = np.hanning(side)[:, None] * np.hanning(side)
    power = np.zeros((side, side))
    for seed in range(8):
        gray = paint(side, side, seed, colors="gray", size=(0.01, 0.5)).albedo[..., 0]
        power += abs(np.fft.fft2((gray - gray.mean()) * window)) ** 2
    frequency = np.hypot(*np.meshgrid(*(np.fft.fftfreq(side) * side,) * 2)).astype(int).ravel()
    rings = np.bincount(frequency, power.ravel()) / np.bincount(frequency)
    band = np.arange(3, 25)
    slope = np.polyfit(np.log(band), np.log(rings[band]), 1)[0]
    assert slope == pytest.approx(-2.0, abs=0.3)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_leaf_over_a_point_owns_it(shape):
    """Compare with a loop over every leaf for each point."""
    seed, width, height = 5, 12, 5
    made = paint(width, height, seed, shape=shape, size=(0.15, 0.4), falloff=0.4, azimuth=90.0)
    reach = 12 * 0.4 * math.sqrt(3)
    draw = {name: stream(seed, "leaves", name) for name in ("place", "radius", "turn", "form", "color")}
    count = 16384
    x, y = draw["place"].uniform(size=(2, count)) * [[width + 2 * reach], [height + 2 * reach]] - reach
    radii = draw_radii(draw["radius"], count, 3.0, 12 * 0.15, 12 * 0.4)
    turns, forms = draw["turn"].uniform(0, 2 * math.pi, count), draw["form"].uniform(size=count)
    colors = srgb_to_linear(draw["color"].uniform(0.1, 0.9, (count, 3)))
    expected = np.zeros((height, width, 3))
    steps = (np.arange(SUBSAMPLES) + 0.5) / SUBSAMPLES

    def covers(i, across, down):
        place = np.array([[across - x[i]], [down - y[i]]])
        return inside_leaf(shape, *place, radii[i], turns[i], forms[i])

    for row, column in np.ndindex(height, width):
        for down, across in itertools.product(row + steps, column + steps):
            near = np.flatnonzero(np.hypot(across - x, down - y) <= radii * math.sqrt(3))
            first = next(i for i in near if covers(i, across, down))
            expected[row, column] += colors[first] / SUBSAMPLES**2
    assert (abs(made.albedo - expected) > 1e-5).mean() < 0.02  # a point on an outline may round either way
    assert made.shading[:, 3, 0].tolist() == pytest.approx(np.linspace(1.0, 0.6, height).tolist())


def test_colours_waves_and_light():
    gray = paint(colors="gray").albedo
    assert (gray == gray[..., :1]).all()
    rgb = paint()
    low, high = srgb_to_linear(np.array([0.1, 0.9]))
    assert low - 1e-6 <= rgb.albedo.min() < rgb.albedo.max() <= high + 1e-6
    assert (rgb.shading == 1).all()
    wavy = paint(contrast=0.5).albedo
    assert (wavy <= rgb.albedo + 1e-6).all()
    assert (wavy >= 0.5 * rgb.albedo - 1e-6).all()
    assert 0.6 < (wavy / rgb.albedo).mean() < 0.9
    right = paint(falloff=0.7)
    assert (right.shading[:, 0] == pytest.approx(0.3), right.shading[:, -1] == pytest.approx(1)) == (
        True,
        True,
    )
    assert paint(falloff=0.7, azimuth=45.0).shading[..., 0].argmax() == 31
    # Light moves no leaf, and another seed moves all.
    assert np.array_equal(right.albedo, rgb.albedo)
    assert abs(paint(seed=1).albedo - rgb.albedo).mean() > 0.05


def test_the_layers_keep_the_identity():
    layers, checks = develop_painting(paint(32, 24, 3, falloff=0.6, azimuth=200.0), 2.5)
    assert tuple(layers) == ("image", "radiance", "albedo", "shading", "residual")
    total = layers["albedo"].astype(np.float32) * layers["shading"] + layers["residual"]
    assert np.array_equal(total.astype(np.float16), layers["radiance"])
    over = (layers["radiance"].astype(np.float32) * 2.5 > 1).any(axis=-1)
    assert checks.clipped == over.mean() > 0
    assert checks.identity_error is None
    assert (layers["image"][over].max(axis=-1) == 255).all()


# ------------------------------------------------------------------------------------------ as a recipe


def test_the_shipped_recipe():
    plan = make_plan(load_recipe("dead-leaves"))
    assert len(plan) == 500 == len(plan.groups)
    traces = [sample.trace for sample in plan.samples]
    assert {trace.dead_leaves.shape for trace in traces} == {*SHAPES}
    assert len({trace.cycles_seed for trace in traces}) == 500
    assert traces[0].dead_leaves.falloff == plan.samples[0].factors["falloff"]


@pytest.fixture(scope="module")
def without_blender(tmp_path_factory):
    """Render two samples in a process that cannot import Blender; return the frames and what it printed."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("without_blender")
    for name in ("bpy", "OpenEXR", "pyoidn"):
        (folder / f"{name}.py").write_text("raise ImportError('not here')")
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "gone = ('bpy', 'OpenEXR', 'pyoidn')\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in gone else real(name, *rest)\n"
        "from pathlib import Path\n"
        "from candlelight.generators import load_recipe, make_plan, render\n"
        f"plan = make_plan(load_recipe('dead-leaves', {SMALL!r}))\n"
        f"print(render(plan, Path({str(folder / 'out')!r}), workers=1).written)\n"
        "try:\n"
        "    render(make_plan(load_recipe('negatives', ['sets.negatives.draws=1'])), Path('none'))\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    env = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    return folder / "out", done.stdout.splitlines()


def test_painting_needs_no_blender(without_blender):
    _, (written, refusal) = without_blender
    assert written == "2"
    assert refusal.startswith("rendering needs bpy, OpenEXR, pyoidn, not installed here")


def test_frames_have_neither_camera_nor_objects_and_are_packed(without_blender, tmp_path, datasets):
    pytest.importorskip("torch")  # which reading as tensors takes
    plan, (root, _) = make_plan(load_recipe("dead-leaves", SMALL)), without_blender
    folder = FrameFolder(root, "dead_leaves")
    for row, sample in enumerate(plan.samples):
        metadata = folder.frame(row, verify=True).metadata
        assert (metadata.camera, metadata.objects, metadata.lights) == (None, (), ())
        assert (metadata.renderer.blender, metadata.renderer.samples) == (None, SUBSAMPLES**2)
        assert (metadata.id, metadata.unit, metadata.factors) == (sample.id, sample.unit, sample.factors)
    (file,), hub = pack_hdf5(root, tmp_path / "h5"), pack_hub(root, tmp_path / "hub")
    for packed in (HDF5Frames(file), HubFrames(hub, "dead_leaves")):
        assert packed.metadata(1) == folder.metadata(1)
        assert packed[1]["radiance"].equal(folder[1]["radiance"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("layout.dead_leaves.size=[0.001, 0.5]", "size: expected 0.002 <= smallest <= largest <= 1"),
        ("layout.dead_leaves.size=[0.5, 0.1]", "smallest <= largest"),
        ("layout.dead_leaves.size=[0.1, 2]", "largest <= 1, got 0.1 and 2"),
        ("layout.dead_leaves.exponent=11", r"layout.dead_leaves.exponent: expected 0 to 10, got 11"),
        ("layout.dead_leaves.contrast=-0.1", r"contrast: expected 0 to 1, got -0.1"),
        ("layout.dead_leaves.falloff=1.5", r"falloff: expected 0 to 1, got 1.5"),
        ("factors.shape.values=[disc, star]", r"shape: expected one of disc, ellipse, polygon, got"),
        ("factors.colors.values=[rgb, sepia]", r"colors: expected one of rgb, gray, got `sepia`"),
        ("layout.dead_leaves.low=0.99", r"expected low <= high, got 0.99 and 0.95"),
        ("layout.lights=[{azimuth: 0}]", r"layout: expected `dead_leaves` alone, got lights"),
        ("layers=[image, depth]", r"layers: dead leaves have image, radiance, .*, got depth as well"),
        ("layout={lights: [{azimuth: 0}]}", r"layout: expected a `camera`, or `dead_leaves`"),
    ],
)
def test_wrong_dead_leaves_are_refused_in_the_plan(override, message):
    with refused(rf"^.*{message}.*$"):
        make_plan(load_recipe("dead-leaves", [*SMALL, f"sets.dead_leaves.{override}"]))
