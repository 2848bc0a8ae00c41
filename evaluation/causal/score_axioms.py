"""The evaluation of models of counterfactual images by effectiveness, composition and reversibility."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import AxiomsOptions
from candlelight.evaluation.catalogue.record import Better, Evaluation, Reading
from candlelight.evaluation.causal.effects import CounterfactualModel, cycle_errors, effectiveness
from candlelight.evaluation.causal.factor_data import CounterfactualData, open_with_counterfactuals
from candlelight.evaluation.causal.factor_table import Encoded, FactorTable, encode_data, encode_images
from candlelight.evaluation.causal.factor_table import shrink_for_heads as shrink
from candlelight.evaluation.causal.generativeness import Decoder, decode_codes, resize_decoded
from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.evaluation.causal.rendered_counterfactuals import find_rendered_pairs, match_values
from candlelight.evaluation.causal.score_counterfactuals import nearest_frames, read_small
from candlelight.evaluation.causal.score_generativeness import Judge, find_decoder, find_judge
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.views.image_tensors import decode, encode
from candlelight.loaders.errors import InputError, argument

AXIOM_PAIRS = 100  # most pairs of each factor
_BATCH = 64
_GIVEN_BACK, _MEAN = "input given back", "mean image"
_FRAMES = ("rendered counterfactual", "nearest other frame")
_COLUMNS: dict[str, Better] = {"effectiveness": "higher", "effectiveness, other factors": "higher"}
_COLUMNS |= {
    f"{name}{part}": "lower" for name in ("composition", "reversibility") for part in ("", ", repeated")
}


class ChangedImages(NamedTuple):
    """Images of which one factor changes each.

    Attributes:
        rows: rows of the images.
        frames: rows of the rendered counterfactuals, and of other frames with the new value.
        before: classes of all factors in the images.
        after: the same after the intervention.
    """

    rows: Int[ndarray, " pairs"]
    frames: Int[ndarray, "2 pairs"]
    before: Int[Tensor, "pairs factors"]
    after: Int[Tensor, "pairs factors"]


def _change_images(data: CounterfactualData, table: FactorTable, seed: int) -> ChangedImages:
    """Draw pairs for each factor; those whose new value is that of no image are left out.

    Raises:
        InputError: there are none.
    """
    drawn = find_rendered_pairs(data.images, data.counterfactuals, table.names, AXIOM_PAIRS, seed)
    index, values = match_values(data.images, data.counterfactuals)
    parts = []
    for column, (name, pairs) in enumerate(drawn.items()):
        known = dict(zip(values[:, index.column(name)].tolist(), table.classes[:, column], strict=True))
        new = index.positions(pairs.rendered)[:, index.column(name)].tolist()
        kept = [place for place, value in enumerate(new) if value in known]
        rendered, before = pairs.rendered[kept], table.classes[pairs.factual[kept]]
        after = before.clone()
        after[:, column] = torch.tensor([int(known[new[place]]) for place in kept], dtype=torch.int64)
        frames = np.stack([rendered, nearest_frames(data.counterfactuals, rendered, name, seed)])
        parts.append(ChangedImages(pairs.factual[kept], frames, before, after))
    rows, frames, *factors = zip(*parts, strict=True)
    if not sum(map(len, rows)):
        raise InputError(
            f"no two images differ in one factor only; give a grid, or {argument('counterfactuals')}"
        )
    return ChangedImages(np.concatenate(rows), np.concatenate(frames, axis=1), *map(torch.cat, factors))


def _score_axioms(run: Run[AxiomsOptions]) -> dict[str, Result]:
    """Compute the axioms of Monteiro et al. 2023, on at most `AXIOM_PAIRS` pairs of each factor.

    All is computed on the device; classifiers see images at the size of `shrink_for_heads`.

    Returns:
        A result for each model and control, with a row for each pair; its scores are also those of each
        factor that changes. ``effectiveness`` is the share of images in which the classifier sees the new
        class of the factor; that of the "other factors" tells whether these keep theirs. ``composition`` and ``reversibility`` are errors after one
        cycle, or "repeated" after `AxiomsOptions.cycles`; frames have none.

    Raises:
        InputError: the counterfactuals have other factors, there are no pairs, a model does not give images,
            or the classifiers do not fit.
    """
    both, device, notes = run.data, run.device, list[str]()
    run = replace(run, data=both.images)
    decoders = {name: find_decoder(named, device) for name, named in run.models.items()}
    own = {name: run.models[name] for name, decoder in decoders.items() if decoder is not None}
    encoded = encode_data(replace(run, models=own))
    pairs = _change_images(both, encoded.table, run.options.seed)
    rows = np.unique(pairs.rows)
    mean = torch.stack([sum(run.data[row].double() for row in rows.tolist()) / len(rows)]).float().to(device)
    judge = find_judge(encoded, rows.tolist(), read_small(run.data, rows, device), notes)
    models: dict[str, CounterfactualModel] = {
        name: _checked(run.models[name], device) if one is None else _decoded(encoded, name, one)
        for name, one in decoders.items()
    }
    models |= {_GIVEN_BACK: lambda shown, *_: shown, _MEAN: lambda shown, *_: mean.expand_as(shown)}
    values: dict[str, list[Tensor]] = {name: [] for name in (*models, *_FRAMES)}
    strips = run.kept["strips"] = {name: {} for name in decoders}
    for place in np.split(np.arange(len(pairs.rows)), range(_BATCH, len(pairs.rows), _BATCH)):
        shown = _read(run.data, pairs.rows[place], device)
        before, after = (part[place].to(device) for part in pairs[2:])
        made = {name: model(shown, before, after) for name, model in models.items()}
        frames = (_read(both.counterfactuals, some[place], device) for some in pairs.frames)
        made |= dict(zip(_FRAMES, frames, strict=True))
        for name, images in made.items():
            seen = _effects(images, before, after, judge, encoded.table)
            values[name].append(
                torch.cat([seen, _errors(models.get(name), shown, before, after, run)], dim=1)
            )
        for name, found in strips.items():
            for row, column in enumerate((before != after).long().argmax(1).tolist()):
                found.setdefault(
                    encoded.table.names[column], (shown[row], made[name][row], made[_FRAMES[0]][row])
                )
    named = {name: NamedModel(ModelIdentity(name, "control"), None, "srgb") for name in values}
    run = replace(run, models=named | run.models)
    return {
        name: _result(run, name, torch.cat(some), pairs, encoded.table, notes)
        for name, some in values.items()
    }


def _read(view: Any, rows: Int[ndarray, " rows"], device: str) -> Float[Tensor, "rows 3 height width"]:
    return torch.stack([view[int(row)] for row in rows]).to(device)


def _effects(
    images: Tensor, before: Tensor, after: Tensor, judge: Judge | None, table: FactorTable
) -> Float[Tensor, "batch 2"]:
    """Tell whether the classifier sees the new class, and the share of other factors that keep theirs."""
    if judge is None:
        return images.new_full([len(images), 2], torch.nan)
    judged = [table.names.index(name) for name in judge.accuracy]
    hits = effectiveness(judge.classify, torch.stack([*map(shrink, images)]), after[:, judged])
    changed = (before != after)[:, judged]
    return torch.stack([hits.where(some, torch.nan).nanmean(1) for some in (changed, ~changed)], dim=1)


def _errors(
    model: CounterfactualModel | None, shown: Tensor, before: Tensor, after: Tensor, run: Run[AxiomsOptions]
) -> Float[Tensor, "batch 4"]:
    """Compute composition and reversibility after one cycle, and after all."""
    if model is None:
        return shown.new_full([len(shown), 4], torch.nan)
    ways = [(before, before)], [(before, after), (after, before)]
    found = [cycle_errors(model, shown, way, run.options.cycles)[:, [0, -1]] for way in ways]
    return torch.cat(found, dim=1)


def _checked(named: NamedModel, device: str) -> CounterfactualModel:
    """Give a model images in its colour space, and check and encode what it makes."""

    def make(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
        linear = named.colour_space == "linear"
        given = decode(images) if linear else images.clone()
        with evaluation_mode(named.model), torch.no_grad(), model_errors(named.identity.name, given):
            found = named.model(given, factors, changed)
        if not isinstance(found, Tensor) or found.shape != images.shape or not bool(found.isfinite().all()):
            got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"`{named.identity.name}`: expected finite images {list(images.shape)} from images, factors "
                f"and new factors, got {got}"
            )
        return (encode(found) if linear else found).to(device).float()

    return make


def _decoded(encoded: Encoded, name: str, decoder: Decoder) -> CounterfactualModel:
    """Set the code of each factor that changes to its value for a drawn image of the new class."""
    run, codes = encoded.run, encoded.codes[name].float()
    classes = encoded.table.classes.to(codes.device)
    chosen = select_codes(irs(codes, classes))[:, 0].tolist()
    order = torch.randperm(len(codes), generator=torch.Generator().manual_seed(run.options.seed))

    def make(images: Tensor, factors: Tensor, changed: Tensor) -> Tensor:
        own = encode_images(run.models[name], images, run.device).float()
        for row, column in (factors != changed).nonzero().tolist():
            donor = order[(classes[order, column] == changed[row, column]).nonzero()[0]]
            own[row, chosen[column]] = codes[donor, chosen[column]]
        unchanged = torch.zeros(own.shape[1], dtype=torch.bool, device=own.device)
        return decode_codes(resize_decoded(decoder, images.shape[2:]), own, own, unchanged)

    return make


def _result(
    run: Run[AxiomsOptions],
    name: str,
    values: Tensor,
    pairs: ChangedImages,
    table: FactorTable,
    notes: list[str],
) -> MeanResult:
    """Make the result of a model, of all pairs and of those of each factor."""
    columns = dict(zip(_COLUMNS, values.double().cpu().T, strict=True))
    changed = (pairs.before != pairs.after).long().argmax(1)
    for column in sorted(set(changed.tolist())):
        own = {name: columns[name].where(changed == column, torch.nan) for name in _COLUMNS}
        columns |= {f"{name} of {table.names[column]}": some for name, some in own.items()}
    ids = [
        f"{table.names[column]}: {run.data.ids[row]}"
        for column, row in zip(changed.tolist(), pairs.rows, strict=True)
    ]
    return MeanResult(
        run.provenance(name, factors=list(table.names)),
        tuple(ids),
        tuple(run.data.groups[row] for row in pairs.rows),
        {label: tuple(some.tolist()) for label, some in columns.items()},
        (),
        {"notes": notes},
        {label: (0, 1) for label in columns},
    )


AXIOMS = Evaluation(
    name="axioms",
    version=1,
    better=_COLUMNS,
    options=AxiomsOptions,
    reads=Reading(open=open_with_counterfactuals, space="srgb"),
    study=_score_axioms,
    page="candlelight.evaluation.causal.causal_report:AXIOMS_PAGE",
)
