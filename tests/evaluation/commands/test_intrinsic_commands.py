"""Commands on intrinsic images: ``methods``, judgements and regions of rendered sets, and ``protocols``."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from candlelight.evaluation.intrinsic.protocol_records import NEVER_COMPARE, PROTOCOLS
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import open_data
from candlelight.loaders import FrameFolder
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256
from tests.command_line import refusal, run
from tests.evaluation.benchmark.conftest import painted
from tests.loaders.public.copies import write_iiw

OBJECTS = ("box", "cup1", "deer", "frog1")
METHODS = ("evaluate", "methods")
CONSTANT = ("--model", "constant-reflectance", "--model", "constant-shading")


def write_objects(root: Path) -> None:
    """Write painted objects in the layout of MIT Intrinsic Images; one has highlights."""
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
def plain(noise_frames, tmp_path_factory) -> Path:
    """Write the frames again, with one object of one albedo in each."""
    root = tmp_path_factory.mktemp("plain")
    data = FrameFolder(noise_frames, "negatives")
    write_dataset_info(root, data.info)
    for row in range(len(data)):
        frame = data.frame(row)
        layers = {name: values.copy() for name, values in frame.layers.items()}
        layers["object"][:], layers["albedo"][:] = 1, 0.5
        hashes = {name: array_sha256(values) for name, values in layers.items()}
        write_frame(root, Frame(frame.metadata.model_copy(update={"layers": hashes}), layers))
    return root


def test_benchmark_writes_tables_and_a_page_and_ranks_of_two_calls_are_not_compared(
    copy, tmp_path, check_shown, shown_block
) -> None:
    out, rows_file, page, other = (tmp_path / name for name in ("a.json", "a.rows.csv", "a.html", "b.json"))
    data = (f"mit:{copy}", "--split", "all")
    words = ("--methods", "BAS,GR-RET,W", "--l1", "--model", "retinex")
    text = run(*METHODS, *data, *words, "--out", out, "--out", rows_file, "--report", page)
    shown = shown_block("intrinsic.md", "method ")  # W+RET is not among the methods
    check_shown("\n".join(line for line in shown.splitlines() if "W+RET" not in line), text)
    results = {one["about"]["model"]["name"]: one for one in json.loads(out.read_text())["results"]}
    fixed = {"BAS shading", "BAS reflectance", "square root"}
    assert set(results) == {"BAS", "GR-RET", "W", "GR-RET L1", "W L1", "retinex"} | fixed
    means = [one["scores"]["lmse"]["value"] for one in results.values()]
    assert means == sorted(means)
    ranked = [one for one in results.values() if one["scores"]["rank"]["value"] is not None]
    assert np.sum([one["columns"]["rank"] for one in ranked], 0).tolist() == [10.0] * 4
    with rows_file.open() as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 9 * 4
    assert float(rows[0]["lmse"]) == next(iter(results.values()))["columns"]["lmse"][0]
    html = page.read_text()
    for part in (
        *(
            "Mean rank by LMSE over the objects",
            "Mean LMSE for other windows",
            "p = 1 is better",
            "worst lmse of ",
        ),
    ):
        assert part in html
    assert html.count("<img") == 3 * (2 + 2 * 9)
    run("evaluate", "report", out, "--out", page)
    assert "Mean rank by LMSE over the objects" in page.read_text()
    run(*METHODS, *data, "--methods", "gr-ret, BAS", "--out", other)
    run("evaluate", "compare", out, other)
    line = refusal("evaluate", "compare", out, other, "--column", "rank")
    assert "`rank` depends on all models that were scored in one call" in line


def test_input_with_highlights_is_another_image(copy, tmp_path) -> None:
    scores = []
    for image in ("diffuse", "original"):
        out = tmp_path / f"{image}.json"
        words = ("--split", "all", "--methods", "BAS", "--model", "retinex", "--input", image, "--out", out)
        run(*METHODS, f"mit:{copy}", *words)
        results = {one["about"]["model"]["name"]: one for one in json.loads(out.read_text())["results"]}
        result = results["retinex"]
        assert result["about"]["data"].get("image") == (None if image == "diffuse" else image)
        scores.append(result["columns"]["lmse"])
    assert scores[0][0] != scores[1][0]


def test_objects_without_a_mask_leave_a_page_without_ranks(copy, tmp_path) -> None:
    for name in OBJECTS:
        (tmp_path / "data" / name).mkdir(parents=True)
        for file in (copy / "data" / name).iterdir():
            (tmp_path / "data" / name / file.name).write_bytes(file.read_bytes())
        mask = encode_png(np.zeros((32, 60), np.uint16))
        (tmp_path / "data" / name / "mask.png").write_bytes(mask)
    page = tmp_path / "lmse.html"
    text = run(*METHODS, f"mit:{tmp_path}", "--split", "all", "--methods", "BAS", "--report", page)
    assert text.splitlines()[0].endswith("undefined")
    assert "Mean rank" not in page.read_text()


def test_weiss_is_a_model_too(copy) -> None:
    assert "weiss " in run("evaluate", "lmse", f"mit:{copy}", "--split", "all", "--model", "weiss")


@pytest.mark.parametrize(("score", "metric"), [("whdr", "whdr"), ("saw", "saw_ap"), ("maw", "maw_intensity")])
def test_other_scores_run_on_rendered_sets(noise_frames, plain, tmp_path, score: str, metric: str) -> None:
    out, page = tmp_path / "scores.json", tmp_path / "scores.html"
    data = plain if score == "maw" else noise_frames
    words = ("--set", "negatives", "--model", "retinex", "--out", out, "--report", page)
    assert metric in run("evaluate", score, data, *words)
    about = json.loads(out.read_text())["results"][0]["about"]
    assert "synthetic" in (about["settings"].get("judgements"), *about["settings"])
    assert "The labels are synthetic" in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("methods --methods BAS --model BAS=retinex", "`BAS` is the name of a method"),
        ("saw --model retinex", "`mit` has no judgements"),
    ],
)
def test_bad_options_of_photographs_of_objects(copy, words, message) -> None:
    name, *options = words.split()
    assert message in refusal("evaluate", name, f"mit:{copy}", "--split", "all", *options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "protocols --set negatives --protocol ,",
            "--protocol: expected a name, names separated by commas, or",
        ),
        ("protocols --set negatives --protocol all,saw", "--protocol: expected all, or names, got all, saw"),
    ],
)
def test_frames_that_lack_what_a_score_needs_and_unknown_protocols(noise_frames, words, message) -> None:
    name, *options = words.split()
    model = CONSTANT if name == "protocols" else ()
    assert message in refusal("evaluate", name, noise_frames, *options, *model)


@pytest.mark.parametrize("protocol", ["mit-grosse", "maw-2023,mit-grosse"])
def test_a_named_protocol_that_does_not_fit_is_refused(protocol) -> None:
    line = refusal("evaluate", "protocols", "nowhere", "--protocol", protocol, *CONSTANT)
    assert "protocol `mit-grosse`: nowhere" in line


def protocols(data: object, *words: object) -> list[str]:
    """Run protocols on two frames, and return the lines without progress bars."""
    options = ("--set", "negatives", "--limit", 2, *CONSTANT, "--device", "cpu")
    text = run("evaluate", "protocols", data, *options, *words)
    return [line for line in text.splitlines() if line and not re.search(r"it/s|row/s|\?it|: +[0-9]+%", line)]


def test_all_protocols_on_rendered_frames(noise_frames, tmp_path) -> None:
    out, page = tmp_path / "all.json", tmp_path / "all.html"
    lines = protocols(noise_frames, "--protocol", "all", "--out", out, "--report", page)
    start = next(row for row, line in enumerate(lines) if line.startswith("protocol "))
    names = [name for name in PROTOCOLS if name != "maw-2023"]  # noise has no regions of one material
    assert [line.split()[0] for line in lines[start + 1 : start + 17]] == names
    assert lines[start + 17].startswith("ranks ")
    assert "never comparable" in lines[start + 18]
    assert "note: left out: maw-2023: the data have no regions of one material" in lines
    [changes] = [line for line in lines if re.match(r"\d+ of 15 pairs", line)]
    pairs = [line for line in lines if re.match(r"[a-z0-9-]+: .*; [a-z0-9-]+: ", line)]
    assert len(pairs) == int(changes.split()[0])
    assert len(read_results(out)) == 2 * len(names)
    shown = page.read_text()
    for words in (
        "Rank of each model by the main score",
        *(text.replace("'", "&#39;") for text in NEVER_COMPARE),
    ):
        assert words in shown


def test_one_protocol_prints_the_usual_table_and_is_not_compared_with_others(noise_frames, tmp_path) -> None:
    out, rows, plain = (tmp_path / name for name in ("one.json", "one.rows.csv", "plain.json"))
    text = "\n".join(protocols(noise_frames, "--protocol", "mit-grosse", "--out", out, "--out", rows))
    assert re.search(r"^constant-shading +lmse ↓ ", text, re.MULTILINE)
    assert "lmse ↓: constant-reflectance - constant-shading" in text
    about = json.loads(out.read_text())["results"][0]["about"]
    assert (about["metric"], about["settings"]["protocol"]) == ("mit-grosse", "mit-grosse")
    assert rows.read_text().startswith("model,id,group,lmse,")
    words = ("--set", "negatives", "--limit", 2, *CONSTANT, "--device", "cpu", "--out", plain)
    run("evaluate", "whdr", noise_frames, *words)
    protocols(noise_frames, "--protocol", "iiw-whdr", "--out", out)
    line = refusal("evaluate", "compare", plain, out)
    assert "the results differ in settings.protocol, 'nothing' and 'iiw-whdr'" in line


def test_several_protocols_in_their_own_order_and_files_of_another_size(noise_frames, tmp_path) -> None:
    view = open_data("decompositions", noise_frames, set_name="negatives")
    for row, name in enumerate(view.ids):
        image = view[row].image
        np.savez(tmp_path / f"{name}.npz", reflectance=image, shading=np.ones(image.shape, np.float32))
    words = ("--protocol", "arap-ordinal, mit-barron", "--protocol", "mit-grosse")
    lines = protocols(noise_frames, *words, "--predictions", f"mine={tmp_path}")
    names = [line.split()[0] for line in lines]
    assert names[names.index("protocol") + 1 :][:3] == ["mit-grosse", "mit-barron", "arap-ordinal"]
    assert any("of 2 pairs of neighbouring protocols order the models differently" in line for line in lines)
    resized = "note: mine: 2 of 2 predictions had another size than their image and were resized"
    assert any(line.startswith(resized) for line in lines)


def test_photographs_carry_the_protocols_of_their_judgements(tmp_path) -> None:
    write_iiw(tmp_path)
    words = ("evaluate", "protocols", f"iiw:{tmp_path}", "--split", "all", *CONSTANT, "--protocol")
    text = run(*words, "all")
    assert "left out: mit-grosse: " in text
    assert "`iiw` has no decompositions" in text
    assert "left out: saw: the data have no labels" in text
    assert len(re.findall("^note: left out: ", text, re.MULTILINE)) == len(PROTOCOLS) - 2
    assert "protocol `mit-grosse`: iiw:" in refusal(*words, "mit-grosse")
