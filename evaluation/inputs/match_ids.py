"""Results and images belong together by their ids."""

from collections.abc import Collection, Sequence
from typing import Literal

from evaluation.inputs.check_choice import check_choice
from loaders.errors import InputError

MissingResults = Literal["error", "fail"]


def match_ids(
    found: Collection[str],
    wanted: Sequence[str],
    known: Collection[str],
    missing: MissingResults | None = "error",
    source: str = "results",
) -> set[str]:
    """Match the ids of results with those of the data.

    Args:
        found: ids of the results.
        wanted: ids that are going to be scored.
        known: ids of all the data, scored or not.
        missing: "fail" lets a result be missing: it counts as a failed prediction. None is "error" where
            nothing can count as failed.
        source: where the results are from, for messages.

    Returns:
        The wanted ids that are missing.

    Raises:
        InputError: a result is of no known image, or one is missing and that is an error.

    Example:
        >>> sorted(match_ids(["a"], ["a", "b"], ["a", "b", "c"], "fail"))
        ['b']
        >>> match_ids(["a"], ["a", "b"], ["a", "b", "c"])
        Traceback (most recent call last):
        loaders.errors.InputError: results: expected a result for each of 2 images, 1 is missing: `b`; add \
it, or count it as failed (--missing fail)
    """
    if missing is not None:
        check_choice("missing", missing, MissingResults)
    there, all_known = set(found), set(known)
    surplus = [name for name in found if name not in all_known]
    if surplus:
        example = f"; ids of the data look like `{wanted[0]}`" if len(wanted) else ""
        raise InputError(
            f"{source}: expected results of images of the data, {len(surplus)} of {len(there)} are not: "
            f"{first_three(surplus)}{example}"
        )
    lacking = [name for name in wanted if name not in there]
    if lacking and missing != "fail":
        are, them = ("is", "it") if len(lacking) == 1 else ("are", "them")
        raise InputError(
            f"{source}: expected a result for each of {len(wanted)} images, {len(lacking)} {are} missing: "
            f"{first_three(lacking)}; add {them}"
            + (f", or count {them} as failed (--missing fail)" if missing == "error" else "")
        )
    return set(lacking)


def first_three(names: Sequence[str]) -> str:
    """Name the first three of many.

    Example:
        >>> first_three(["a", "b", "c", "d"])
        '`a`, `b`, `c` and 1 more'
    """
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more
