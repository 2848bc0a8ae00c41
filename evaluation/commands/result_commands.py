"""The commands of ``candlelight evaluate`` for saved results: report, compare and tables of coverage."""

from pathlib import Path

import click

from candlelight.loaders.errors import InputError, blame


@click.command()
@click.argument("results", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RESULT.json...")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@click.option("--title", default="Results", help="Heading of the page.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder of frames, or pack, whose image sets the page shows below the scores.",
)
def report(results: tuple[Path, ...], out: Path, title: str, data: Path | None) -> None:
    """Write one HTML page with tables and plots of saved results.

    \b
    candlelight evaluate report lmse.json csm.json --out report.html
    candlelight evaluate report lmse.json csm.json --data demo/frames --out report.html
    """
    from candlelight.evaluation.report.page import write_report
    from candlelight.evaluation.run.result_files import REMEDY, check_writable, read_results
    from candlelight.loaders.looking.look import look
    from candlelight.loaders.open_frames import open_frames

    check_writable(out, (".html", ".htm"))
    sets = [open_frames(data, name) for name in look(data).sets] if data else []
    read = [result for path in results for result in read_results(path)]
    try:
        page = write_report(out, read, title=title, sets=sets)
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # files may have been edited
        files = ", ".join(map(str, results))
        raise blame(f"{files}: cannot be shown, a field is missing or damaged", error, REMEDY) from error
    click.echo(str(page))


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path), metavar="FIRST.json")
@click.argument("second", type=click.Path(path_type=Path), metavar="[SECOND.json]", required=False)
@click.option("--column", help="Column or score to compare.  [default: the first of the result]")
def compare_command(first: Path, second: Path | None, column: str | None) -> None:
    """Compare saved results on the same data: the difference, its interval, and the better model.

    With two files, each result of the first is compared with each result of the second. With one file, its
    results are compared with each other, except its controls.

    \b
    candlelight evaluate compare lmse-retinex.json lmse-mine.json --column lmse_shading
    candlelight evaluate compare lmse.json
    """
    from itertools import combinations, product

    from candlelight.evaluation.run.compare import compare
    from candlelight.evaluation.run.result_files import read_results

    errors: list[InputError] = []
    results = read_results(first)
    all_pairs = [*(product(results, read_results(second)) if second else combinations(results, 2))]
    if not second:
        some = [pair for pair in all_pairs if any(one.about.model.get("source") != "control" for one in pair)]
        all_pairs = some or all_pairs
    pairs = [(one, other) for one, other in all_pairs if one.to_json() != other.to_json()]
    if not pairs:
        raise InputError(f"expected two different results, got one in {second or first}; name another file")
    for one, other in pairs:
        try:
            click.echo(str(compare(one, other, column)))
        except InputError as error:  # the files hold results of several settings or data
            errors.append(error)
    if len(errors) == len(pairs):
        raise errors[0]


@click.command("coverage-tables")
@click.argument("results", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RESULT.json...")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the tables; files of the same names are replaced.",
)
def coverage_tables_command(results: tuple[Path, ...], out: Path) -> None:
    """Write the tables and the points of the figures of the WAIoU paper as CSV files.

    \b
    candlelight evaluate coverage parts --model kinds.pt --method all --out waiou.json
    candlelight evaluate coverage-tables waiou.json --out tables
    """
    from candlelight.evaluation.coverage.coverage_tables import write_coverage_tables
    from candlelight.evaluation.run.result_files import read_results

    read = [result for path in results for result in read_results(path)]
    for path in write_coverage_tables(out, read):
        click.echo(str(path))
