"""The images that a classifier was trained on, as its file records them."""

from dataclasses import dataclass

from candlelight.loaders.views import DataIdentity


@dataclass(frozen=True)
class TrainedOn:
    """Label, data and rows of the training of a classifier.

    Explanation methods that learn should see the training rows alone, and be scored on others.

    Attributes:
        label: name of the factor whose values are the classes.
        data: name, layout, set and split of the data, before images are resized.
        size: height and width in pixels to which images were resized
            (`candlelight.evaluation.coverage.ResizedImages`); None for images of their own size.
        training_ids: ids of the rows whose images were learned.
        held_out_ids: ids of the rows that only measured the accuracy.

    Example:
        >>> training = TrainedOn("kind", DataIdentity("parts", "frames"), (64, 64), ("a", "c"), ("b",))
        >>> "b" in training.training_ids
        False
    """

    label: str
    data: DataIdentity
    size: tuple[int, int] | None
    training_ids: tuple[str, ...]
    held_out_ids: tuple[str, ...]
