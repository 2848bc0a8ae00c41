"""The card (``README.md``) of a Hugging Face data set: facts for `datasets` and the Hub, then for people."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from loaders.hub_table import columns
from loaders.manifest import Manifest
from loaders.schema import DatasetInfo, FactorInfo, SetInfo

# Licence identifiers of the Hub that rendered images are likely to carry; others become "other".
_LICENCES = frozenset(
    {
        *("apache-2.0", "mit", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0"),
        *(
            "cc-by-3.0",
            "cc-by-sa-3.0",
            "cc-by-nd-4.0",
            "cc-by-nc-nd-4.0",
            "odc-by",
            "odbl",
            "pddl",
            "unlicense",
        ),
    }
)
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
_TASKS = {"albedo": "image-to-image", "depth": "depth-estimation", "object": "image-segmentation"}
_SHOWN_VALUES = 24


def card(info: DatasetInfo, manifest: Manifest) -> str:
    """Write the card.

    `datasets` keeps what it has read under a key that does not depend on the files of a local folder, only
    on the card: the hash of the content in each description is what makes it read a folder that was packed
    again, or another folder of the same name.

    Args:
        info: the image sets that the folder holds.
        manifest: its Parquet files.

    Returns:
        Text of ``README.md``: YAML between two rules, then Markdown.
    """
    facts = yaml.safe_dump(_facts(info, manifest), sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join([f"---\n{facts}---", "", *_overview(info, manifest), *_sets(info), *_origin(info)])


def _facts(info: DatasetInfo, manifest: Manifest) -> dict[str, Any]:
    total = sum(shard.rows for shard in manifest.files)
    layers = {name for set_info in info.sets.values() for name in set_info.layers}
    size = next((text for limit, text in _SIZES if total < limit), "n>1M")
    return {
        **_licence(info.licence),
        "pretty_name": info.name,
        "task_categories": ["image-feature-extraction", *(t for name, t in _TASKS.items() if name in layers)],
        "tags": ["synthetic", "causal-representation-learning", "disentanglement", "intrinsic-images"],
        "annotations_creators": ["machine-generated"],
        "source_datasets": ["original"],
        "size_categories": [size],
        "configs": [own_files(name) for name in info.sets],
        "dataset_info": [_set_facts(name, manifest) for name in info.sets],
    }


def own_files(set_name: str) -> dict[str, Any]:
    """Say where the files of a set lie, as `datasets` reads it."""
    return {
        "config_name": set_name,
        "data_files": [{"split": "train", "path": f"{set_name}/train-*.parquet"}],
    }


def _licence(text: str) -> dict[str, str]:
    name = text.lower().replace(" ", "-")
    return {"license": name} if name in _LICENCES else {"license": "other", "license_name": name}


def _set_facts(name: str, manifest: Manifest) -> dict[str, Any]:
    shards = manifest.of_set(name)
    in_memory = sum(shard.arrow_bytes for shard in shards)
    rows = sum(shard.rows for shard in shards)
    return {
        "config_name": name,
        "description": f"content-sha256:{manifest.content_sha256(name)}",
        "splits": [{"name": "train", "num_bytes": in_memory, "num_examples": rows}],
        "download_size": sum(shard.bytes for shard in shards),
        "dataset_size": in_memory,
    }


def _overview(info: DatasetInfo, manifest: Manifest) -> list[str]:
    first = next(iter(info.sets))
    rows = (
        (
            f"`{name}`",
            sum(shard.rows for shard in manifest.of_set(name)),
            f"{s.width} x {s.height}",
            _varies(s),
        )
        for name, s in info.sets.items()
    )
    return [
        f"# {info.name}",
        "",
        info.description,
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'frames = load_dataset("path/to/this/folder", "{first}", split="train").with_format("numpy")',
        'print(frames[0]["image"].shape, frames[0]["id"])',
        "```",
        "",
        "`with_format` matters: without it, float arrays come back as nested Python lists.",
        "",
        *_table(("set", "samples", "width x height", "changes within a concept set"), rows),
    ]


def _varies(set_info: SetInfo) -> str:
    return ", ".join(f"`{name}`" for name in set_info.varies) or "-"


def _sets(info: DatasetInfo) -> list[str]:
    lines = []
    for name, set_info in info.sets.items():
        factors = ((f"`{f.name}`", f.kind, _values(f), f.unit or "-") for f in set_info.factors)
        held = (
            (f"`{c.name}`", c.holds, c.unit or "-", c.colour_space or "-", c.meaning)
            for c in columns(set_info)
        )
        lines += [
            f"## Set `{name}`",
            "",
            f"Exposure {set_info.exposure:g}: `image` is the sRGB encoding of radiance times this number.",
            "",
            *_table(("factor", "kind", "values", "unit"), factors),
            *_table(("column", "holds", "unit", "colour space", "meaning"), held),
        ]
    return lines


def _values(factor: FactorInfo) -> str:
    if factor.kind == "continuous":
        ends = (factor.low, factor.high)
        return "depends on others" if None in ends else f"{factor.low} to {factor.high}"
    values = [str(value) for value in factor.values or ()]
    return ", ".join(values) if len(values) <= _SHOWN_VALUES else f"{len(values)} values, see `dataset.json`"


def _origin(info: DatasetInfo) -> list[str]:
    return [
        "## Origin",
        "",
        f"Rendered by candlelight {info.candlelight} from recipe `{info.recipe.name}` "
        f"(SHA-256 `{info.recipe.sha256}`), seed {info.seed}. Licence: {info.licence}.",
        "`sha256sum -c SHA256SUMS` checks the files.",
        "",
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(c).replace("|", "\\|") for c in line) + " |" for line in cells] + [""]
