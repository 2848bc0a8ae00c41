"""Encode masks in the run lengths of COCO, which pycocotools and the readers on top of it decode."""

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

_BITS = 5  # of a number in one character
_SIGN, _MORE, _FIRST = 0x10, 0x20, 48


def encode_mask(mask: Bool[ndarray, "height width"]) -> dict[str, list[int] | str]:
    """Encode a mask as the value of ``segmentation`` of an annotation: compressed run lengths.

    Pixels are counted down the columns: a run without the mask, a run within it, and so on. From the fourth
    run on, the difference from the run before the last one is written. A number is split into groups of 5
    bits, lowest first, and each group is a character: 48 + group, + 32 if further groups follow. The highest
    bit of the last group is the sign. These are the run lengths of Lin et al., Microsoft COCO, ECCV 2014, as
    their API writes them.

    Args:
        mask: the pixels of an object.

    Returns:
        ``size``, height and width, and ``counts``, the text of the runs.

    Example:
        >>> encode_mask(np.array([[False, True], [False, True], [True, True]]))
        {'size': [3, 2], 'counts': '24'}
    """
    return {"size": list(mask.shape), "counts": _text(_runs(mask))}


def _runs(mask: Bool[ndarray, "height width"]) -> Int[ndarray, " runs"]:
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(pixels, prepend=False))
    return np.diff(changes, prepend=0, append=pixels.size)


def _text(runs: Int[ndarray, " runs"]) -> str:
    numbers = runs.copy()
    numbers[3:] -= runs[1:-2]
    characters = []
    for number in numbers.tolist():
        more = True
        while more:
            group, number = number & (2**_BITS - 1), number >> _BITS
            more = number != (-1 if group & _SIGN else 0)
            characters.append(chr(_FIRST + group + (_MORE if more else 0)))
    return "".join(characters)
