"""Options of explanation methods: networks of all kinds, and one line for each contradiction."""

import json
from pathlib import Path

import pytest

from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import DataIdentity
from tests.command_line import refusal, run

NORMALISATION = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
PROCESSOR = {
    "image_processor_type": "ConvNextImageProcessor",
    **{"do_resize": True, "size": {"height": 32, "width": 32}, "resample": 2},
    **{"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, **NORMALISATION},
}


@pytest.fixture
def coverage(coverage):
    return (*coverage, "--quick", "--proportions", "0.1")


@pytest.fixture(scope="module")
def transformers_folder(tmp_path_factory):
    """Write a tiny residual network of transformers, with names of its classes."""
    transformers = pytest.importorskip("transformers")

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


def test_plain_network_needs_images_a_label_and_a_layer(coverage, birds, own_networks, tmp_path) -> None:
    words = [*coverage, "--model", f"mine={own_networks}:plain", "--method", "topics", "--topics", 2]
    for given, message in (
        ((), "name the layer to explain, usually the last convolution (--explained-layer)"),
        (("--explained-layer", "0"), "name the factor whose value is the class (--label)"),
        (
            ("--label", "species"),
            "`mine` is not known to have learned images of DATA; name images to learn fr",
        ),
    ):
        words += given
        assert message in refusal(*words)
    out = tmp_path / "a.json"
    run(*words, "--method", "grad-cam", "--fit", f"{birds}:test", "--out", out)
    results = read_results(out)
    assert [result.about.model["name"] for result in results] == ["mine topics", "mine grad-cam"]
    assert results[0].about.data["rows"] == 6  # without those of --fit
    assert len(results[0].failed) < 6


def test_transformers_network_orders_classes_by_its_own_names(
    coverage, birds, transformers_folder, tmp_path
) -> None:
    fit = ("--fit", f"{birds}:test", "--label", "species", "--explained-layer", "resnet.encoder.stages.1")
    accuracies = []
    names = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    for order in ((), names, names[::-1]):
        words = ("--model", transformers_folder(*order), "--method", "grad-cam", *fit)
        # Of the scored images, three are of the first class and one of the second.
        run(*coverage, *words, "--rows", "0:8", "--out", tmp_path / "a.json")
        (result,) = read_results(tmp_path / "a.json")
        assert result.about.model["name"] == "tiny grad-cam"
        accuracies.append(result.details["accuracy"]["explained"])
    assert accuracies[0] == accuracies[1] == pytest.approx(1 - accuracies[2])
    assert accuracies[0] != accuracies[2]
    line = refusal(*coverage, "--model", transformers_folder("cat", "dog"), "--method", "grad-cam", *fit)
    assert "`tiny` has the classes cat, dog, the images 001.Black_footed_Albatross, 002.Laysan" in line
    line = refusal(*coverage, "--model", transformers_folder(), "--method", "topics", *fit)
    assert "cannot be split at `resnet.encoder.stages.1`" in line


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("five", "gives 5 logits, but the images have 2 classes: 001.Black_footed_Albatross, 002.Laysan_"),
        ("nothing", "expected a callable `nothing` in the module"),
    ],
)
def test_network_that_is_no_working_classifier(coverage, birds, own_networks, network, message) -> None:
    model = ("--model", f"mine={own_networks}:{network}", "--label", "species", "--fit", f"{birds}:test")
    assert message in refusal(*coverage, *model, "--explained-layer", "0", "--method", "vebi")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--layer layer1 --label species", "--label species: needs a --method"),
        ("--layer layer1 --fit x", "--fit x: needs a --method"),
        ("--layer layer1 --fit-limit 3", "--fit-limit 3: needs a --method"),
        ("--layer layer1 --explained-layer x", "--explained-layer x: needs a --method"),
        ("--layer layer1 --seed 3", "--seed 3: needs --method topics, prototypes, rise, captum:CLASS"),
        ("--method occlusion --seed 3", "--seed 3: needs --method topics, prototypes, rise, captum:CLASS or"),
        ("--method vebi --epochs 3", "--epochs 3: needs --method prototypes"),
        ("--method vebi --fit nowhere", "--fit nowhere: "),
        ("--method vebi --rows 0:5", "none shows `002.Laysan_Albatross`; choose more images"),
        ("--method vebi --missing fail", "--missing fail: needs result files"),
        ("--method vebi --proportions 0.1,half", "--proportions 0.1,half: expected numbers"),
        ("--method vebi --threshold 1", "--threshold"),
        ("--method sage", "--method sage: expected all, vebi, topics, prototypes, grad-cam, rise, "),
        ("--method vebi,bound=3", "`vebi` takes no option `bound`; give --bound beside it"),
        ("--method vebi,n=3", "--method vebi,n=3: `vebi` takes no option `n`; omit it"),
        ("--method rise,masks=2,masks=3", "--method rise,masks=2,masks=3: an option is given twice"),
        ("--method rise,mask=2", "expected one of the options masks, cells, share, got mask; did"),
        ("--method rise,masks=many", "expected masks a whole number of at least 1, got many"),
        ("--method rise,share=2", "`share` must be above 0 and below 1, got 2"),
        ("--method nowhere.py:explain", "expected a file of Python, there is no nowhere.py"),
        ("--method grad-cam --explained-layer layer9", "`kinds`: layer `layer9` is not in the model"),
        ("--method vebi --model retinex", "--method: `retinex` is no network; give a classifier"),
    ],
)
def test_options_that_contradict(coverage, make_classifier, words, message) -> None:
    assert message in refusal(*coverage, "--model", make_classifier(), *words.split())


def test_classifier_of_other_data(coverage, birds, tmp_path) -> None:
    """Ids of other data may equal those of DATA by chance, so they are no training images."""
    ids = tuple(f"{number:06d}" for number in range(12))
    training = TrainedOn("kind", DataIdentity("parts", "frames", "parts", None, "ab"), (32, 32), ids, ())
    network = build_backbone("resnet_small", 2, seed=0)
    path = save_classifier(network, ("car", "bus"), tmp_path / "k.pt", training)
    for given, message in (
        (("--fit", f"{birds}:test"), "--label kind: expected one of the factors species"),
        (("--label", "species"), "`k` is not known to have learned images of DATA"),
        (
            ("--label", "species", "--fit", f"{birds}:test"),
            "--label species: `k` has no class `001.Black_footed_Albatross`; its classes are car, bus",
        ),
    ):
        assert message in refusal(*coverage, "--model", path, "--method", "vebi", *given)
