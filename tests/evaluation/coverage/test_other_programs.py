"""Grad-CAM agrees with captum, and the IoU of parts with torchmetrics."""

import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage.filter_methods import grad_cam, weigh_filters
from candlelight.evaluation.coverage.waiou import part_iou

pytestmark = pytest.mark.oracle


def test_grad_cam_of_captum():
    attr = pytest.importorskip("captum.attr", reason="the extra `oracles` is not installed")
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, 3), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(4 * 3 * 3, 6)),
    ).eval()
    images = torch.rand(4, 3, 11, 11, generator=torch.Generator().manual_seed(1))
    for layer in ("2", "3"):
        found = weigh_filters(network, layer, images)
        theirs = attr.LayerGradCam(network, network.get_submodule(layer))
        expected = theirs.attribute(images, target=found.predicted, relu_attributions=True)
        assert expected.max() > 0
        torch.testing.assert_close(grad_cam(found), expected.detach()[:, 0])


def test_iou_of_torchmetrics():
    classification = pytest.importorskip("torchmetrics.functional.classification")
    drawn = torch.rand(6, 5, 8, 9, generator=torch.Generator().manual_seed(0)) > 0.6
    explained, parts = drawn[:, 0], drawn[:, 1:]
    expected = [
        [classification.binary_jaccard_index(binary.int(), part.int()).item() for part in some]
        for binary, some in zip(explained, parts, strict=True)
    ]
    torch.testing.assert_close(part_iou(explained, parts).float(), torch.tensor(expected))
