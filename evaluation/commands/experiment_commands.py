"""``candlelight perception``: forced choices of people in a local page, and the fit of their thresholds."""

from pathlib import Path
from typing import Any

import click

from candlelight.loaders.commands.command_line import UseError
from candlelight.loaders.foreign_text import printable

_PLOTS = (".svg", ".png", ".pdf")


@click.group("perception")
def perception_group() -> None:
    """Measure the thresholds of people by two-alternative forced choice.

    \b
    candlelight perception experiment photographs --transform rotation --out answers.jsonl
    candlelight perception fit answers.jsonl
    """


def _read_transforms(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Split NAME=LARGEST."""
    found: dict[str, float | None] = {}
    for value in values:
        name, equals, largest = value.partition("=")
        name = name.strip()
        if name in found:
            raise UseError(f"--transform {name}: given twice; name each transform once")
        try:
            found[name] = float(largest) if equals else None
        except ValueError:
            raise UseError(
                f"--transform: expected NAME or NAME=LARGEST with a number, got {value!r}"
            ) from None
    return found


@perception_group.command("experiment")
@click.argument("data")
@click.option(
    "--set",
    "set_name",
    help="Image set of frames.  [default: all with --moved; else needed if there are several]",
)
@click.option("--split", help="Split of the data; needed if there are several.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Log of the answers, a line of JSON each, to begin or continue.",
)
@click.option(
    "--observer",
    default="anonymous",
    show_default=True,
    help="Name of the observer, such as a pseudonym; each has an order of trials of their own.",
)
@click.option(
    "--transform",
    "transforms",
    multiple=True,
    callback=_read_transforms,
    metavar="NAME[=LARGEST]",
    help="Transform of images, and its largest magnitude; repeatable.  [default: translation x, rotation and "
    "scale, to three times the human threshold of the paper]",
)
@click.option(
    "--largest",
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest D of rated pairs.  [default: that of the data]",
)
@click.option("--moved", is_flag=True, help="DATA are frames of the recipe invariance: show their moves.")
@click.option(
    "--levels",
    type=click.IntRange(2),
    default=20,
    show_default=True,
    help="Number of levels; translations have at most one for each pixel.",
)
@click.option(
    "--repeats", type=click.IntRange(1), default=15, show_default=True, help="Answers at each level."
)
@click.option(
    "--images",
    type=click.IntRange(1),
    help="Most different images, or rated pairs at each level.  [default: as many as repeats]",
)
@click.option(
    "--size",
    type=click.IntRange(16, 4096),
    help="Side in pixels to which pictures of a folder are scaled and cropped.  [default: 256]",
)
@click.option(
    "--pixels-per-degree",
    type=click.FloatRange(0, min_open=True),
    help="Pixels of an image per degree of visual angle; the page says the distance that is right.  "
    "[default: 29.2, the paper's]",
)
@click.option(
    "--distance",
    type=click.FloatRange(0, min_open=True),
    help="With --pitch, in place of --pixels-per-degree: from the eyes to the screen, in mm.",
)
@click.option(
    "--pitch", type=click.FloatRange(0, min_open=True), help="Width of a pixel of the screen, in mm."
)
@click.option(
    "--scale",
    type=click.IntRange(1, 16),
    help="Pixels of the screen for each pixel of an image.  [default: 1 with --pitch, else what fits]",
)
@click.option(
    "--reminder/--no-reminder",
    default=None,
    help="Show the original above the pair.  [default: with transforms, and not with rated pairs]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the choice of images, the order and the sides.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the page.  [default: a free one]"
)
@click.option("--no-browser", is_flag=True, help="Print the address of the page instead of opening it.")
def run_forced_choice(
    data: str,
    set_name: str | None,
    split: str | None,
    out: Path,
    observer: str,
    pixels_per_degree: float | None,
    distance: float | None,
    pitch: float | None,
    scale: int | None,
    port: int,
    no_browser: bool,
    **choice: Any,
) -> None:
    """Show pairs in a local page, and log which one a person takes for the distorted image.

    DATA is tid2013:PATH for rated pairs, which give the threshold D_T; else a folder of pictures or frames,
    whose images under transforms give the human threshold of each transform. The paper shows 20 levels 15
    times to each of 5 observers. The same command continues an experiment. Answers stay on this machine.

    \b
    candlelight perception experiment tid2013:TID2013 --observer ann --out answers.jsonl
    candlelight perception experiment photographs --transform rotation=6 --transform scale --out answers.jsonl
    candlelight perception experiment invariance --set rotation --moved --out moves.jsonl
    """
    from candlelight.evaluation.perception.experiment import fit_answers
    from candlelight.evaluation.perception.experiment.open_experiment import (
        ExperimentSettings,
        open_stimuli,
        run_experiment,
    )

    per_degree, pixels = _geometry(pixels_per_degree, distance, pitch, scale)
    settings = ExperimentSettings(pixels_per_degree=per_degree, scale=pixels, **choice)
    stimuli = open_stimuli(data, settings, set_name, split)
    screen = {"distance": distance, "pitch": pitch}
    answers, missing = run_experiment(
        stimuli, settings, out, observer, screen, port=port, browser=not no_browser, tell=click.echo
    )
    if missing:
        click.echo(f"{out}: {missing} pairs of {observer} are left; run the same command again to continue")
    for fit in fit_answers(answers):
        click.echo(printable(str(fit)))


@perception_group.command("fit")
@click.argument("log", type=click.Path(path_type=Path), metavar="ANSWERS.jsonl")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File for a plot of answers and fits, .svg, .png or .pdf."
)
def fit_forced_choice(log: Path, out: Path | None) -> None:
    """Fit the threshold of each transform, or D_T, to logged answers.

    A log that is not complete is enough. With several observers, the fit of each follows that of all.

    \b
    candlelight perception fit answers.jsonl --out answers.svg
    """
    from candlelight.evaluation.perception.experiment import fit_answers, read_answers
    from candlelight.evaluation.run.result_files import check_writable

    answers = read_answers(log)
    if not len(answers):
        raise UseError(f"{log}: has no answers yet; continue the experiment")
    if out is not None:
        check_writable(out, _PLOTS)
    fits = fit_answers(answers)
    for fit in fits:
        click.echo(printable(str(fit)))
    if out is not None:
        from candlelight.evaluation.perception.perception_plots import draw_answers

        out.write_bytes(draw_answers(answers, fits, out.suffix[1:]))
        click.echo(str(out))


def _geometry(
    pixels_per_degree: float | None, distance: float | None, pitch: float | None, scale: int | None
) -> tuple[float, int | None]:
    """Return the pixels of an image per degree, and the device pixels of each if that is fixed."""
    from candlelight.evaluation.perception.people import (
        PAPER_PIXELS_PER_DEGREE,
        screen_pixels_per_degree,
    )

    if distance is None and pitch is None:
        return pixels_per_degree or PAPER_PIXELS_PER_DEGREE, scale
    if distance is None or pitch is None or pixels_per_degree is not None:
        raise UseError("expected --pixels-per-degree alone, or both --distance and --pitch")
    shown = scale or 1
    return screen_pixels_per_degree(pitch * shown, distance), shown
