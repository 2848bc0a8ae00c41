"""Say in one line which field of a recipe is wrong, from the errors that pydantic reports."""

import re

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from candlelight.generators.language.factors import NAME_PATTERN
from candlelight.generators.language.recipe import DATA_SET_PATTERN, Recipe
from candlelight.generators.language.recipe_fields import all_fields
from candlelight.loaders.errors import did_you_mean

_EXPECTED = {
    "missing": "the field is required",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping of fields",
}
_PATTERNS = {
    NAME_PATTERN: "expected lower-case letters, digits and _, starting with a letter",
    DATA_SET_PATTERN: "expected lower-case letters, digits and hyphens, starting with a letter",
}
_PATH = re.compile(r"([a-z_]\w*(?:\.\w+)*): (.+)", re.DOTALL)  # a message that goes on with a path


def first_error(error: ValidationError) -> str:
    """Return one line on the first wrong field: its path, the expected value and the value found."""
    worst = max(error.errors(include_url=False), key=_depth)
    # The path also holds pydantic's names of kinds, all in brackets: `[list]`, `[key]`, `tuple[...]`.
    parts = [part for part in map(str, worst["loc"]) if "[" not in part]
    message = worst["msg"].removeprefix("Value error, ")
    if worst["type"] == "value_error" and (found := _PATH.fullmatch(message)):
        # A check of one field repeats the name of the field.
        parts, message = [*parts, *([found[1]] if parts[-1:] != [found[1]] else [])], found[2]
    line = f"{'.'.join(parts)}: " if parts else ""
    if worst["type"] == "extra_forbidden":
        known = dict.fromkeys(path[-1] for path, _, _ in all_fields(Recipe))
        if parts[-1] in known:
            where = f"`candlelight recipes fields {parts[-1]}` says where it is"
            return f"{line}there is no such field here; {where}"
        near = did_you_mean(parts[-1], known)
        return f"{line}there is no such field; `candlelight recipes fields` lists all{near}"
    # A check of a whole mapping says itself which part is wrong; the mapping would only hide it.
    if worst["type"] == "value_error" and ("got" in message or isinstance(worst["input"], dict)):
        return line + message
    known_words = _EXPECTED.get(worst["type"]) or _PATTERNS.get(worst.get("ctx", {}).get("pattern", ""))
    expected = known_words or message[0].lower() + message[1:]
    return f"{line}{expected}; got {_shown(worst)}" if parts else expected


def _depth(detail: ErrorDetails) -> tuple[int, bool]:
    """Rank an error: the deepest says most, and an unknown field more than a missing one."""
    return len(detail["loc"]), detail["type"] == "extra_forbidden"


def _shown(detail: ErrorDetails) -> str:
    of_no_kind = detail["type"] == "factor" and isinstance(detail["input"], dict)
    given = repr(list(detail["input"]) if of_no_kind else detail["input"])
    return given if len(given) <= 60 else given[:57] + "..."
