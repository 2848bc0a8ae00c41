"""The card (``README.md``) of a Hugging Face data set: YAML for `datasets` and the Hub, then Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.foreign_text import as_code, as_markdown, printable
from candlelight.loaders.hub.arrow_tables import arrow_columns
from candlelight.loaders.hub.set_facts import SetFacts, count_values
from candlelight.loaders.licences import hub_licence, is_known
from candlelight.loaders.packs.pack_manifest import PackManifest
from candlelight.loaders.schema import DatasetInfo, FactorInfo, SetInfo, Statements

# The Hub's own names.
_SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
_TASKS = {"albedo": "image-to-image", "depth": "depth-estimation", "object": "image-segmentation"}
_SHOWN_VALUES = 24
_GRAPH_LINES, _GRAPH_WIDTH = 40, 300
_RENDERER = ("set", "Blender", "samples per pixel", "denoiser", "bounces", "device")


def card(info: DatasetInfo, manifest: PackManifest, facts: Mapping[str, SetFacts]) -> str:
    """Write the card.

    `datasets` caches data under a key that depends on the card and not on the files of a local folder. Each
    description therefore contains a hash of the content, so that `datasets` reads a folder again after it was
    packed again.

    Args:
        info: description of the packed image sets.
        manifest: their Parquet files.
        facts: facts of each image set, read from its files.

    Returns:
        Text of ``README.md``: YAML between two rules, then Markdown.
    """
    front = yaml.safe_dump(_front(info, manifest), sort_keys=False, allow_unicode=True, width=1000)
    sets = [line for name in info.sets for line in _set(name, info.sets[name], manifest, facts[name])]
    overview = _overview(info, manifest)
    made = [*_origin(info, facts), *_licences(info), *_statements(info.statements)]
    return "\n".join([f"---\n{front}---", "", *overview, *sets, *made])


def _front(info: DatasetInfo, manifest: PackManifest) -> dict[str, Any]:
    total = sum(shard.rows for shard in manifest.files)
    layers = {name for set_info in info.sets.values() for name in set_info.layers}
    size = next((text for limit, text in _SIZES.items() if total < limit), "10M<n<100M")
    return {
        **hub_licence(info.licence),
        "pretty_name": info.name,
        "task_categories": ["image-feature-extraction", *(t for name, t in _TASKS.items() if name in layers)],
        "tags": ["synthetic", "causal-representation-learning", "disentanglement", "intrinsic-images"],
        "annotations_creators": ["machine-generated"],
        "source_datasets": ["original"],
        "size_categories": [size],
        "configs": [_set_config(name, manifest.splits_of(name)) for name in info.sets],
        "dataset_info": [_set_front(name, manifest) for name in info.sets],
    }


def _set_config(set_name: str, splits: Sequence[str] = ("train",)) -> dict[str, Any]:
    """Name the files of a set's splits, in the form of `datasets`."""
    return {
        "config_name": set_name,
        "data_files": [{"split": name, "path": f"{set_name}/{name}-*.parquet"} for name in splits],
    }


def _set_front(name: str, manifest: PackManifest) -> dict[str, Any]:
    splits = []
    for split in manifest.splits_of(name):
        shards = manifest.of_split(name, split)
        in_memory, rows = (sum(getattr(shard, of) for shard in shards) for of in ("arrow_bytes", "rows"))
        splits.append({"name": split, "num_bytes": in_memory, "num_examples": rows})
    return {
        "config_name": name,
        "description": f"content-sha256:{manifest.content_sha256(name)}",
        "splits": splits,
        "download_size": sum(shard.bytes for shard in manifest.of_set(name)),
        "dataset_size": sum(split["num_bytes"] for split in splits),
    }


def _overview(info: DatasetInfo, manifest: PackManifest) -> list[str]:
    first = next(iter(info.sets))
    split = next(iter(manifest.splits_of(first)), "train")
    shown = "image" if "image" in info.sets[first].layers else "id"
    rows = (
        (
            as_code(name),
            sum(shard.rows for shard in manifest.of_set(name)),
            f"{s.width} x {s.height}",
            _varies(s),
        )
        for name, s in info.sets.items()
    )
    return [
        f"# {as_markdown(info.name)}",
        "",
        "\n\n".join(map(as_markdown, info.description.split("\n\n"))),
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'frames = load_dataset("path/to/this/folder", "{first}", split="{split}").with_format("numpy")',
        'print(frames[0]["image"].shape, frames[0]["id"])' if shown == "image" else 'print(frames[0]["id"])',
        "```",
        "",
        "The name of the data set on the Hub works instead of the folder. `with_format` matters: without it, "
        "float arrays are nested Python lists. It turns float16 into float32, which changes no value; "
        f'`candlelight.loaders.HubFrames("path/to/this/folder", "{first}")` of candlelight keeps float16.',
        "",
        *_table(("set", "samples", "width x height", "changes within a concept set"), rows),
    ]


def _varies(set_info: SetInfo) -> str:
    return ", ".join(map(as_code, set_info.varies)) or "-"


