"""Choose the images from which explanation methods learn the concepts of a classifier."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.commands.explanation_options import ExplanationOptions
    from candlelight.evaluation.models.classifiers import TrainedOn
    from candlelight.evaluation.views import DataIdentity, Factors


def training_rows(
    name: str,
    data: str,
    options: "ExplanationOptions",
    factors: "Factors | None",
    trained: "TrainedOn | None",
) -> tuple["Factors", list[int]]:
    """Choose the images from which methods learn.

    Args:
        name: the classifier.
        data: the argument DATA.
        options: ``--fit`` and ``--fit-limit``.
        factors: images of DATA; None if methods cannot learn from them.
        trained: the images that the classifier was trained on; None if they are not known.

    Returns:
        The images of ``--fit``, or else of DATA, and the rows of those that the classifier was trained on;
        all rows of ``--fit`` if it was trained on none.

    Raises:
        InputError: the images cannot be opened, or none is known to be learned and ``--fit`` is missing.
    """
    from candlelight.evaluation.views import open_secondary

    view: Factors | None = factors
    if options.fit is not None:
        try:
            view = open_secondary("factors", data, options.fit)
        except InputError as error:
            raise InputError(f"--fit {options.fit}: {error}") from error
    known = trained_ids(trained, view) if view else frozenset()
    rows = [row for row, one in enumerate(view.ids) if one in known] if view else []
    if view is None or (not rows and options.fit is None):
        raise InputError(
            f"`{name}` is not known to have learned images of DATA; name images to learn from (--fit)"
        )
    rows = rows or list(range(len(view)))
    if options.fit_limit is not None and options.fit_limit < len(rows):
        rows = [rows[place * len(rows) // options.fit_limit] for place in range(options.fit_limit)]
    return view, rows


def check_classes_shown(name: str, classes: Sequence[str], labels: Sequence[int]) -> None:
    """Refuse training images that do not show every class, for which methods would have no concept.

    Args:
        name: the classifier.
        classes: its classes.
        labels: number of the class of each image.

    Raises:
        InputError: no image shows a class.

    Example:
        >>> check_classes_shown("kinds", ["bird", "fish"], [0, 0])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `kinds`: expected images of its 2 classes to learn concepts \
from, none shows `fish`; choose more images (--fit, --fit-limit, --rows, --limit)
    """
    if lacking := [one for number, one in enumerate(classes) if number not in set(labels)]:
        raise InputError(
            f"`{name}`: expected images of its {len(classes)} classes to learn concepts from, none shows "
            f"`{lacking[0]}`; choose more images (--fit, --fit-limit, --rows, --limit)"
        )


def trained_ids(trained: "TrainedOn | None", view: "Factors") -> frozenset[str]:
    """Return the ids of a classifier's training images, if the view is of the same data."""
    if trained is None or not is_same_data(trained.data, view.identity):
        return frozenset()
    return frozenset(trained.training_ids)


def is_same_data(one: "DataIdentity", other: "DataIdentity") -> bool:
    """Tell whether equal ids of two views name the same image: other data may have the same ids by chance.

    Splits and packs of the same data share their ids.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity
        >>> rendered = DataIdentity("parts", "frames", "parts", recipe="5d41")
        >>> is_same_data(rendered, DataIdentity("parts", "frames", "parts", "test", recipe="5d41"))
        True
        >>> is_same_data(rendered, DataIdentity("parts", "frames", "parts", recipe="7d79"))  # another seed
        False
    """
    return (one.layout, one.set_name, one.recipe) == (other.layout, other.set_name, other.recipe)
