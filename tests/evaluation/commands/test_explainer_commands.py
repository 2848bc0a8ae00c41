"""Commands with explainers by text, without training images or label; and with files of another program."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage import explainers
from candlelight.evaluation.models import open_model
from candlelight.evaluation.run.result_files import read_results
from candlelight.loaders import errors
from candlelight.loaders.files.python_files import code_sha256
from tests.command_line import refusal, run
from tests.evaluation.commands.test_causal_check_command import CHECK, frames

__all__ = ["frames"]
OWN = """
def bright(network, images, targets, gain=1):
    return gain * images.sum(1)
"""
DEAD = """
from torch import nn

def dead():
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    nn.init.zeros_(model[2].weight)
    return model
"""
QUICK = ("--quick", "--proportions", "0.1")


@pytest.fixture
def own_explainer(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_classifier_without_label_layer_and_training_images(
    coverage, own_networks, own_explainer, tmp_path
) -> None:
    words = [*coverage, *QUICK, "--model", f"mine={own_networks}:plain", "--seed", 4]
    texts = ["rise,masks=20", "occlusion,window=8", f"{own_explainer}:bright,gain=2"]
    out, page = tmp_path / "a.json", tmp_path / "a.html"
    words += [word for text in texts for word in ("--method", text)]
    printed = run(*words, "--out", out, "--report", page)
    results = read_results(out)
    names = ["mine rise,masks=20", "mine occlusion,window=8", "mine own.py:bright,gain=2"]
    assert [one.about.model["name"] for one in results] == names
    assert [one.about.data["rows"] for one in results] == [12] * 3
    assert all("accuracy" not in one.details for one in results)
    facts = [{key: one.about.model.get(f"explainer_{key}") for key in ("seed", "sha256")} for one in results]
    own = {"seed": 4, "sha256": code_sha256(own_explainer)}
    assert facts == [{"seed": 4, "sha256": None}, {"seed": None, "sha256": None}, own]
    assert results[2].about.model["explainer"] == "own.py:bright,gain=2"
    assert results[0].about.settings["method"] == texts
    assert all(name in printed for name in names)
    assert "rise,masks=20" in page.read_text()


def test_trained_classifier_has_an_accuracy_and_its_training_images_are_left_out(
    coverage, make_classifier, tmp_path
) -> None:
    words = ("--model", make_classifier(), "--method", "occlusion", "--method", "grad-cam")
    run(*coverage, *QUICK, *words, "--out", tmp_path / "a.json")
    results = read_results(tmp_path / "a.json")
    assert [one.about.data["rows"] for one in results] == [6, 6]
    assert results[0].details["network"]["accuracy"] == results[1].details["network"]["accuracy"]


def test_explained_batches_are_kept(coverage, own_explainer, make_classifier, tmp_path, monkeypatch) -> None:
    words = [*coverage, *QUICK, "--model", make_classifier(), "--method", f"{own_explainer}:bright"]
    words += ["--method", "rise,masks=5", "--out", tmp_path / "a.json"]
    from candlelight.evaluation.coverage import score_coverage

    with monkeypatch.context() as patch:
        patch.setattr(score_coverage, "resampled_interval", lambda *_, **__: 1 / 0)
        with pytest.raises(AssertionError):
            run(*words)
    assert len(list((tmp_path / "a.json.partial").glob("*.npz"))) == 2
    own_explainer.write_text(OWN.replace("sum", "mean"))
    assert "1 of 2 steps were already finished" in run(*words)


def test_causal_check_needs_no_images_to_learn_from(frames, own_networks, own_explainer, tmp_path) -> None:
    words = ["--model", f"mine={own_networks}:plain", "--method", "rise,masks=20"]
    run(*CHECK, *words, "--method", f"{own_explainer}:bright", "--out", tmp_path / "a.json")
    names = [one.about.model["name"] for one in read_results(tmp_path / "a.json")]
    controls = ["noise", "centre", "object", "part areas"]
    assert names == [f"mine {one}" for one in ("rise,masks=20", "own.py:bright", *controls)]
    line = refusal(*CHECK, *words, "--label", "species")
    assert "`mine` names no classes; name images of all of them (--fit)" in line
    line = refusal(*CHECK, *words, "--method", "vebi", "--explained-layer", "0")
    assert "name the images from which vebi learn" in line


def test_heatmaps_of_another_program_explain_each_classifier(frames, make_classifier, tmp_path) -> None:
    view, out, page = frames[0], tmp_path / "a.json", tmp_path / "a.html"
    (tmp_path / "maps").mkdir()
    network = open_model(str(make_classifier())).model
    occlusion = explainers.AttributionMethod(explainers.open_explainer("occlusion", network), network)
    for row, name in enumerate(view.ids):
        found = occlusion.explain(view[row].image[None])
        np.save(tmp_path / "maps" / f"{name}.npy", found.maps[0].numpy())
    heatmaps = ("--heatmaps", f"cam={tmp_path / 'maps'}")
    models = ("--model", make_classifier(), "--model", f"other={make_classifier('five', seed=5)}")
    words = ("--method", "occlusion", "--scale", "logit")  # the probabilities are 0 and 1
    run(*CHECK, *models, *heatmaps, *words, "--out", out, "--report", page)
    results = {one.about.model["name"]: one for one in read_results(out)}
    methods = ("occlusion", "cam", "noise", "centre", "object", "part areas")
    assert list(results) == [f"{name} {one}" for name in ("kinds", "other") for one in methods]
    assert results["kinds cam"].scores == results["kinds occlusion"].scores
    assert -1 <= results["kinds cam"].scores["signed_agreement"].value <= 1
    assert results["kinds cam"].details["network"] == results["kinds occlusion"].details["network"]
    hashes = [one.about.model["classifier_sha256"] for one in results.values()]
    assert (len({*hashes[:6]}), len({*hashes[6:]}), len({*hashes})) == (1, 1, 2)
    (tmp_path / "maps" / f"{view.ids[0]}.npy").unlink()
    run(*CHECK, *models[:2], *heatmaps, "--missing", "fail", "--out", out)  # without any method
    assert read_results(out)[0].failed == (view.ids[0],)
    assert "--heatmaps: needs a --model, the classifier to explain" in refusal(
        *CHECK, *heatmaps, "--missing", "fail"
    )
    line = refusal(*CHECK, *models[:2], "--heatmaps", f"noise={tmp_path / 'maps'}", "--missing", "fail")
    assert "a method or a control and a file have the name `kinds noise`" in line


def test_dead_network_is_refused(coverage, tmp_path) -> None:
    path = tmp_path / "dead.py"
    path.write_text(DEAD)
    words = ("--model", f"mine={path}:dead", "--method", "occlusion")
    assert "`mine` gives the same logits for all images" in refusal(*coverage, *QUICK, *words)


def test_two_files_with_one_name(coverage, own_networks, own_explainer, tmp_path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "own.py").write_text(OWN)
    methods = [
        word for one in (own_explainer, tmp_path / "b" / "own.py") for word in ("--method", f"{one}:bright")
    ]
    line = refusal(*coverage, *QUICK, "--model", f"mine={own_networks}:plain", *methods)
    assert "two methods have one name; rename a file" in line


def test_method_of_captum(coverage, make_classifier, tmp_path, monkeypatch) -> None:
    pytest.importorskip("captum")
    words = ("--model", make_classifier(), "--method", "captum:LayerGradCam,relu_attributions=true")
    run(*coverage, *QUICK, *words, "--method", "grad-cam", "--out", tmp_path / "a.json")
    one, other = read_results(tmp_path / "a.json")
    assert one.about.model["explainer_version"].startswith("captum ")
    assert one.scores["mean_iou"].value == pytest.approx(other.scores["mean_iou"].value)
    line = refusal(*coverage, *QUICK, *words[:3], "captum:GradCam")
    assert "captum has no class `GradCam` that explains images; did you mean `LayerGradCam`?" in line
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None)
    line = refusal(*coverage, *QUICK, *words[:3], "captum:Saliency")
    assert 'this needs captum, not installed here; run `pip install "candlelight[explain]"`' in line


def test_texts_name_the_same_method_in_python_and_on_the_command_line() -> None:
    assert torch.equal(
        explainers.rise_maps(torch.nn.Flatten(), torch.ones(1, 3, 2, 2), torch.tensor([0]), masks=5, seed=1),
        explainers.open_explainer("rise,masks=5", torch.nn.Flatten(), seed=1).explain(
            torch.ones(1, 3, 2, 2), torch.tensor([0])
        ),
    )
