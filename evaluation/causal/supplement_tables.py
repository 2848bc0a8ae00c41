"""The tables of the supplement of Reddy et al. 2022: train their models, and score them."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from candlelight.evaluation.catalogue.causal_options import CausalTableOptions
from candlelight.evaluation.catalogue.training_options import CausalModel, CausalTraining
from candlelight.evaluation.causal.factor_data import (
    CounterfactualData,
    ResizedFactors,
    factor_options,
    select_confounded,
)
from candlelight.evaluation.causal.factor_table import tabulate_factors
from candlelight.evaluation.causal.measure_codes import metric_names
from candlelight.evaluation.models.autoencoders import load_autoencoder, save_autoencoder
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import Result, StatisticResult, align_columns, model_name, notes_of
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.training.causal_data import CausalBatches
from candlelight.evaluation.training.train_causal import train_causal
from candlelight.evaluation.views import Factors, open_data, open_secondary
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar

IDENTIFIABLE = "ada-gvae"  # trained beside the published models
_UNSUPERVISED = ("beta-vae", "beta-tcvae", "dip-vae-i", "factor-vae")
_SUPPLEMENT_MODELS = (*_UNSUPERVISED, *(f"ss-{name}" for name in _UNSUPERVISED))
_IRS, _DCI, _UC1, _CG1, _UC2, _CG2 = ("IRS", "DCI (D)", "UC(1)", "CG(1)", "UC(2)", "CG(2)")
_WITHOUT_DCI = (_IRS, _UC1, _CG1, _UC2, _CG2)
_ALL = (_IRS, _DCI, _UC1, _CG1, _UC2, _CG2)
# Names of our scores. DCI is that of the fast trees; "rendered" is not in the supplement.
_SCORES = {
    _IRS: "irs",
    _DCI: "dci_fast(disentanglement)",
    _UC1: "unconfoundedness(1)",
    _CG1: "counterfactual_generativeness(1)",
    _UC2: "unconfoundedness(2)",
    _CG2: "counterfactual_generativeness(2)",
    "rendered(1)": "rendered_counterfactual(1)",
}
NO_TARGET = (
    "published values are no target: UC(2) and CG(2) took the same second code for almost all factors, "
    "the classifier of CG learned from scrambled pixels and saw logits, and FactorVAE drew one batch in all; "
    "our DCI (D) is dci_fast"
)


@dataclass(frozen=True)
class SupplementTable:
    """A table of the supplement.

    Attributes:
        data: the data that the table needs, in words.
        selection: name of the confounded selection of a full grid (`candlelight.loaders.select_preset`);
            empty for none.
        factors: factors that the data have; those that vary are scored.
        columns: the published columns.
        values: published values by model, in the order of the columns.
    """

    data: str
    selection: str
    factors: tuple[str, ...]
    columns: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]]


def _table(
    data: str, selection: str, factors: str, columns: tuple[str, ...], *rows: tuple[float, ...]
) -> SupplementTable:
    values = dict(zip(_SUPPLEMENT_MODELS, rows, strict=False))  # table 2 has the first four models
    return SupplementTable(data, selection, tuple(factors.split()), columns, values)


_CANDLE = "scene object_type color size rotation"  # five, as the published values of UC(1) are tenths
_MPI3D = "object_color object_shape object_size camera_height background_color horizontal_axis vertical_axis"
SUPPLEMENT_TABLES: Mapping[int, SupplementTable] = {
    2: _table(
        *("toys, each object with one colour: the recipe toy-confounded", "", "object_type color"),
        (_IRS, _UC1, _CG1),
        (0.99, 0, 0.01),
        (0.99, 0, 0.04),
        (0.99, 0, 0.03),
        (0.99, 0, 0.04),
    ),
    3: _table(
        *("mpi3d:PATH, the set toy", "", _MPI3D, _WITHOUT_DCI),
        (0.53, 0.52, 0.23, 0.19, 0.24),
        (0.57, 0.28, 0.22, 0.19, 0.14),
        (0.27, 0.28, 0.10, 0.19, 0.14),
        (0.58, 0.52, 0.14, 0.34, 0.16),
        (0.60, 1.00, 0.10, 0.66, 0.09),
        (0.64, 1.00, 0.09, 0.66, 0.15),
        (0.35, 0.42, 0.10, 0.19, 0.11),
        (0.56, 1.00, 0.12, 0.60, 0.14),
    ),
    4: _table(
        *("candle:PATH, or the recipe candle", "", _CANDLE, _ALL),
        (0.72, 0.11, 0.40, 0.16, 0.27, 0.17),
        (0.74, 0.14, 0.40, 0.22, 0.26, 0.21),
        (0.75, 0.09, 0.40, 0.18, 0.53, 0.13),
        (0.71, 0.12, 0.40, 0.20, 0.26, 0.20),
        (0.51, 0.20, 0.90, 0.20, 0.27, 0.22),
        (0.46, 0.16, 0.40, 0.24, 0.26, 0.26),
        (0.28, 0.18, 0.7, 0.15, 0.60, 0.24),
        (0.45, 0.19, 0.4, 0.15, 0.26, 0.15),
    ),
    5: _table(
        *("the recipe candle, in full", "candle-color", _CANDLE, _ALL),
        (0.80, 0.17, 0.40, 0.21, 0.13, 0.20),
        (0.50, 0.10, 0.70, 0.20, 0.29, 0.20),
        (0.24, 0.03, 0.40, 0.13, 0.29, 0.14),
        (0.47, 0.13, 0.40, 0.22, 0.13, 0.15),
        (0.51, 0.18, 0.80, 0.28, 0.60, 0.19),
        (0.49, 0.19, 0.80, 0.25, 0.46, 0.25),
        (0.29, 0.17, 0.40, 0.32, 0.26, 0.19),
        (0.46, 0.21, 0.40, 0.36, 0.60, 0.21),
    ),
    7: _table(
        *("the recipe candle, in full", "candle-size", _CANDLE, _ALL),
        (0.75, 0.17, 0.40, 0.20, 0.27, 0.20),
        (0.81, 0.13, 0.40, 0.11, 0.26, 0.11),
        (0.76, 0.10, 0.70, 0.19, 0.46, 0.17),
        (0.74, 0.11, 0.70, 0.21, 0.47, 0.21),
        (0.53, 0.21, 0.90, 0.13, 0.60, 0.22),
        (0.51, 0.19, 0.90, 0.14, 0.60, 0.20),
        (0.25, 0.22, 0.90, 0.15, 0.60, 0.17),
        (0.43, 0.20, 0.90, 0.18, 0.60, 0.19),
    ),
    9: _table(
        *("dsprites:PATH", "dsprites", "shape scale orientation posX posY", _ALL),
        (0.63, 0.12, 0.63, 0.07, 0.53, 0.07),
        (0.75, 0.23, 0.33, 0.06, 0.22, 0.07),
        (0.51, 0.10, 0.73, 0.10, 0.40, 0.09),
        (0.57, 0.12, 0.86, 0.02, 0.49, 0.03),
        (0.55, 0.18, 0.73, 0.05, 0.48, 0.05),
        (0.70, 0.36, 0.33, 0.10, 0.22, 0.10),
        (0.43, 0.12, 0.80, 0.05, 0.48, 0.05),
        (0.62, 0.25, 0.73, 0.09, 0.48, 0.09),
    ),
    11: _table(
        *("mpi3d:PATH", "mpi3d", _MPI3D, _ALL),
        (0.18, 0.01, 0.28, 0.11, 0.19, 0.11),
        (0.38, 0.008, 0.00, 0.10, 0.00, 0.21),
        (0.12, 0.005, 0.28, 0.06, 0.19, 0.08),
        (0.26, 0.01, 0.66, 0.14, 0.38, 0.13),
        (0.63, 0.006, 0.66, 0.12, 0.19, 0.21),
        (0.64, 0.007, 0.28, 0.06, 0.19, 0.12),
        (0.32, 0.007, 0.76, 0.06, 0.32, 0.10),
        (0.50, 0.006, 0.00, 0.12, 0.00, 0.20),
    ),
}


def supplement_lines(results: Sequence[Result], table: SupplementTable) -> str:
    """Write our values in the columns of a table, with the published ones below those of each model.

    Args:
        results: results of the causal evaluations for models named MODEL#SEED. Seeds that are pooled are left
            out.
        table: the table.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("causal", 4, "higher", {"name": "beta-vae#0"}, {}, {}, {})
        >>> result = StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})
        >>> print(supplement_lines([result], SUPPLEMENT_TABLES[2]))
        model        IRS                UC(1)  CG(1)  rendered(1)
        beta-vae#0   0.50 (0.40, 0.60)
          published  0.99               0      0.01
    """
    pooled = {model_name(one).partition(",")[0] for one in results if "seeds" in one.details}
    columns = (*table.columns, "rendered(1)")
    rows: list[tuple[str, ...]] = [("model", *columns)]
    scores: dict[str, dict[str, Score]] = {}
    for result in results:
        scores.setdefault(model_name(result), {}).update(result.scores)
    for name, found in scores.items():
        method = name.partition("#")[0].partition(",")[0]
        if "#" in name and method in pooled:
            continue
        cells = (found.get(_SCORES[column]) for column in columns)
        rows.append((name, *("" if one is None else _cell(one) for one in cells)))
        if method in table.values:
            rows.append(("  published", *(f"{value:g}" for value in table.values[method]), ""))
    return align_columns(rows)


def _cell(score: Score) -> str:
    if math.isnan(score.value):
        return "undefined"
    interval = "" if math.isnan(score.low) else f" ({score.low:.2f}, {score.high:.2f})"
    return f"{score.value:.2f}{interval}"


def run_table(
    choice: Mapping[str, Any], options: CausalTableOptions, folder: Path, device: str, steps: FinishedSteps
) -> tuple[list[StatisticResult], list[str]]:
    """Train the models of a table, score them by `codes`, `generativeness` and `counterfactuals`.

    Args:
        choice: data, set, split, rows and limit.
        options: the table, models and settings.
        folder: folder of the weights.
        device: torch device.
        steps: keeps finished steps of the scores.

    Returns:
        The results, and the lines of the table and its notes.

    Raises:
        InputError: the data lack a factor of the table, or an option does not fit.
    """
    table, models = SUPPLEMENT_TABLES[int(options.table)], options.models
    if options.labelled is not None and models and not any(model.startswith("ss-") for model in models):
        raise InputError(f"{argument('labelled')}: only the models ss- have labelled images")
    data = _open_images(choice, options, table)
    view = data.images
    names = options.factors or _varying(view, table)
    scored: dict[str, Any] = {"factors": names, "device": device, "steps": steps}
    tabulate_factors(view, names)  # before the training
    networks, left_out = train_table_models(
        view,
        models or (*table.values, IDENTIFIABLE),  # type: ignore[arg-type]  # they are names of models
        options.seeds,
        lambda model: CausalTraining(
            model=model,
            codes=options.codes,
            steps=options.steps,
            labelled=options.labelled if model.startswith("ss-") else None,
        ),
        folder,
        device,
    )
    metrics = ("unconfoundedness", *metric_names(options.metrics))
    found = [evaluate("codes", view, networks, metrics=metrics, **scored)]
    found += [evaluate("generativeness", view, networks, **scored)]
    found += [evaluate("counterfactuals", data, networks, **scored)]
    results: Any = [result for some in found for result in some.values()]
    head = f"table {options.table}, {len(view)} images, {options.steps} steps, {options.codes} codes"
    notes = (f"note: {line}" for line in (*left_out, NO_TARGET, *notes_of(results)))
    return results, [f"{head}; higher is better\n", supplement_lines(results, table), *notes]


def _open_images(
    choice: Mapping[str, Any], options: CausalTableOptions, table: SupplementTable
) -> CounterfactualData:
    """Open the images of a table, and those among which rendered counterfactuals are found."""
    sizes = factor_options(options)
    whole = open_data("factors", **choice, **sizes)
    if lacking := [name for name in table.factors if name not in {info.name for info in whole.factors}]:
        raise InputError(f"expected {table.data}; {choice['data']} has no factor `{lacking[0]}`")
    numbers = [whole.named.numbers[row] for row in _rows(whole, table, options.images, choice)]
    view: Factors = open_data("factors", **{**choice, "rows": numbers, "limit": None}, **sizes)
    others: Factors = whole
    if options.counterfactuals:
        others = open_secondary("factors", choice["data"], options.counterfactuals, **sizes)
    if options.size is not None:
        view, others = (ResizedFactors(one, int(options.size)) for one in (view, others))
    return CounterfactualData(view, others)


def _rows(view: Factors, table: SupplementTable, images: int | None, choice: Mapping[str, Any]) -> list[int]:
    """Choose the rows of a table's selection, evenly spaced if they are too many."""
    rows = list(range(len(view)))
    if table.selection:
        if choice["rows"] is not None or choice["limit"] is not None:
            raise InputError("--table: chooses the rows itself; omit --rows and --limit, take --images")
        rows = select_confounded(view, table.selection, choice)
    if images is not None and images < len(rows):
        rows = [rows[place] for place in np.linspace(0, len(rows) - 1, images).round().astype(int).tolist()]
    return rows


