"""Read records of `candlelight.loaders.schema` from JSON, with errors of one line."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from candlelight.loaders.errors import InputError, nearest_file
from candlelight.loaders.schema import SCHEMA_VERSION, Record

_RecordType = TypeVar("_RecordType", bound=Record)


def parse_record(kind: type[_RecordType], text: str | bytes | None, where: str, remedy: str) -> _RecordType:
    """Parse a record of ``candlelight.loaders.schema``.

    Args:
        kind: class of the record.
        text: its JSON; None, as a pack may hold, is refused.
        where: source of the text, for messages.
        remedy: next step if the text is damaged, for messages.

    Raises:
        InputError: the text is damaged or of another schema version.
    """
    if text is None:
        raise InputError(f"{where}: expected a JSON text, got null; {remedy}")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors()
    for problem in problems:
        if problem["loc"] == ("schema",):
            raise InputError(
                f"{where}: expected schema version {SCHEMA_VERSION}, got {problem['input']!r}; make the "
                "frames again with `candlelight render`, and packs of them with `candlelight pack`"
            )
    place = ".".join(map(str, problems[0]["loc"])) or "JSON"
    raise InputError(f"{where} is damaged at {place}: {problems[0]['msg']}; {remedy}")


def read_record(kind: type[_RecordType], path: Path, remedy: str) -> _RecordType:
    """Read a JSON file and parse it with `parse_record`, which explains ``kind`` and ``remedy``.

    Raises:
        InputError: the file is missing, unreadable, damaged or of another schema version.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {remedy}{nearest_file(path.parent)}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; {remedy}") from None
    return parse_record(kind, text, str(path), remedy)
