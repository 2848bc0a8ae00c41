"""Notes of a scoring on its data, which commands and pages show beside the scores."""

from collections.abc import Sequence

from candlelight.evaluation.results.result import Result


def notes_of(results: Sequence[Result]) -> list[str]:
    """Collect the notes in the details of results, each once.

    Example:
        >>> from candlelight.evaluation.results.result import MeanResult, Provenance
        >>> about = Provenance("tcav", 1, "neither", {"name": "net"}, {}, {}, {})
        >>> one = MeanResult(about, ("a",), ("a",), {"red at one": (1.0,)}, (), {"notes": ["few images"]})
        >>> notes_of([one, one])
        ['few images']
    """
    return list(dict.fromkeys(note for result in results for note in result.details.get("notes", ())))
