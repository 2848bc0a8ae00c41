"""The command ``candlelight info``."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.loaders.commands.command_line import Folder, given_options, progress, split_names
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable

if TYPE_CHECKING:
    from candlelight.loaders.verification.verify_frames import Findings

MOST_NAMED = 20  # missing samples and unknown files that are named; all damaged files are named
_ONE_OF = ("--verify", "--json", "--sheet", "--graph")
_OF_SHEETS = ("--set", "--split", "--layers", "--by", "--limit", "--seed")


@click.command()
@click.argument("path", type=Folder(remote=True))
@click.option(
    "--verify",
    is_flag=True,
    help="Check every file against its hash instead; exit with 1 if one is damaged or missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--graph",
    type=click.Choice(["text", "dot", "json"]),
    help="Print the causal graph of each set, with its mechanisms, instead.",
)
@click.option(
    "--sheet",
    type=click.Path(path_type=Path),
    help="Draw a contact sheet into this PNG file instead; of sequences also an animation (GIF or WebP).",
)
@click.option(
    "--set", "set_name", metavar="NAME", help="Sheet: image set; may be left out if there is only one."
)
@click.option(
    "--split", metavar="NAME", help="Sheet: split; may be left out if there is only one, or for train."
)
@click.option("--layers", callback=split_names, metavar="NAME,...", help="Sheet: layers to draw.")
@click.option("--by", metavar="FACTOR", help="Sheet: group the samples by the values of this factor.")
@click.option(
    "--limit",
    "rows",
    type=click.IntRange(1),
    metavar="N",
    help="Sheet: number of samples, or of units with steps; with --by, of each value.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Sheet: seed of the random choice of samples.",
)
def info(
    path: Path | str, verify: bool, as_json: bool, graph: str | None, sheet: Path | None, **what: Any
) -> None:
    """Describe a folder of frames or a pack, or check it.

    With --sheet the command draws a contact sheet of some of its samples.

    \b
    candlelight info frames
    candlelight info frames --verify
    candlelight info s3://bucket/frames
    candlelight info h5/candle.h5 --json
    candlelight info pack --graph text
    candlelight info pack --set candle --sheet sheet.png --by color --layers image,albedo,depth
    candlelight info frames --set sequences --sheet sequences.webp
    """
    from candlelight.loaders.looking.look import describe, look
    from candlelight.loaders.looking.sheet import draw_sheet

    _check_options(click.get_current_context())
    if verify:
        _verify(path)
    elif graph:
        click.echo(_graphs_text(path, graph), nl=graph == "text")
    elif sheet:
        click.echo(str(draw_sheet(path, sheet, **what)))
    else:
        text = look(path).to_json() if as_json else describe(path)
        click.echo("\n".join(map(printable, text.split("\n"))), nl=not as_json)


def _graphs_text(path: Path | str, form: str) -> str:
    """Write the causal graphs of all sets in one of the forms of ``--graph``."""
    from candlelight.loaders.looking.look import read_graphs

    graphs = read_graphs(path)
    if form == "json":
        return (
            json.dumps({name: one.model_dump(mode="json") for name, one in graphs.items()}, indent=2) + "\n"
        )
    if form == "dot":
        return "".join(one.to_dot() for one in graphs.values())
    return "\n\n".join(f"{printable(name)}:\n{one.to_text()}" for name, one in graphs.items())


def _check_options(ctx: click.Context) -> None:
    """Refuse options that exclude each other, and options of sheets without ``--sheet``."""
    given = given_options(ctx)
    actions = [name for name in _ONE_OF if name in given]
    if len(actions) > 1:
        raise InputError(
            f"{actions[0]} and {actions[1]}: expected one of them; run the command once for each"
        )
    for name in _OF_SHEETS:
        if name in given and "--sheet" not in given:
            raise InputError(f"{name} needs --sheet FILE.png; add it, or leave {name} out")


def _verify(path: Path | str) -> None:
    """Check a folder of frames or a pack, print the findings, and exit with status 1 if there are any."""
    from candlelight.loaders.files.object_stores import open_store
    from candlelight.loaders.verification.verify_frames import verify
    from candlelight.loaders.verification.verify_pack import is_pack, verify_pack
    from candlelight.loaders.verification.verify_store import verify_store

    packed = isinstance(path, Path) and is_pack(path)
    with progress(None, "verify") as advance:
        if isinstance(path, str):
            findings = verify_store(open_store(path), advance)
        else:
            findings = verify_pack(path, advance, apart=True) if packed else verify(path, advance)
    for line in verdict(path, findings, packed):
        click.echo(printable(line))
    if not findings.whole:
        sys.exit(1)


def verdict(path: Path | str, findings: "Findings", packed: bool = False) -> Iterator[str]:
    r"""Yield lines that describe the findings, and a remedy.

    Example:
        >>> from candlelight.loaders.verification.verify_frames import Findings
        >>> print(*verdict(Path("frames"), Findings(3, (), ("candle-000007",), ())), sep="\n")
        missing: candle-000007
        frames: 3 samples checked, 0 files damaged, 1 samples missing
        render missing frames: candlelight render frames/plan.parquet --out frames
    """
    from candlelight.loaders.frames import PLAN

    yield from (f"damaged: {damage}" for damage in findings.damaged)
    yield from _some("missing", findings.missing)
    yield from _some("belongs to no sample", findings.strangers)
    yield from _some("wrong layers", findings.unexplained)
    files = {damage.path for damage in findings.damaged}  # one file may have several damages
    counts = f"{findings.checked} samples checked, {len(files)} files damaged"
    yield f"{path}: {counts}, {len(findings.missing)} samples missing"
    # Without RECIPE a repair reads the folder's plan, which must be on this machine and whole.
    plan = None if isinstance(path, str) else path / PLAN
    out = "COPY, a local copy" if isinstance(path, str) else path
    if packed and findings.damaged:
        yield "pack the frames again: candlelight pack --help"
    elif findings.damaged:
        recipe = "" if plan and all(damage.path != plan for damage in findings.damaged) else "RECIPE "
        yield f"render damaged frames again: candlelight render {recipe}--repair --out {out}"
    elif findings.missing:
        yield f"render missing frames: candlelight render {plan or 'RECIPE'} --out {out}"


def _some(finding: str, items: tuple[object, ...]) -> Iterator[str]:
    yield from (f"{finding}: {item}" for item in items[:MOST_NAMED])
    if len(items) > MOST_NAMED:
        yield f"{finding}: {len(items) - MOST_NAMED} more"
