"""Fields that intervene: counterfactuals of another set, and targets that are drawn for each unit or step."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from candlelight.generators.language.factors import Change, Name
from candlelight.generators.language.field_types import PlainType, Share, described
from candlelight.loaders.schema import Record

Changes = Annotated[dict[Name, Change], Field(min_length=1)]


def _as_mapping(value: object) -> object:
    """Take a list of names for names without a mechanism; anything else is refused as no mapping."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value)
    return value


class Targets(Record):
    """Factors and variables of which some, drawn at random, are intervened on.

    Pairs of a sample and a counterfactual with a drawn target are the data of Brehmer, de Haan, Lippe and
    Cohen (2022), "Weakly supervised causal representation learning"; sequences with drawn targets at each
    step are the data of Lippe et al. (2022), "CITRIS".
    """

    of: Annotated[
        dict[Name, Change | None],
        BeforeValidator(_as_mapping),
        Field(min_length=1),
        PlainType("list of names, or mapping from name to value or mechanism"),
    ] = described(
        ...,
        "Factors and variables that may be targets; a name alone is drawn uniformly from its list or range.",
        ["color", "x"],
    )
    number: int | None = described(
        None, "Number of targets of each intervention.", 2, default_words="1, if `chance` is left out", ge=1
    )
    chance: Share | None = described(
        None, "Probability of each target, drawn apart from the others, in place of `number`.", 0.3
    )

    @model_validator(mode="after")
    def _check(self) -> "Targets":
        if self.number is not None and self.chance is not None:
            raise ValueError("expected `number` or `chance`, got both")
        if (self.number or 1) > len(self.of):
            raise ValueError(
                f"number: expected at most {len(self.of)}, the number of names, got {self.number}"
            )
        return self


class Counterfactual(Record):
    """The same units as another set, under interventions: every exogenous draw is kept."""

    of: str = described(..., "Name of a set above, whose samples are changed.", "train")
    do: tuple[Changes, ...] | None = described(
        None,
        "Interventions; each gives one sample for each sample of that set.",
        [{"color": "red"}],
        min_length=1,
    )
    targets: Targets | None = described(
        None,
        "Targets of one intervention for each sample of that set, in place of `do`.",
        {"of": ["color", "x"]},
        later=True,
    )
    step: int | None = described(
        None, "The only step of a sequence at which the interventions act, from 0.", 3, later=True, ge=0
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Counterfactual":
        if (self.do is None) == (self.targets is None):
            raise ValueError(f"expected `do` or `targets`, got {'neither' if self.do is None else 'both'}")
        return self
