"""The site: pages of this folder, the reference of the Python interface, and the commands.

``scripts/docs`` builds it, from a copy of this folder beside one of README, which the first page shows.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from shlex import quote
from typing import Any, get_args

import yaml
from docutils import nodes

from candlelight.evaluation import Help
from candlelight.version import code_version

# Packages whose names users import, in the order of the reference.
PACKAGES = {
    "candlelight": "Common names",
    "candlelight.generators": "Recipes, plans, rendering",
    "candlelight.blender_assets": "Shipped assets",
    "candlelight.loaders": "Frames and packs",
    "candlelight.loaders.public": "Public data sets",
    "candlelight.evaluation": "Evaluations and results",
    "candlelight.evaluation.views": "Views of data",
    "candlelight.evaluation.models": "Models",
    "candlelight.evaluation.intrinsic": "Intrinsic images",
    "candlelight.evaluation.concepts": "Concepts",
    "candlelight.evaluation.coverage": "Explanations",
    "candlelight.evaluation.causal": "Causal representations",
    "candlelight.evaluation.perception": "Perceptual distances",
}

# Pydantic's own attribute of the classes of recipes is no part of the interface.
MEMBERS = ("   :members:", "   :exclude-members: model_config")

# Pages of the repository that tests and scripts write, for the appendix.
APPENDIX = (
    "benchmarks/measured.md",
    "benchmarks/trials/causal_values.md",
    "benchmarks/trials/validity_values.md",
    "tests/evaluation/degenerate.md",
)

project = "candlelight"
author = "the candlelight authors"
version = release = code_version()
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "index"
exclude_patterns = ["strips", "tutorials/*/**"]  # the notebooks render beside themselves
autosummary_generate = False
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"
highlight_language = "none"  # output that happens to parse is no Python
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_use_ivar = True
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
copybutton_prompt_text = ">>> "
copybutton_exclude = ".linenos, .gp, .go"
smartquotes = False  # `--set` in the help of commands would lose a dash
html_theme = "pydata_sphinx_theme"
html_title = "candlelight"
html_show_sourcelink = False
html_static_path = ["static"]
html_sidebars = {"index": [], "gallery": []}  # pages without pages below them
html_theme_options = {"show_toc_level": 1, "navigation_depth": 3, "secondary_sidebar_items": ["page-toc"]}


def public_names(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the names that users import from a package, with their objects."""
    module = importlib.import_module(package)
    for name in sorted(set(dir(module)) - {"require_module"}, key=str.lower):
        value = getattr(module, name)
        ours = getattr(value, "__module__", package).startswith("candlelight")
        if not name.startswith("_") and not inspect.ismodule(value) and ours:
            yield name, value


def write_reference(app: Any) -> None:
    """Write one page for each package: a table of its functions and classes, then each with its docstring."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for package, title in PACKAGES.items():
        described = [name for name, value in public_names(package) if callable(value)]
        kinds = {
            name: "class" if inspect.isclass(value) else "function" for name, value in public_names(package)
        }
        lines = [
            title,
            "=" * len(title),
            "",
            f".. currentmodule:: {package}",
            "",
            f".. automodule:: {package}",
            "   :no-index:",
            "",
            f"Import from ``{package}``:",
            "",
        ]
        lines += [".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in described)]
        for name in described:
            lines += ["", f".. auto{kinds[name]}:: {name}", *MEMBERS * (kinds[name] == "class")]
        write_changed(folder / f"{package.removeprefix('candlelight.')}.rst", "\n".join(lines) + "\n")


def write_gallery(app: Any) -> None:
    """Write the page of the gallery: each picture of gallery.yaml with the command that renders it."""
    folder = Path(app.srcdir)
    lines = ["# Gallery", "", "Every picture carries the command that renders its images.", ""]
    for name, entry in yaml.safe_load((folder / "gallery.yaml").read_text(encoding="utf-8")).items():
        page, picture = f"recipes/{name}.md", entry.get("picture", f"recipes/{name}.jpg")
        title = f"[{name}]({page})" if (folder / page).is_file() else entry.get("title", name)
        command = entry.get("command") or render_command(name, entry)
        lines += [f"## {title}", "", f"![{entry['caption']}]({picture})", "", entry["caption"], ""]
        lines += ["```console", command, "```", ""]
    write_changed(folder / "gallery.md", "\n".join(lines))


def write_appendix(app: Any) -> None:
    """Write the pages of the appendix, with their links to pages of this folder."""
    folder = Path(app.srcdir) / "appendix"
    folder.mkdir(exist_ok=True)
    for name in APPENDIX:
        text = (folder.parents[2] / name).read_text(encoding="utf-8")
        write_changed(
            folder / Path(name).name, re.sub(r"\[(?:docs/)?([^][]*)\]\((?:\.\./)+docs/", r"[\1](../", text)
        )


def render_command(name: str, entry: dict[str, Any]) -> str:
    """Write the command that renders the samples of a grid, and more where it shows some of them."""
    width, height = entry["tile"]
    changed = [f"image.width={width}", f"image.height={height}", *entry.get("overrides", ())]
    sets = dict.fromkeys(some["set"] for some in entry.get("shown", ()))
    parts = [f"candlelight render {entry['recipe']}", *[f"--sets {','.join(sets)}"] * bool(sets)]
    if limit := entry.get("limit"):
        parts.append(f"--limit {limit}")
    parts += [f"--set {quote(one)}" for one in changed]
    return " \\\n    ".join([*parts, f"--out {name}"])


def write_changed(path: Path, text: str) -> None:
    """Write a page, unless it is there: Sphinx reads changed pages again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def name_pages(app: Any, page: str, source: list[str]) -> None:
    """Let links that name the file of a page, as [packs.md](packs.md), name the page, which is HTML here."""
    source[0] = re.sub(r"\[([\w/-]+)\.md\]\((?=[\w./-]+\.md)", r"[\1](", source[0])


