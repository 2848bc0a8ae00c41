"""Report the marginals, dependences and causal graph of a plan, as text and as an HTML page."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from candlelight.generators.language.causal_graph import connected_pairs
from candlelight.generators.language.factor_values import FactorValues
from candlelight.generators.language.factors import Rule
from candlelight.generators.language.field_types import references
from candlelight.generators.language.image_set import ImageSet
from candlelight.generators.language.set_settings import set_graph
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.planned_samples import PlannedSamples
from candlelight.generators.reports.dependence import (
    FIRST_TABLES,
    SET_LEVEL,
    Dependence,
    Marginal,
    dependences,
    marginals,
    most_tables,
)
from candlelight.generators.reports.graph_picture import draw_graph
from candlelight.loaders.causal_graphs import CausalGraph, exclusion_text
from candlelight.loaders.foreign_text import printable
from candlelight.loaders.looking.page_template import fill_template
from candlelight.loaders.looking.sheet import write_file
from candlelight.loaders.schema import FactorValue

_MOST_LISTED = 20  # interventions of a set; drawn targets have many combinations


@dataclass(frozen=True)
class SetReport:
    """The report of one image set.

    Attributes:
        name: the set.
        image_set: its description in the recipe.
        count: number of samples.
        units: number of units.
        graph: its causal graph under the interventions of all of its samples.
        interventions: the different interventions of the samples; none if nothing was set.
        marginals: counts of the values of each factor and variable.
        tested: the dependence of each pair of factors and variables that vary.
    """

    name: str
    image_set: ImageSet
    count: int
    units: int
    graph: CausalGraph
    interventions: list[FactorValues]
    marginals: list[Marginal]
    tested: list[Dependence]

    @property
    def size(self) -> str:
        """Number of samples, and of units if there are fewer."""
        return f"{self.count} samples" + (f" of {self.units} units" if self.units < self.count else "")

    def changed(self, *which: str) -> set[str]:
        """Factors and variables that the interventions of "all", or only of "some", samples change."""
        return {node.name for node in self.graph.nodes if node.intervened in which}

    @property
    def shown(self) -> list[str]:
        """Factors and variables that the layout uses or that name a unit, in the recipe's order."""
        used = set(self.image_set.mechanisms())  # a function may read any of them
        if self.image_set.layout is not None:
            # A unit has draws of its own, such as the places of scattered objects.
            used = {*references(self.image_set.layout), *(self.image_set.unit_factors or ())}
        return [name for name in self.image_set.mechanisms() if name in used]

    @property
    def connected(self) -> list[Dependence]:
        """The pairs that the graph connects: as cause and effect, by a common cause or by a selection."""
        selections = [rule.exclude for rule in self.image_set.rules if self.decides_units(rule)]
        first, own = self.image_set.at_first_step().causal_parents(), self.image_set.mechanisms()
        graph = {
            name: (*parents, *first[name], *own[name].lagged_parents())
            for name, parents in self.image_set.causal_parents().items()
        }
        pairs = connected_pairs(graph, selections, self.changed("all"))
        return [pair for pair in self.tested if frozenset((pair.first, pair.second)) in pairs]

    @property
    def pairs(self) -> list[Dependence]:
        """The pairs that the graph connects, and those whose dependence is significant without that."""
        connected, level = self.connected, self.level
        return [pair for pair in self.tested if pair in connected or pair.p < level]

    @property
    def pairs_line(self) -> str:
        """The number of pairs that are shown, and the reason."""
        shown, connected, tested = len(self.pairs), len(self.connected), len(self.tested)
        return (
            f"{shown} of {tested} pairs are shown: {connected} that the graph connects, and "
            f"{shown - connected} others with p < {self.level:.2g} ({SET_LEVEL:g} / {tested} pairs); "
            f"permutation test of {FIRST_TABLES} to {most_tables(tested):,} random tables"
        )

    @property
    def level(self) -> float:
        """Level of significance of one pair, by Bonferroni's correction."""
        return SET_LEVEL / max(len(self.tested), 1)

    def decides_units(self, rule: Rule) -> bool:
        """Tell whether a rule decides which units exist, and so holds before the intervention."""
        return rule.selection or rule.target in self.image_set.crossed()

    def picture(self) -> str:
        """Draw the causal graph as SVG."""
        return draw_graph(self.graph, self.shown)

    def do_lines(self) -> list[str]:
        """Name the factors that each intervention sets, with their values, one line for each intervention."""
        lines = [
            "do: " + ", ".join(f"{name} = {_value_text(value)}" for name, value in changes.items())
            for changes in self.interventions[:_MOST_LISTED]
        ]
        more = len(self.interventions) - len(lines)
        return [*lines, f"do: {more} more"] if more else lines

    def graph_lines(self) -> list[str]:
        """Describe the mechanism of each factor, variable and image, and each rule, one line each."""
        units = [
            f"rule on {rule.target} before the intervention: never {exclusion_text(rule.exclude)}"
            for rule in self.image_set.rules
            if rule.target in self.changed("all") and self.decides_units(rule)
        ]
        image = [f"{', '.join(self.shown)} -> the image"] if self.shown else []
        return [*self.graph.to_text().split("\n"), *units, *image]


