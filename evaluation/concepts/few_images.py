"""Notes on sets of images that are too small for reliable concept vectors and tests."""

from collections.abc import Mapping

_ADVISED = 20  # Kim et al. 2018, Gupta et al. 2022


def few_images(counts: Mapping[str, int]) -> list[str]:
    """Word a note on each set of images with fewer than 20, for the details of a result.

    Args:
        counts: number of images in each set.

    Example:
        >>> few_images({"concept `red`": 12, "negatives": 40})
        ['concept `red`: at least 20 images are advised, got 12']
    """
    return [
        f"{name}: at least {_ADVISED} images are advised, got {count}"
        for name, count in counts.items()
        if count < _ADVISED
    ]
