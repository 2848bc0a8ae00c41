"""Tables of the factors that the frames of a recipe have, from its plan, without rendering."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.factor_table import FactorTable, tabulate_factors
from candlelight.evaluation.views import DataIdentity
from candlelight.generators import Plan, counterfactual, load_recipe, make_plan
from candlelight.generators.language.set_settings import factor_infos
from candlelight.loaders.schema import FactorInfo

CANDLE = ("scene", "lights", "object_type", "color", "size", "rotation")
BY_SIZE = ("scene", "lights", "object_type", "size", "color", "rotation")  # dependent factors side by side
GRAPH = ("x", "spot", "background_hue", "spot_hue")  # in the set `causal`: x causes spot, one hue the other
BINS = 10  # of continuous factors


@dataclass(frozen=True)
class FactorSource:
    """Factors of a set of a recipe.

    Attributes:
        recipe: name of the recipe.
        set_name: the set.
        names: the factors; neighbours are mixed in some planted codes.
        about: the distribution in a few words.
        change: one override of the recipe.
        rows: most images; None leaves it to the caller.
    """

    recipe: str
    set_name: str
    names: tuple[str, ...]
    about: str
    change: str = "seed=0"
    rows: int | None = None


FACTOR_SOURCES = {
    "candle": FactorSource("candle", "candle", CANDLE, "independent: draws from a full grid"),
    "candle, 100 images": FactorSource("candle", "candle", CANDLE, "independent, few samples", rows=100),
    "candle-confounded-color 0.5": FactorSource(
        "candle-confounded-color",
        "candle",
        CANDLE,
        "the object changes the odds of the colours",
        "sets.candle.factors.color.strength=0.5",
    ),
    "candle-confounded-color 1": FactorSource(
        "candle-confounded-color", "candle", CANDLE, "each object has two of the five colours"
    ),
    "candle-confounded-size 1": FactorSource(
        "candle-confounded-size", "candle", BY_SIZE, "the object determines the size"
    ),
    "candle-published": FactorSource(
        "candle-published", "candle", CANDLE, "combinations are missing: a support of lower rank"
    ),
    "teapot": FactorSource("identifiable", "teapot", GRAPH, "continuous, independent"),
    "causal": FactorSource("identifiable", "causal", GRAPH, "continuous: x causes spot, one hue the other"),
    "toy-confounded 0.9": FactorSource(
        "toy-confounded",
        "toys",
        ("object_type", "color"),
        "almost fully confounded",
        "sets.toys.factors.color.strength=0.9",
    ),
    "toy-confounded 1": FactorSource(
        "toy-confounded",
        "toys",
        ("object_type", "color"),
        "fully confounded: one determines the other",
    ),
}


@dataclass(frozen=True)
class PlannedFactors:
    """A view of planned images: it has their factors, and no images yet."""

    identity: DataIdentity
    ids: tuple[str, ...]
    factors: tuple[FactorInfo, ...]
    table: ndarray

    @property
    def groups(self) -> tuple[str, ...]:
        """Each image is a group."""
        return self.ids

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of the planned images."""
        return frozenset(self.ids)

    def __len__(self) -> int:
        """Count the images."""
        return len(self.ids)

    def __getitem__(self, row: int, /) -> Tensor:
        """Refuse to read an image."""
        raise NotImplementedError("the images are planned, not rendered")


def planned_factors(source: FactorSource, rows: int, seed: int) -> FactorTable:
    """Plan images with a seed, and tabulate their factors.

    Args:
        source: the recipe and its factors.
        rows: number of images, unless the source has fewer.
        seed: seed of the recipe, which decides its draws and the choice among its images.
    """
    return tabulate_plan(source, plan_of(source, rows, seed))


def plan_of(source: FactorSource, rows: int, seed: int) -> Plan:
    """Plan the images of a source alone; see `planned_factors`."""
    recipe = load_recipe(source.recipe, [source.change, f"seed={seed}"])
    image_set = recipe.sets[source.set_name]
    # Other sets of the recipe are not planned.
    alone = recipe.model_copy(update={"sets": {source.set_name: image_set}})
    return make_plan(alone, limit=min(rows, source.rows or rows))


def tabulate_plan(source: FactorSource, *plans: Plan) -> FactorTable:
    """Tabulate the factors of the images of plans, one below the other."""
    infos = factor_infos(plans[0].recipe.sets[source.set_name])
    samples = [sample for plan in plans for sample in plan.samples]
    table = [
        [
            info.values.index(sample.factors[info.name]) if info.values else sample.factors[info.name]
            for info in infos
        ]
        for sample in samples
    ]
    ids = tuple(sample.id for sample in samples)
    identity = DataIdentity(plans[0].recipe.name, "plan", source.set_name)
    planned = PlannedFactors(identity, ids, infos, np.array(table, dtype=np.float64))
    return tabulate_factors(planned, source.names, BINS)


def planned_counterfactuals(
    source: FactorSource, rows: int, seed: int
) -> tuple[FactorTable, Tensor, Tensor, Tensor]:
    """Plan images and their counterfactuals: each factor is set to its least and its largest value.

    Args:
        source: see `planned_factors`.
        rows: see `planned_factors`.
        seed: see `planned_factors`.

    Returns:
        Factors of all images, the factual ones first; rows of the factual images; of each counterfactual its
        factual image; and whether each factor differs.
    """
    plan = plan_of(source, rows, seed)
    infos = {info.name: info for info in factor_infos(plan.recipe.sets[source.set_name])}
    ends = {
        name: (info.values or (info.low, info.high)) for name, info in infos.items() if name in source.names
    }
    others = counterfactual(plan, *({name: some[place]} for name, some in ends.items() for place in (0, -1)))
    table = tabulate_plan(source, plan, others)
    known = {sample.id: row for row, sample in enumerate(plan.samples)}
    samples = torch.tensor([known[str(sample.counterfactual_of)] for sample in others.samples])
    changed = table.values[len(known) :] != table.values[samples]
    return table, torch.arange(len(known)), samples, changed
