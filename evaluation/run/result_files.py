"""Write results to JSON files, read them back exactly, and write tables for other programs and papers."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import MeanResult, Result, StatisticResult, model_name
from candlelight.evaluation.run.score_tables import score_csv, score_latex, score_markdown
from candlelight.loaders.errors import InputError, blame, nearest_file
from candlelight.loaders.files.safe_writing import partial_name, replacing

RESULTS_FORMAT = "candlelight results 1"
_ROWS = ".rows.csv"
RESULT_ENDINGS = (".json", ".csv", ".md", ".tex")
REMEDY = "make it again with `candlelight evaluate ... --out FILE.json`"
_KINDS: dict[str, Any] = {"mean": TypeAdapter(MeanResult), "statistic": TypeAdapter(StatisticResult)}


def check_writable(path: Path, endings: tuple[str, ...] = RESULT_ENDINGS) -> None:
    """Check, before anything is computed, that a file of results or a page can be written.

    Args:
        path: the file that will be written; this check does not change it.
        endings: allowed suffixes of its name.

    Raises:
        InputError: the suffix is not allowed, the path is a folder, its folder does not exist, or the system
            refuses to write there.

    Example:
        >>> check_writable(Path("scores.txt"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: scores.txt: expected a file name that ends in .json, .csv, \
.md or .tex
    """
    if path.suffix not in endings:
        known = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise InputError(f"{path}: expected a file name that ends in {known}")
    partial = partial_name(path)
    try:
        if path.is_dir():
            raise InputError(f"{path}: expected a file, but it is a folder; give the name of a file in it")
        if not path.parent.is_dir():
            raise InputError(f"{path}: its folder does not exist; make it first{nearest_file(path.parent)}")
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def write_results(path: Path, results: Sequence[Result], intervals: bool = False) -> None:
    """Write results to a file atomically.

    Args:
        path: a ``.json`` file, which `read_results` reads; a ``.csv``, ``.md`` or ``.tex`` file with a table
            of the scores, models as rows; or ``.rows.csv`` with the rows of means, or the scores of
            statistics, and ``model`` as first column.
        results: at least one result; for ``.rows.csv``, results of one metric.
        intervals: whether 95 % intervals stand beside the scores in ``.md`` and ``.tex``.

    Raises:
        InputError: there are no results, CSV results differ in columns, or see `check_writable`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from candlelight.evaluation.run.result import Provenance, Score
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> result = StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})
        >>> with TemporaryDirectory() as folder:
        ...     write_results(Path(folder) / "irs.rows.csv", [result])
        ...     print((Path(folder) / "irs.rows.csv").read_text(), end="")
        model,score,value,low,high
        vae,irs,0.5,0.4,0.6
    """
    check_writable(path)
    if not results:
        raise InputError(f"{path}: expected at least one result to write")
    text = _text_of(path, results, intervals)
    try:
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from None


def read_results(path: Path) -> list[Result]:
    """Read a JSON file that `write_results` wrote; the scores of means are recomputed from their rows.

    Raises:
        InputError: the file is missing, is not JSON, has another format or version, or a result is damaged.

    Example:
        >>> read_results(Path("nowhere.json"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere.json: cannot be read: No such file or directory; ...
    """
    if path.suffix in RESULT_ENDINGS[1:]:
        raise InputError(f"{path}: results are read from .json; {REMEDY}")
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise blame(f"{path}: cannot be read", error, f"{REMEDY}{nearest_file(path)}") from None
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError, too
        raise blame(f"{path}: is not JSON", error, f"expected results; {REMEDY}") from None
    if not isinstance(content, dict) or content.get("format") != RESULTS_FORMAT:
        got = (
            f"got {content['format']!r}" if isinstance(content, dict) and "format" in content else "got none"
        )
        raise InputError(f"{path}: expected `format` to be {RESULTS_FORMAT!r}, {got}; {REMEDY}")
    records = content.get("results")
    if not isinstance(records, list) or not records:
        raise InputError(f"{path}: expected a list of one or more `results`; {REMEDY}")
    return [_parse(record, f"{path}: result {number}") for number, record in enumerate(records, 1)]


def _parse(record: Any, where: str) -> Result:
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"{where}: expected `kind` to be one of {', '.join(_KINDS)}, got {kind!r}; {REMEDY}")
    try:
        # As JSON text, because the strict parser accepts lists for tuples only in JSON.
        return _KINDS[kind].validate_json(json.dumps(record), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
    place = ".".join(map(str, problem["loc"])) or kind
    raise InputError(f"{where}: {place}: {problem['msg'].removeprefix('Value error, ')}; {REMEDY}")


def _text_of(path: Path, results: Sequence[Result], intervals: bool) -> str:
    if path.name.endswith(_ROWS):
        return _all_csv(results)
    if path.suffix == ".json":
        return _all_json(results)
    if path.suffix == ".csv":
        return score_csv(results)
    return (score_markdown if path.suffix == ".md" else score_latex)(results, intervals)


def _all_json(results: Sequence[Result]) -> str:
    bodies = ",\n".join(result.to_json().rstrip("\n") for result in results)
    return f'{{\n"format": {json.dumps(RESULTS_FORMAT)},\n"results": [\n{bodies}\n]\n}}\n'


def _all_csv(results: Sequence[Result]) -> str:
    tables = [list(csv.reader(io.StringIO(result.to_csv()))) for result in results]
    header = tables[0][0]
    if any(lines[0] != header for lines in tables):
        raise InputError(
            f"{_ROWS} takes results with the same columns: write each metric to a file of its own, or all to "
            ".json or .csv"
        )
    named = [
        [model_name(result), *line]
        for result, (_, *lines) in zip(results, tables, strict=True)
        for line in lines
    ]
    return to_csv([["model", *header], *named])


def _unwritable(path: Path, error: OSError) -> InputError:
    return blame(f"{path}: cannot be written", error, "name another file")
