"""The check of refusals: bad input gives an error with a message, also where annotations are not checked."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import pytest

from candlelight.loaders.errors import InputError


@contextmanager
def refused(message: str, error: type[Exception] = InputError) -> Iterator[None]:
    """Expect an error that the pattern ``message`` is found in.

    The tests check all annotations, users do not. So the check is off meanwhile: else it would answer a wrong
    shape or type before the message that users see.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(error, match=message):
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
