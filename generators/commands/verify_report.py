"""Print the findings of ``candlelight info --verify``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from candlelight.loaders.commands.command_line import progress
from candlelight.loaders.files.object_stores import open_store
from candlelight.loaders.foreign_text import printable
from candlelight.loaders.verification.verify_frames import PLAN, Findings, verify
from candlelight.loaders.verification.verify_pack import is_pack, verify_pack
from candlelight.loaders.verification.verify_store import verify_store

MOST_NAMED = 20  # missing samples and unknown files that are named; all damaged files are named


def verify_path(path: Path | str) -> None:
    """Check a folder of frames or a pack, print the findings, and exit with status 1 if there are any."""
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


def verdict(path: Path | str, findings: Findings, packed: bool = False) -> Iterator[str]:
    r"""Yield lines that describe the findings, and a remedy.

    Example:
        >>> print(*verdict(Path("frames"), Findings(3, (), ("candle-000007",), ())), sep="\n")
        missing: candle-000007
        frames: 3 samples checked, 0 files damaged, 1 samples missing
        render missing frames: candlelight render frames/plan.parquet --out frames
    """
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
