"""``candlelight evaluate methods``, and judgements and regions of rendered sets."""

import csv
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import FrameFolder
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256

TESTS = Path(__file__).parents[2]
OBJECTS = ("box", "cup1", "deer", "frog1")
METHODS = "BAS,GR-RET,W"


def load(path: Path):
    """Import a file of helpers of other tests."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_objects(root: Path) -> None:
    """Write painted objects in the layout of MIT Intrinsic Images; one has highlights."""
    painted = load(TESTS / "evaluation" / "benchmark" / "conftest.py").painted
    for seed, name in enumerate(OBJECTS):
        item = painted(seed, lights=10, height=32, width=60)
        gloss = np.zeros_like(item.image.numpy())
        gloss[:, 10:14, 20:26] = 0.3 if seed == 0 else 0.0
        colour = {
            "original": item.image.numpy() + gloss,
            "diffuse": item.image.numpy(),
            "specular": gloss,
            "reflectance": item.reflectance.numpy(),
            **{f"light{n + 1:02d}": light for n, light in enumerate(item.lights.numpy())},
        }
        files = {name: values.transpose(1, 2, 0) for name, values in colour.items()}
        files |= {"shading": item.shading.numpy()[0], "mask": item.mask.numpy().astype(float)}
        (root / "data" / name).mkdir(parents=True)
        for file, values in files.items():
            pixels = np.rint(values * 65025).clip(0, 65535).astype(np.uint16)
            (root / "data" / name / f"{file}.png").write_bytes(encode_png(pixels))


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("mit")
    write_objects(root)
    return root


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    """Write frames of noise with the sets of the demo."""
    root = tmp_path_factory.mktemp("frames")
    load(TESTS / "evaluation" / "test_pages.py").write_noise(root)
    return root


@pytest.fixture(scope="module")
def plain(frames, tmp_path_factory) -> Path:
    """Write the frames again, with one object of one albedo in each."""
    root = tmp_path_factory.mktemp("plain")
    data = FrameFolder(frames, "negatives")
    write_dataset_info(root, data.info)
    for row in range(len(data)):
        frame = data.frame(row)
        layers = {name: values.copy() for name, values in frame.layers.items()}
        layers["object"][:], layers["albedo"][:] = 1, 0.5
        hashes = {name: array_sha256(values) for name, values in layers.items()}
        write_frame(root, Frame(frame.metadata.model_copy(update={"layers": hashes}), layers))
    return root


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["evaluate", *map(str, words)])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def test_benchmark_writes_tables_and_a_page(copy, tmp_path, check_shown, shown_block) -> None:
    files = [tmp_path / name for name in ("lmse.json", "lmse.rows.csv", "lmse.html")]
    text = run(
        *("methods", f"mit:{copy}", "--split", "all", "--methods", METHODS, "--l1", "--model", "retinex"),
        *("--out", files[0], "--out", files[1], "--report", files[2]),
    )
    shown = shown_block("intrinsic.md", "method ")  # W+RET is not among METHODS
    check_shown("\n".join(line for line in shown.splitlines() if "W+RET" not in line), text)
    results = {one["about"]["model"]["name"]: one for one in json.loads(files[0].read_text())["results"]}
    fixed = {"BAS shading", "BAS reflectance", "square root"}
    assert set(results) == {"BAS", "GR-RET", "W", "GR-RET L1", "W L1", "retinex"} | fixed
    means = [one["scores"]["lmse"]["value"] for one in results.values()]
    assert means == sorted(means)
    ranked = [
        one["columns"]["rank"] for one in results.values() if one["scores"]["rank"]["value"] is not None
    ]
    assert np.sum(ranked, 0).tolist() == [10.0] * 4
    with files[1].open() as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 9 * 4
    assert float(rows[0]["lmse"]) == next(iter(results.values()))["columns"]["lmse"][0]
    page = files[2].read_text()
    for words in (
        "Mean rank over the objects",
        "Mean LMSE for other windows",
        "p = 1 is better",
        "highest LMSE",
    ):
        assert words in page
    assert page.count("<img") == 3 * (2 + 9)
    again = tmp_path / "again.html"
    result = CliRunner().invoke(main, ["evaluate", "report", str(files[0]), "--out", str(again)])
    assert result.exit_code == 0, result.output
    assert "Mean rank over the objects" in again.read_text()
    assert not (tmp_path / "lmse.json.partial").exists()


def test_input_with_highlights_is_another_image(copy, tmp_path) -> None:
    scores = []
    for image in ("diffuse", "original"):
        out = tmp_path / f"{image}.json"
        run("methods", f"mit:{copy}", "--split", "all", "--methods", "GR-RET", "--input", image, "--out", out)
        result = json.loads(out.read_text())["results"][0]
        assert result["about"]["data"].get("image") == (None if image == "diffuse" else image)
        scores.append(result["columns"]["lmse"])
    assert scores[0][0] != scores[1][0]


def test_objects_without_a_mask_leave_a_page_without_ranks(copy, tmp_path) -> None:
    for name in OBJECTS:
        (tmp_path / "data" / name).mkdir(parents=True)
        for file in (copy / "data" / name).iterdir():
            (tmp_path / "data" / name / file.name).write_bytes(file.read_bytes())
        path = tmp_path / "data" / name / "mask.png"
        path.write_bytes(encode_png(np.zeros((32, 60), np.uint16)))
    page = tmp_path / "lmse.html"
    text = run("methods", f"mit:{tmp_path}", "--split", "all", "--methods", "BAS", "--report", page)
    assert text.splitlines()[0].endswith("undefined")
    assert "Mean rank" not in page.read_text()


def test_ranks_of_two_calls_are_not_compared(copy, tmp_path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file, methods in zip(files, ("BAS,GR-RET,W", "gr-ret, BAS"), strict=True):
        run("methods", f"mit:{copy}", "--split", "all", "--methods", methods, "--out", file)
    words = ["evaluate", "compare", *map(str, files)]
    assert CliRunner().invoke(main, words).exit_code == 0
    refused = CliRunner().invoke(main, [*words, "--column", "rank"])
    assert refused.exit_code == 2
    assert "`rank` depends on all models that were scored in one call" in refused.output


def test_weiss_is_a_model_too(copy) -> None:
    assert "weiss " in run("lmse", f"mit:{copy}", "--split", "all", "--model", "weiss")


@pytest.mark.parametrize(("score", "metric"), [("whdr", "whdr"), ("saw", "saw_ap"), ("maw", "maw_intensity")])
def test_other_scores_run_on_rendered_sets(frames, plain, tmp_path, score: str, metric: str) -> None:
    out, page = tmp_path / "scores.json", tmp_path / "scores.html"
    data = plain if score == "maw" else frames
    words = (score, data, "--set", "negatives", "--model", "retinex")
    assert metric in run(*words, "--out", out, "--report", page)
    about = json.loads(out.read_text())["results"][0]["about"]
    assert "synthetic" in (about["settings"].get("judgements"), *about["settings"])
    assert "The labels are synthetic" in page.read_text()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("constancy", "expected rows of one scene with equal regions under several lights, got none"),
        ("maw", "expected rows with regions of one material, got none"),
    ],
)
def test_scores_of_materials_need_regions(frames, score: str, message: str) -> None:
    output = run(score, frames, "--set", "illumination", "--model", "retinex", code=2)
    assert message in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("methods", "--methods", "GR-RET,WEIS"), "--methods: expected all, or some of BAS, GR-RET, "),
        (("methods", "--methods", "BAS", "--model", "BAS=retinex"), "`BAS` is the name of a method"),
        (("methods", "--methods", "BAS", "--rows", "0:1"), "expected two or more, got one; add rows"),
        (
            ("lmse", "--model", "retinex", "--leave-edges", 2),
            "`mit` takes no --leave-edges, which is for frames alone",
        ),
        (("saw", "--model", "retinex"), "`mit` has no judgements"),
    ],
)
def test_bad_options_give_one_line(copy, words, message) -> None:
    name, *options = words
    output = run(name, f"mit:{copy}", "--split", "all", *options, code=2)
    assert message in output
    assert output.strip().count("\n") == 0


def test_methods_without_lights_are_refused_on_frames(frames) -> None:
    output = run("methods", frames, "--set", "negatives", "--methods", "W", code=2)
    assert "W: needs images under several lights, and the data have none" in output.splitlines()[-1]