def _varying(view: Factors, table: SupplementTable) -> list[str]:
    """Name the factors of a table that vary."""
    varies = (view.table != view.table[:1]).any(0)
    names = [info.name for info, several in zip(view.factors, varies, strict=True) if several]
    return [name for name in table.factors if name in names]


def train_table_models(
    view: Factors,
    models: Sequence[CausalModel],
    seeds: int,
    settings: Callable[[CausalModel], CausalTraining],
    folder: Path,
    device: str,
) -> tuple[dict[str, nn.Module], list[str]]:
    """Train each model with each seed on all images, or take the weights of an earlier call.

    Args:
        view: images of 32 x 32 or 64 x 64 pixels.
        models: names of the models.
        seeds: number of seeds, counted from 0.
        settings: makes the options of a model.
        folder: folder of the weights, MODEL#SEED.pt, and of the states of interrupted trainings.
        device: torch device.

    Returns:
        Networks by name, MODEL#SEED, and notes on models that cannot be trained: pairs for "ada-gvae" may be
        missing, if factors determine each other.

    Raises:
        InputError: weights in the folder have other settings or data, or see `train_causal`.
    """
    networks: dict[str, nn.Module] = {}
    chosen, notes = _trainable(view, {model: settings(model) for model in models})
    described = {"data": asdict(view.identity), "training_ids": list(view.ids), "content": _content(view)}
    trainings = [(model, seed) for model in chosen for seed in range(seeds)]
    for model, seed in progress_bar(trainings, desc="trainings", unit="training"):
        name, one = f"{model}#{seed}", chosen[model]
        path = folder / f"{name}.pt"
        record = {"settings": {**one.settings(), "seed": seed}, **described}
        if not path.exists():
            state = path.with_name(f"{path.name}.partial")
            options = {**asdict(one), "seed": seed, "factors": view, "device": device, "state": state}
            network, _ = train_causal(view, **options)
            save_autoencoder(network, path, record)
            state.unlink(missing_ok=True)
        # Always from the file: another memory layout of equal weights gives slightly other codes.
        networks[name] = _load(path, record, device)
    return networks, notes


