"""``candlelight evaluate causal-table``: train, score and print a table of the CANDLE supplement."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.evaluation.catalogue.training_options import CAUSAL_MODELS, CausalCommand, CausalTraining
from candlelight.evaluation.commands.causal_command import select_confounded
from candlelight.evaluation.commands.evaluate_options import (
    choose_device,
    data_options,
    device_option,
    end_steps,
    open_steps,
)
from candlelight.evaluation.commands.evaluation_command import option_of
from candlelight.evaluation.run.record import options_of

if TYPE_CHECKING:
    from candlelight.evaluation.causal.supplement_tables import SupplementTable
    from candlelight.evaluation.views import Factors

_TABLES = ("2", "3", "4", "5", "7", "9", "11")


def _training_options(command: Any) -> Any:
    """Add the options that this command shares with ``train causal``."""
    known = {one.name: one for one in options_of(CausalCommand)}
    for name in ("size", "labelled", "codes", "steps"):
        command = option_of(known[name])(command)
    return command


@click.command("causal-table")
@data_options
@click.option("--table", "number", type=click.Choice(_TABLES), required=True, help="Table of the supplement.")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(CAUSAL_MODELS),
    help="Model to train; repeatable.  [default: those of the table, and ada-gvae]",
)
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="Trainings of each model."
)
@_training_options
@click.option("--images", type=click.IntRange(2), help="Most images, evenly spaced.  [default: all]")
@click.option("--factors", help="Factors to score by name.  [default: those of the table]")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric beside irs and unconfoundedness; repeatable.  [default: all but dci]",
)
@click.option(
    "--counterfactuals",
    metavar="SOURCE",
    help="Images among which rendered counterfactuals are found: a set of DATA, a path, or PATH:SET.  "
    "[default: all of DATA]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for weights and results; the same command resumes with them.",
)
@device_option
def causal_table(
    data: str,
    number: str,
    models: tuple[Any, ...],
    seeds: int,
    steps: int,
    codes: int,
    labelled: int | None,
    images: int | None,
    size: str | None,
    factors: str | None,
    metrics: tuple[str, ...],
    counterfactuals: str | None,
    out: Path,
    device: str,
    **choice: Any,
) -> None:
    """Train, score and print a table of the CANDLE supplement, with the published values beside.

    Tables 2 (toys), 3 and 11 (MPI3D), 4, 5 and 7 (CANDLE), 9 (dSprites). Values are means over seeds with
    95 % intervals; random codes, the factors as codes, and supervised codes are controls. All scores are in
    OUT/table-NUMBER.json. Models are trained on the images that are scored.

    \b
    candlelight render candle --set image.width=64 --set image.height=64 --out candle
    candlelight evaluate causal-table candle --table 5 --seeds 3 --steps 1000 --codes 10 --out results
    candlelight evaluate causal-table mpi3d:mpi3d --table 11 --images 10000 --out mpi3d-results
    """
    from candlelight.evaluation.causal import score_causal, tabulate_factors
    from candlelight.evaluation.causal.measure_codes import metric_names
    from candlelight.evaluation.causal.supplement_tables import (
        IDENTIFIABLE,
        NO_TARGET,
        SUPPLEMENT_TABLES,
        supplement_lines,
        train_table_models,
    )
    from candlelight.evaluation.run.result import notes_of
    from candlelight.evaluation.run.result_files import check_writable, write_results
    from candlelight.loaders.errors import InputError

    table, chosen = SUPPLEMENT_TABLES[int(number)], choose_device(device)
    if labelled is not None and models and not any(model.startswith("ss-") for model in models):
        raise InputError("--labelled: only the models ss- have labelled images")
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"table-{number}.json"
    check_writable(file)
    view, others = _open_images(data, table, images, counterfactuals, size, choice)
    names = [name.strip() for name in factors.split(",")] if factors else _varying(view, table)
    chosen_metrics = metric_names(metrics)  # before the training
    tabulate_factors(view, names)
    networks, left_out = train_table_models(
        view,
        models or (*table.values, IDENTIFIABLE),
        seeds,
        lambda model: CausalTraining(
            model=model, codes=codes, steps=steps, labelled=labelled if model.startswith("ss-") else None
        ),
        out,
        chosen,
    )
    kept = open_steps((file,))
    found = score_causal(
        networks,
        view,
        names,
        metrics=dict.fromkeys(("unconfoundedness", *chosen_metrics)),
        counterfactuals=others,
        device=chosen,
        steps=kept,
    )
    results = list(found.values())
    write_results(file, results)
    click.echo(f"table {number}, {len(view)} images, {steps} steps, {codes} codes; higher is better\n")
    click.echo(supplement_lines(results, table))
    for line in (*left_out, NO_TARGET, *notes_of(results)):
        click.echo(f"note: {line}")
    click.echo(str(file))
    end_steps(kept)


def _open_images(
    data: str,
    table: "SupplementTable",
    images: int | None,
    counterfactuals: str | None,
    size: str | None,
    choice: Mapping[str, Any],
) -> tuple["Factors", "Factors"]:
    """Open the images of a table, and those among which rendered counterfactuals are found."""
    from candlelight.evaluation.causal.factor_table import ResizedFactors
    from candlelight.evaluation.views import open_data, open_secondary
    from candlelight.loaders.errors import InputError

    whole = open_data("factors", data, **choice)
    if lacking := [name for name in table.factors if name not in {info.name for info in whole.factors}]:
        raise InputError(f"expected {table.data}; {data} has no factor `{lacking[0]}`")
    numbers = [whole.named.numbers[row] for row in _rows(whole, table, images, choice)]
    view: Factors = open_data("factors", data, **{**choice, "rows": numbers, "limit": None})
    others: Factors = open_secondary("factors", data, counterfactuals) if counterfactuals else whole
    if size is not None:
        view, others = (ResizedFactors(one, int(size)) for one in (view, others))
    return view, others


def _rows(
    view: "Factors", table: "SupplementTable", images: int | None, choice: Mapping[str, Any]
) -> list[int]:
    """Choose the rows of a table's selection, evenly spaced if they are too many."""
    import numpy as np

    from candlelight.loaders.errors import InputError

    rows = list(range(len(view)))
    if table.selection:
        if choice["rows"] is not None or choice["limit"] is not None:
            raise InputError("--table: chooses the rows itself; omit --rows and --limit, take --images")
        rows = select_confounded(view, table.selection, choice)
    if images is not None and images < len(rows):
        rows = [rows[place] for place in np.linspace(0, len(rows) - 1, images).round().astype(int).tolist()]
    return rows


def _varying(view: "Factors", table: "SupplementTable") -> list[str]:
    """Name the factors of a table that vary."""
    varies = (view.table != view.table[:1]).any(0)
    names = [info.name for info, several in zip(view.factors, varies, strict=True) if several]
    return [name for name in table.factors if name in names]