def _set(name: str, set_info: SetInfo, manifest: PackManifest, facts: SetFacts) -> list[str]:
    factors = (
        (
            as_code(factor.name),
            factor.kind,
            _values(factor),
            as_markdown(factor.unit) or "-",
            _found(factor, column),
        )
        for factor, column in zip(set_info.factors, facts.table.T, strict=True)
    )
    held = (
        (as_code(c.name), c.holds, as_markdown(c.unit) or "-", c.colour_space or "-", c.meaning)
        for c in arrow_columns(set_info, facts.first.step is not None)
    )
    made = manifest.splits.get(name, {})
    splits = [
        (
            as_code(split),
            sum(shard.rows for shard in manifest.of_split(name, split)),
            as_markdown(made[split].made) if split in made else "-",
        )
        for split in manifest.splits_of(name)
    ]
    return [
        f"## Set {as_code(name)}",
        "",
        *([f"![samples of {name}]({facts.picture})", ""] if facts.picture else []),
        f"Exposure {set_info.exposure:g}: `image` is the sRGB encoding of radiance times this number.",
        "",
        *(_table(("split", "samples", "how chosen"), splits) if len(splits) > 1 or made else []),
        *_table(("factor", "kind", "values", "unit", "samples"), factors),
        *(_graph(set_info.graph) if set_info.graph else []),
        *_table(("column", "holds", "unit", "colour space", "meaning"), held),
    ]


def _graph(graph: CausalGraph) -> list[str]:
    """Show a causal graph as code that is indented, since no text ends that before its line does."""
    lines = graph.to_text().split("\n")
    more = [f"... and {len(lines) - _GRAPH_LINES} more lines"] if len(lines) > _GRAPH_LINES else []
    cut = (
        line if len(line) <= _GRAPH_WIDTH else f"{line[:_GRAPH_WIDTH]}..." for line in lines[:_GRAPH_LINES]
    )
    return [
        "Causal graph, as parents -> name ~ mechanism (`dataset.json` has all of it):",
        "",
        *(f"    {printable(line)}" for line in [*cut, *more]),
        "",
    ]


def _values(factor: FactorInfo) -> str:
    if factor.kind == "continuous":
        ends = (factor.low, factor.high)
        return "depends on others" if None in ends else f"{factor.low} to {factor.high}"
    values = [as_markdown(value) for value in factor.values or ()]
    return ", ".join(values) if len(values) <= _SHOWN_VALUES else f"{len(values)} values, see `dataset.json`"


def _found(factor: FactorInfo, column: Float64[ndarray, " n"]) -> str:
    """Describe the samples by a factor: counts of its values, or the range of a continuous factor."""
    if factor.kind == "continuous":
        return f"{column.min():.4g} to {column.max():.4g}"
    counts = count_values(factor, column)
    if len(counts) <= _SHOWN_VALUES:
        return ", ".join(map(str, counts))
    return f"{min(counts)} to {max(counts)} of each"


def _origin(info: DatasetInfo, facts: Mapping[str, SetFacts]) -> list[str]:
    return [
        "## How it was made",
        "",
        f"Rendered by candlelight {as_markdown(info.candlelight)} from recipe {as_code(info.recipe.name)} "
        f"(SHA-256 `{info.recipe.sha256}`), seed {info.seed}.",
        "`sha256sum -c SHA256SUMS` checks the files.",
        "",
        "Settings of the renderer, from the first sample of each set:",
        "",
        *_table(_RENDERER, (_renderer(name, one) for name, one in facts.items())),
    ]


def _renderer(name: str, facts: SetFacts) -> tuple[object, ...]:
    made = facts.first.renderer
    if made is None:
        return (as_code(name), *["-"] * 5)
    bounces = "-" if made.bounces is None else made.bounces
    texts = (made.blender or "-", made.samples, made.denoiser, bounces, made.device)
    return as_code(name), *map(as_markdown, texts)


def _licences(info: DatasetInfo) -> list[str]:
    if not info.assets:
        found = ["The images show no assets from files."]
    else:
        unknown = [asset for asset in info.assets if not is_known(asset.licence)]
        groups: dict[tuple[str, str, str], list[str]] = {}
        for asset in info.assets:
            said = (as_markdown(asset.kind), _asset_licence(asset.licence), as_markdown(asset.source) or "-")
            groups.setdefault(said, []).append(as_markdown(asset.label))
        rows = ((*said, _labels(labels)) for said, labels in groups.items())
        warning = f"**The licences of {len(unknown)} of these are not known: ask before passing them on.**"
        found = [
            "The images show these assets:",
            "",
            *_table(("kind", "licence", "source", "labels"), rows),
            *([warning] if unknown else []),
        ]
    licence = as_markdown(info.licence) or "not stated; ask its author before using it"
    return ["## Licences", "", f"The data set: {licence}.", "", *found, ""]


def _statements(statements: Statements) -> list[str]:
    found = [
        f"- **{name.replace('_', ' ').capitalize()}.** {as_markdown(text)}"
        for name, text in statements
        if text
    ]
    return ["## Statements of the author", "", *found, ""] if found else []


def _labels(labels: Sequence[str]) -> str:
    more = len(labels) - _SHOWN_VALUES
    shown = ", ".join(labels[:_SHOWN_VALUES])
    return f"{shown} and {more} more, see `dataset.json`" if more > 0 else shown


def _asset_licence(licence: str) -> str:
    shown = as_markdown(licence)
    return shown if is_known(licence) else f"**unknown** ({shown or 'not stated'})"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([" ".join(str(cell).split()).replace("|", "\\|") for cell in line] for line in lines)
    return ["| " + " | ".join(line) + " |" for line in cells] + [""]
