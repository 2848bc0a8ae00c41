"""What ``candlelight info --verify`` prints."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from loaders.commands.command_line import progress
from loaders.files.object_stores import open_store
from loaders.verification.verify_frames import PLAN, Findings, verify
from loaders.verification.verify_pack import is_pack, verify_pack
from loaders.verification.verify_store import verify_store

MOST_NAMED = 20  # missing samples and strangers by name; damaged files are all named


def verify_path(path: Path | str) -> None:
    """Check a folder of frames or a pack, print what was found, and exit with status 1 if it is not whole."""
    packed = isinstance(path, Path) and is_pack(path)
    with progress(None, "verify") as advance:
        if isinstance(path, str):
            findings = verify_store(open_store(path), advance)
        else:
            findings = (verify_pack if packed else verify)(path, advance)
    for line in verdict(path, findings, packed):
        click.echo(line)
    if not findings.whole:
        sys.exit(1)


def verdict(path: Path | str, findings: Findings, packed: bool = False) -> Iterator[str]:
    r"""Yield the lines that say what was found, and what to do.

    Example:
        >>> print(*verdict(Path("frames"), Findings(3, (), ("candle-000007",), ())), sep="\n")
        missing: candle-000007
        frames: 3 samples checked, 0 files damaged, 1 samples missing
        render what is missing: candlelight render frames/plan.parquet --out frames
    """
    yield from (f"damaged: {damage}" for damage in findings.damaged)
    yield from _some("missing", findings.missing)
    yield from _some("belongs to nothing", findings.strangers)
    files = {damage.path for damage in findings.damaged}  # there may be several things wrong with one
    counts = f"{findings.checked} samples checked, {len(files)} files damaged"
    yield f"{path}: {counts}, {len(findings.missing)} samples missing"
    # A plan that lies elsewhere, or is damaged, cannot say what to render.
    plan = None if isinstance(path, str) else path / PLAN
    if packed and findings.damaged:
        yield "pack the frames again: candlelight pack --help"
    elif findings.damaged:
        recipe = "" if plan and all(damage.path != plan for damage in findings.damaged) else "RECIPE "
        yield f"render what is damaged anew: candlelight render {recipe}--repair --out {path}"
    elif findings.missing:
        yield f"render what is missing: candlelight render {plan or 'RECIPE'} --out {path}"


def _some(what: str, things: tuple[object, ...]) -> Iterator[str]:
    yield from (f"{what}: {thing}" for thing in things[:MOST_NAMED])
    if len(things) > MOST_NAMED:
        yield f"{what}: {len(things) - MOST_NAMED} more"
