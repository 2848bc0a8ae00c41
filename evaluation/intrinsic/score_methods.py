"""The benchmark of Grosse et al. 2009: scores and ranks of its methods, beside those of models."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import LMSEOptions, MethodsOptions
from candlelight.evaluation.catalogue.record import Evaluation
from candlelight.evaluation.intrinsic.benchmark_methods import (
    ABSOLUTE,
    BASELINE,
    FIXED_BASELINES,
    GRADIENT_METHODS,
    METHODS,
    TRAINED_METHODS,
    BenchmarkObject,
    GrayDecomposition,
    MethodChoice,
    MethodDecomposer,
    candidate_estimates,
    choose_left_out,
    fixed_estimates,
    is_absolute,
    local_errors,
)
from candlelight.evaluation.intrinsic.ground_truth import stack_ground_truth
from candlelight.evaluation.intrinsic.intrinsic_records import (
    DECOMPOSITIONS,
    LMSE,
    decomposition_errors,
    open_with_lights,
)
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.batches import Batch, read_batches
from candlelight.evaluation.run.evaluate import Run, score
from candlelight.evaluation.run.fingerprints import Fingerprint, make_provenance
from candlelight.evaluation.run.named_models import Decomposition
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.run.steps import FinishedSteps, batch_key, model_key
from candlelight.evaluation.views import DecomposedImage, Decompositions
from candlelight.loaders.errors import InputError, argument, did_you_mean
from candlelight.version import RELEASE

WINDOWS = (10, 20, 40, 80)
_Batch = Batch[DecomposedImage]


def method_names(text: str) -> tuple[str, ...]:
    """Read the names of methods: `all`, or names separated by commas.

    Raises:
        InputError: no such method.

    Example:
        >>> method_names("bas, COL-RET")
        ('BAS', 'COL-RET')
    """
    given = [name.strip().upper() for name in text.split(",") if name.strip()]
    names = METHODS if given == ["ALL"] else tuple(dict.fromkeys(given))
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        known, got = (
            ", ".join(METHODS),
            f"`{unknown[0]}`{did_you_mean(unknown[0], METHODS)}" if unknown else "none",
        )
        raise InputError(f"{argument('methods')}: expected all, or some of {known}, got {got}")
    return names


def _run_benchmark(run: Run[MethodsOptions]) -> dict[str, Result]:
    """Run the benchmark of Grosse et al. 2009, section 4, and score models beside it; the best is first.

    A method has candidates: values of its thresholds. One of them is chosen for each object, by the mean LMSE
    over all other objects (leave-one-out). BAS has two: the image is all shading, or all reflectance. One
    object can tip its choice, so both are scored as fixed choices too. The square root of the image as both
    parts decides nothing and is the control of all methods of gray images. ``l1`` integrates the chosen
    gradients of each method with p = 1 too (eq. 10); the candidates are those for p = 2, as in the authors'
    code.

    Columns and settings of the results are those of `LMSE`, so they can be compared with results of models.
    ``details`` holds the candidates, the LMSE of each of them on each object, the chosen ones, the mean LMSE
    for windows of `WINDOWS` pixels, and the residuals of the solver with p = 1.
    """
    names, data = method_names(run.options.methods), run.data
    taken = {*METHODS, *FIXED_BASELINES, *(name + ABSOLUTE for name in METHODS)}
    if same := taken & run.models.keys():
        raise InputError(f"`{min(same)}` is the name of a method; give the model another name: NAME=SPEC")
    if len(set(data.groups)) < 2:
        raise InputError("candidates are chosen on other objects: expected two or more, got one; add rows")
    options = LMSEOptions(run.options.leave_edges, run.options.image)
    own: dict[str, Any] = {"evaluation": LMSE, "options": options, "fingerprint": Fingerprint()}
    errors: Run[Any] = replace(run, **own)
    with _one_thread():
        tables, description = _score_candidates(data, names, run.steps)
        decompose = MethodDecomposer(data, _choose(tables, data, run.options.l1))
        scored = _score_choices(data, decompose, description, run.steps)
    run.kept["decompose"] = decompose
    results: dict[str, Any] = {}
    for name, choice in decompose.choices.items():
        about = make_provenance(LMSE.name, LMSE.version, "lower", _named(name), description, errors.settings)
        columns = zip(LMSE.ranges, scored[name]["errors"].T, strict=True)
        results[name] = MeanResult(
            about,
            tuple(data.ids),
            tuple(data.groups),
            {column: tuple(values.tolist()) for column, values in columns},
            (),
            _details(choice, tables[choice.method], scored[name]),
            dict(LMSE.ranges),
        )
    if run.models:
        results |= score(errors)
    ranked = add_ranks(results)
    return dict(sorted(ranked.items(), key=lambda item: item[1].score))


def add_ranks(results: Mapping[str, MeanResult]) -> dict[str, MeanResult]:
    """Add the column ``rank``: the rank of each result on each row by LMSE, 1 is best, equals share the mean.

    Grosse et al. 2009, section 4.4.1. The fixed decompositions and the results with p = 1 have no rank (nan),
    so that each method counts once.

    Args:
        results: results of the same rows.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance
        >>> about = Provenance("lmse", 2, "lower", {}, {}, {}, {})
        >>> lmse = {"W": (0.1, 0.2), "BAS": (0.3, 0.1)}
        >>> rows = ("a", "b")
        >>> results = {name: MeanResult(about, rows, rows, {"lmse": lmse[name]}, ()) for name in lmse}
        >>> [result.columns["rank"] for result in add_ranks(results).values()]
        [(1.0, 2.0), (2.0, 1.0)]
    """
    ranked = [name for name, one in results.items() if name not in FIXED_BASELINES and not is_absolute(one)]
    scores = np.array([next(iter(results[name].columns.values())) for name in ranked])
    ranks = dict(zip(ranked, rankdata(scores, axis=0, nan_policy="omit"), strict=True))
    with_ranks = {}
    for name, result in results.items():
        column = tuple(ranks[name].tolist()) if name in ranks else (math.nan,) * len(result.ids)
        settings = result.about.settings | {"ranked_among": sorted(ranked)}
        with_ranks[name] = replace(
            result,
            about=replace(result.about, settings=settings),
            columns=result.columns | {"rank": column},
            ranges=result.ranges | {"rank": (1.0, float(len(ranked)))},
        )
    return with_ranks


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread: a second one does not pay for the small sums of `lmse`.

    On a busy machine, waiting for the second thread took twenty times as long as the sums.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _named(name: str) -> NamedModel:
    candidates = GRADIENT_METHODS[name].candidates if name in GRADIENT_METHODS else ()
    way = "two halves" if name in TRAINED_METHODS else "leave-one-out"
    if name in FIXED_BASELINES or len(candidates) == 1:
        way = "nothing to choose"
    return NamedModel(ModelIdentity(name, "shipped", f"candlelight {RELEASE}, {way}"), name, "linear")


def _key(name: str, **facts: object) -> dict[str, Any]:
    key = model_key(_named(name), "cpu", metric=LMSE.name, version=LMSE.version, **facts)
    assert key is not None  # for the type checker: the methods are our own
    return key


def _choose(
    tables: Mapping[str, Float64[ndarray, "rows candidates 2"]], data: Decompositions, absolute: bool
) -> dict[str, MethodChoice]:
    """Choose a candidate of each method for each row; add the fixed choices of BAS, and p = 1."""
    choices = {}
    for name, table in tables.items():
        scores = table.mean(2)[:, :2] if name == BASELINE else table.mean(2)
        choices[name] = MethodChoice(name, tuple(choose_left_out(scores, data.groups).tolist()))
    if BASELINE in choices:
        for number, name in enumerate(FIXED_BASELINES):
            choices[name] = MethodChoice(BASELINE, (number,) * len(data))
    if absolute:
        chosen = [choice for name, choice in choices.items() if name in GRADIENT_METHODS]
        choices |= {choice.method + ABSOLUTE: choice._replace(absolute=True) for choice in chosen}
    return choices


def _score_candidates(
    data: Decompositions, methods: Sequence[str], steps: FinishedSteps
) -> tuple[dict[str, Float64[ndarray, "rows candidates 2"]], dict[str, Any]]:
    """Compute the LMSE of reflectance and shading of every candidate of each method on each row.

    A trained method has one candidate, whose score is not needed to choose it.
    """
    fingerprint = Fingerprint()
    keys = {name: _key(name, part="candidates") for name in methods}
    tables: dict[str, list[Tensor]] = {name: [] for name in methods}
    for batch in read_batches(data, 1, lambda item: item.image, fingerprint, "choose candidates"):
        opened = _open_object(batch, methods)
        for name in methods:
            score = partial(_score_row, opened, name)
            step = steps.get_or_compute(batch_key(keys[name], batch, fingerprint), score)
            tables[name].append(step["errors"])
    described = fingerprint.describe(data)
    return {name: torch.stack(rows).numpy() for name, rows in tables.items()}, described


def _open_object(batch: _Batch, methods: Sequence[str]) -> BenchmarkObject:
    stack_ground_truth(batch.items)  # checks shapes and dtypes
    opened = BenchmarkObject(batch.items[0])
    lacking = [name for name in methods if name in GRADIENT_METHODS and GRADIENT_METHODS[name].takes_lights]
    if lacking and opened.lights is None:
        raise InputError(
            f"{', '.join(lacking)}: needs images under several lights, and the data have none; leave it out, "
            "or give data in the layout of MIT Intrinsic Images (`candlelight export --to mit` writes it)"
        )
    return opened


def _score_row(opened: BenchmarkObject, name: str) -> dict[str, Tensor]:
    if name in TRAINED_METHODS:
        return {"errors": torch.zeros(1, 2, dtype=torch.float64)}
    if name == BASELINE:
        return {"errors": local_errors(opened, fixed_estimates(opened))[0]}
    parts = [local_errors(opened, some)[0] for some in candidate_estimates(opened, GRADIENT_METHODS[name])]
    return {"errors": torch.cat(parts)}


def _score_choices(
    data: Decompositions, decompose: MethodDecomposer, description: Mapping[str, Any], steps: FinishedSteps
) -> dict[str, dict[str, Float64[ndarray, "rows ..."]]]:
    """Compute all scores of the chosen candidates."""
    fingerprint = Fingerprint()
    rows: dict[str, list[dict[str, Tensor]]] = {name: [] for name in decompose.choices}
    # A trained method depends on other rows too.
    trained = {name: description["sha256"] if name in TRAINED_METHODS else None for name in rows}
    keys = {name: _key(name, part="chosen", trained_on=trained[name]) for name in rows}
    for row, batch in enumerate(read_batches(data, 1, lambda item: item.image, fingerprint, "score")):
        opened = BenchmarkObject(batch.items[0])
        for name, choice in decompose.choices.items():
            key = batch_key({**keys[name], "candidate": choice.chosen[row]}, batch, fingerprint)
            score = partial(_score_chosen, opened, decompose, name, row)
            rows[name].append(steps.get_or_compute(key, score))
    return {
        name: {part: torch.stack([one[part] for one in some]).numpy() for part in some[0]}
        for name, some in rows.items()
    }


def _score_chosen(
    opened: BenchmarkObject, decompose: MethodDecomposer, name: str, row: int
) -> dict[str, Tensor]:
    decomposition, residual = decompose(name, row, opened)
    truth = stack_ground_truth([opened.item])
    fitting = [window for window in WINDOWS if window <= min(opened.mask.shape)]
    local = local_errors(opened, GrayDecomposition(*(part[None] for part in decomposition)), fitting)
    windows = torch.full((len(WINDOWS),), torch.nan, dtype=torch.float64)
    windows[: len(fitting)] = local[:, 0].mean(1)
    coloured = Decomposition(*opened.in_colour(decomposition), torch.zeros(1, dtype=torch.bool))
    found = decomposition_errors(coloured, truth)
    return {
        "errors": torch.stack([errors[0].double() for errors in found.values()]),
        "windows": windows,
        "residual": torch.tensor(residual, dtype=torch.float64),
    }


def _details(
    choice: MethodChoice,
    table: Float64[ndarray, "rows candidates 2"],
    scored: Mapping[str, Float64[ndarray, "rows ..."]],
) -> dict[str, Any]:
    # Over the objects that are large enough for a window, and have a defined LMSE.
    columns = (column[~np.isnan(column)] for column in scored["windows"].T)
    windows = {
        str(side): column.mean() if column.size else np.nan
        for side, column in zip(WINDOWS, columns, strict=True)
    }
    details: dict[str, Any] = {"windows": windows}
    if choice.method not in TRAINED_METHODS:
        method = GRADIENT_METHODS.get(choice.method)
        details["thresholds"] = () if method is None else method.thresholds
        details["candidates"] = FIXED_BASELINES if method is None else method.candidates
        details |= {"lmse_of_candidates": table.mean(2), "chosen": choice.chosen}
    return details | ({"residual": scored["residual"]} if choice.absolute else {})


def _open(choice: Mapping[str, Any], options: MethodsOptions, models: Mapping[str, Any]) -> Any:
    """Open decompositions, with images under other lights if a method needs them."""
    names = [name for name in method_names(options.methods) if name in GRADIENT_METHODS]
    needy = any(GRADIENT_METHODS[name].takes_lights for name in names)
    return open_with_lights(choice, options, models, needy)


METHODS_OF_2009 = Evaluation(
    name="lmse",
    version=LMSE.version,
    better="lower",
    options=MethodsOptions,
    reads=replace(DECOMPOSITIONS, open=_open),
    study=_run_benchmark,
    page="candlelight.evaluation.intrinsic.intrinsic_report:METHODS_PAGE",
    needs_models=False,
)
