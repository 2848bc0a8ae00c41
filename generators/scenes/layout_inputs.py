"""Fill the fields of a layout with the values of a sample, and give it the random streams of its unit."""

import colorsys
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.colour_texts import linear_colour
from candlelight.generators.language.field_types import Choice, Hue, substitute
from candlelight.generators.random_streams import stream
from candlelight.generators.scenes.plan_records import CodeArgument
from candlelight.loaders.errors import InputError, within
from candlelight.loaders.schema import FactorValue, Record, Vector

_T = TypeVar("_T")


@dataclass(frozen=True)
class LayoutInputs:
    """Inputs of a layout: the recipe's seed, the unit, the values of the sample, and the assets."""

    seed: int
    unit: str
    values: Mapping[str, FactorValue]
    library: AssetLibrary = field(default_factory=AssetLibrary)

    def stream(self, name: str) -> np.random.Generator:
        """Return the random stream of one named variable of the unit."""
        return stream(self.seed, self.unit, name)

    def fill(self, value: Any) -> Any:
        """Replace ``$name`` by the sample's value."""
        return substitute(value, self.values.__getitem__)

    def number(self, value: Any, field: str) -> float:
        """Return the number that a field stands for.

        Raises:
            InputError: the field names a factor whose value is no number.
        """
        filled = self.fill(value)
        if isinstance(filled, str):
            raise InputError(f"{field}: expected a number, got `{filled}` from `{value}`")
        return float(filled)

    def numbers(self, spec: Record, field: str, *names: str) -> dict[str, Any]:
        """Return the numbers, one or several each, that fields of a spec stand for, within their limits.

        Args:
            spec: the spec.
            field: its path, for messages.
            names: the fields.

        Raises:
            InputError: a field names a factor whose value is no number, or a number is beyond the limits.
        """
        return {name: self._within_limits(spec, name, f"{field}.{name}") for name in names}

    def _within_limits(self, spec: Record, name: str, field: str) -> float | tuple[float, ...]:
        value = getattr(spec, name)
        facts: Any = type(spec).model_fields[name].json_schema_extra
        if isinstance(value, tuple):
            return tuple(self._within(part, facts, field) for part in value)
        return self._within(value, facts, field)

    def _within(self, value: Any, facts: Any, field: str) -> float:
        number, limits = self.number(value, field), facts["filled"]
        if (
            (limits.gt is None or number > limits.gt)
            and (limits.ge is None or number >= limits.ge)
            and (limits.lt is None or number < limits.lt)
            and (limits.le is None or number <= limits.le)
        ):
            return number
        low, high = (limits.gt if limits.ge is None else limits.ge), limits.lt or limits.le
        least = "more than" if limits.ge is None else "at least"
        expected = f"{least} {low:g}" if high is None else f"{low:g} to {high:g}"
        unit = f" {facts['unit']}" if facts["unit"] else ""
        raise InputError(f"{field}: expected {expected}{unit}, got {number}")

    def whole(self, value: Any, field: str) -> int:
        """Return the whole number, at least 0, that a field stands for.

        Raises:
            InputError: the field stands for another value.
        """
        number = self.number(value, field)
        if number < 0 or not number.is_integer():
            raise InputError(f"{field}: expected a whole number, at least 0, got {number}")
        return int(number)

    def label(self, value: str, expected: Sequence[str], field: str) -> str:
        """Return the label that a field stands for.

        Raises:
            InputError: it is no expected label.
        """
        name = str(self.fill(value))
        if name not in expected:
            raise InputError(f"{field}: expected one of {', '.join(expected)}, got `{name}`")
        return name

    def asset(self, kind: str, value: str, field: str) -> str:
        """Return the label of the asset that a field stands for.

        Raises:
            InputError: there is no such asset.
        """
        label = str(self.fill(value))
        with within(field):
            self.library.find(kind, label)
        return label

    def arguments(self, numbers: Mapping[str, float | str]) -> tuple[CodeArgument, ...]:
        """Return the arguments of a function of own code, sorted by name."""
        filled = {name: self.fill(numbers[name]) for name in sorted(numbers)}
        return tuple(
            CodeArgument(name=name, **{"label" if isinstance(value, str) else "number": value})
            for name, value in filled.items()
        )

    def chosen(self, value: _T | Choice[_T], field: str) -> tuple[_T, str]:
        """Return the value of a field that a factor may choose, and the path of that value.

        Raises:
            InputError: the choice has no entry for the factor's value.
        """
        if not isinstance(value, Choice):
            return value, field
        by = self.values[value.factor]
        return value.chosen(by, field), f"{field}.among.{by}"

    def vector(self, value: Any, field: str) -> Vector:
        """Return the three numbers that a field stands for.

        Raises:
            InputError: a number names a factor whose value is no number.
        """
        x, y, z = (self.number(part, field) for part in value)
        return x, y, z

    def color(self, value: Any, field: str, highest: float = math.inf) -> Vector:
        """Return the linear Rec.709 colour that a field stands for: three channels, a hue or a text.

        Raises:
            InputError: a channel is no number, negative or above ``highest``, or a text is no colour.
        """
        if isinstance(value, str):
            with within(field):
                rgb = linear_colour(str(self.fill(value)))
        elif isinstance(value, Hue):
            rgb = hue_to_rgb(**self.numbers(value, field, "hue", "saturation", "value"))
        else:
            rgb = self.vector(value, field)
        if not (min(rgb) >= 0 and max(rgb) <= highest):
            limits = "at least 0" if math.isinf(highest) else f"0 to {highest:g}"
            raise InputError(f"{field}: expected channels of {limits}, got {list(rgb)}")
        return rgb


def hue_to_rgb(hue: float, saturation: float, value: float) -> Vector:
    """Return the linear Rec.709 colour of a hue on the HSV hexagon.

    The hexagon's coordinates are taken for linear ones, as 3DIdent's generator does.

    Args:
        hue: degrees; 0 is red, 120 green, 240 blue.
        saturation: 0 to 1.
        value: the largest channel.

    Returns:
        R, G, B.

    Example:
        >>> hue_to_rgb(120, 0.75, 1)
        (0.25, 1.0, 0.25)
    """
    red, green, blue = colorsys.hsv_to_rgb(hue / 360.0 % 1.0, saturation, 1.0)
    return red * value, green * value, blue * value