def _trainable(
    view: Factors, settings: dict[CausalModel, CausalTraining]
) -> tuple[dict[CausalModel, CausalTraining], list[str]]:
    """Draw a batch for each model before any is trained; a note tells that there are no pairs."""
    notes = []
    for model, one in list(settings.items()):
        batches = CausalBatches(view, range(len(view)), one, 0, view)
        try:
            batches[0]
        except InputError as error:
            if model != IDENTIFIABLE or len(settings) == 1:
                raise
            notes.append(f"{model} is left out: {error}")
            del settings[model]
    return settings, notes


def _content(view: Factors) -> str:
    """Hash the images and their factors."""
    fingerprint = Fingerprint()
    for row, name in enumerate(view.ids):
        fingerprint.add(name, view[row])
    fingerprint.add("factors", np.asarray(view.table))
    return fingerprint.hexdigest()


def _load(path: Path, record: dict[str, Any], device: str) -> nn.Module:
    """Load weights that were trained with these settings, on these data."""
    network, training = load_autoencoder(path, device)
    wanted = json.loads(json.dumps(record))
    if different := [name for name in wanted if training.get(name) != wanted[name]]:
        raise InputError(
            f"{path}: trained with other {', '.join(different)}; delete it, or give another "
            f"{argument('out', 'folder')}"
        )
    return network
