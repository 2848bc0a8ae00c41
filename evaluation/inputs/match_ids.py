"""Match result files with images by their ids."""

from collections.abc import Collection, Sequence
from typing import Literal

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

MissingResults = Literal["error", "fail"]


def match_ids(
    result_ids: Collection[str],
    scored_ids: Sequence[str],
    known_ids: Collection[str],
    missing: MissingResults | None = "error",
    source: str = "results",
) -> set[str]:
    """Match the ids of results with the ids of the data.

    Args:
        result_ids: ids of the results.
        scored_ids: ids of the images that will be scored.
        known_ids: ids of all images of the data, scored or not.
        missing: "fail" counts a missing result as a failed prediction; "error" refuses it. None refuses it
            too, for metrics without failed predictions; the message then does not offer "fail".
        source: origin of the results for messages.

    Returns:
        The scored ids without a result.

    Raises:
        InputError: a result belongs to no known image, or a result is missing and that is an error.

    Example:
        >>> sorted(match_ids(["a"], ["a", "b"], ["a", "b", "c"], "fail"))
        ['b']
        >>> match_ids(["a"], ["a", "b"], ["a", "b", "c"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: results: expected a result for each of 2 images, 1 is \
missing: `b`; add it, or count it as failed (`missing` fail)
    """
    if missing is not None:
        check_choice("missing", missing, MissingResults)
    there, all_known = set(result_ids), set(known_ids)
    unknown = [name for name in result_ids if name not in all_known]
    if unknown:
        example = f"; ids of the data look like `{scored_ids[0]}`" if len(scored_ids) else ""
        raise InputError(
            f"{source}: {len(unknown)} of {len(there)} results belong to no image of the data: "
            f"{first_three(unknown)}{example}"
        )
    lacking = [name for name in scored_ids if name not in there]
    if lacking and missing != "fail":
        are, them = ("is", "it") if len(lacking) == 1 else ("are", "them")
        raise InputError(
            f"{source}: expected a result for each of {len(scored_ids)} images, {len(lacking)} {are} "
            f"missing: {first_three(lacking)}; add {them}"
            + (f", or count {them} as failed ({argument('missing')} fail)" if missing == "error" else "")
        )
    return set(lacking)


def first_three(names: Sequence[str]) -> str:
    """List the first three names, and the number of the others.

    Example:
        >>> first_three(["a", "b", "c", "d"])
        '`a`, `b`, `c` and 1 more'
    """
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more
