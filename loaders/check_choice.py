"""Check that the value of an option is one of its choices."""

from typing import get_args

from candlelight.loaders.errors import InputError, did_you_mean


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not one of an option's choices.

    Args:
        name: name of the argument in the message.
        value: the value given.
        choices: the option's type, a ``Literal`` of texts; or a tuple of texts.

    Raises:
        InputError: the value is not one of the choices.

    Example:
        >>> from typing import Literal
        >>> check_choice("reduce", "maen", Literal["mean", "sum"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `reduce` must be one of: mean, sum; got maen; did you mean \
`mean`?
    """
    known = choices if isinstance(choices, tuple) else get_args(choices)
    if value not in known:
        raise InputError(
            f"`{name}` must be one of: {', '.join(known)}; got {value}{did_you_mean(value, known)}"
        )
