"""Blocks of a page that show the concepts that explanation methods have learned."""

from collections.abc import Mapping, Sequence

from candlelight.evaluation.coverage.fit_methods import TrainingImages
from candlelight.evaluation.coverage.method_comparisons import split_method_names
from candlelight.evaluation.coverage.prototype_method import PrototypeMethod
from candlelight.evaluation.coverage.topics import TopicMethod
from candlelight.evaluation.coverage.vebi import VEBI
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, TableBlock, TextBlock
from candlelight.evaluation.report.prototype_pictures import prototype_pictures
from candlelight.evaluation.report.tables import class_name
from candlelight.evaluation.report.topic_pictures import topic_pictures

_MOST_ROWS = 20  # of a table that is not folded
_FILTERS = 8  # numbers of filters of each class
_PROTOTYPES = (
    "Each prototype of the network is equal to a patch of a training image. Double lines enclose the cell of "
    "the feature map; the patch depends on more of the image. Prototypes of largest weight for their class, "
    "without repeated patches."
)
_TOPICS = (
    "Training images with the highest response to each topic, and the map of the topic, from dark blue, its "
    "minimum in the image, to yellow, its maximum."
)


def learned_concepts(
    methods: Mapping[str, NamedModel], training: TrainingImages, classes: Sequence[str] | None = None
) -> list[Block]:
    """Show the concepts of fitted methods: prototypes, topics, and the number of filters of each class.

    Args:
        methods: fitted methods of one classifier by name; Grad-CAM has no concepts and is left out.
        training: images that they were fitted to.
        classes: names of the classes.
    """
    blocks: list[Block] = []
    for name, method in zip(split_method_names(list(methods))[1], methods.values(), strict=True):
        model = method.model
        if isinstance(model, PrototypeMethod):
            blocks.append(TextBlock(_PROTOTYPES, f"Concepts of {name}", quiet=True))
            blocks += prototype_pictures(model, training.images, classes)
        elif isinstance(model, TopicMethod):
            blocks.append(TextBlock(_TOPICS, f"Concepts of {name}", quiet=True))
            blocks += topic_pictures(model, training.images, training.labels, classes)
        elif isinstance(model, VEBI):
            blocks.append(TextBlock("", f"Concepts of {name}"))
            blocks.append(filter_table(model, classes))
    return blocks


def filter_table(method: VEBI, classes: Sequence[str] | None = None) -> TableBlock:
    """Tabulate how many filters VEBI has chosen for each class, and the filters of largest weight.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> import torch
        >>> method = VEBI(torch.nn.Identity(), "").restore({"weights": torch.tensor([[0.0, 1.0, 2.0]])})
        >>> filter_table(method, ["cup"]).rows
        (('cup', '2', '2, 1'),)
    """
    counts = method.chosen.sum(1).tolist()
    order = method.state()["weights"].argsort(dim=1, descending=True, stable=True).tolist()
    rows = tuple(
        (class_name(classes, label), str(count), ", ".join(map(str, numbers[: min(count, _FILTERS)])))
        for label, (count, numbers) in enumerate(zip(counts, order, strict=True))
    )
    caption = f"Filters that are concepts of each class, of {method.chosen.shape[1]}"
    return TableBlock(caption, ("class", "filters", "of largest weight"), rows, folded=len(rows) > _MOST_ROWS)
