"""The record of an evaluation: its options, the rows that it reads, and the functions that score them.

This module imports no torch, so that the help of a command, which is made of the options, is there at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib import import_module
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from candlelight.loaders.errors import InputError, argument, did_you_mean

if TYPE_CHECKING:
    from candlelight.evaluation.report.blocks import Block, Section
    from candlelight.evaluation.run.evaluate import Run
    from candlelight.evaluation.run.result import Result

    Shown = Sequence[Block] | Mapping[str, Sequence[Block]]

Better = Literal["lower", "higher", "neither"]
Directions = Better | dict[str, Better]


def direction(better: Directions, column: str) -> Better:
    """Return whether lower or higher values of a column are better; `NAME of PART` is a column as NAME.

    Example:
        >>> direction("lower", "lmse"), direction({"mae": "lower", "psnr": "higher"}, "psnr of cube")
        ('lower', 'higher')
    """
    return better if isinstance(better, str) else better[whole_column(column)]


def whole_column(column: str) -> str:
    """Return the column of the whole image of a column `NAME of PART`.

    Example:
        >>> whole_column("psnr of cube"), whole_column("psnr")
        ('psnr', 'psnr')
    """
    return column.partition(" of ")[0]


O = TypeVar("O")  # noqa: E741  the options of an evaluation


@dataclass(frozen=True)
class Help:
    """Help of an option, as an annotation of its field.

    Attributes:
        text: the help; the default value is added on the command line.
        metavar: placeholder of the value.
        flag: name on the command line, where it differs from the field's.
        default: words for a default that depends on other things.
    """

    text: str
    metavar: str | None = None
    flag: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class At:
    """Bounds of a number, as an annotation of its field: at least, above, at most, below."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Tell whether a number lies within the bounds; nan and infinity do not."""
        low = self.least is None or value >= self.least
        high = self.most is None or value <= self.most
        inside = (self.above is None or value > self.above) and (self.below is None or value < self.below)
        return low and high and inside and math.isfinite(value)

    def __str__(self) -> str:
        words = ("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below)
        return " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)


@dataclass(frozen=True)
class Option:
    """One option of an evaluation, read from a field of its dataclass.

    Attributes:
        name: name in Python.
        kind: type of one value: bool, int, float, str or a path.
        default: default value; `MISSING` if the option is needed.
        choices: allowed texts; empty for any.
        many: whether the option takes any number of values, as a tuple.
        count: number of values that are given together, such as a height and a width.
        optional: whether None is allowed.
        help: help for people.
        bounds: bounds of a number.
    """

    name: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    many: bool
    count: int
    optional: bool
    help: Help
    bounds: At

    def check(self, value: Any) -> Any:
        """Return a value with the type of the option: lists as tuples, whole numbers as float where asked.

        Raises:
            InputError: the value has another type, is no choice, or lies beyond the bounds.
        """
        if value is None and self.optional:
            return None
        if not (self.many or self.count > 1):
            return self._check_one(value)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError(f"{argument(self.name)}: expected a list, got {value!r}")
        if self.count > 1 and len(value) != self.count:
            raise InputError(f"{argument(self.name)}: expected {self.count} values, got {len(value)}")
        return tuple(map(self._check_one, value))

    def _check_one(self, value: Any) -> Any:
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        fits = isinstance(value, self.kind) and (self.kind is bool or not isinstance(value, bool))
        if not fits:
            kind = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "True or False"}
            expected = kind.get(self.kind.__name__, self.kind.__name__)
            raise InputError(f"{argument(self.name)}: expected {expected}, got {value!r}")
        if self.choices and value not in self.choices:
            known, near = ", ".join(self.choices), did_you_mean(value, self.choices)
            raise InputError(f"{argument(self.name)}: expected one of {known}, got {value}{near}")
        if self.kind in (int, float) and not self.bounds.holds(value):
            expected = str(self.bounds) or "a number"
            raise InputError(f"{argument(self.name)}: expected {expected}, got {value:g}")
        return value


def options_of(kind: type) -> list[Option]:
    """Read the options of an evaluation from its dataclass.

    Types of fields are bool, int, float, str, `Path` or a ``Literal`` of texts; ``X | None``;
    ``tuple[X, ...]`` for a repeatable option, or numbers separated by commas; ``tuple[X, X]`` for values
    that are given together; and ``object`` for a text on the command line that may be any object in Python.

    Example:
        >>> @dataclass(frozen=True)
        ... class Photometric:
        ...     peak: Annotated[float, At(above=0), Help("Largest value of the data.")] = 1.0
        >>> [(one.name, one.kind.__name__, one.default) for one in options_of(Photometric)]
        [('peak', 'float', 1.0)]
    """
    hints = get_type_hints(kind, include_extras=True)
    return [_option(one.name, hints[one.name], _default(one)) for one in fields(kind)]


