"""`evaluate transforms` on ramps, whose shifts some distances measure exactly, and `moved-frames`."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation import views
from candlelight.evaluation.perception import TransformFamily, score_perception
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import RatedPair
from candlelight.loaders.frames import write_frame
from candlelight.loaders.schema import FactorInfo, SetInfo
from tests.command_line import refusal, run
from tests.evaluation.report.conftest import tiny_frame, write_info

SIDE, STEP = 40, 2 / 255  # gray rises by STEP from each pixel to the next, to the right and down
CODE = f"""
import torch

def degrees(transformed, reference):  # twice the shift of a ramp, at 29.2 pixels per degree
    moved = (transformed - reference).abs().flatten(1).median(1).values
    return 2 * moved / {STEP} / 29.2

def still(transformed, reference):
    return 0 * (transformed - reference).mean((1, 2, 3))
"""


TRANSFORMS, MOVED = ("evaluate", "transforms"), ("evaluate", "moved-frames")


def write_ramps(root):
    """Write seven ramps that start at other grays."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    for start in range(7):
        gray = (2 * (rows + columns) + 10 * start).astype(np.uint8)
        Image.fromarray(np.repeat(gray[..., None], 3, axis=2)).save(root / f"{start}.png")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures") / "ramps"
    root.mkdir()
    write_ramps(root)
    return root


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def rated(memory_view, monkeypatch):
    """Open pairs of ramps whose common distance D is the distance `degrees`."""
    ramp = STEP * torch.arange(12.0).expand(3, 12, 12)
    shifts = [0, 2, 4, 6, 8, 10]
    items = [RatedPair(ramp, ramp + STEP * shift, 10 - 10 * 2 * shift / 29.2, 0.1) for shift in shifts]
    asked, open_data = [], score_perception.open_data

    def open_rated(kind, data, **choice):
        if kind != "pairs":
            return open_data(kind, data, **choice)
        asked.append(data)
        return memory_view(items)

    monkeypatch.setattr(score_perception, "open_data", open_rated)
    return asked


