"""Pictures of the prototypes of a ProtoPNet: the training patches that they are equal to."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.prototype_method import PrototypeMethod
from candlelight.evaluation.coverage.prototype_network import PrototypeNetwork
from candlelight.evaluation.report.blocks import PicturesBlock, png_picture
from candlelight.evaluation.report.tables import class_name, number
from candlelight.evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, outline, scale_for_page
from candlelight.evaluation.running.hidden_layers import evaluation_mode

_CLASSES = 20
_PROTOTYPES = 4  # of each class


def prototype_pictures(
    method: PrototypeMethod,
    images: Float[Tensor, "train 3 height width"],
    classes: Sequence[str] | None = None,
) -> list[PicturesBlock]:
    """Show a few prototypes of each class: the training image, with the border of the pushed patch.

    A patch is one point of the feature map, drawn as its cell of the image: the height of the image divided
    by that of the map. Prototypes of the same patch are shown once; of the others, those of largest weight
    for their class.

    Blind to: the receptive field. A point of the map depends on more of the image than its cell.

    Args:
        method: the method, after `PrototypeMethod.fit` on these images.
        images: its training images, sRGB-encoded in [0, 1].
        classes: names of the classes.

    Returns:
        A block for each class, or for 20 of them at equal distances.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> from torch import nn
        >>> from candlelight.evaluation.coverage.train_prototype_network import PrototypeTraining
        >>> images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> how = PrototypeTraining(0, per_class=1, dim=4, warm_epochs=1, epochs=1)
        >>> method = PrototypeMethod(nn.MaxPool2d(2), how).fit(images, torch.tensor([0, 1, 0, 1]))
        >>> [block.caption for block in prototype_pictures(method, images, ["cup", "jug"])]
        ['cup, prototypes: 1, different patches: 1', 'jug, prototypes: 1, different patches: 1']
    """
    state, network = method.state(), method.network
    assert network is not None  # `state` has told
    with torch.no_grad(), evaluation_mode(network):
        maps = network.backbone(images[:1].to(network.prototypes.device))
    grid = maps.shape[2], maps.shape[3]
    places = torch.stack([state[f"patches.{name}"] for name in ("images", "rows", "columns")], 1).tolist()
    blocks = []
    for label in evenly_spaced_rows(network.classes, _CLASSES):
        name = class_name(classes, label)
        patches = _patches(network, label, places)
        pictures = []
        for (image, row, column), (prototype, weight) in list(patches.items())[:_PROTOTYPES]:
            drawn = scale_for_page(encoded_pixels(images[image].cpu()))
            outline(drawn, _cell(drawn.shape[:2], grid, row, column))
            alt = f"Training image {image} of {name}, with the border of the patch of prototype {prototype}."
            pictures.append(png_picture(drawn, alt, f"prototype {prototype}: weight {number(weight)}"))
        caption = f"{name}, prototypes: {network.per_class}, different patches: {len(patches)}"
        blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks


def _patches(
    network: PrototypeNetwork, label: int, places: Sequence[Sequence[int]]
) -> dict[tuple[int, ...], tuple[int, float]]:
    """Return the different patches of a class, each with its first prototype and weight, largest first."""
    first = label * network.per_class
    weights = network.last.weight[label, first : first + network.per_class].tolist()
    found: dict[tuple[int, ...], tuple[int, float]] = {}
    for place in sorted(range(network.per_class), key=lambda place: -weights[place]):
        found.setdefault(tuple(places[first + place]), (first + place, weights[place]))
    return found


def _cell(
    shape: tuple[int, ...], grid: tuple[int, int], row: int, column: int
) -> Bool[ndarray, "height width"]:
    """Mark the pixels of a cell of a grid over an image.

    Example:
        >>> _cell((2, 4), (1, 2), 0, 1).astype(int)
        array([[0, 0, 1, 1],
               [0, 0, 1, 1]])
    """
    mask = np.zeros(shape, dtype=bool)
    rows, columns = (
        slice(place * side // count, (place + 1) * side // count)
        for place, side, count in zip((row, column), shape, grid, strict=True)
    )
    mask[rows, columns] = True
    return mask
