"""One HTML file that shows image sets and scores, and needs nothing but a browser to be read."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from evaluation.causal.protocol import CausalScores
from evaluation.concepts.protocol import ConceptScores
from evaluation.coverage.protocol import CoverageScores
from evaluation.intrinsic.protocol import IntrinsicScores
from evaluation.report.causal import causal_section
from evaluation.report.concepts import concepts_section
from evaluation.report.coverage import coverage_section
from evaluation.report.intrinsic import intrinsic_section
from evaluation.report.sets import set_overview
from loaders.looking.sheet import write_file
from loaders.samples import Frames


def write_report(
    path: Path,
    *,
    title: str,
    summary: Sequence[str],
    sets: Sequence[Frames],
    intrinsic: Mapping[str, IntrinsicScores],
    concepts: Mapping[str, ConceptScores],
    coverage: CoverageScores | None,
    causal: CausalScores | None,
    settings: Mapping[str, str],
) -> Path:
    """Write a report as one HTML file without scripts and without references to anything outside it.

    The same arguments give the same bytes. Metrics without scores are left out.

    Args:
        path: the file; one that is there is replaced in one step, the folder is made if need be.
        title: heading of the page.
        summary: lines to begin with.
        sets: image sets to show.
        intrinsic: errors by model.
        concepts: Concept Sensitivity Metrics by model.
        coverage: comparison of explanations.
        causal: scores of an encoder.
        settings: anything else that a reader needs to repeat this: versions, seeds, times.

    Returns:
        ``path``.

    Raises:
        InputError: the file cannot be written, or a frame cannot be read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> empty = {"sets": [], "intrinsic": {}, "concepts": {}, "coverage": None, "causal": None}
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "report.html"
        ...     write_report(path, title="A & B", summary=[], settings={}, **empty).read_text()[:15]
        '<!doctype html>'
    """
    sections = [
        *([intrinsic_section(intrinsic)] if intrinsic else []),
        *([concepts_section(concepts)] if concepts else []),
        *([coverage_section(coverage)] if coverage else []),
        *([causal_section(causal)] if causal else []),
    ]
    text = _template().render(
        title=title,
        summary=summary,
        sets=[set_overview(frames) for frames in sets],
        sections=sections,
        settings=settings,
    )
    write_file(path, text.encode())
    return path


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # What the drawings hold is escaped by matplotlib.
    environment.filters["drawn"] = Markup
    source = files("evaluation.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source)
