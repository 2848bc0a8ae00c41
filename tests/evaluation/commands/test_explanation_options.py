"""Options of explanation methods: networks of all kinds, and one line for each contradiction."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.evaluation.coverage import topics
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import DataIdentity

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("fixed_code")

QUICK = ("--quick", "--proportions", "0.1")
NORMALISATION = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
PROCESSOR = {
    "image_processor_type": "ConvNextImageProcessor",
    **{"do_resize": True, "size": {"height": 32, "width": 32}, "resample": 2},
    **{"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, **NORMALISATION},
}


def run(data: str, *words: object, code: int = 0) -> str:
    given = [data, "--split", "annotated", "--device", "cpu", *QUICK, *map(str, words)]
    result = CliRunner().invoke(main, ["evaluate", "coverage", *given])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result.output


def error(data: str, *words: object) -> str:
    """Run a command that fails, and return its error, which must be one line."""
    line = run(data, *words, code=2).splitlines()[-1]
    assert line.startswith("Error: ")
    return line


@pytest.fixture(scope="module")
def transformers_folder(tmp_path_factory):
    """Write a tiny residual network of transformers, with names of its classes."""

    def make(*names: str) -> Path:
        folder = tmp_path_factory.mktemp("resnet") / "tiny"
        sizes = {"embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1], "layer_type": "basic"}
        labels = {"id2label": dict(enumerate(names))} if names else {"num_labels": 2}
        config = transformers.ResNetConfig(**sizes, **labels)
        transformers.set_seed(0)
        transformers.ResNetForImageClassification(config).save_pretrained(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
        return folder

    return make


def test_plain_network_needs_images_a_label_and_a_layer(birds, own_networks, tmp_path) -> None:
    model = ("--model", f"mine={own_networks}:plain")
    fit = ("--fit", f"{birds}:test")
    assert "name the layer to explain, usually the last convolution (--explained-layer)" in error(
        birds, *model, "--method", "vebi"
    )
    layer = ("--explained-layer", "0")
    assert "name the factor whose value is the class (--label)" in error(
        birds, *model, "--method", "vebi", *layer
    )
    label = ("--label", "species")
    assert "`mine` is not known to have learned images of DATA; name images to learn from (--fit)" in error(
        birds, *model, "--method", "vebi", *layer, *label
    )
    methods = ("--method", "grad-cam", "--method", "topics", "--topics", 2)
    run(birds, *model, *methods, *layer, *label, *fit, "--out", tmp_path / "a.json")
    results = read_results(tmp_path / "a.json")
    assert [result.about.model["name"] for result in results] == ["mine grad-cam", "mine topics"]
    assert results[0].about.data["rows"] == 6  # without those of --fit
    assert len(results[0].failed) < 6


def test_transformers_network_orders_classes_by_its_own_names(birds, transformers_folder, tmp_path) -> None:
    fit = ("--fit", f"{birds}:test", "--label", "species", "--explained-layer", "resnet.encoder.stages.1")
    methods = ("--method", "vebi", "--method", "grad-cam")
    accuracies = []
    names = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    for order in ((), names, names[::-1]):
        folder = transformers_folder(*order)
        # Of the scored images, three are of the first class and one of the second.
        run(birds, "--model", folder, *methods, *fit, "--rows", "0:8", "--out", tmp_path / "a.json")
        results = read_results(tmp_path / "a.json")
        assert [result.about.model["name"] for result in results] == ["tiny vebi", "tiny grad-cam"]
        assert results[0].details["accuracy"] == results[1].details["accuracy"]
        accuracies.append(results[0].details["accuracy"]["explained"])
    assert accuracies[0] == accuracies[1] == pytest.approx(1 - accuracies[2])
    assert accuracies[0] != accuracies[2]
    folder = transformers_folder("cat", "dog")
    assert "`tiny` has the classes cat, dog, the images 001.Black_footed_Albatross, 002.Laysan" in error(
        birds, "--model", folder, *methods, *fit
    )
    folder = transformers_folder()
    assert "cannot be split at `resnet.encoder.stages.1`" in error(
        birds, "--model", folder, "--method", "topics", *fit
    )


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("five", "gives 5 logits, but the images have 2 classes: 001.Black_footed_Albatross, 002.Laysan_"),
        ("dead", "gives the same logits for all images, expected a trained classifier; train it again"),
        ("broken", "gives logits that are not finite, expected numbers; check its weights"),
        ("linear", "takes linear images; wrap it in a network of sRGB images"),
        ("Raising", "raised KeyError: 'gain' (own.py, line "),
        ("Fragile", "raised RuntimeError: too many (own.py, line "),
        ("nothing", "expected a callable `nothing` in the module"),
    ],
)
def test_network_that_is_no_working_classifier(birds, own_networks, network, message) -> None:
    model = ("--model", f"mine={own_networks}:{network}", "--label", "species", "--fit", f"{birds}:test")
    layer = "network.0" if network in ("Raising", "Fragile") else "0"
    assert message in error(birds, *model, "--explained-layer", layer, "--method", "vebi")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "species", "--layer", "layer1"), "--label species: needs a --method"),
        (("--fit", "x", "--layer", "layer1"), "--fit x: needs a --method"),
        (("--fit-limit", 3, "--layer", "layer1"), "--fit-limit 3: needs a --method"),
        (("--explained-layer", "x", "--layer", "layer1"), "--explained-layer x: needs a --method"),
        (("--seed", 3, "--layer", "layer1"), "--seed 3: needs --method topics or prototypes"),
        (("--topics", 3, "--method", "vebi"), "--topics 3: needs --method topics"),
        (("--bound", 3, "--method", "topics"), "--bound 3.0: needs --method vebi"),
        (("--epochs", 3, "--method", "vebi"), "--epochs 3: needs --method prototypes"),
        (("--method", "vebi", "--explained-layer", "layer9"), "layer `layer9` is not in the model"),
        (
            ("--method", "topics", "--explained-layer", "layer2"),
            "`kinds topics`: expected the layer `layer3` of a classifier of `candlelight train classifier`",
        ),
        (("--method", "vebi", "--label", "specie"), "--label specie: expected one of the factors species"),
        (("--method", "vebi", "--fit", "nowhere"), "--fit nowhere: "),
        (("--method", "vebi", "--rows", "0:5"), "none shows `002.Laysan_Albatross`; choose more images"),
        (("--method", "vebi", "--limit", 1), "none shows `002.Laysan_Albatross`; choose more images"),
        (("--method", "vebi", "--size", 16, 16), "expected images of at least 32 x 32 pixels, got 16 x 16"),
        (("--method", "vebi", "--by", "type"), "`cub70` has only masks of parts"),
        (("--method", "vebi", "--missing", "fail"), "--missing fail: needs result files"),
        (("--method", "vebi", "--proportions", "0.1,half"), "--proportions 0.1,half: expected numbers"),
        (
            ("--method", "vebi", "--proportions", "nan"),
            "--proportions: expected above 0 and below 1, got nan",
        ),
        (("--method", "vebi", "--threshold", 1), "--threshold"),
        (("--method", "sage"), "'sage' is not one of"),
    ],
)
def test_options_that_contradict(birds, make_classifier, words, message) -> None:
    assert message in error(birds, "--model", make_classifier(), *words)


def test_models_that_are_no_classifiers(birds, make_classifier) -> None:
    assert "nothing to score: give a --model" in error(birds, "--method", "vebi")
    assert "--method: `retinex` is no network; give a classifier" in error(
        birds, "--method", "vebi", "--model", "retinex"
    )
    twice = ("--model", make_classifier(), "--model", make_classifier())
    assert "two models are named `kinds`" in error(birds, "--method", "vebi", *twice)


def test_classifier_of_other_data(birds, tmp_path) -> None:
    """Ids of other data may equal those of DATA by chance, so they are no training images."""
    ids = tuple(f"{number:06d}" for number in range(12))
    training = TrainedOn("kind", DataIdentity("parts", "frames", "parts", None, "ab"), (32, 32), ids, ())
    path = save_classifier(
        build_backbone("resnet_small", 2, seed=0), ("car", "bus"), tmp_path / "k.pt", training
    )
    model = ("--model", path, "--method", "vebi")
    assert "--label kind: expected one of the factors species" in error(
        birds, *model, "--fit", f"{birds}:test"
    )
    message = "`k` is not known to have learned images of DATA"
    assert message in error(birds, *model, "--label", "species")
    message = "--label species: `k` has no class `001.Black_footed_Albatross`; its classes are car, bus"
    assert message in error(birds, *model, "--label", "species", "--fit", f"{birds}:test")


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--out", "folder", "expected a file name that ends in .json, .csv, .md or .tex"),
        ("--out", "no/a.json", "its folder does not exist"),
        ("--out", "taken.json", "taken.json.partial: must not exist, or hold the steps of an earlier run"),
        ("--report", "a.json", "expected a file name that ends in .html"),
    ],
)
def test_output_that_is_taken(birds, make_classifier, tmp_path, monkeypatch, option, name, message) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken.json.partial").mkdir()
    (tmp_path / "taken.json.partial" / "notes.txt").touch()
    monkeypatch.setattr(topics, "discover_topics", None)  # nothing is computed before
    words = ("--model", make_classifier(), "--method", "topics", option, tmp_path / name)
    assert message in error(birds, *words)