def test_a_metric_that_is_linear_in_the_shift(pictures, own, rated, tmp_path) -> None:
    out, page = tmp_path / "a.json", tmp_path / "a.html"
    words = ("--rated", "tid2013:tid", "--transform", "translation", "--out", out, "--report", page)
    metrics = ("--metric", f"degrees={own}:degrees", "--metric", "rmse", "--metric", f"still={own}:still")
    text = run(*TRANSFORMS, pictures, *metrics, *words)
    assert rated == ["tid2013:tid"]
    results = {result.about.model["name"]: result for result in read_results(out)}
    found = results["degrees"].details
    assert found["transduction"]["scale"] == pytest.approx(1, abs=1e-4)
    assert found["transduction"]["exponent"] == pytest.approx(1, abs=1e-4)
    one = found["moves"]["image plane"]["thresholds"]["translation"]
    assert [one[name] for name in ("low", "score", "high")] == pytest.approx(
        [0.195, 0.2225, 0.2495], abs=1e-4
    )
    assert one["verdict"] == "human-like"
    assert results["degrees"].scores["translation"].low == pytest.approx(0.2225, abs=1e-4)
    assert results["rmse"].details["moves"]["image plane"]["thresholds"]["translation"]["score"] is not None
    # All distances of the third are 0, so the fit fails and says so.
    assert results["still"].details["moves"]["image plane"]["thresholds"] == {}
    assert "still: no transduction, so curves and order only: no fit: `distances` must differ" in text
    [line] = [line for line in text.splitlines() if line.startswith("degrees") and "human-like" in line]
    assert line.split()[1:] == [
        *("translation,", "degrees", "0.223", "0.027", "0.223", "to", "0.223"),
        *line.split()[-2:],
    ]
    assert results["rmse"].about.settings["rated"]["rows"] == 6
    assert compare(results["degrees"], results["rmse"], "translation").groups == 7
    html = page.read_text()
    for part in ("Table II of the paper", "Table III of the paper", "Figure 1 ", "Figure 7 ", "human-like"):
        assert part in html
    assert [path.name for path in tmp_path.iterdir()] == ["a.json", "a.html"]
    run("evaluate", "report", out, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_a_metric_that_never_moves_and_one_without_ratings(pictures, own, tmp_path) -> None:
    metrics = ("--metric", f"still={own}:still", "--metric", f"degrees={own}:degrees")
    out = tmp_path / "a.json"
    text = run(
        *TRANSFORMS, pictures, *metrics, "--preset", "still=RMSE", "--hues", 5, "--limit", 2, "--out", out
    )
    assert sum("∞, never moves" in line and "less sensitive" in line for line in text.splitlines()) == 3
    assert "no ratings, so curves and an order, but no verdict: degrees; give rated pairs" in text
    still, degrees = read_results(out)
    assert [still.scores[name].value for name in ("translation", "rotation", "scale")] == [float("inf")] * 3
    assert still.details["moves"]["image plane"]["illuminants"]["ellipse"] is None
    assert set(still.details["moves"]["image plane"]["sensitivities"].values()) == {0.0}
    assert list(degrees.scores) == ["order"]
    assert len(degrees.details["moves"]["image plane"]["curves"]) == 5 + 3 + 2  # with both colour axes
    assert "cut at the edge of sRGB" in text
    assert "image plane: RG was measured in one direction alone, illuminant 510" in text
    assert "29.2 pixels per degree of visual angle, assumed, as the paper does for ImageNet" in text
    assert "thresholds of people: published" in text


def test_viewing_canvas_size_and_kernel_reach_the_transforms(pictures, tmp_path) -> None:
    words = (*TRANSFORMS, pictures, "--metric", "rmse", "--transform", "translation", "--limit", 1)
    words += ("--pixels-per-degree", 14.6, "--size", 20, 24, "--canvas", "mnist", "--kernel", "cubic")
    text = run(*words, "--out", tmp_path / "a.json")
    assert "14.6 pixels per degree of visual angle, as stated" in text
    [found] = read_results(tmp_path / "a.json")
    [curve] = found.details["moves"]["image plane"]["curves"]
    assert curve["magnitudes"] == pytest.approx([pixels / 14.6 for pixels in range(6)])
    assert "29.2 pixels per degree of visual angle, assumed" in run(*words[:-9], *words[-7:])
    settings = found.about.settings
    assert (settings["pixels_per_degree"], settings["canvas"], settings["kernel"]) == (14.6, "mnist", "cubic")


def write_answers(path, transform, magnitudes, threshold, slope, repeats=40):
    """Append answers with the shares of a psychometric function; a transform of None is of rated pairs."""
    if not path.exists():
        header = {"format": "candlelight answers 1", "version": "", "settings": {"log": path.name}}
        path.write_text(json.dumps(header) + "\n")
    answer = {
        **{"session": "", "observer": "ann", "image": "a", "transform": transform, "time": ""},
        **{"kind": "transform" if transform else "rated", "seconds": 1.0, "side": "left"},
    }
    trials = itertools.count(len(path.read_text().splitlines()))
    with path.open("a") as log:
        for magnitude in magnitudes:
            right = round(repeats * (0.5 + 0.5 / (1 + math.exp(-slope * (magnitude - threshold)))))
            for place in range(repeats):
                own = {"trial": next(trials), "magnitude": magnitude, "correct": place < right}
                log.write(json.dumps({**answer, **own}) + "\n")


def test_answers_of_ones_own_take_the_place_of_the_paper(pictures, own, rated, tmp_path) -> None:
    first, second, out = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "a.json"))
    write_answers(first, None, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 0.35, 20)
    for transform, threshold in (("translation x", 0.16), ("translation y", 0.18)):
        write_answers(second, transform, [0.05, 0.1, 0.15, 0.2, 0.25, 0.3], threshold, 60, 20)
    write_answers(second, "rotation", [2.0], 1, 1)
    write_answers(second, "illuminant 611", [1.0, 2.0], 1, 1, 3)
    words = ("--rated", "tid2013:tid", "--transform", "translation", "--transform", "rotation")
    words += ("--answers", first, "--answers", second, "--out", out, "--limit", 2)
    text = run(*TRANSFORMS, pictures, "--metric", f"degrees={own}:degrees", *words)
    [result] = read_results(out)
    assert result.details["levels"][1] == pytest.approx(0.35, abs=0.01)
    human, thresholds = result.details["human"], result.details["moves"]["image plane"]["thresholds"]
    assert human["translation"] == human["parallax x"] == pytest.approx(0.17, abs=0.01)
    assert human["rotation"] == 3.6
    # The threshold is half of D_T, so near that of these people, and far from the published 0.23.
    assert thresholds["translation"]["verdict"] == "human-like"
    assert thresholds["translation"]["human"] == human["translation"]
    assert result.about.settings["measured_human"].keys() == {"translation", "parallax x"}
    measured = f"{human['translation']:.4g}, measured"
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith("degrees ")}
    assert (measured in lines["translation,"], "measured" in lines["rotation,"]) == (True, False)
    for note in (
        "D_T: 0.3",
        "thresholds of people: measured for translation; published for rotation",
        f"translation: threshold of people {human['translation']:.4g} degrees, of 240 answers (95 % interval",
        "rotation: the fit to 40 answers failed (`levels` must be finite, and at least 2 different ones",
        "illuminant 611: 6 answers are not used, because an ellipse of people needs all hues",
    ):
        assert note in text


def test_answers_are_read_before_ratings(pictures, rated, tmp_path) -> None:
    log = tmp_path / "answers.jsonl"
    write_answers(log, None, [], 0.4, 20)
    words = (*TRANSFORMS, pictures, "--metric", "rmse", "--rated", "tid2013:tid")
    assert f"{log}: has no answers yet; continue the experiment" in refusal(*words, "--answers", log)
    assert rated == []
    assert "--preset: not with --rated" in refusal(*words, "--preset", "rmse=RMSE")


