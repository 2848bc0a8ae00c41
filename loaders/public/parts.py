"""Public data sets with masks of parts, by the folder that a user names."""

from pathlib import Path

from loaders.errors import InputError
from loaders.public.celebamask import FOLDER as CELEBAMASK_FOLDER
from loaders.public.celebamask import SPLITS, CelebAMaskHQ
from loaders.public.cub70 import CUB70
from loaders.public.cub70 import FOLDER as CUB70_FOLDER


def open_parts(root: Path | str, split: str | None = None) -> CUB70 | CelebAMaskHQ | None:
    """Open CelebAMask-HQ in the groups of the coverage paper, or CUB-70, as a folder turns out to hold.

    Args:
        root: folder ``CelebAMask-HQ``; or one that holds ``AnnotationMasksPerclass`` of CUB-70 and
            ``CUB_200_2011``, unpacked side by side.
        split: of CelebAMask-HQ, "test" if None; CUB-70 has none.

    Returns:
        The images with their ``parts``; None if the folder is of neither.

    Raises:
        InputError: a folder or list is missing or damaged, or there is no such split.

    Example:
        >>> open_parts("nowhere") is None
        True
    """
    folder = Path(root)
    if (folder / CELEBAMASK_FOLDER).is_dir():
        wanted = next((name for name in SPLITS if name == (split or "test")), None)
        if wanted is None:
            raise InputError(f"{folder}: expected a split {', '.join(SPLITS)}, got {split!r}")
        return CelebAMaskHQ(folder, wanted, groups="paper")
    if (folder / CUB70_FOLDER).is_dir():
        if split is not None:
            raise InputError(f"{folder}: CUB-70 has no splits or sets, got {split!r}; leave it out")
        return CUB70(folder, folder)
    return None
