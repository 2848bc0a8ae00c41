"""Check that a model is a working classifier of given classes, before methods explain it."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.grad_cam import check_logits
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.evaluation.running.model_outputs import model_errors
from candlelight.loaders.errors import InputError

_TRIED = 16  # number of images on which a network is tried


def order_classes(classifier: NamedModel, values: Sequence[str]) -> tuple[str, ...]:
    """Order the values of a factor as the logits of a classifier.

    Args:
        classifier: a network; a transformers model names its classes in its configuration.
        values: values that are the classes.

    Returns:
        The names in the order of the logits; the values as they are, if the network names no classes.

    Raises:
        InputError: the network names other classes.

    Example:
        >>> from candlelight.evaluation.models import open_model
        >>> order_classes(open_model("mine=torch.nn:Flatten"), ["bird", "fish"])
        ('bird', 'fish')
    """
    known = getattr(getattr(classifier.model, "config", None), "id2label", None) or {}
    names = tuple(str(known[number]) for number in sorted(known))
    # Transformers fills in LABEL_0, LABEL_1, ... where the names are not known.
    if not names or all(name == f"LABEL_{number}" for number, name in enumerate(names)):
        return tuple(values)
    if set(names) != set(values):
        raise InputError(
            f"`{classifier.identity.name}` has the classes {_list(names)}, the images {_list(values)}; "
            "choose another factor (--label), or images of all classes (--fit)"
        )
    return names


def check_classifier(
    classifier: NamedModel,
    images: Float[Tensor, "images 3 height width"],
    classes: Sequence[str],
    device: str = "cpu",
) -> None:
    """Refuse a model that is no classifier of the classes, or whose logits do not depend on the images.

    The model runs once, on a few of the images.

    Args:
        classifier: the model, on ``device``.
        images: sRGB-encoded in [0, 1].
        classes: names of the classes.
        device: torch device.

    Raises:
        InputError: the model takes other images or raised an exception, or its logits are not finite, not one
            for each class, or the same for all images.

    Example:
        >>> from candlelight.evaluation.models import open_model
        >>> flat = open_model("mine=torch.nn:Flatten", default_space="srgb")
        >>> check_classifier(flat, torch.rand(2, 3, 1, 1), ["bird", "fish"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `mine` gives 3 logits, but the images have 2 classes: bird, \
fish; give images of all its classes (--fit), or another factor (--label)
    """
    name = classifier.identity.name
    if classifier.colour_space != "srgb":
        raise InputError(
            f"--method: `{name}` takes {classifier.colour_space} images; wrap it in a network of sRGB images"
        )
    some = images[:: max(1, len(images) // _TRIED)][:_TRIED].to(device)
    with evaluation_mode(classifier.model), torch.no_grad(), model_errors(name, some):
        output = classifier.model(some)
    try:
        logits = check_logits(output, len(some))
    except InputError as error:
        raise InputError(f"`{name}`: {error}; give a classifier") from None
    if logits.shape[1] != len(classes):
        raise InputError(
            f"`{name}` gives {logits.shape[1]} logits, but the images have {len(classes)} classes: "
            f"{_list(classes)}; give images of all its classes (--fit), or another factor (--label)"
        )
    if not bool(logits.isfinite().all()):
        raise InputError(f"`{name}` gives logits that are not finite, expected numbers; check its weights")
    if len(some) > 1 and bool((logits == logits[:1]).all()):
        raise InputError(
            f"`{name}` gives the same logits for all images, expected a trained classifier; train it again"
        )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
