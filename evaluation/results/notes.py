"""Notes of a scoring on its data, which commands and pages show beside the scores."""

from collections.abc import Sequence

from evaluation.results.result import Result


def notes_of(results: Sequence[Result]) -> list[str]:
    """Collect the notes in the details of results, each once.

    Example:
        >>> from evaluation.results.result import Provenance, StatisticResult
        >>> about = Provenance("csm", 1, "higher", {"name": "net"}, {}, {}, {})
        >>> one = StatisticResult(about, {}, {}, (), (), {"notes": ["few images"]})
        >>> notes_of([one, one])
        ['few images']
    """
    return list(dict.fromkeys(note for result in results for note in result.details.get("notes", ())))
