"""The command line ``candlelight``.

Each command reads its options, calls one library function and prints; it imports heavy modules when it runs.
"""

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Any

if Path(sys.argv[0]).stem == "candlelight" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Before a command runs, Ctrl-C ends the program without a message, also while modules are imported.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click

from candlelight.evaluation.commands.command_groups import evaluate_group, perception_group, train_group
from candlelight.generators.commands.asset_commands import assets
from candlelight.generators.commands.blend_command import blend
from candlelight.generators.commands.demo_command import demo
from candlelight.generators.commands.plan_commands import load_any_plan, plan, recipe_options, recipes
from candlelight.generators.commands.render_options import (
    check_outcome,
    plan_to_repair,
    read_changes,
    render_options,
    repaired_line,
    worker_options,
)
from candlelight.loaders.commands.command_line import Folder, OneLineGroup, UseError, progress, version_option
from candlelight.loaders.commands.export_command import export
from candlelight.loaders.commands.info_command import info
from candlelight.loaders.commands.pack_commands import pack, push


@click.group(
    cls=OneLineGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@version_option
def main() -> None:
    """Render image sets in which exactly one thing changes, and measure how models respond.

    \b
    candlelight demo                                    # every step once, in a few minutes
    candlelight recipes                                 # the shipped recipes
    candlelight render candle --limit 20 --out frames   # 20 frames of a shipped recipe
    candlelight pack frames --to hub --out pack         # a folder for datasets.load_dataset
    """


@main.command()
@click.argument("recipe", required=False)
@recipe_options
@click.option("--out", type=Folder(), required=True, help="Folder of frames to write or continue.")
@render_options
@click.option(
    "--preview",
    is_flag=True,
    help="Render only a small draft of each factor value, and draw a contact sheet.",
)
def render(
    recipe: str | None,
    overrides: tuple[str, ...],
    assets: dict[str, Path],
    preset: str | None,
    seed: int | None,
    limit: int | None,
    sets: list[str] | None,
    run_code: bool,
    out: Path,
    preview: bool,
    **how: Any,
) -> None:
    """Render RECIPE into a folder of frames.

    RECIPE is the name of a shipped recipe, a YAML file, FILE.py:NAME for a recipe in Python, or a plan file
    (.parquet). Finished frames are kept,
    so the same command continues an interrupted run. With --repair finished frames are checked first, and
    RECIPE may be left out: the plan in the folder is then rendered.

    \b
    candlelight render candle --limit 20 --preset draft --out frames
    candlelight render mine.yaml --seed 3 --assets materials=colours --out frames
    candlelight render concepts --sets albedo --limit 20 --out frames
    candlelight render knots.yaml --run-code --out frames
    candlelight render knots.py:recipe --out frames
    candlelight render candle.parquet --shard 3/16 --out /shared/frames
    candlelight render --repair --out frames
    """
    from candlelight.generators import render as render_plan
    from candlelight.generators.reports.preview import preview_plan

    source = recipe or plan_to_repair(out, how["repair"])
    made = load_any_plan(
        source,
        overrides,
        limit,
        preset=preset,
        assets=assets,
        seed=seed,
        sets=sets,
        run_code=run_code,
    )
    if preview:
        made = preview_plan(made)
    selected = made.shard(*how["shard"]) if how["shard"] else made
    with progress(len(selected), "render") as advance:
        outcome = render_plan(made, out, advance=advance, **how)
    click.echo(
        f"{out}: {outcome.written} frames written, {outcome.found} were there, "
        f"{outcome.cpu_seconds:.0f} CPU s in render processes"
    )
    if preview:
        _sheets(out)
    _warn_of_frames(out)
    check_outcome(outcome, out)
    if how["repair"]:
        click.echo(repaired_line(outcome))


@main.command()
@click.argument("recipe")
@recipe_options
@click.option(
    "--sample", "ids", multiple=True, metavar="ID", help="Sample to change, as in candle-000012; repeatable."
)
@click.option(
    "--do",
    "changes",
    multiple=True,
    required=True,
    callback=read_changes,
    metavar="FACTOR=VALUE,...",
    help='Factors to set, and their values or mechanisms as in "x=uniform(0, 1)"; repeatable, for several '
    "counterfactuals of each sample.",
)
@click.option(
    "--step",
    type=click.IntRange(0),
    metavar="N",
    help="Step of a sequence at which the factors are set, from 0.  [default: all]",
)
@click.option("--out", type=Folder(), required=True, help="Folder of frames to write or continue.")
@worker_options
def counterfactual(
    recipe: str,
    overrides: tuple[str, ...],
    assets: dict[str, Path],
    preset: str | None,
    seed: int | None,
    limit: int | None,
    sets: list[str] | None,
    run_code: bool,
    ids: tuple[str, ...],
    changes: list[dict[str, Any]],
    step: int | None,
    out: Path,
    **how: Any,
) -> None:
    """Render samples of RECIPE and their counterfactuals.

    RECIPE is the name of a shipped recipe, a YAML file, FILE.py:NAME for a recipe in Python, or a plan file
    (.parquet). A counterfactual is the same sample with some factors set: its exogenous draws are kept, and
    the factors that depend on the set factors are recomputed. Choose samples by --sample, or N samples of
    each set by --limit; of a sequence all steps are rendered. The page counterfactuals.html in the folder of
    frames shows them side by side.

    \b
    candlelight counterfactual candle --sample candle-000012 --do color=yellow --out what-if
    candlelight counterfactual candle --limit 3 --do color=blue --do object_type=cube,color=blue --out what-if
    candlelight counterfactual sequences --limit 1 --do x=0.8 --step 3 --out what-if
    """
    from candlelight.evaluation.report.counterfactuals import write_counterfactual_page
    from candlelight.generators import counterfactual as plan_counterfactuals
    from candlelight.generators import render as render_plan
    from candlelight.generators.planning.interventions import COUNTERFACTUAL_SUFFIX
    from candlelight.generators.planning.plan import whole_units
    from candlelight.generators.planning.plan_table import join
    from candlelight.generators.planning.planned_samples import compress_samples

    if (not ids) == (limit is None):
        raise UseError("expected --sample ID, or --limit N for N samples of each set, and not both")
    asked = load_any_plan(recipe, overrides, limit, ids, preset, assets, seed, sets, run_code)
    if ids:
        chosen = [sample for name in dict.fromkeys(ids) for sample in asked[name].samples]
        asked = whole_units(dataclasses.replace(asked, samples=compress_samples(chosen)))
    both = join(asked, plan_counterfactuals(asked, *changes, step=step))
    with progress(len(both), "render") as advance:
        outcome = render_plan(both, out, advance=advance, **how)
    _warn_of_frames(out)
    check_outcome(outcome, out)
    pairs = [
        (name, name + COUNTERFACTUAL_SUFFIX) for name in dict.fromkeys(key.set for key in asked.samples.keys)
    ]
    click.echo(str(write_counterfactual_page(out / "counterfactuals.html", out, pairs)))


def _warn_of_frames(frames: Path) -> None:
    from candlelight.loaders.frames import complete_indices, read_dataset_info
    from candlelight.loaders.looking.contents import (
        clipped_share,
        clipping_line,
        some_metadata,
        unexplained_line,
    )

    for name in read_dataset_info(frames).sets:
        some = some_metadata(frames, name, complete_indices(frames, name))
        for warning in (clipping_line(clipped_share(some)), unexplained_line(some)):
            if warning:
                click.echo(f"set {name}: {warning}", err=True)


def _sheets(frames: Path) -> None:
    """Draw a contact sheet of each set into the folder of frames, and an animation of a set with steps."""
    from candlelight.loaders.frames import read_dataset_info
    from candlelight.loaders.looking.sheet import draw_sheet
    from candlelight.loaders.open_frames import open_frames

    for name in read_dataset_info(frames).sets:
        opened = open_frames(frames, name)
        stepped = opened.metadata(0).step is not None
        shown = [layer for layer in ("image", "albedo", "shading") if layer in opened.layers]
        for ending in ("png", "webp") if stepped else ("png",):
            path = frames / f"preview-{name}.{ending}"
            click.echo(str(draw_sheet(frames, path, name, layers=shown, rows=len(opened))))


@main.command()
def doctor() -> None:
    """Check whether this machine can render and evaluate.

    For each missing item the command prints how to get it.

    \b
    candlelight doctor
    """
    from candlelight.generators.commands.doctor import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{'ok     ' if finding.ok else 'missing'} {finding.item}: {finding.state}")
        if not finding.ok:
            click.echo(f"        {finding.remedy}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise UseError("rendering needs something that is missing; see above")


for command in (
    *(
        assets,
        blend,
        demo,
        evaluate_group,
        export,
        info,
        pack,
        perception_group,
        plan,
        push,
        recipes,
        train_group,
    ),
):
    main.add_command(command)

if __name__ == "__main__":
    main()