@pytest.fixture
def frames(memory_view, monkeypatch):
    draws = torch.Generator().manual_seed(0)
    family = TransformFamily("rotation", (0, 1, 4))
    items = []
    for _ in range(6):
        image = torch.rand(3, 16, 16, generator=draws)
        moved = torch.cat([family.transform(image[None], one).images for one in family.magnitudes])
        steps = torch.tensor(family.magnitudes, dtype=torch.float64)
        items.append(views.MovedImages(image, moved, "rotation", "degrees", steps, 0 * steps, 29.2))
    members = {"incomplete": ("rotation/scene=9/rotation",), "pixels_per_degree": (20.14, 29.2)}
    found, asked = memory_view(items, **members), {}
    monkeypatch.setattr(
        score_perception, "open_data", lambda kind, data, **choice: asked.update(choice) or found
    )
    return found, asked


def test_both_kinds_of_moves_are_equal_where_the_frames_are_transforms(frames, tmp_path) -> None:
    out, page = tmp_path / "a.json", tmp_path / "a.html"
    words = ("frames", "--metric", "rmse", "--transform", "rotation", "--moves", "both", "--hues", 10)
    text = run(*MOVED, *words, "--out", out, "--report", page)
    assert text.count("a frame of a transform is missing: 1") == 1
    assert "20.14 to 29.2 pixels per degree of visual angle, of the camera of the frames" in text
    _, asked = frames
    assert asked["transforms"] == ["rotation"]
    [result] = read_results(out)
    assert list(result.details["moves"]) == ["physical", "image plane"]
    assert result.about.settings["pixels_per_degree"] == [20.14, 29.2]
    assert result.scores["rotation"].value == pytest.approx(result.scores["rotation (image plane)"].value)
    assert "dashed: the same moves of the reference on the image plane" in page.read_text()


def write_turned(root):
    """Write frames of two scenes that turn by 0, 2 and 8 degrees."""
    steps = (0, 2, 8)
    factors = (FactorInfo(name="rotation", kind="categorical", values=steps),)
    size = {"count": 6, "width": 12, "height": 12, "layers": ("image",)}
    write_info(root, {"rotation": SetInfo(**size, factors=factors, varies=("rotation",))})
    draws = np.random.default_rng(0)
    for scene in range(2):
        still = draws.integers(0, 256, (12, 12, 3), np.uint8)
        for place, angle in enumerate(steps):
            layers = {"image": np.maximum(still, np.uint8(20 * place))}
            unit = {"unit": f"scene={scene}", "id": f"{scene}-{place}"}
            frame = tiny_frame("rotation", 3 * scene + place, layers, {"rotation": angle}, **unit)
            write_frame(root, frame)


def test_frames_that_turned_are_read_from_disk(tmp_path) -> None:
    root, out = tmp_path / "turned", tmp_path / "a.json"
    write_turned(root)
    run(*MOVED, root, "--metric", "rmse", "--moves", "both", "--transform", "rotation", "--out", out)
    [result] = read_results(out)
    assert result.about.settings["pixels_per_degree"] == pytest.approx(math.pi / 180, abs=1e-3)
    curves = {moves: found["curves"][0] for moves, found in result.details["moves"].items()}
    assert [list(curve["magnitudes"]) for curve in curves.values()] == [[0, 2, 8]] * 2
    assert 0 < curves["physical"]["response"][1] < curves["physical"]["response"][2]
    assert curves["physical"]["response"] != curves["image plane"]["response"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--metric sism", "did you mean `ssim`?"),
        ("--metric rmse --preset rsme=RMSE", "no metric `rsme`; expected one of rmse; did you mean"),
        ("--metric rmse --preset rmse", "--preset rmse: expected NAME="),
        ("--metric rmse --rated iiw:x", "`iiw` has no rated pairs"),
        ("--metric rmse --canvas mnist --size 60 60", "a canvas of 56x56 pixels"),
    ],
)
def test_refused_words(pictures, words, message) -> None:
    assert message in refusal(*TRANSFORMS, pictures, *words.split())


def test_moved_frames_are_needed_and_read_as_whole_scenes(pictures) -> None:
    words = (*MOVED, pictures, "--metric", "rmse")
    assert "expected a folder of frames" in refusal(*words)
    assert "rows: not for whole sets" in refusal(*words, "--rows", "0:2")


def test_illuminants_alone_have_an_ellipse_and_no_verdict(pictures, tmp_path) -> None:
    page = tmp_path / "a.html"
    words = ("--metric", "rmse", "--transform", "illuminant", "--hues", 5, "--limit", 2)
    text = run(*TRANSFORMS, pictures, *words, "--report", page)
    assert "illuminant_macadam" in text
    html = page.read_text()
    assert "Figure 6 of the paper" in html
    assert "Table II of the paper" in html