def report_plan(plan: Plan) -> list[SetReport]:
    """Count the values of factors and variables in a plan, and measure their dependence, set by set.

    Args:
        plan: the plan.

    Returns:
        One report for each set that has samples.

    Example:
        >>> from candlelight.generators.language.load_recipe import load_recipe
        >>> from candlelight.generators.planning.plan import make_plan
        >>> report_plan(make_plan(load_recipe("negatives"), 9))[0].marginals[0].name
        'scene'
    """
    found = []
    for name, image_set in plan.recipe.sets.items():
        samples = plan.samples.of_set(name)
        if len(samples):
            # Counterfactuals change factors that the grid lists, so these no longer form a grid.
            crossed = image_set.crossed() if image_set.counterfactual is None else ()
            tested = dependences(samples, crossed)
            units = len({sample.unit for sample in samples})
            changes = _interventions(samples)
            # Values that the recipe lists are counted even if no sample has them.
            listed = {name: one.listed() for name, one in image_set.categorical().items()}
            counted = marginals(samples, listed)
            graph = set_graph(plan.recipe, name)
            found.append(SetReport(name, image_set, len(samples), units, graph, changes, counted, tested))
    return found


def report_text(plan: Plan) -> str:
    """Write the report of a plan as lines of text."""
    return "\n".join(printable(line) for report in report_plan(plan) for line in _lines(report))


def write_plan_report(plan: Plan, path: Path) -> None:
    """Write the report of a plan as one HTML page, with a picture of each set's graph.

    Args:
        plan: the plan.
        path: the file; replaced in one step.
    """
    values = {"recipe": plan.recipe, "sets": report_plan(plan)}
    write_file(path, fill_template("candlelight.generators.reports", "plan_report.html", **values).encode())


def _lines(report: SetReport) -> Iterator[str]:
    yield f"{report.name}: {report.size}"
    yield from (f"  {line}" for line in report.do_lines())
    yield "  marginals"
    for marginal in report.marginals:
        counts = ", ".join(f"{value}: {count}" for value, count in marginal.counts.items())
        yield f"    {marginal.name}  {counts}"
    yield "  dependence: mutual information in nats (share of the smaller entropy; by chance alone; p)"
    yield f"    {report.pairs_line}"
    connected = report.connected
    for pair in report.pairs:
        yield (
            f"    {pair.first}, {pair.second}  {pair.information:.3f} "
            f"({100 * pair.share:.0f} %; {pair.chance:.3f}; {pair.p:.2g})"
            + ("" if pair in connected else ", not by the graph")
        )
    yield "  graph"
    yield from (f"    {line}" for line in report.graph_lines())


def _interventions(samples: PlannedSamples) -> list[FactorValues]:
    """List the different interventions of samples, in order of appearance.

    A mechanism in place stands as its kind, "soft" or "drawn".
    """
    found = dict.fromkeys(
        tuple({**record["intervention"], **record.get("intervention_kind", {})}.items())
        for record in samples.records()
    )
    return [dict(changes) for changes in found if changes]


def _value_text(value: FactorValue) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
