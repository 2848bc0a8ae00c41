"""Check the value of an option against its choices, so that a misspelt value is an error."""

from typing import get_args

from loaders.errors import InputError, did_you_mean


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not among the choices of an option.

    Args:
        name: name of the argument for the message.
        value: the value to check.
        choices: the option's type, a ``Literal`` of texts; or a tuple of texts.

    Raises:
        InputError: the value is not among the choices.

    Example:
        >>> from typing import Literal
        >>> check_choice("reduce", "maen", Literal["mean", "sum"])
        Traceback (most recent call last):
        loaders.errors.InputError: `reduce` must be one of: mean, sum; got maen; did you mean `mean`?
    """
    known = choices if isinstance(choices, tuple) else get_args(choices)
    if value not in known:
        raise InputError(
            f"`{name}` must be one of: {', '.join(known)}; got {value}{did_you_mean(value, known)}"
        )
