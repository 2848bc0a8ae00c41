"""Write a report as one self-contained HTML file with scores and image sets."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

from candlelight.evaluation.catalogue import CATALOGUE
from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.report.blocks import Block, Section, TableBlock, setting_text, split_method_names
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.report.sets_section import sets_section
from candlelight.evaluation.run.evaluate import find_evaluation
from candlelight.evaluation.run.result import MeanResult, Result, model_name
from candlelight.evaluation.run.result_files import REMEDY
from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.page_template import fill_template
from candlelight.loaders.looking.sheet import write_file
from candlelight.loaders.samples import Frames

_PROTOCOL = "protocol"  # setting of results of named protocols


def page_of(metric: str) -> Page:
    """Find how the results of a metric are shown; a metric of a user's own gets a table and bars."""
    names = [name for name, entry in CATALOGUE.items() if entry.metric == metric]
    page = find_evaluation(names[0]).page_of() if names else None
    key = re.sub(r"[^a-z0-9]+", "-", metric.lower())
    return page or Page(section=partial(plain_section, key, metric))


def write_report(
    path: Path,
    results: Sequence[Result],
    *,
    title: str,
    summary: Sequence[str] = (),
    sets: Sequence[Frames] = (),
    settings: Mapping[str, str] | None = None,
    pictures: Mapping[str, Sequence[Block]] | None = None,
) -> Path:
    """Write a report as one HTML file without external references; its only script sorts tables.

    Equal arguments give equal bytes. Results of one metric on the same data with the same settings share a
    section.

    Args:
        path: the file; an existing file is replaced atomically, and missing folders are made.
        results: results of any evaluations, in any order.
        title: heading of the page.
        summary: lines at the top of the page.
        sets: image sets to show below the scores.
        settings: other facts that a reader needs to repeat the evaluation, such as the training of a model.
        pictures: by metric, blocks that show the data; they are part of the metric's first section. Blocks
            of its second section have the key ``METRIC-2``, and so on.

    Returns:
        ``path``.

    Raises:
        InputError: the file cannot be written, or a frame cannot be read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_report(Path(folder) / "report.html", [], title="A & B").read_text()[:15]
        '<!doctype html>'
    """
    shown = [sets_section(sets)] if sets else []
    repeat = TableBlock("Settings to repeat this evaluation", ("", ""), tuple((settings or {}).items()))
    after = [Section("settings", "Settings", (repeat,))] if settings else []
    write_page(path, title, [*report_sections(results, pictures or {}), *shown, *after], summary)
    return path


def write_page(path: Path, title: str, sections: Sequence[Section], summary: Sequence[str] = ()) -> None:
    """Write sections as one HTML file.

    Args:
        path: see `write_report`.
        title: heading of the page.
        sections: sections with different keys.
        summary: lines at the top of the page.

    Raises:
        InputError: the file cannot be written.
    """
    package = "candlelight.evaluation.report"
    script = (files(package) / "sort_tables.js").read_text(encoding="utf-8")
    # The browser runs no script but the one of this hash.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = {"title": title, "sections": sections, "summary": summary, "script": script, "digest": digest}
    write_file(path, fill_template(package, "page.html", **shown).encode())


def report_sections(results: Sequence[Result], pictures: Mapping[str, Sequence[Block]]) -> list[Section]:
    """Make a section for each metric, data and settings, in the order of the metrics; keys are unique.

    Results of named protocols have sections of their own, one for each data set.
    """
    sections = []
    every = list({result.to_json(): result for result in results}.values())  # without duplicates
    results = [result for result in every if _PROTOCOL not in result.about.settings]
    protocols = [result for result in every if _PROTOCOL in result.about.settings]
    known = [entry.metric for entry in CATALOGUE.values()]
    metrics = dict.fromkeys(result.about.metric for result in results)
    for metric in sorted(metrics, key=lambda name: known.index(name) if name in known else len(known)):
        kind = page_of(metric)
        alike: dict[str, list[Result]] = {}
        for result in results:
            if result.about.metric == metric:
                _check(result, kind)
                alike.setdefault(repr((result.about.data, result.about.settings)), []).append(result)
        for place, some in enumerate(alike.values()):
            suffix = f"-{place + 1}" if place else ""
            section = kind.section(some, pictures.get(metric + suffix, ()))
            key = section.key + suffix
            blocks = section.blocks if place else (*kind.reading, *section.blocks)
            title = _title(section, some, list(alike.values()))
            sections.append(Section(key, title, blocks))
        if kind.overview and len(alike) > 1:
            sections.append(kind.overview(list(alike.values())))
    by_data: dict[str, list[Result]] = {}
    for result in protocols:
        names = (str(result.about.data.get(name, "")) for name in ("name", "set_name", "split", "rows"))
        by_data.setdefault(repr(tuple(names)), []).append(result)
    for place, some in enumerate(by_data.values()):
        page = find_evaluation("protocols").page_of()
        assert page is not None
        section = page.section(some, ())
        key = section.key + (f"-{place + 1}" if place else "")
        sections.append(Section(key, _title(section, some, []), section.blocks))
    return sections


def _check(result: Result, kind: Page) -> None:
    """Refuse a result, such as one of another program, that lacks a field that its section shows."""
    metric = result.about.metric
    parts = result.columns if isinstance(result, MeanResult) else result.details
    missing = [f"`{name}`" for name in kind.needs if name not in parts and name not in result.about.settings]
    if missing:
        names = ", ".join(missing)
        raise InputError(f"results of `{metric}` ({model_name(result)}) lack {names} for a page; {REMEDY}")


def _title(section: Section, results: Sequence[Result], every: Sequence[Sequence[Result]]) -> str:
    """Write the title of a section: the name of its data, and the settings that differ between sections."""
    data, settings = results[0].about.data, results[0].about.settings
    names = [str(data[name]) for name in ("name", "set_name", "split") if data.get(name)]
    names += [f"{data['rows']} rows"] if "rows" in data else []
    others = [some[0].about.settings for some in every if some[0].about.data == data]
    own = [
        _own_text(name, value)
        for name, value in settings.items()
        if any(other.get(name) != value for other in others)
    ]
    return "; ".join((f"{section.title}: {', '.join(names)}", *own))


def _own_text(name: str, value: object) -> str:
    """Write a setting for the title of a section; of compared methods, the common words come first."""
    if name != "compared" or not isinstance(value, list):
        return f"{name} {setting_text(value)}"
    classifier, methods = split_method_names(value)
    return f"{classifier or name}: {', '.join(methods)}"