def clean_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn our docstrings into reStructuredText: bars and stars are text, and commands follow a backspace."""
    text = "\n".join(lines)
    text = re.sub(
        r"^ *\x08\n((?:.+\n?)+)",
        lambda found: "::\n\n" + re.sub("(?m)^ *", "    ", found[1]) + "\n",
        text,
        flags=re.M,
    )
    text = re.sub(r"(?m)^((?:Returns|Yields):\n +)", r"\1: ", text)  # the text before a colon is no type
    text = re.sub(r"(?m)^( *>>> from )([\w.]+) import ([\w, ]+)$", import_from_package, text)
    text = re.sub(r"(?m)^( *)(\S.*[^:]):\n\n(?=\1 {2,}\S)", r"\1\2::\n\n", text)  # formulas
    code = r"(?m)(``[^`]+``|^ *>>> (?:.+\n?)+|(?<=::\n\n)(?: {2,}.+\n?)+)"
    parts = re.split(code, link_pages(text, "../"))
    parts[::2] = [re.sub(r"(?<![\\`])([|*])(?=\S)", r"\\\1", part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")
    if what == "class":
        lines += describe_fields(thing)


def describe_fields(kind: type) -> list[str]:
    """Describe options by their help, and point from a part of a recipe to its fields."""
    if hasattr(kind, "model_fields"):
        return ["", "Its fields: :doc:`../recipe-fields`.", ""]
    if not is_dataclass(kind):
        return []
    types = {one.name: get_args(one.type)[1:] for one in fields(kind)}
    helps = [(name, note.text) for name, notes in types.items() for note in notes if isinstance(note, Help)]
    return ["", *(f":ivar {name}: {text}" for name, text in helps), ""]


def import_from_package(found: re.Match[str]) -> str:
    """Let an example import from the package whose names users import, in place of the module of a name."""
    names = set(found[3].split(", "))
    for package in sorted(PACKAGES, key=len, reverse=True):
        if found[2].startswith(package) and names <= {name for name, _ in public_names(package)}:
            return f"{found[1]}{package} import {found[3]}"
    return found[0]


def shorten_types(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Show the types of attributes without their modules."""
    for index, line in enumerate(lines):
        if ":vartype " in line:
            mark = "" if "'" in line else "~"  # Sphinx links no name in a type with quotes
            lines[index] = re.sub(r"(?<![~\w.])((?:\w+\.)+)(?=[A-Z])", mark and r"~\1", line)


def shorten_signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Leave out the arguments of protocols, and of options, which the page of commands lists."""
    hidden = what == "class" and ("Annotated" in str(signature) or getattr(thing, "_is_protocol", False))
    return "" if hidden else signature and signature.replace("<factory>", "..."), returned


def link_pages(text: str, folder: str = "") -> str:
    """Turn names of pages, as docs/packs.md, into links."""
    return re.sub(r"\bdocs/([\w-]+)\.md", rf":doc:`{folder}\1`", text)


def link_options(app: Any, context: Any, lines: list[str]) -> None:
    """Link the pages that the help of options names."""
    lines[:] = map(link_pages, lines)


def draw_dashes(app: Any, document: Any) -> None:
    """Draw the hyphens after a parameter as a dash."""
    for text in list(document.findall(lambda node: isinstance(node, nodes.Text) and node == " -- ")):
        text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def show_examples(app: Any, context: Any, lines: list[str]) -> None:
    """Turn the examples in the help of commands, lines after a bar, into blocks of code."""
    text = "\n".join(
        line if line.startswith("| ") else link_pages(line.replace("*", r"\*")) for line in lines
    )
    text = re.sub(
        r"(?m)(?:^\| .*\n?)+",
        lambda block: ".. code-block:: console\n\n" + re.sub(r"(?m)^\| ", "   ", block[0]) + "\n",
        text,
    )
    lines[:] = text.split("\n")


def setup(app: Any) -> None:
    """Register the functions that Sphinx calls."""
    app.connect("sphinx-click-process-description", show_examples)
    app.connect("sphinx-click-process-options", link_options)
    app.connect("sphinx-click-process-arguments", link_options)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", shorten_types, priority=600)
    app.connect("doctree-read", draw_dashes)
    app.add_css_file("site.css")
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", write_gallery)
    app.connect("builder-inited", write_appendix)
    app.connect("source-read", name_pages)
    app.connect("autodoc-process-docstring", clean_docstring, priority=400)