def _default(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _option(name: str, hint: Any, default: Any) -> Option:
    notes: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        notes = tuple(rest)
    optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    if optional:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    many, count = False, 1
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        many, count = parts[-1] is Ellipsis, 1 if parts[-1] is Ellipsis else len(parts)
        hint = parts[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    if (not choices and not isinstance(hint, type)) or hint in (list, dict, set, tuple):
        raise InputError(
            f"option `{name}`: expected bool, int, float, str, Path, a Literal of texts or tuple[X, ...], "
            f"got {hint}"
        )
    told = next((one for one in notes if isinstance(one, Help)), Help(""))
    bounds = next((one for one in notes if isinstance(one, At)), At())
    return Option(name, str if choices else hint, default, choices, many, count, optional, told, bounds)


def make_options(kind: type[O], given: Mapping[str, Any]) -> O:
    """Make the options of an evaluation from values by name, and check them.

    Raises:
        InputError: an unknown or a missing option, or see `Option.check`.

    Example:
        >>> @dataclass(frozen=True)
        ... class Photometric:
        ...     peak: Annotated[float, At(above=0), Help("Largest value of the data.")] = 1.0
        >>> make_options(Photometric, {"peak": 2})
        Photometric(peak=2.0)
        >>> make_options(Photometric, {"peak": 0})
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `peak`: expected above 0, got 0
    """
    known = {one.name: one for one in options_of(kind)}
    if unknown := sorted(given.keys() - known.keys()):
        names, near = ", ".join(known) or "none", did_you_mean(unknown[0], known)
        raise InputError(f"option `{unknown[0]}` is not known; expected {names}{near}")
    for name, one in known.items():
        if one.default is MISSING and name not in given:
            raise InputError(f"{argument(name)} is needed: {one.help.text}")
    return kind(**{name: known[name].check(value) for name, value in given.items()})


def split_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Split the NAME=SOURCE of a repeatable option.

    Args:
        pairs: texts of the option.
        option: name of the option, for the message.

    Raises:
        InputError: there is no name or no source, or a name is given twice.

    Example:
        >>> split_pairs(["albedo=controls:albedo_pose"], "--control")
        {'albedo': 'controls:albedo_pose'}
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, source = pair.partition("=")
        if not name or not equals or not source or not pair.isprintable():
            raise InputError(f"{option} {pair}: expected NAME=SOURCE")
        if name in found:
            raise InputError(f"{option}: two sources are named `{name}`; give another name")
        found[name] = source
    return found


@dataclass(frozen=True)
class Models:
    """Models that an evaluation scores, and how a text names one.

    Options with a class attribute ``models`` take other models than those of `MODELS`.

    Attributes:
        name: name of the option, such as ``model``.
        what: the models, for the help.
        opens: ``module:function`` that opens the model of one text: takes the text, the torch device and the
            colour space of a callable that names none.
    """

    name: str
    what: str
    opens: str


MODELS = Models(
    "model",
    "Model to score: retinex, gray-retinex, weiss, constant-reflectance, constant-shading, net-supervised, "
    "net-multi-illumination, net-unsupervised, a weights file, package.module:callable, file.py:callable, "
    "hf:NAME, a folder of a transformers model, METHOD:CHECKOUT:WEIGHTS (cgintrinsics, bigtime, usi3d, "
    "niid-net) or marigold:FOLDER; repeatable.",
    "candlelight.evaluation.models.model_spec:open_model",
)


@dataclass(frozen=True)
class Files:
    """Result files of other programs that are scored in place of a model.

    Attributes:
        name: name of the option, such as ``predictions``.
        what: the files, for the help.
        opens: ``module:function`` that opens one path.
        takes: keyword arguments of that function which are options too.
        may_fail: whether a missing file may count as a failed prediction; an evaluation without failed
            predictions refuses it.
    """

    name: str
    what: str
    opens: str
    takes: tuple[str, ...] = ()
    may_fail: bool = True


@dataclass(frozen=True)
class Reading:
    """Rows that evaluations read, and the output of models that they score.

    Attributes:
        open: opens the data: takes ``data``, ``set_name``, ``split``, ``rows`` and ``limit`` as a mapping,
            the options and the models; an opened view is returned as it is. An object with more than a view
            names in ``views`` the ones whose ids result files must have.
        prepare: makes tensors of neighbouring rows with one image size, once for all models; the mechanism
            copies them to the device.
        predict: runs a model on prepared rows: takes the model, the ids and the prepared rows, and returns an
            output with a flag ``failed`` for each row, on the device.
        worst: makes the output that a failed prediction counts as, of the prepared rows.
        space: colour space of the images for a callable that names none: "linear" or "srgb".
        files: result files in place of models; None if there are none.
    """

    open: Callable[..., Any]
    prepare: Callable[[Sequence[Any]], Any] | None = None
    predict: Callable[..., Any] | None = None
    worst: Callable[[Any], Any] | None = None
    space: Literal["linear", "srgb"] = "linear"
    files: Files | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """How the results of an evaluation are shown.

    Attributes:
        section: makes the blocks of a page from results on the same data and from pictures.
        reading: blocks on how to read the scores.
        needs: names of columns, settings and details that the section shows.
        pictures: makes blocks that show rows, from a `candlelight.evaluation.run.evaluate.Run` and results;
            a mapping by section (``METRIC``, ``METRIC-2``, ...) where there are several.
        overview: makes a further section of results that belong to several sections.
        lines: makes the text of the terminal from the results; None for the table of scores and comparisons.
    """

    section: "Callable[[Sequence[Any], Sequence[Block]], Section]"
    reading: "tuple[Block, ...]" = ()
    needs: tuple[str, ...] = ()
    pictures: "Callable[[Run[Any], Mapping[str, Any]], Shown] | None" = None
    overview: "Callable[[Sequence[Sequence[Any]]], Section] | None" = None
    lines: Callable[[Sequence[Any]], Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation(Generic[O]):
    """The record of one evaluation.

    A score of single rows has ``measure``, and the mechanism makes means over rows with intervals over
    groups. A score of all rows has ``summarise`` beside it, which makes the results of the measured tensors.
    An evaluation that reads its data in a way of its own has ``study`` in place of both.

    Attributes:
        name: name of the command and of the metric in results.
        version: version of the metric; raised when the same input gets other numbers.
        better: whether lower or higher values are better, in all columns or by column; "neither" for a
            description.
        options: dataclass of the options; its docstring is the help of the command.
        reads: rows and models.
        measure: computes tensors by name with one entry for each row, on the device, from the output of a
            model, the prepared rows and the options. nan marks a value that the truth leaves undefined.
        summarise: makes the results by model from the measured tensors of all rows.
        study: makes the results by model from a `candlelight.evaluation.run.evaluate.Run`.
        controls: models by name that are scored beside the user's.
        ranges: smallest and largest possible value of columns; that of NAME is that of `NAME of PART` too.
        worst: values of failed predictions, for columns that have a worst value; other columns take the
            larger error of `Reading.worst` and of any model in any row.
        facts: describes the data beyond its name, for the settings of results: takes the view.
        page: how results are shown, or ``module:name`` of it, so that scoring imports no plots; None for a
            table and bars of each column.
        needs_models: whether a call needs a model, or result files.
    """

    name: str
    version: int
    better: Directions
    options: type[O]
    reads: Reading
    measure: Callable[..., Mapping[str, Any]] | None = None
    summarise: Callable[..., Mapping[str, "Result"]] | None = None
    study: Callable[["Run[O]"], Mapping[str, "Result"]] | None = None
    controls: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    worst: Mapping[str, float] = field(default_factory=dict)
    facts: Callable[[Any], Mapping[str, Any]] | None = None
    page: Page | str | None = None
    needs_models: bool = True

    def __post_init__(self) -> None:
        """Refuse a record that could not be run."""
        rows = self.measure is not None and self.reads_rows()
        wrong = {
            "name: a text": isinstance(self.name, str) and self.name.isprintable() and self.name != "",
            "version: a whole number": isinstance(self.version, int),
            "better: lower, higher or neither, or one of them by column": all(
                one in get_args(Better)
                for one in (self.better.values() if isinstance(self.better, Mapping) else [self.better])
            ),
            "options: a data class, not an object of it": isinstance(self.options, type)
            and is_dataclass(self.options),
            "reads: a `Reading`, such as `DECOMPOSITIONS`": isinstance(self.reads, Reading),
            "controls: models by name, as a dictionary": isinstance(self.controls, Mapping),
            "ranges: two numbers by column, such as (0, math.inf)": all(
                len(pair) == 2 and all(isinstance(one, int | float) for one in pair)
                for pair in self.ranges.values()
            ),
            "measure, with `prepare`, `predict` and `worst` in `reads`; or study": rows
            or self.study is not None,
        }
        if faults := [text for text, fits in wrong.items() if not fits]:
            raise InputError(f"evaluation `{self.name}`: expected {'; '.join(faults)}")

    def reads_rows(self) -> bool:
        """Tell whether ``reads`` has what the loop over rows needs."""
        needed = ("prepare", "predict") if self.summarise is not None else ("prepare", "predict", "worst")
        return all(getattr(self.reads, name, None) is not None for name in needed)

    @property
    def models(self) -> Models:
        """Models that the evaluation scores."""
        models: Models = getattr(self.options, "models", MODELS)
        return models

    def page_of(self) -> Page | None:
        """Import and return how results are shown."""
        if not isinstance(self.page, str):
            return self.page
        module, _, name = self.page.partition(":")
        page: Page = getattr(import_module(module), name)
        return page
