"""Codes of a hidden layer do not depend on the order in which the layer has its axes."""

import torch
from torch import nn

from candlelight.evaluation.causal import layer_codes


class Turned(nn.Module):
    def forward(self, tokens):
        return tokens.transpose(0, 1)


def test_tokens_before_images_are_averaged_over_tokens():
    network = nn.Sequential(nn.Flatten(2), Turned(), nn.Identity())  # [3 tokens, 3 images, 4 channels]
    images = torch.rand(3, 3, 2, 2)
    torch.testing.assert_close(layer_codes(network, "2")(images), images.flatten(2).mean(1))
