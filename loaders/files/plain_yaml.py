"""Parse YAML 1.2 safely: plain values only, and a limit on their number.

PyYAML reads YAML 1.1, where 010 is 8, 1:30 is 90, 1e3 is a text and `no` a truth value. The loader below has
the core schema of YAML 1.2.2 (section 10.3) instead, and the merge key ``<<``, which 1.2 no longer has.
"""

import re
from typing import Any, ClassVar

import yaml

from candlelight.loaders.errors import InputError

# Characters of the longest text: PyYAML takes a second and 60 MB for 400,000 of them.
LONGEST = 2_000_000
# Each value counts like VALUE characters; the total is at most LARGEST. A recipe has some hundred values.
VALUE, LARGEST = 8, 10_000_000
_TAG = "tag:yaml.org,2002:"
# Each tag of a plain scalar: its pattern, the characters that it begins with, and the value of a text.
_SCALARS: dict[str, tuple[str, str, Any]] = {
    "null": ("~|null|Null|NULL|", "~nN", lambda _: None),
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true"),
    "int": (
        "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
        "-+0123456789",
        lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    ),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
        lambda text: float(re.sub(r"\.(?=[iInN])", "", text)),
    ),
    "merge": ("<<", "<", str),
}


class _CoreLoader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's loader with the core schema of YAML 1.2 in place of the types of 1.1."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: yaml.SafeLoader.yaml_constructors[tag]
        for tag in (None, *(_TAG + n for n in ("str", "seq", "map")))
    }

    def _scalar(self, node: Any) -> Any:
        pattern, _, value_of = _SCALARS[node.tag.removeprefix(_TAG)]
        text = self.construct_scalar(node)
        if not re.fullmatch(pattern, text):
            raise ValueError(f"`{text}` is no {node.tag.removeprefix(_TAG)}")
        return value_of(text)


for _name, (_pattern, _begin, _) in _SCALARS.items():
    _CoreLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [*_begin])
    _CoreLoader.add_constructor(_TAG + _name, _CoreLoader._scalar)
_CoreLoader.add_implicit_resolver(_TAG + "null", re.compile(r"\Z"), [""])


def parse_yaml(text: str) -> Any:
    """Parse YAML 1.2 to mappings, lists, strings, numbers, truth values and None.

    Numbers are decimal (010 is 10, 1e3 is 1000.0) but for 0o10 and 0x10; only true and false are truth
    values: yes, no, on, off, 1:30, 1_000 and 2026-01-31 are strings.

    With aliases, nine lines can mean billions of values, so all values are counted before any is created.

    Args:
        text: the YAML.

    Raises:
        InputError: the text is not YAML, repeats a field, has other types, contains itself, or is too large.

    Example:
        >>> parse_yaml("{a: &a [1, x], b: *a}")
        {'a': [1, 'x'], 'b': [1, 'x']}
        >>> parse_yaml("[010, 0o10, 1e-3, yes, 1:30]")
        [10, 8, 0.001, 'yes', '1:30']
    """
    if len(text) > LONGEST:
        raise InputError(f"expected at most {LONGEST} characters, got {len(text)}")
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
        if node is not None and _size(node, {}, loader) > LARGEST:
            raise InputError(
                f"expected at most {LARGEST // VALUE} values, got more once all aliases are followed"
            )
        return None if node is None else loader.construct_document(node)
    except RecursionError:
        raise InputError("expected fields of finite depth, got one inside itself") from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # Python raises ValueError for a number with thousands of digits.
        reason = " ".join(str(error).split())
        raise InputError(f"expected YAML, got something else: {reason}") from None


def _refuse_twice(node: Any, loader: _CoreLoader) -> None:
    """Refuse a mapping with two values for one key: PyYAML would use the last without a word."""
    seen = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key, yaml.ScalarNode) or key.tag == _TAG + "merge":
            continue
        name = loader.construct_object(key)
        if name in seen:
            raise InputError(
                f"expected each field once, got `{key.value}` again in line {key.start_mark.line + 1}"
            )
        seen.add(name)


def _size(node: Any, known: dict[int, int], loader: _CoreLoader) -> int:
    """Compute the size of a node with all aliases expanded; each node is visited once."""
    if id(node) not in known:
        known[id(node)] = -1  # marks a node whose count has begun
        _refuse_twice(node, loader)
        if isinstance(node, yaml.ScalarNode):
            inside = len(node.value)
        elif isinstance(node, yaml.MappingNode):
            inside = sum(_size(part, known, loader) for pair in node.value for part in pair)
        else:
            inside = sum(_size(item, known, loader) for item in node.value)
        known[id(node)] = VALUE + inside
    if known[id(node)] < 0:
        raise RecursionError
    return known[id(node)]
