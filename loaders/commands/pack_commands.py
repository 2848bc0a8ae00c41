"""The commands ``candlelight pack`` and ``push``."""

import re
from pathlib import Path
from typing import Any, Literal

import click

from candlelight.loaders.commands.command_line import Folder, progress, refuse_options_of_others, split_names


def _size(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,6})x(\d{1,6})", value, re.ASCII)):
        raise click.BadParameter(f"expected width x height in pixels as in 64x48, got {value}")
    return int(found[1]), int(found[2])


@click.command()
@click.argument("frames", type=Folder())
@click.option("--to", "kind", type=click.Choice(["hub", "hdf5"]), required=True, help="Format to write.")
@click.option("--out", type=Folder(), required=True, help="Folder to write.")
@click.option("--sets", callback=split_names, metavar="NAME,...", help="Image sets to pack.  [default: all]")
@click.option("--layers", callback=split_names, metavar="NAME,...", help="Layers to pack.  [default: all]")
@click.option(
    "--size",
    callback=_size,
    metavar="WxH",
    help="Average images down to this size, which must divide theirs.",
)
@click.option(
    "--split",
    multiple=True,
    metavar="NAME=SHARE,...",
    help="Shares of random splits; with --split-by NAME=VALUE,... and repeatable.  "
    "[default: all rows are train]",
)
@click.option("--split-seed", type=int, default=0, metavar="N", help="Seed of the random splits.")
@click.option("--split-by", metavar="FACTOR", help="Split by the values of this factor, not at random.")
@click.option(
    "--hold-out",
    multiple=True,
    metavar="FACTOR=VALUE,...",
    help="Put samples with this combination into a split test_ood; repeatable.",
)
@click.option(
    "--compression",
    type=click.Choice(["gzip", "none", "zstd", "blosc"]),
    default="gzip",
    help="HDF5: compression of layers; zstd and blosc need the package hdf5plugin.",
)
def pack(
    frames: Path,
    kind: str,
    out: Path,
    compression: Literal["gzip", "none", "zstd", "blosc"],
    split: tuple[str, ...],
    split_seed: int,
    split_by: str | None,
    hold_out: tuple[str, ...],
    **what: Any,
) -> None:
    """Pack a folder of frames for Hugging Face datasets or HDF5.

    A pack holds Parquet files (hub) or HDF5 files, one or more for each image set and split.
    An interrupted run is begun anew. Read a pack with datasets.load_dataset("pack", "candle") or
    candlelight.loaders.open_frames("h5", "candle", split="train").

    \b
    candlelight pack frames --to hub --out pack
    candlelight pack frames --to hdf5 --out h5
    candlelight pack frames --to hub --out small --layers image,albedo --size 64x48
    candlelight pack frames --sets candle --to hub --out pack --split train=0.8,val=0.1,test=0.1
    candlelight pack frames --sets candle --to hub --out pack --split-by color --split test=blue,red
    candlelight pack frames --sets candle --to hub --out pack --hold-out object_type=torus,color=red
    """
    from candlelight.loaders import pack_hdf5, pack_hub
    from candlelight.loaders.packs.split_plan import read_split_plan

    refuse_options_of_others(kind, {"--compression": ("hdf5",)})
    plan = read_split_plan(split, split_seed, split_by, hold_out)
    if kind == "hub":
        click.echo(str(pack_hub(frames, out, plan=plan, **what)))
    else:
        for path in pack_hdf5(frames, out, compression=compression, plan=plan, **what):
            click.echo(str(path))


@click.command()
@click.argument("folder", type=Folder())
@click.argument("repo", metavar="ORG/NAME")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--revision", metavar="NAME", help="Branch to write to; it is made if it does not exist.")
@click.option("--message", help="Message of the commit.")
@click.option(
    "--dry-run", is_flag=True, help="Check the pack, and list what would be sent, without a network."
)
@click.option("--yes", is_flag=True, help="Send a pack without a licence without asking.")
def push(folder: Path, repo: str, dry_run: bool, yes: bool, **how: Any) -> None:
    """Upload FOLDER, a pack, to the Hugging Face Hub.

    FOLDER was written by `candlelight pack --to hub`; every byte of it is checked before the upload.
    The token is that of `hf auth login`, or HF_TOKEN. The same command continues an interrupted upload.

    \b
    candlelight push pack me/candle --dry-run
    candlelight push pack me/candle --private
    """
    from candlelight.loaders.frames import read_dataset_info
    from candlelight.loaders.hub.push import push_hub

    silent = (
        f"{folder} states no licence, so nobody may use it; add `licence:` to the recipe, then run "
        "`render` and `pack` again, which render no sample again"
    )
    unlicensed = not yes and not read_dataset_info(folder).licence
    if unlicensed and not dry_run:
        click.confirm(f"{silent}. Push it without a licence?", abort=True)
    with progress(None, "verify") as advance:
        sent = push_hub(folder, repo, dry_run=dry_run, advance=advance, **how)
    if unlicensed and dry_run:
        click.echo(silent)
    what = "would be sent" if dry_run else "are there"
    click.echo(f"{sent.url}: {len(sent.files)} files, {sent.bytes / 1e6:.1f} MB, {what}")
