"""Report the marginals, dependences and causal graph of a plan, as text and as an HTML page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from generators.language.factors import Categorical
from generators.language.image_set import ImageSet
from generators.planning.plan import Plan
from generators.reports.dependence import Dependence, Marginal, dependences, marginals
from generators.reports.graph_picture import draw_graph
from loaders.files.atomic_files import replacing


@dataclass(frozen=True)
class SetReport:
    """The report of one image set: numbers of samples and units, marginals, and pairs that are dependent."""

    name: str
    image_set: ImageSet
    count: int
    units: int
    marginals: list[Marginal]
    pairs: list[Dependence]


def report_plan(plan: Plan) -> list[SetReport]:
    """Count the values of factors and variables in a plan, and measure their dependence, set by set.

    Args:
        plan: the plan.

    Returns:
        One report for each set that has samples.

    Example:
        >>> from generators.language.load_recipe import load_recipe
        >>> from generators.planning.plan import make_plan
        >>> report_plan(make_plan(load_recipe("negatives"), 100))[0].marginals[0].name
        'scene'
    """
    found = []
    for name, image_set in plan.recipe.sets.items():
        samples = plan.samples.of_set(name)
        if len(samples):
            # Counterfactuals change factors that the grid lists, so these no longer form a grid.
            listed = image_set.crossed() if image_set.counterfactual is None else ()
            pairs = [pair for pair in dependences(samples, listed) if pair.information > pair.limit]
            units = len({sample.unit for sample in samples})
            found.append(SetReport(name, image_set, len(samples), units, marginals(samples), pairs))
    return found


def report_text(plan: Plan) -> str:
    """Write the report of a plan as lines of text."""
    return "\n".join(line for report in report_plan(plan) for line in _lines(report))


def write_plan_report(plan: Plan, path: Path) -> None:
    """Write the report of a plan as one HTML page, with a picture of each set's graph.

    Args:
        plan: the plan.
        path: the file; replaced in one step.
    """
    import jinja2
    from markupsafe import Markup

    text = (files("generators.reports") / "plan_report.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(text)
    sets: list[dict[str, Any]] = []
    for report in report_plan(plan):
        selections = [rule for rule in report.image_set.rules if rule.selection]
        picture = draw_graph(report.image_set.graph(), report.image_set.factors, selections)
        sets.append(
            {
                "name": report.name,
                "size": _size(report),
                "picture": Markup(picture),
                "selects": bool(selections),
                "mechanisms": list(_mechanisms(report.image_set)),
                "pairs": report.pairs,
                "marginals": report.marginals,
            }
        )
    page = template.render(title=plan.recipe.name, description=plan.recipe.description, sets=sets)
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def _lines(report: SetReport) -> Iterator[str]:
    yield f"{report.name}: {_size(report)}"
    yield "  marginals"
    for marginal in report.marginals:
        counts = ", ".join(f"{value}: {count}" for value, count in marginal.counts.items())
        yield f"    {marginal.name}  {counts}"
    yield "  dependence: mutual information in nats (share of the smaller entropy; by chance alone)"
    for pair in report.pairs:
        yield (
            f"    {pair.first}, {pair.second}  {pair.information:.3f} "
            f"({100 * pair.share:.0f} %; {pair.chance:.3f})"
        )
    if not report.pairs:
        yield "    none"
    yield "  graph"
    yield from (f"    {line}" for line in _mechanisms(report.image_set) or ("no arrows except to the image",))


def _size(report: SetReport) -> str:
    return f"{report.count} samples" + (f" of {report.units} units" if report.units < report.count else "")


def _mechanisms(image_set: ImageSet) -> Sequence[str]:
    """Describe the parents of each factor and variable, and the effect of each rule, one line each."""
    lines = []
    for name, parents in image_set.graph().items():
        mechanism = image_set.mechanisms()[name]
        if parents:
            strength = (
                f" (strength {mechanism.strength:g})"
                if isinstance(mechanism, Categorical) and mechanism.table is not None
                else ""
            )
            lines.append(f"{', '.join(parents)} -> {name}{strength}")
    for rule in image_set.rules:
        excluded = " and ".join(f"{name} in {list(values)}" for name, values in rule.exclude.items())
        lines.append(f"{f'rule on {rule.target}' if rule.target else 'selection'}: never {excluded}")
    return lines
