"""Fill templates of HTML pages, all of which have one style sheet."""

import re
from importlib.resources import files
from typing import Any

_BREAKS = re.compile(r"[_:](?=\S)|\.(?!py)(?=[a-z])|(?<=[a-z])(?=\()")  # where names may break


def fill_template(package: str, name: str, **values: Any) -> str:
    """Fill a template; text is escaped.

    A template may use ``style``, the style sheet of all pages, and the filter ``words``: names break behind
    "_", ":" and ".", and before "(", arrows and "%" stay with their words, and words in backticks are code.

    Args:
        package: the package that holds the file.
        name: the file.
        values: by their names in the template.

    Example:
        >>> page = fill_template("candlelight.generators.reports", "causal_graph.svg", arrows=[], boxes={},
        ...     margin=0, width=1, height=1)
        >>> page[:4]
        '<svg'
    """
    import jinja2
    from markupsafe import Markup, escape

    def words(text: str) -> Markup:
        kept = re.sub(r" (?=[↑↓%])", "\N{NO-BREAK SPACE}", str(escape(text)))
        kept = re.sub(r"[\d.]+e-\d+", r'<span class="whole">\g<0></span>', kept)
        return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", _BREAKS.sub(r"\g<0><wbr>", kept)))

    def read(package: str, name: str) -> str:
        return (files(package) / name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["words"] = words
    style = read("candlelight.loaders.looking", "page.css")
    return environment.from_string(read(package, name)).render(values, style=style)
