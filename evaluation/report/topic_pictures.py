"""Pictures of topics: the training images with the highest response to each."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.coverage.binarise_heatmaps import resize_heatmap
from candlelight.evaluation.coverage.topics import TopicMethod
from candlelight.evaluation.report.blocks import PicturesBlock, png_picture
from candlelight.evaluation.report.coverage_pictures import heat_pixels
from candlelight.evaluation.report.tables import class_name, number
from candlelight.evaluation.report.tiles import encoded_pixels, evenly_spaced_rows, scale_for_page

_TOPICS = 20
_IMAGES = 3


def topic_pictures(
    method: TopicMethod,
    images: Float[Tensor, "train 3 height width"],
    labels: Int[Tensor, " train"],
    classes: Sequence[str] | None = None,
) -> list[PicturesBlock]:
    """Show the training images with the highest response to each topic, and their topic maps.

    The response is that of `TopicMethod.explain`, the sum of the map.

    Args:
        method: the method, after `TopicMethod.fit`.
        images: training images, sRGB-encoded in [0, 1].
        labels: their classes.
        classes: names of the classes.

    Returns:
        A block for each topic, or for 20 of them at equal distances.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
        >>> from candlelight.evaluation.coverage.topics import TopicSearch
        >>> how = ReconstructionTraining(0, hidden=8, epochs=1)
        >>> method = TopicMethod(lambda images: images, lambda maps: maps.mean((2, 3)), TopicSearch(1), how)
        >>> method = method.restore({"topics": torch.tensor([[1.0, 0.0, 0.0]])})
        >>> images = torch.linspace(0, 1, 4)[:, None, None, None].expand(-1, 3, 2, 2)
        >>> [block] = topic_pictures(method, images, torch.tensor([0, 1, 0, 1]), ["cup", "jug"])
        >>> [picture.caption for picture in block.pictures]
        ['jug: response 4.00', 'cup: response 2.67', 'jug: response 1.33']
    """
    batches = torch.split(images, method.how.batch_size)
    scores = torch.cat([method.explain(some.to(method.device)).scores.cpu() for some in batches])
    highest = scores.topk(min(_IMAGES, len(images)), dim=0).indices
    blocks = []
    for topic in evenly_spaced_rows(scores.shape[1], _TOPICS):
        rows = highest[:, topic]
        maps = method.explain(images[rows].to(method.device)).maps[:, topic].cpu()
        pictures = []
        for row, heatmap in zip(
            rows.tolist(), resize_heatmap(maps, images.shape[2], images.shape[3]), strict=True
        ):
            name = class_name(classes, int(labels[row]))
            drawn = heat_pixels(heatmap, scale_for_page(encoded_pixels(images[row].cpu())))
            alt = f"Map of topic {topic} on training image {row}, of {name}."
            caption = f"{name}: response {number(float(scores[row, topic]))}"
            pictures.append(png_picture(drawn, alt, caption))
        blocks.append(PicturesBlock(tuple(pictures), f"topic {topic}"))
    return blocks
