"""Rules and tables of confounding from papers, for public data sets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.confounding import (
    ConditionalTable,
    Selection,
    ValueRange,
    select_by_rules,
    select_by_tables,
)
from candlelight.loaders.selection.factor_index import FactorIndex

_SUPPLEMENT = (
    "Reddy, Godfrey and Balasubramanian, On Causally Disentangled Representations, AAAI 2022, supplement"
)
_ENDLESS = math.inf


@dataclass(frozen=True)
class ConfoundingPreset:
    """Rules and tables of one selection.

    Attributes:
        citation: source of the preset.
        choices: our choices where the source is not specific.
        rules: rules for rows to leave out at any strength.
        tables: table of each dependent factor.
    """

    citation: str
    choices: str = ""
    rules: tuple[Mapping[str, Any], ...] = ()
    tables: Mapping[str, ConditionalTable] = field(default_factory=dict)


CONFOUNDING_PRESETS = {
    "candle-published": ConfoundingPreset(
        "check_confounding in methods/trained_models/causal_dataset_confounding_v2.py of "
        "causal-disentanglement/disentanglement_lib",
        "a rule that never applies, because of a mistake, is left out: the other rules leave the 12,546 "
        "images of the release",
        rules=(
            {"size": [2.5], "object_type": ["cube", "sphere", "cylinder", "cone"]},
            {"size": [1.5], "scene": ["garden", "garage"]},
            {"color": ["yellow"], "scene": ["bridge", "city square"]},
            {"size": [2.5], "scene": ["hall"]},
            {"object_type": ["cone"], "scene": ["hall", "tunnel", "skywalk"]},
            {"color": ["orange", "yellow"], "scene": ["station", "dusk city", "playground"]},
            {"object_type": ["sphere"], "scene": ["skywalk"]},
        ),
    ),
    "candle-color": ConfoundingPreset(
        f"{_SUPPLEMENT}, table 6",
        tables={
            "color": ConditionalTable(
                "object_type",
                {
                    "cube": ["red", "blue"],
                    "sphere": ["blue", "yellow"],
                    "cylinder": ["yellow", "purple"],
                    "cone": ["purple", "orange"],
                    "torus": ["orange", "red"],
                },
            )
        },
    ),
    "candle-size": ConfoundingPreset(
        f"{_SUPPLEMENT}, table 8",
        "small is 1.5 and big is 2.5",
        tables={
            "size": ConditionalTable(
                "object_type",
                {"cube": [1.5], "sphere": [1.5], "cylinder": [1.5], "cone": [2.5], "torus": [2.5]},
            )
        },
    ),
    "dsprites": ConfoundingPreset(
        f"{_SUPPLEMENT}, table 10",
        "small, medium and large are two scales each; a bound belongs to the interval above it, 2 pi to the "
        "last; top left, middle and bottom right are thirds of both axes, y from the top",
        tables={
            "scale": ConditionalTable(
                "shape",
                {
                    "square": ValueRange(0.0, 0.65),
                    "ellipse": ValueRange(0.65, 0.85),
                    "heart": ValueRange(0.85, _ENDLESS),
                },
            ),
            "orientation": ConditionalTable(
                "shape",
                {
                    "square": ValueRange(0.0, 2 * math.pi / 3),
                    "ellipse": ValueRange(2 * math.pi / 3, 4 * math.pi / 3),
                    "heart": ValueRange(4 * math.pi / 3, _ENDLESS),
                },
            ),
            **dict.fromkeys(
                ("posX", "posY"),
                ConditionalTable(
                    "shape",
                    {
                        "square": ValueRange(0.0, 1 / 3),
                        "ellipse": ValueRange(1 / 3, 2 / 3),
                        "heart": ValueRange(2 / 3, _ENDLESS),
                    },
                ),
            ),
        },
    ),
    "mpi3d": ConfoundingPreset(
        f"{_SUPPLEMENT}, table 12",
        "the intervals of both axes do not include their upper bound; height 1 is the middle camera",
        rules=(
            {"object_color": ["white", "brown", "olive"]},
            {"camera_height": ["top", "bottom"]},
        ),
        tables={
            "object_shape": ConditionalTable(
                "object_color",
                {"green": ["cube", "cylinder"], "red": ["cylinder", "sphere"], "blue": ["sphere", "cube"]},
            ),
            "object_size": ConditionalTable(
                "object_color", {"green": ["small"], "red": ["large"], "blue": ["small", "large"]}
            ),
            **dict.fromkeys(
                ("horizontal_axis", "vertical_axis"),
                ConditionalTable(
                    "object_color",
                    {"green": ValueRange(0, 10), "red": ValueRange(10, 20), "blue": ValueRange(20, 30)},
                ),
            ),
        },
    ),
}


def select_preset(index: FactorIndex, name: str, seed: int = 0, strength: float = 1.0) -> Selection:
    """Select rows of a full grid by the rules and tables of a paper.

    Args:
        index: all combinations of CANDLE, dSprites or MPI3D.
        name: "candle-published" (without tables, so without propensities), "candle-color", "candle-size",
            "dsprites" or "mpi3d".
        seed: seed of the draws, which matters below strength 1.
        strength: strength of the tables: 1 selects the images of the paper, 0 all images that its rules
            leave.

    Raises:
        InputError: the preset is unknown, the index lacks one of its factors or values, or the set lacks
            combinations that a strength below 1 needs.

    Example:
        >>> print(CONFOUNDING_PRESETS["mpi3d"].tables["object_size"].table["blue"])
        ['small', 'large']
    """
    if name not in CONFOUNDING_PRESETS:
        raise InputError(f"preset: expected one of {', '.join(CONFOUNDING_PRESETS)}, got `{name}`")
    preset = CONFOUNDING_PRESETS[name]
    rows = select_by_rules(index, preset.rules)
    if not preset.tables:
        return Selection(rows, {}, {})
    tables = {factor: replace(table, strength=strength) for factor, table in preset.tables.items()}
    selection = select_by_tables(index.select(rows), tables, seed, keep="most")
    return replace(selection, rows=rows[selection.rows])
