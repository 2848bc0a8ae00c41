"""The evaluation of models of counterfactual images by effectiveness, composition and reversibility."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import AxiomsOptions
from candlelight.evaluation.catalogue.record import Better, Evaluation, Reading
from candlelight.evaluation.causal.effects import CounterfactualModel, cycle_errors, effectiveness
from candlelight.evaluation.causal.factor_data import CounterfactualData, open_with_counterfactuals
from candlelight.evaluation.causal.factor_table import Encoded, encode_data, encode_images, shrink_for_heads
from candlelight.evaluation.causal.generativeness import Decoder, decode_codes, resize_decoded
from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.evaluation.causal.rendered_counterfactuals import find_rendered_pairs, match_values
from candlelight.evaluation.causal.score_counterfactuals import nearest_frames, read_small
from candlelight.evaluation.causal.score_generativeness import find_decoder, find_judge
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.views.image_tensors import decode, encode
from candlelight.loaders.errors import InputError, argument

AXIOM_PAIRS = 100  # most pairs of each factor
_BATCH = 64
_SLACK = 0.5  # by how much images may leave [0, 1], as after repeated interventions
_FRAMES = ("rendered counterfactual", "nearest other frame")
_BETTER: dict[str, Better] = {"effectiveness": "higher", "effectiveness, other factors": "higher"}
for _axiom in ("composition", "reversibility"):
    _BETTER |= {_axiom: "lower", f"{_axiom}, repeated": "lower"}


def _draw_pairs(
    both: CounterfactualData, encoded: Encoded
) -> tuple[Int[ndarray, "3 pairs"], Int[Tensor, "2 pairs factors"]]:
    """Draw pairs that differ in one factor, whose new value other images have.

    Returns:
        Rows of the images, of their rendered counterfactuals and of the nearest other frames; and the classes
        of all factors in the images, and after the intervention.

    Raises:
        InputError: there are none.
    """
    table, seed, others = encoded.table, encoded.run.options.seed, both.counterfactuals
    drawn = find_rendered_pairs(both.images, others, table.names, AXIOM_PAIRS, seed)
    index, values = match_values(both.images, others)
    rows, classes = [], []
    for column, (name, pairs) in enumerate(drawn.items()):
        place, before = index.column(name), table.classes[pairs.factual]
        known = dict(zip(values[:, place].tolist(), table.classes[:, column].tolist(), strict=True))
        new = [known.get(one, -1) for one in index.positions(pairs.rendered)[:, place].tolist()]
        after = before.index_copy(1, torch.tensor([column]), torch.tensor(new, dtype=before.dtype)[:, None])
        rows.append([pairs.factual, pairs.rendered, nearest_frames(others, pairs.rendered, name, seed)])
        classes.append(torch.stack([before, after]))
    found = torch.cat(classes, dim=1)
    kept = (found >= 0).all(2).all(0)
    if not bool(kept.any()):
        raise InputError(f"no two images differ in one factor only; give {argument('counterfactuals')}")
    return np.concatenate(rows, axis=1)[:, kept.numpy()], found[:, kept]


def _score_axioms(run: Run[AxiomsOptions]) -> dict[str, Result]:
    """Compute the axioms of Monteiro et al. 2023, on at most `AXIOM_PAIRS` pairs of each factor.

    All is computed on the device; classifiers see images at the size of `shrink_for_heads`.

    Returns:
        A result for each model and control, with a row for each pair; its scores are also those of each
        factor that changes. ``effectiveness`` is the share of images in which the classifier sees the new
        class of the factor; that of the "other factors" tells whether these keep theirs. ``composition`` and
        ``reversibility`` are errors after one cycle, or "repeated" after `AxiomsOptions.cycles`; frames have
        none.

    Raises:
        InputError: the counterfactuals have other factors, there are no pairs, a model does not give images,
            or the classifiers do not fit.
    """
    both, device, notes = run.data, run.device, list[str]()
    run = replace(run, data=both.images)
    decoders = {name: find_decoder(named, device) for name, named in run.models.items()}
    own = {name: run.models[name] for name, decoder in decoders.items() if decoder is not None}
    encoded = encode_data(replace(run, models=own))
    pairs, classes = _draw_pairs(both, encoded)
    rows = np.unique(pairs[0])
    mean = _read(run.data, rows[:: 1 + len(rows) // _BATCH], device).mean(0)
    judge = find_judge(encoded, rows.tolist(), read_small(run.data, rows, device), notes)
    judged = [encoded.table.names.index(name) for name in judge.accuracy] if judge else []
    models: dict[str, CounterfactualModel] = {
        name: _checked(run.models[name], device) if one is None else _decoded(encoded, name, one)
        for name, one in decoders.items()
    }
    models |= {"input given back": lambda shown, *_: shown, "mean image": lambda shown, *_: mean + 0 * shown}
    values: dict[str, list[Tensor]] = {name: [] for name in (*models, *_FRAMES)}
    strips = run.kept["strips"] = {name: {} for name in decoders}
    for place in np.split(np.arange(pairs.shape[1]), range(_BATCH, pairs.shape[1], _BATCH)):
        shown, (before, after) = _read(run.data, pairs[0, place], device), classes[:, place].to(device)
        made = {name: model(shown, before, after) for name, model in models.items()}
        for name, some in zip(_FRAMES, pairs[1:, place], strict=True):
            made[name] = _read(both.counterfactuals, some, device)
        changed = before != after
        for name, images in made.items():
            small = torch.stack([*map(shrink_for_heads, images)])
            hits = effectiveness(judge.classify, small, after[:, judged]) if judge else images.new_zeros(0)
            seen = [hits.where(part[:, judged], torch.nan).nanmean(1) for part in (changed, ~changed)]
            errors = _errors(models.get(name), shown, before, after, run.options.cycles)
            values[name].append(torch.cat([torch.stack(seen, dim=1), errors], dim=1))
        for name, found in strips.items():
            for row, column in enumerate(changed.long().argmax(1).tolist()):
                strip = torch.stack([shown[row], made[name][row], made[_FRAMES[0]][row]])
                found.setdefault(encoded.table.names[column], strip)
    joined = {name: torch.cat(some) for name, some in values.items()}
    return _results(run, encoded, joined, pairs[0], classes, notes)


def _read(view: Any, rows: Int[ndarray, " rows"], device: str) -> Float[Tensor, "rows 3 height width"]:
    return torch.stack([view[int(row)] for row in rows]).to(device)


def _errors(
    model: CounterfactualModel | None, shown: Tensor, before: Tensor, after: Tensor, cycles: int
) -> Float[Tensor, "batch 4"]:
    """Compute composition and reversibility after one cycle, and after all; nan of frames."""
    if model is None:
        return shown.new_full([len(shown), 4], torch.nan)
    ways = [(before, before)], [(before, after), (after, before)]
    return torch.cat([cycle_errors(model, shown, way, cycles)[:, [0, -1]] for way in ways], dim=1)


def _checked(named: NamedModel, device: str) -> CounterfactualModel:
    """Give a model images in its colour space, and check and encode what it makes."""
    name, linear = named.identity.name, named.colour_space == "linear"

    def make(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
        given = decode(images) if linear else images.clone()
        with model_errors(name, given):
            found = named.model(given, factors.clone(), changed.clone())
        if not isinstance(found, Tensor) or found.shape != images.shape:
            got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"`{name}`: expected images {list(images.shape)}, got {got}")
        if not bool(((found >= -_SLACK) & (found <= 1 + _SLACK)).all()):
            got = f"{float(found.min()):g} to {float(found.max()):g}"
            raise InputError(f"`{name}`: expected images in [0, 1], got {got}; clamp them")
        return (encode(found) if linear else found).to(device).float()

    return make


def _decoded(encoded: Encoded, name: str, decoder: Decoder) -> CounterfactualModel:
    """Set the code of each factor that changes to its value for a drawn image of the new class."""
    run, codes = encoded.run, encoded.codes[name].float()
    classes = encoded.table.classes.to(codes.device)
    chosen = select_codes(irs(codes, classes))[:, 0].tolist()
    draws = torch.Generator().manual_seed(run.options.seed)
    order = torch.randperm(len(codes), generator=draws).to(codes.device)

    def make(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
        own = encode_images(run.models[name], images, run.device).float()
        for row, column in (factors != changed).nonzero().tolist():
            donor = order[(classes[order, column] == changed[row, column]).nonzero()[0]]
            own[row, chosen[column]] = codes[donor, chosen[column]]
        unchanged = torch.zeros(own.shape[1], dtype=torch.bool, device=own.device)
        return decode_codes(resize_decoded(decoder, images.shape[2:]), own, own, unchanged)

    return make


def _results(
    run: Run[AxiomsOptions],
    encoded: Encoded,
    values: dict[str, Tensor],
    rows: Int[ndarray, " pairs"],
    classes: Int[Tensor, "2 pairs factors"],
    notes: list[str],
) -> dict[str, Result]:
    """Make results, of all pairs and of those of each factor."""
    names, results = encoded.table.names, dict[str, Result]()
    changed = (classes[0] != classes[1]).long().argmax(1).tolist()
    ids = tuple(f"{names[column]}: {run.data.ids[row]}" for column, row in zip(changed, rows, strict=True))
    groups = tuple(run.data.groups[row] for row in rows)
    for name, some in values.items():
        columns = dict(zip(_BETTER, some.double().cpu().numpy().T, strict=True))
        for column in sorted(set(changed)):
            own = np.equal(changed, column)
            columns |= {f"{one} of {names[column]}": np.where(own, columns[one], np.nan) for one in _BETTER}
        listed = {label: tuple(column.tolist()) for label, column in columns.items()}
        about, ranges = run.provenance(name, factors=list(names)), dict.fromkeys(columns, (0.0, 1.0))
        results[name] = MeanResult(about, ids, groups, listed, (), {"notes": notes}, ranges)
    return results


AXIOMS = Evaluation(
    name="axioms",
    version=1,
    better=_BETTER,
    options=AxiomsOptions,
    reads=Reading(open=open_with_counterfactuals, space="srgb"),
    study=_score_axioms,
    controls=dict.fromkeys(("input given back", "mean image", *_FRAMES), _read),
    page="candlelight.evaluation.causal.causal_report:AXIOMS_PAGE",
)
