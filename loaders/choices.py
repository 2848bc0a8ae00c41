"""Choose image sets, splits and layers by name."""

from collections.abc import Collection
from pathlib import Path

from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.schema import schema_order

_PARAMETERS = {"set": "set_name", "split": "split"}


def choose_name(path: Path | str, kind: str, names: list[str], wanted: str | None) -> str:
    """Choose a set or split by its name, or the only one if no name is given.

    Args:
        path: where the sets or splits are, a path or the text that names the data, for messages.
        kind: "set" or "split", for messages.
        names: names to choose from.
        wanted: the name, or None.

    Raises:
        InputError: there are several names and none is given, or the given name is unknown.
    """
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted not in names:
        problem = f"{kind} `{wanted}` is not there"
        if wanted is None:
            problem = f"choose a {kind} ({argument(_PARAMETERS[kind])})"
        raise InputError(f"{path}: {problem}; expected one of: {', '.join(names) or 'none'}")
    return wanted


def choose_split(path: Path, splits: list[str], wanted: str | None) -> str:
    """Choose a split by its name; if none is given, the only one, or `train` of several.

    Raises:
        InputError: there is no `train` among several splits, or the given name is unknown.
    """
    usual = "train" if wanted is None and "train" in splits else wanted
    return choose_name(path, "split", splits, usual)


def choose_layers(available: Collection[str], wanted: Collection[str] | None) -> tuple[str, ...]:
    """Put the wanted layers into schema order.

    Raises:
        InputError: a layer is not available.
    """
    for name in wanted or ():
        if name not in available:
            raise InputError(f"layer `{name}` is not in this set; it has {', '.join(available)}")
    return tuple(schema_order(available if wanted is None else wanted))
