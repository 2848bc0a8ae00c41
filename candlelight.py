"""The command line: ``candlelight demo | recipes | plan | render | pack | info | evaluate | doctor``.

Commands parse, call one library function and print; what is heavy is imported inside them.
"""

import dataclasses
import errno
import functools
import signal
import sys
from pathlib import Path
from typing import Any

if Path(sys.argv[0]).stem == "candlelight" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a command runs, Ctrl-C ends the program in silence, also while modules are imported.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click

from evaluation.commands.evaluate_commands import evaluate
from generators.commands.asset_commands import assets
from generators.commands.plan_commands import load_any_plan, plan, recipe_options
from generators.commands.recipe_commands import recipes
from generators.commands.render_options import (
    check_outcome,
    plan_to_repair,
    read_changes,
    render_options,
    repaired_line,
    worker_options,
)
from generators.commands.verify_report import verify_path
from loaders.commands.command_line import Folder, progress
from loaders.commands.interrupts import Interrupted, interrupt
from loaders.commands.pack_commands import export, pack, push
from loaders.commands.sheet_options import check_options, sheet_options
from loaders.errors import InputError, memory_ended
from loaders.files.urls import local_folder


class UseError(click.ClickException):
    """Bad use or bad input: one line, status 2."""

    exit_code = 2


GO_ON = ("counterfactual", "evaluate", "export", "pack", "render")  # commands that resume


class OneLineGroup(click.Group):
    """A group whose commands end in one line for whatever goes wrong, never in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and say what was wrong with its input in one line."""
        program = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        if program:
            signal.signal(signal.SIGINT, interrupt)
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise UseError(" ".join(str(error).split())) from None
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            raise UseError(
                f"this needs {package}, not installed here; run `pip install {package}`, and see "
                "`candlelight doctor`"
            ) from None
        except (MemoryError, RuntimeError) as error:
            if not memory_ended(error):
                raise
            reason = str(error).partition("\n")[0][:200]
            raise UseError(
                f"memory ran out{f' ({reason})' if reason else ''}; end other programs, use fewer workers or "
                "smaller images"
            ) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has seen enough; click ends quietly
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise UseError(f"{where}{error.strerror or error}") from None
        except KeyboardInterrupt:
            goes_on = ctx.invoked_subcommand in GO_ON
            raise Interrupted(f"interrupted{'; run the same command again to go on' * goes_on}") from None
        finally:
            if program:  # only the end of the process is left
                signal.signal(signal.SIGINT, signal.SIG_DFL)


@click.group(
    cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="candlelight")
def main() -> None:
    """Render image sets in which exactly one thing changes, and measure how models respond.

    \b
    candlelight demo                                 everything once, in a few minutes
    candlelight render candle --limit 20 --out out   twenty frames of a shipped recipe
    candlelight pack out --to hub --out pack         for datasets.load_dataset
    """


@main.command()
@functools.partial(recipe_options, required=False)
@click.option(
    "--out", type=Folder(remote=True), required=True, help="Folder or URL of frames to write or resume."
)
@render_options
@click.option("--preview", is_flag=True, help="A draft picture of each factor value instead, on one sheet.")
def render(
    recipe: str | None,
    overrides: tuple[str, ...],
    assets: dict[str, Path],
    preset: str | None,
    limit: int | None,
    out: Path | str,
    preview: bool,
    **how: Any,
) -> None:
    """Render RECIPE (a shipped name, a YAML file, or a plan's .parquet) into a folder of frames.

    Frames that are there already are kept, so a run that was stopped goes on where it was. With --repair they
    are checked first, and RECIPE may be left out: what the folder was planned to hold is then made whole.

    \b
    candlelight render candle --limit 20 --preset draft --out frames
    candlelight render mine.yaml --assets materials=./colours --out frames
    candlelight render candle.parquet --shard 3/16 --out /shared/frames
    candlelight render --repair --out frames
    candlelight render candle --out s3://bucket/frames
    """
    from generators import render as render_plan
    from generators.reports.preview import preview_plan

    source = recipe or plan_to_repair(out, how["repair"])
    made = load_any_plan(source, overrides, limit, preset=preset, assets=assets)
    if preview:
        made, out = preview_plan(made), local_folder(out)
    selected = made.shard(*how["shard"]) if how["shard"] else made
    with progress(len(selected), "render") as advance:
        outcome = render_plan(made, out, advance=advance, **how)
    click.echo(
        f"{out}: {outcome.written} frames written, {outcome.found} were there, "
        f"{outcome.cpu_seconds:.0f} CPU s in the renderers"
    )
    if preview:
        _sheets(local_folder(out))
    if isinstance(out, Path):
        _warn_of_clipping(out)
    check_outcome(outcome, out)
    if how["repair"]:
        click.echo(repaired_line(outcome))


