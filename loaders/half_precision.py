"""Round numbers to half precision, the type of most float layers."""

import numpy as np
from jaxtyping import Float16
from numpy import ndarray

_LARGEST = float(np.finfo(np.float16).max)


def to_half(array: ndarray) -> Float16[ndarray, "..."]:
    """Round to half precision; numbers beyond its range become its largest number.

    Example:
        >>> to_half(np.array([0.1, 1e9])).tolist()
        [0.0999755859375, 65504.0]
    """
    return np.clip(array, -_LARGEST, _LARGEST).astype(np.float16)
