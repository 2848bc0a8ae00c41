"""A backbone with one softmax head for each factor of the images."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.backbones.build_backbone import BackboneName, build_backbone
from candlelight.loaders.errors import InputError


class FactorHeads(nn.Module):
    """A backbone whose last linear layer is cut into one head for each factor.

    Args:
        name: name of the architecture.
        classes: number of classes of each factor, by its name.
        seed: seed of the initial weights, which depend on nothing else.

    Attributes:
        colour_space: images are sRGB-encoded in [0, 1].
        network: the backbone; its classes are those of all factors in a row.
        classes: number of classes of each factor, by its name.

    Raises:
        InputError: there is no such architecture, no factor, or a factor with fewer than 2 classes.

    Example:
        >>> import torch
        >>> heads = FactorHeads("vgg_small", {"colour": 5, "size": 3}, seed=0)
        >>> [logits.shape for logits in heads(torch.rand(2, 3, 32, 32))]
        [torch.Size([2, 5]), torch.Size([2, 3])]
    """

    colour_space = "srgb"

    def __init__(self, name: BackboneName, classes: Mapping[str, int], *, seed: int) -> None:
        super().__init__()
        if not classes:
            raise InputError("expected at least one factor, got none")
        for factor, number in classes.items():
            if number < 2:
                raise InputError(
                    f"factor `{factor}`: expected at least 2 classes, got {number}; leave it out"
                )
        self.classes = dict(classes)
        self.network = build_backbone(name, sum(self.classes.values()), seed=seed)
        self.eval()

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Float[Tensor, "batch _"], ...]:
        """Compute the logits of the classes of each factor, in the order of ``classes``.

        Args:
            images: sRGB-encoded in [0, 1], of at least `SMALLEST_SIDE` pixels.

        Raises:
            InputError: a side of the images is too short.
        """
        return self.network(images).split(list(self.classes.values()), dim=1)