@main.command()
@recipe_options
@click.option("--sample", "ids", multiple=True, help="Id of a sample, as in candle-000012; repeatable.")
@click.option(
    "--do",
    "changes",
    multiple=True,
    required=True,
    callback=read_changes,
    metavar="FACTOR=VALUE,...",
    help="One question: the factors to change; repeatable.",
)
@click.option("--out", type=Folder(), required=True, help="Folder of frames to write.")
@worker_options
def counterfactual(
    recipe: str,
    overrides: tuple[str, ...],
    assets: dict[str, Path],
    preset: str | None,
    limit: int | None,
    ids: tuple[str, ...],
    changes: list[dict[str, Any]],
    out: Path,
    **how: Any,
) -> None:
    """Render samples of RECIPE, and what each would have been had some factors been otherwise.

    Every other draw of a sample is kept, and what depends on the changed factors is worked out anew. Name
    samples by --sample, or take N of each set by --limit N. Writes counterfactuals.html beside the frames.

    \b
    candlelight counterfactual candle --sample candle-000012 --do color=yellow --out what-if
    candlelight counterfactual candle --limit 3 --do color=blue --do object_type=cube,color=blue --out what-if
    """
    from evaluation.report.counterfactuals import write_counterfactual_page
    from generators import counterfactual as plan_twins
    from generators import render as render_plan
    from generators.planning.counterfactual import SUFFIX
    from generators.planning.packed_samples import pack
    from generators.planning.plan_table import join

    if (not ids) == (limit is None):
        raise UseError("expected --sample ID, or --limit N to ask about N samples of each set, and not both")
    asked = load_any_plan(recipe, overrides, limit, ids, preset, assets)
    if ids:
        chosen = [sample for name in dict.fromkeys(ids) for sample in asked[name].samples]
        asked = dataclasses.replace(asked, samples=pack(chosen))
    twins = plan_twins(asked, *changes)
    both = join(asked, twins)
    with progress(len(both), "render") as advance:
        outcome = render_plan(both, out, advance=advance, **how)
    check_outcome(outcome, out)
    pairs = [(name, name + SUFFIX) for name in dict.fromkeys(key.set for key in asked.samples.keys)]
    click.echo(str(write_counterfactual_page(out / "counterfactuals.html", out, pairs)))


def _warn_of_clipping(frames: Path) -> None:
    from loaders.frames import complete_indices, read_dataset_info
    from loaders.looking.clipping import clipped_share, clipping_line

    for name in read_dataset_info(frames).sets:
        if warning := clipping_line(clipped_share(frames, name, complete_indices(frames, name))):
            click.echo(f"set {name}: {warning}", err=True)


def _sheets(frames: Path) -> None:
    """Draw a contact sheet of each set beside its frames."""
    from evaluation.report import contact_sheet, write_png
    from loaders.frames import read_dataset_info
    from loaders.open_frames import open_frames

    for name in read_dataset_info(frames).sets:
        opened = open_frames(frames, name)
        path = frames / f"preview-{name}.png"
        shown = [layer for layer in ("image", "albedo", "shading") if layer in opened.layers]
        write_png(path, contact_sheet(opened, range(len(opened)), shown))
        click.echo(str(path))


@main.command()
@click.argument("path", type=Folder(remote=True))
@click.option("--verify", is_flag=True, help="Hash every file instead; exit 1 if any is damaged or missing.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@sheet_options
def info(path: Path | str, verify: bool, as_json: bool, sheet: Path | None, **what: Any) -> None:
    """Say what a folder of frames or a pack holds, whether all of it is there and whole, or draw it.

    \b
    candlelight info frames
    candlelight info frames --verify
    candlelight info s3://bucket/frames
    candlelight info h5/candle.h5 --json
    candlelight info pack --set candle --sheet sheet.png --by color --layers image,albedo,depth
    """
    from loaders.looking.describe import describe
    from loaders.looking.draw_sheet import draw_sheet
    from loaders.looking.look import look

    check_options(click.get_current_context())
    if verify:
        verify_path(path)
    elif sheet:
        click.echo(str(draw_sheet(path, sheet, **what)))
    else:
        click.echo(look(path).to_json() if as_json else describe(path), nl=not as_json)


@main.command()
@click.option("--out", type=Folder(), default=Path("demo"), show_default=True, help="Folder.")
@worker_options
def demo(out: Path, **how: Any) -> None:
    """Do everything once: plan, render, pack, load, train, evaluate, and write a report.

    A second run leaves out all that is there and was made of the same frames, settings and versions.

    \b
    candlelight demo --out demo
    """
    from tqdm import tqdm

    from evaluation.demo.pack_and_study import pack_and_study, require, with_first_sheet, with_seconds
    from generators import load_recipe, make_plan
    from generators import render as render_plan

    require()
    tell = with_seconds(tqdm.write)  # which does not break the bars
    made, frames = make_plan(load_recipe("demo")), out / "frames"
    tell(f"planned {len(made)} small frames of {len(made.recipe.sets)} image sets")
    with progress(len(made), "render") as advance:
        drawing = with_first_sheet(advance, frames, out / "first-sheet.png", tell)
        outcome = render_plan(made, frames, advance=drawing, **how)
    check_outcome(outcome, frames)
    tell(f"rendered {outcome.written} frames, {outcome.found} were there: {frames}")
    for line in pack_and_study(frames, out, tell):
        click.echo(line)


@main.command()
def doctor() -> None:
    """Say what this machine has and lacks for rendering and evaluating, and how to get it.

    \b
    candlelight doctor
    """
    from generators.commands.doctor import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{'ok     ' if finding.ok else 'missing'} {finding.what}: {finding.state}")
        if not finding.ok:
            click.echo(f"        {finding.remedy}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise UseError("something that rendering needs is missing; see above")


for command in (assets, evaluate, export, pack, plan, push, recipes):
    main.add_command(command)

if __name__ == "__main__":
    main()
