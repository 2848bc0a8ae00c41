"""Parse YAML safely: plain values only, and a limit on their number."""

from typing import Any

import yaml

from candlelight.loaders.errors import InputError

# Characters of the longest text: PyYAML takes a second and 60 MB for 400,000 of them.
LONGEST = 2_000_000
# Each value counts like VALUE characters; the total is at most LARGEST. A recipe has some hundred values.
VALUE, LARGEST = 8, 10_000_000


def parse_yaml(text: str) -> Any:
    """Parse YAML to mappings, lists, strings and numbers.

    With aliases, nine lines can mean billions of values, so all values are counted before any is created.

    Args:
        text: the YAML.

    Raises:
        InputError: the text is not YAML, repeats a field, has other types, contains itself, or is too large.

    Example:
        >>> parse_yaml("{a: &a [1, x], b: *a}")
        {'a': [1, 'x'], 'b': [1, 'x']}
    """
    if len(text) > LONGEST:
        raise InputError(f"expected at most {LONGEST} characters, got {len(text)}")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None and _size(node, {}) > LARGEST:
            raise InputError(
                f"expected at most {LARGEST // VALUE} values, got more once all aliases are followed"
            )
        return None if node is None else loader.construct_document(node)
    except RecursionError:
        raise InputError("expected fields of finite depth, got one inside itself") from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML raises ValueError for a number with thousands of digits or a thirteenth month.
        reason = " ".join(str(error).split())
        raise InputError(f"expected YAML, got something else: {reason}") from None


def _refuse_twice(node: Any) -> None:
    """Refuse a mapping with two values for one key: PyYAML would use the last without a word."""
    seen = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
        if name in seen:
            raise InputError(
                f"expected each field once, got `{key.value}` again in line {key.start_mark.line + 1}"
            )
        if name is not None and key.value != "<<":
            seen.add(name)


def _size(node: Any, known: dict[int, int]) -> int:
    """Compute the size of a node with all aliases expanded; each node is visited once."""
    if id(node) not in known:
        known[id(node)] = -1  # marks a node whose count has begun
        _refuse_twice(node)
        if isinstance(node, yaml.ScalarNode):
            inside = len(node.value)
        elif isinstance(node, yaml.MappingNode):
            inside = sum(_size(key, known) + _size(value, known) for key, value in node.value)
        else:
            inside = sum(_size(item, known) for item in node.value)
        known[id(node)] = VALUE + inside
    if known[id(node)] < 0:
        raise RecursionError
    return known[id(node)]
