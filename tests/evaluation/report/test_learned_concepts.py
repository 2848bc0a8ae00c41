"""Pictures of what explanation methods have learned: prototypes, topics and filters."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from candlelight.evaluation.coverage.coverage_pictures import learned_concepts
from candlelight.evaluation.coverage.explained_images import TrainingImages
from candlelight.evaluation.coverage.filter_methods import VEBI
from candlelight.evaluation.coverage.prototypes import (
    PrototypeMethod,
    PrototypeNetwork,
    PrototypePatches,
    PrototypeTraining,
)
from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from tests.refusals import refused

CLASSES = ("cup", "jug")
PATCHES = [(0, 0, 0), (2, 2, 1), (0, 0, 0), (1, 1, 0), (3, 0, 1), (3, 0, 1)]  # image, row, column
WEIGHTS = [[0.5, 2.0, 3.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 1.0, 0.5, 1.5]]


@pytest.fixture
def prototypes():
    """Three prototypes for each of two classes; the map of an image of 120 x 160 is 3 x 2."""
    method = PrototypeMethod(nn.AvgPool2d((40, 80)), PrototypeTraining(0, per_class=3, dim=4))
    network = PrototypeNetwork(method.backbone, 3, 2, per_class=3, dim=4, seed=0)
    images, rows, columns = torch.tensor(PATCHES).T
    network.patches = PrototypePatches(images, rows, columns, torch.zeros(6))
    with torch.no_grad():
        network.last.weight.copy_(torch.tensor(WEIGHTS))
    method.network = network.eval().requires_grad_(False)
    return method


@pytest.fixture
def topics():
    how = ReconstructionTraining(0, hidden=8, epochs=1, batch_size=3)
    method = TopicMethod(lambda images: images, lambda maps: maps.mean((2, 3)), TopicSearch(2), how)
    return method.restore({"topics": torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])})


@pytest.fixture
def vebi():
    weights = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    return VEBI(nn.Conv2d(3, 4, 1), "").restore({"weights": weights})


def concepts_of(method, images, labels=None, classes=None):
    """Show the concepts of one method, without the text above them."""
    named = NamedModel(ModelIdentity("net", "weights"), method, "srgb")
    labels = torch.zeros(len(images), dtype=torch.int64) if labels is None else labels
    return learned_concepts({"net": named}, TrainingImages(images, labels, "a" * 64), classes)[1:]


def gray(values):
    return torch.tensor(values)[:, None, None, None].expand(-1, 3, 120, 160).clone()


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.uri.partition(",")[2]))))


def bounds(mask):
    rows, columns = np.nonzero(mask)
    return rows.min(), rows.max() + 1, columns.min(), columns.max() + 1


def test_prototypes_are_sorted_by_weight_and_equal_patches_shown_once(prototypes):
    blocks = concepts_of(prototypes, gray([0.2, 0.4, 0.6, 0.8]), classes=CLASSES)
    assert [block.caption for block in blocks] == [
        "cup, prototypes: 3, different patches: 2",
        "jug, prototypes: 3, different patches: 2",
    ]
    assert [[picture.caption for picture in block.pictures] for block in blocks] == [
        ["prototype 2: weight 3.00", "prototype 1: weight 2.00"],
        ["prototype 5: weight 1.50", "prototype 3: weight 1.00"],
    ]
    unnamed = concepts_of(prototypes, gray([0.2, 0.4, 0.6, 0.8]))
    assert unnamed[1].caption.startswith("class 1,")


def test_the_white_line_is_the_border_of_the_cell(prototypes):
    blocks = concepts_of(prototypes, gray([0.2, 0.4, 0.6, 0.8]), classes=CLASSES)
    found = [pixels(picture) for block in blocks for picture in block.pictures]
    assert [bounds((one == 255).all(2)) for one in found] == [
        (0, 40, 0, 80),
        (80, 120, 80, 160),
        (0, 40, 80, 160),
        (40, 80, 0, 80),
    ]
    # Rows of the training images 0, 2, 3 and 1 are known by their gray.
    assert [one[20:100, 20:140][30, 40, 0] for one in found] == [51, 153, 204, 102]


def test_cells_of_a_small_image_that_the_page_enlarges(prototypes):
    small = nn.functional.avg_pool2d(gray([0.2, 0.4, 0.6, 0.8]), 10)
    prototypes.network.backbone = nn.AvgPool2d((4, 8))
    drawn = pixels(concepts_of(prototypes, small, classes=CLASSES)[0].pictures[1])
    height, width = drawn.shape[:2]
    assert height >= 60
    assert bounds((drawn == 255).all(2)) == (height * 2 // 3, height, width // 2, width)


def test_images_with_the_highest_response_to_each_topic(topics):
    images = gray([0.2, 0.9, 0.6, 0.4, 0.7])
    images[1, 1] = 0.0  # without green, the opposite of topic 1
    blocks = concepts_of(topics, images, torch.tensor([0, 1, 0, 1, 0]), CLASSES)
    assert [block.caption for block in blocks] == ["topic 0", "topic 1"]
    count = 120 * 160
    assert [[picture.caption for picture in block.pictures] for block in blocks] == [
        [f"jug: response {0.9 * count:.3g}", *(f"cup: response {v * count:.3g}" for v in (0.7, 0.6))],
        ["jug: response 0.00", f"cup: response {-0.2 * count:.3g}", f"jug: response {-0.4 * count:.3g}"],
    ]
    assert [picture.alt for picture in blocks[0].pictures] == [
        f"Map of topic 0 on training image {row}, of {name}."
        for row, name in ((1, "jug"), (4, "cup"), (2, "cup"))
    ]


def test_the_map_of_the_topic_is_over_its_image(topics):
    images = gray([0.5, 0.1])
    images[0, 0, :, 80:] = 1.0
    drawn = pixels(concepts_of(topics, images, torch.tensor([0, 0]))[0].pictures[0])
    dark, bright = drawn[60, 20].tolist(), drawn[60, 140].tolist()
    assert dark[2] > dark[1]  # blue
    assert bright[1] > bright[2]  # yellow


def test_filters_of_each_class(vebi):
    [found] = concepts_of(vebi, gray([0.5]), classes=CLASSES)
    assert found.caption == "Filters that are concepts of each class, of 4"
    assert found.rows == (("cup", "2", "2, 1"), ("jug", "0", ""))
    many = VEBI(nn.Conv2d(3, 4, 1), "").restore({"weights": torch.arange(1.0, 251.0).reshape(25, 10)})
    [table] = concepts_of(many, gray([0.5]))
    assert table.folded
    assert table.rows[24] == ("class 24", "10", "9, 8, 7, 6, 5, 4, 3, 2")


def test_methods_that_are_not_fitted_are_refused(topics):
    topics.topics = None
    unfitted = PrototypeMethod(nn.Identity(), PrototypeTraining(0)), topics, VEBI(nn.Identity(), "")
    for method in unfitted:
        with refused(r"call `fit` (with training images )?first"):
            concepts_of(method, gray([0.5]))


def test_concepts_of_all_methods(prototypes, topics, vebi):
    models = {"vebi": vebi, "topics": topics, "prototypes": prototypes, "grad-cam": lambda one: one[:, :1]}
    methods = {
        f"net {name}": NamedModel(ModelIdentity(f"net {name}", "weights"), model, "srgb")
        for name, model in models.items()
    }
    training = TrainingImages(gray([0.2, 0.4, 0.6, 0.8]), torch.tensor([0, 1, 0, 1]), "a" * 64)
    blocks = learned_concepts(methods, training, CLASSES)
    assert [(block.kind, getattr(block, "heading", "") or block.caption) for block in blocks] == [
        ("text", "Concepts of vebi"),
        ("table", "Filters that are concepts of each class, of 4"),
        ("text", "Concepts of topics"),
        *[("pictures", f"topic {number}") for number in range(2)],
        ("text", "Concepts of prototypes"),
        *[("pictures", f"{name}, prototypes: 3, different patches: 2") for name in CLASSES],
    ]
