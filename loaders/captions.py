"""Describe a frame in words: a caption from its factors and objects, or from a recipe's own template.

Captions are made when frames are read or packed, so that frames need no new render for them. A pack stores
them as column `caption`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from string import Formatter
from typing import Any

import numpy as np
from numpy import ndarray

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.schema import FactorInfo, FactorValue, Metadata, ObjectRecord, SetInfo, Vector

OBJECTS = "objects"  # a name in templates that stands for all visible objects
_SPEC = re.compile(r"(\.\d[fg])?")
_MARKS = ("rgb", "own", "absent", "")  # labels in place of the name of a material
_UNCHANGED = ("own", "none")  # values of a factor that leave things as they are
_NUMERALS = ("no", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Samples of the eleven basic colour terms of Berlin and Kay (1969), as sRGB: bright, pale and dark ones.
_COLOURS = {
    "black": ["000000", "1c1c1c"],
    "white": ["ffffff"],
    "gray": ["808080", "b8b8b8", "484848"],
    "red": ["dc1428", "ff2020", "801018", "b04040"],
    "orange": ["ff8c00", "d06410", "ffb070"],
    "yellow": ["ffe119", "c8b420", "fff090"],
    "green": ["28a03c", "40ff40", "145a1e", "a0e8a0", "a0d830", "70803c", "00a080", "6ca06c"],
    "blue": ["2850dc", "40c8ff", "141e6e", "0088c0", "80e8f0", "005878", "7090c8", "b0d8ff"],
    "purple": ["8c28b4", "c060ff", "401050", "b090e8", "805880"],
    "pink": ["ff96be", "ff40c0", "d03080", "f4b8b8", "c87890"],
    "brown": ["784623", "50280f", "a88058"],
}


def caption(metadata: Metadata, set_info: SetInfo) -> str:
    """Describe a frame in one sentence.

    The template of the set is filled, see `check_caption`. Without a template the caption lists the visible
    objects with their colours or materials, the scene, and name and value of each factor whose value is not
    among these words yet; values "own" and "none" are left out. Of factors with the same value all are
    listed if these words have it less often. An object without a named colour has the nearest of the eleven
    basic colour terms, see `colour_word`. Listed values are written as in the recipe, other numbers with
    three digits. In words, ``_`` is a space.

    Args:
        metadata: the frame.
        set_info: its image set.

    Raises:
        InputError: the template is wrong, or the frame lacks a factor.
    """
    if set_info.caption:
        return _fill(set_info.caption, metadata, set_info)
    visible = _visible(metadata)
    text = _list_objects(visible) or _words(metadata.set)
    said = Counter(word for one in visible for word in _object_words(one))
    if metadata.environment is not None:
        scene = _words(metadata.environment.scene)
        said[scene] += 1
        text += f" in {_with_article(scene)} scene"
    values = {factor: _value_of(metadata, factor) for factor in set_info.factors}
    due = Counter(_words(str(value)) for value in values.values())
    types = {one.type for one in visible}

    def is_said(value: FactorValue) -> bool:
        words = _words(str(value))
        return due[words] <= said[words] or (" " in words and {*words.split(" ")} <= types)

    rest = [
        _phrase(factor, value)
        for factor, value in values.items()
        if value not in _UNCHANGED and not is_said(value)
    ]
    return ", ".join([text, *rest])


def check_caption(template: str, names: Collection[str]) -> None:
    """Refuse a template of captions that cannot be filled.

    ``{name}`` stands for the value of a factor, ``{objects}`` for all visible objects. ``{name:.1f}`` writes
    a number with one digit after the point, ``{name:.2g}`` with two digits. "a" before a value becomes "an"
    where English has it so. ``{{`` is a brace.

    Args:
        template: the template.
        names: names of the factors.

    Raises:
        InputError: a name is unknown, or the template has another form.

    Example:
        >>> check_caption("a {color} {shape}", ["color", "shape"])
        >>> check_caption("a {colour}", ["color", "shape"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: caption: `colour` is no factor of this set; did you mean \
`color`?
    """
    for _, name, spec, conversion in _parsed(template):
        if name is None:
            continue
        if name not in (OBJECTS, *names):
            near = did_you_mean(name, [*names, OBJECTS])
            raise InputError(f"caption: `{name}` is no factor of this set{near}")
        if name == OBJECTS and (conversion or spec):
            raise InputError(f"caption: expected {{{OBJECTS}}} without a format, which is for numbers")
        if conversion or not _SPEC.fullmatch(spec or ""):
            got = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise InputError(f"caption: expected {{{name}}} or {{{name}:.2f}}, got {{{name}{got}}}")


def read_captions(data: Any, rows: Sequence[int] | None = None) -> list[str]:
    """Read the captions of rows.

    Args:
        data: frames, a pack, or a `datasets.Dataset` that ``load_dataset`` read from a pack.
        rows: row numbers; None for every row.

    Raises:
        InputError: the data have no captions.

    Example:
        >>> read_captions([])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected frames, a pack, or a `datasets.Dataset` read from a \
pack with column `caption`, got list
    """
    numbers = list(range(len(data)) if rows is None else rows)
    if "caption" in getattr(data, "column_names", ()):
        texts = data.with_format("arrow").select_columns(["caption"])[numbers]["caption"].to_pylist()
        return [text.decode() if isinstance(text, bytes) else text for text in texts]
    if hasattr(data, "caption"):
        return [data.caption(row) for row in numbers]
    if hasattr(data, "metadata") and hasattr(data, "set_info"):
        return [caption(data.metadata(row), data.set_info) for row in numbers]
    raise InputError(
        "expected frames, a pack, or a `datasets.Dataset` read from a pack with column `caption`, got "
        f"{type(data).__name__}"
    )


def colour_word(color: Vector) -> str:
    """Name a colour by the nearest of the eleven basic colour terms of Berlin and Kay, in OKLab.

    Args:
        color: linear Rec.709.

    Example:
        >>> colour_word((0.8, 0.09, 0.08)), colour_word((0.02, 0.56, 0.29))
        ('red', 'green')
    """
    names, samples = _colour_samples()
    distances = np.linalg.norm(samples - _oklab(np.array(color, float)), axis=-1)
    return names[int(distances.argmin())]


@cache
def _colour_samples() -> tuple[list[str], ndarray]:
    """Return the term of each sample, and the samples in OKLab [samples, 3]."""
    terms = [(name, tuple(bytes.fromhex(one))) for name, several in _COLOURS.items() for one in several]
    return [name for name, _ in terms], _oklab(srgb_to_linear(np.array([rgb for _, rgb in terms]) / 255))


def _oklab(linear: ndarray) -> ndarray:
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    lab: ndarray = np.cbrt(linear @ np.transpose(to_cones)) @ np.transpose(to_lab)
    return lab


def _parsed(template: str) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    try:
        yield from Formatter().parse(template)
    except ValueError as error:
        raise InputError(f"caption: expected names in braces, got {template!r} ({error})") from None


def _fill(template: str, metadata: Metadata, set_info: SetInfo) -> str:
    check_caption(template, [factor.name for factor in set_info.factors])
    text = ""
    for before, name, spec, _ in _parsed(template):
        text += before
        if name is None:
            continue
        if name == OBJECTS:
            value = _list_objects(_visible(metadata))
        else:
            factor = set_info.factor(name)
            value = _written(factor, _value_of(metadata, factor), spec or "")
        if re.search(r"\b[Aa] $", before):
            text = text[:-1] + _with_article(value)[1:].removesuffix(value)
        text += value
    return text


def _value_of(metadata: Metadata, factor: FactorInfo) -> FactorValue:
    if factor.name not in metadata.factors:
        raise InputError(f"sample `{metadata.id}` has no factor `{factor.name}`, which its set lists")
    return metadata.factors[factor.name]


def _visible(metadata: Metadata) -> list[ObjectRecord]:
    """List the objects that some pixel shows; in photographs, whose pixels were not counted, all."""
    return [one for one in metadata.objects if one.area or metadata.renderer is None]


def _list_objects(objects: Sequence[ObjectRecord]) -> str:
    counts = Counter(_name_object(one) for one in objects)
    names = [_with_article(name) if count == 1 else _plural(name, count) for name, count in counts.items()]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _name_object(one: ObjectRecord) -> str:
    look, kind = _object_words(one)
    if not look:
        return kind
    return f"{look} {kind}" if one.base_color is not None else f"{look}-textured {kind}"


def _object_words(one: ObjectRecord) -> tuple[str, str]:
    """Name the look of an object, "" if it has neither a colour nor a named material, and its type."""
    if one.material not in _MARKS:
        return _words(one.material), _words(one.type)
    return "" if one.base_color is None else colour_word(one.base_color), _words(one.type)


def _phrase(factor: FactorInfo, value: FactorValue) -> str:
    name, text = _words(factor.name), _written(factor, value)
    unit = f" {factor.unit}" if factor.unit and not isinstance(value, str) else ""
    return text if re.match(rf"{re.escape(name)}[ \d]", text) else f"{name} {text}{unit}"


def _written(factor: FactorInfo, value: FactorValue, spec: str = "") -> str:
    if isinstance(value, str):
        return _words(value)
    if spec:
        return format(value, spec)
    if factor.kind == "categorical" or isinstance(value, int):
        return f"{value:.12g}"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def _words(label: str) -> str:
    """Write a label as words: ``_`` is a space, and a colour or function has no prefix of its source."""
    return re.sub(r"^(css:|.+\.py:)", "", label).replace("_", " ")


def _with_article(words: str) -> str:
    """Put "a" or "an" before words, by their first letters, or by the sound of a number."""
    vowel = re.match(r"(?!uni|eu|one|us)[aeiou]|8|1[18](?!\d)", words, re.IGNORECASE)
    return f"{'an' if vowel else 'a'} {words}"


def _plural(words: str, count: int) -> str:
    ending = "es" if re.search(r"(s|x|z|ch|sh)$", words) else "s"
    several = re.sub(r"(?<=[^aeiou])y$", "ie", words) + ending
    return f"{_NUMERALS[count] if count < len(_NUMERALS) else count} {several}"
