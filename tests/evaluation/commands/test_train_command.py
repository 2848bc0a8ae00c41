"""``candlelight train intrinsic``: weights, record, page, resumption and messages."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.models import load_model, open_model
from candlelight.evaluation.models.model_spec import NETWORKS
from candlelight.evaluation.training import History, hold_out
from candlelight.evaluation.training.train_on_data import learning_curves
from candlelight.loaders.errors import InputError

PAGES = Path(__file__).parents[1] / "test_pages.py"


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    """Write frames of noise with the sets of the demo."""
    spec = spec_from_file_location("pages", PAGES)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    root = tmp_path_factory.mktemp("frames")
    module.write_noise(root)
    return root


def run(*words: object, code: int = 0) -> str:
    quick = ("--epochs", "2", "--width", "2", "--batch-size", "4", "--device", "cpu")
    result = CliRunner().invoke(main, ["train", "intrinsic", *map(str, words), *quick])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def test_weights_record_and_page(frames, tmp_path) -> None:
    out, page = tmp_path / "net.pt", tmp_path / "net.html"
    text = run(frames, "--set", "tabletop_test", "--out", out, "--report", page, "--validation", 0.2)
    assert text.splitlines()[-3:] == [str(out), str(out.with_suffix(".json")), str(page)]
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["settings"]["regime"] == "supervised"
    assert len(record["history"]["training"]) == len(record["history"]["validation"]) == 2
    assert len(record["held_out_ids"]) == round(0.2 * (record["training_rows"] + len(record["held_out_ids"])))
    assert f"LMSE {record['history']['validation'][-1]:.4f} on {len(record['held_out_ids'])}" in text
    assert load_model(out).width == 2
    assert not (tmp_path / "net.pt.partial").exists()
    html = page.read_text()
    assert "Learning curves" in html
    assert "constant-reflectance" in html


def test_half_weights_are_the_rounded_weights(frames, tmp_path) -> None:
    words = (frames, "--set", "tabletop_test", "--validation", "0", "--out")
    run(*words, tmp_path / "whole.pt")
    text = run(*words, tmp_path / "half.pt", "--half", "--report", tmp_path / "half.html")
    assert "held-out" not in text
    whole, half = (load_model(tmp_path / f"{name}.pt").state_dict() for name in ("whole", "half"))
    assert all(torch.equal(values.half().float(), half[name]) for name, values in whole.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "net.txt"), "net.txt: expected a file name that ends in .pt"),
        (("--out", "missing/net.pt"), "missing/net.pt"),
        (("--out", "net.pt", "--report", "net.pdf"), "net.pdf: expected a file name that ends in .html"),
        (("--out", "net.pt", "--limit", "1"), "a share of 0.1 of 1 groups leaves none for training"),
        (("--out", "net.pt", "--regime", "multi-illumination"), "expected scenes under several lights"),
        (
            ("--out", "net.pt", "--validation", "nan"),
            "--validation: expected at least 0 and at most 0.9, got nan",
        ),
        (("--out", "net.pt", "--rate", "nan"), "--rate: expected above 0, got nan"),
        (("--out", "net.pt", "--seed", str(2**64)), "Invalid value for '--seed'"),
        (("--out", "net.pt", "--size", "16"), "windows of 20x20 pixels, got images of 16x16"),
        (("--out", "net.pt", "--device", "tpu"), "--device tpu: not usable here"),
    ],
)
def test_errors_are_one_line(frames, tmp_path, monkeypatch, words: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main, ["train", "intrinsic", str(frames), "--set", "tabletop_test", "--epochs", "1", *words]
    )
    assert result.exit_code == 2
    text = result.output
    assert message in text
    assert "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_cannot_be_written_is_found_before_the_training(frames, tmp_path) -> None:
    (tmp_path / "net.json").mkdir()
    text = run(frames, "--set", "tabletop_test", "--out", tmp_path / "net.pt", code=2)
    assert "net.json: expected a file, but it is a folder" in text
    assert [path.name for path in tmp_path.iterdir()] == ["net.json"]


def test_held_out_scenes_are_whole_and_follow_the_seed() -> None:
    groups = [f"scene-{number // 3}" for number in range(30)]
    rows = hold_out(groups, 0.3, seed=0)
    assert len(rows) == 9
    assert all(row in rows for row in range(30) if groups[row] in {groups[one] for one in rows})
    assert rows == hold_out(groups, 0.3, seed=0)
    assert rows != hold_out(groups, 0.3, seed=1)
    assert hold_out(groups, 0, seed=0) == []
    with pytest.raises(InputError, match="leaves none for training"):
        hold_out(["a", "a"], 0.5, seed=0)


def test_curves_have_a_panel_for_held_out_scenes_if_there_are_any() -> None:
    assert "LMSE of held-out" in learning_curves(History((1.0, 0.5), (0.2, 0.1))).svg
    assert "LMSE of held-out" not in learning_curves(History((1.0, 0.5), ())).svg


@pytest.mark.parametrize("name", NETWORKS)
def test_shipped_networks_are_small_and_decompose(name: str) -> None:
    opened = open_model(name)
    assert NETWORKS[name].stat().st_size < 400_000
    assert opened.identity.source == "shipped"
    assert opened.identity.sha256 is not None
    image = torch.rand(1, 3, 20, 30, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        reflectance, shading = opened.model(image)
    error = (reflectance * shading - image).abs().mean()
    assert error < (image - image.mean()).abs().mean()
