"""Render and pack some samples of every shipped recipe for the Hugging Face Hub; upload nothing.

The same command continues an interrupted run: finished frames and packs stay. ``OUT/frames/<recipe>`` holds
frames, ``OUT/packs/<recipe>`` the pack with its card.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.commands.render_options import check_outcome
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.generators.planning.plan import Plan
from candlelight.loaders import pack_hub, read_dataset_info
from candlelight.loaders.commands.command_line import progress
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import DATASET, complete_indices
from candlelight.loaders.hub.push import push_hub
from candlelight.loaders.looking.contents import human_bytes
from candlelight.loaders.packs.pack_manifest import read_pack_manifest

NEEDS_SCANS = {"concepts-scans"}  # shows objects that are not shipped, and may have another licence
CORES = 2
UNKNOWN = ("", "unknown")


@dataclass(frozen=True)
class Published:
    """A pack that is ready for upload: samples, bytes, CPU seconds of rendering in this run."""

    samples: int
    bytes: int
    cpu_seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the packs of some recipes, and print the command that uploads them."""
    options = _options(arguments)
    if options.samples < 1:
        raise InputError(f"--samples: expected 1 or more, got {options.samples}")
    names = options.recipes.split(",") if options.recipes else sorted({*shipped_recipes()} - NEEDS_SCANS)
    done = {}
    for name in names:
        done[name] = one = publish(name, options)
        made = f"{one.samples} samples, {human_bytes(one.bytes)}, rendered in {one.cpu_seconds:.0f} CPU s"
        print(f"{name}: {made}", flush=True)
    total = sum(one.cpu_seconds for one in done.values())
    print(
        f"{len(done)} packs, {sum(one.samples for one in done.values())} samples, "
        f"{human_bytes(sum(one.bytes for one in done.values()))}; rendered now in {total / 60:.0f} CPU min, "
        f"{total / 60 / CORES:.0f} min on {CORES} cores; licences and hashes are right"
    )
    packs = " ".join(shlex.quote(str(options.out / "packs" / name)) for name in names)
    pushed = f'candlelight push "$pack" {options.org}/candlelight-"$(basename "$pack")"'
    print(f"upload them: for pack in {packs}; do {pushed}; done")


def publish(name: str, options: argparse.Namespace) -> Published:
    """Render and pack one recipe, and check its licences and every byte of the pack.

    Raises:
        InputError: a sample cannot be rendered, a licence is missing, or the pack is damaged.
    """
    plan = plan_few(load_recipe(name, options.set, preset=options.preset), options.samples)
    frames, pack = options.out / "frames" / name, options.out / "packs" / name
    with progress(len(plan), f"render {name}") as advance:
        outcome = render(plan, frames, workers=options.workers, advance=advance)
    check_outcome(outcome, frames)
    if not _is_packed(pack, frames):
        pack_hub(frames, pack)
    check_licences(pack)
    with progress(None, f"check {name}") as check:
        sent = push_hub(pack, f"{options.org}/candlelight-{name}", dry_run=True, advance=check)
    return Published(_count_rows(pack), sent.bytes, outcome.cpu_seconds)


def plan_few(recipe: Recipe, samples: int) -> Plan:
    """Plan about as many samples, the same number of each set but sets of counterfactuals.

    A set of counterfactuals comes with all of those of the samples of its factual set.
    """
    limit = max(1, samples // len(recipe.sets))
    plan = make_plan(recipe, limit)
    while limit > 1 and len(plan) > samples:
        limit = max(1, min(limit - 1, limit * samples // len(plan)))
        plan = make_plan(recipe, limit)
    return plan


def check_licences(pack: Path) -> None:
    """Refuse a pack without a licence, or with an asset whose licence or source is unknown.

    Raises:
        InputError: a licence or a source is missing.
    """
    info = read_dataset_info(pack)
    if info.licence in UNKNOWN:
        raise InputError(f"{pack}: expected a licence, got none; state it in the recipe `{info.name}`")
    for asset in info.assets:
        if asset.licence in UNKNOWN or not asset.source:
            raise InputError(
                f"{pack}: {asset.kind}/{asset.label} has licence `{asset.licence}` and source "
                f"`{asset.source}`; state both in the manifest"
            )


def _is_packed(pack: Path, frames: Path) -> bool:
    """Tell whether a pack holds all finished frames, with the description that they have now."""
    info = read_dataset_info(frames)
    if not (pack / DATASET).is_file() or read_dataset_info(pack) != info:
        return False
    return _count_rows(pack) == sum(len(complete_indices(frames, name)) for name in info.sets)


def _count_rows(pack: Path) -> int:
    return sum(shard.rows for shard in read_pack_manifest(pack).files)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/publish", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("published"), help="folder to write or continue")
    parser.add_argument(
        "--samples", type=int, default=300, help="largest number of samples of a recipe [300]"
    )
    parser.add_argument("--recipes", help="names of recipes with commas between [all but concepts-scans]")
    parser.add_argument("--org", default="ORG", help="user or organisation on the Hub, for the command")
    parser.add_argument("--workers", type=int, help="number of render processes [one per processor]")
    parser.add_argument("--preset", choices=("draft", "standard", "reference"), help="render quality")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="override a field")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"Error: {error}") from None
