"""Explain predictions by the prototypes of the predicted class of a ProtoPNet."""

import copy
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.prototype_network import (
    PrototypeNetwork,
    PrototypePatches,
    prototype_similarity,
)
from candlelight.evaluation.coverage.train_prototype_network import PrototypeTraining, train_prototype_network
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError


class PrototypeMethod:
    """Explanations by prototypes, an `ExplanationMethod`.

    The maps are the similarities of all patches to the prototypes of the class that the prototype network
    predicts: the WAIoU protocol (sec. 4), whose distances become similarities, so that larger means more of
    the prototype. The network is a classifier of its own, trained from the backbone: its predictions and its
    features differ from those of the classifier that the backbone comes from.

    Args:
        backbone: module from images to feature maps, see `train_prototype_network`.
        how: settings of the training.
        device: torch device for the training.

    Attributes:
        network: the trained network, after `fit`; its ``patches`` are the training patches of the prototypes.

    Example:
        >>> images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> how = PrototypeTraining(0, per_class=2, dim=4, warm_epochs=1, epochs=1)
        >>> method = PrototypeMethod(nn.MaxPool2d(2), how).fit(images, torch.tensor([0, 1, 0, 1]))
        >>> method.explain(images).maps.shape
        torch.Size([4, 2, 2, 2])
    """

    name = "ProtoPNet"

    def __init__(
        self, backbone: nn.Module, how: PrototypeTraining, device: str | torch.device = "cpu"
    ) -> None:
        self.backbone, self.how, self.device = backbone, how, device
        self.network: PrototypeNetwork | None = None

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "PrototypeMethod":
        """Train the network; see `train_prototype_network`."""
        self.network = train_prototype_network(self.backbone, images, labels, self.how, self.device)
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; see `ExplanationMethod`.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        with torch.no_grad(), evaluation_mode(network):
            distances = network.distances(network.backbone(images))
            predicted = network.classify(distances.amin((2, 3))).argmax(1)
        first = predicted[:, None] * network.per_class
        concepts = first + torch.arange(network.per_class, device=predicted.device)
        maps = prototype_similarity(distances[torch.arange(len(images))[:, None], concepts])
        return Explanation(maps, concepts, maps.sum((2, 3)), predicted)

    def classifier(self, images: Float[Tensor, "images 3 height width"]) -> Float[Tensor, "images classes"]:
        """Compute the logits of the network that is explained.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        with torch.no_grad(), evaluation_mode(network):
            logits, _ = network(images)
        return logits

    def state(self) -> dict[str, Tensor]:
        """Collect the weights and the training patches that `fit` has learned.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        assert network.patches is not None
        patches = {f"patches.{name}": values for name, values in network.patches._asdict().items()}
        return {**network.state_dict(), **patches}

    def restore(self, state: Mapping[str, Tensor]) -> "PrototypeMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        classes, channels = len(state["last.weight"]), state["add_on.0.weight"].shape[1]
        per_class, dim = len(state["prototypes"]) // classes, self.how.dim
        network = PrototypeNetwork(
            copy.deepcopy(self.backbone), channels, classes, per_class=per_class, dim=dim, seed=self.how.seed
        )
        network.load_state_dict({name: values for name, values in state.items() if "patches." not in name})
        network.patches = PrototypePatches(*(state[f"patches.{name}"] for name in PrototypePatches._fields))
        self.network = network.to(self.device).eval().requires_grad_(False)
        return self

    def _fitted(self) -> PrototypeNetwork:
        if self.network is None:
            raise InputError("the prototypes are not known yet; call `fit` first")
        return self.network
