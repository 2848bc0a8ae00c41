"""The evaluation of decoders by counterfactual generativeness (CG)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.catalogue.causal_options import GenerativenessOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.causal.control_codes import supervise
from candlelight.evaluation.causal.effects import FactorClassifier
from candlelight.evaluation.causal.factor_data import open_factors
from candlelight.evaluation.causal.factor_table import Encoded, encode_data, shrink_for_heads
from candlelight.evaluation.causal.generativeness import (
    CounterfactualGenerativeness,
    Decoder,
    counterfactual_generativeness,
    resize_decoded,
)
from candlelight.evaluation.causal.irs import irs, select_codes
from candlelight.evaluation.causal.measure_codes import RHO, cut_at_bounds
from candlelight.evaluation.causal.score_codes import with_pooled
from candlelight.evaluation.models.classifiers import TrainedClassifier, load_classifier
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.intervals import Score, distinct_groups
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.views.image_tensors import decode, encode, resize_images
from candlelight.evaluation.views.named_streams import named_stream
from candlelight.loaders.errors import InputError
from candlelight.loaders.verification.checksums import file_sha256

ROWS = 1000  # most images whose codes are decoded, spread evenly
NO_SCORE = Score(math.nan, math.nan, math.nan)
_NAME = "counterfactual_generativeness"
_PARTS = ("", ", signed", ", random choice", ", signed, random choice")


def find_decoder(named: NamedModel, device: str) -> Decoder | None:
    """Return the method ``decode`` of a model, with sRGB-encoded images; None if the model has none.

    The decoder runs in evaluation mode; its images stay on the device. It raises an InputError if the method
    fails or gives no tensor.

    Example:
        >>> from candlelight.evaluation.models import ModelIdentity
        >>> find_decoder(NamedModel(ModelIdentity("mean", "callable"), len, "srgb"), "cpu") is None
        True
    """
    model = getattr(named.model, "network", named.model)
    decode = getattr(model, "decode", None)
    if not callable(decode):
        return None

    name = f"{named.identity.name}.decode"

    def decoder(codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch channels height width"]:
        given = codes.float().to(device)
        with evaluation_mode(model), torch.no_grad(), model_errors(name, given):
            images = decode(given)
        if not isinstance(images, Tensor):
            raise InputError(
                f"{name}: expected a tensor of images [batch, 3, height, width], got {type(images).__name__}"
            )
        images = images.to(device).float()
        return encode(images) if named.colour_space == "linear" else images

    return decoder


def find_decoders(run: Run[Any]) -> dict[str, Decoder]:
    """Find the decoder of every model.

    Raises:
        InputError: a model has no decoder.
    """
    found = {name: find_decoder(named, run.device) for name, named in run.models.items()}
    if lacking := [name for name, decoder in found.items() if decoder is None]:
        raise InputError(
            f"`{lacking[0]}`: expected a model with a method `decode` from codes to images; its codes alone "
            "are scored by `evaluate codes`"
        )
    return {name: decoder for name, decoder in found.items() if decoder is not None}


@dataclass(frozen=True)
class Judge:
    """A classifier of some factors.

    ``classify`` gives the logits of ``accuracy``'s factors in their order, ``missing`` tells why others are
    left out, and ``settings`` describe the classifier in results.
    """

    classify: FactorClassifier
    accuracy: Mapping[str, float]
    missing: Mapping[str, str]
    settings: Mapping[str, Any]


def _score_decoders(run: Run[GenerativenessOptions]) -> dict[str, Result]:
    """Compute counterfactual generativeness for one and two codes of each factor, over at most 1000 images.

    All is computed on the device. Images and decoded images are compared at the size of `shrink_for_heads`.

    Returns:
        For each model ``counterfactual_generativeness(rho)``: the score; "signed", which is negative if other
        codes than those of the factor change it; and both of a random choice of the codes. nan if fewer codes
        vary, or if no factor is told. Intervals are over groups of images. Details tell for each rho the
        factors that the score stands on, their effects and certainty, and the factors that are left out. And
        a result for each method of several seeds, see `pool_seeds`.

    Raises:
        InputError: a model has no decoder, or the classifiers do not fit.
    """
    decoders = find_decoders(run)
    encoded = encode_data(run)
    run, lacking = encoded.run, list[str]()
    rows = np.unique(np.linspace(0, len(run.data) - 1, min(ROWS, len(run.data))).round().astype(int)).tolist()
    images = torch.stack([shrink_for_heads(run.data[row].to(run.device)) for row in rows])
    judge = find_judge(encoded, rows, images, lacking)

    def score(name: str) -> Scored:
        if judge is None:
            return {}, {}, lacking
        scores, details = _score(encoded, name, decoders[name], judge, rows, images)
        return scores, details, _left_out(details)

    labels = [f"{_NAME}({rho}){part}" for rho in RHO for part in _PARTS]
    return decoder_results(encoded, "decoder", _NAME, labels, score, **(judge.settings if judge else {}))


Scored = tuple[dict[str, Score], dict[str, Any], list[str]]


def decoder_results(
    encoded: Encoded,
    key: str,
    what: str,
    labels: Sequence[str],
    score: Callable[[str], Scored],
    **settings: Any,
) -> dict[str, Result]:
    """Make the results of decoders; a note tells why a decoder cannot be scored.

    Args:
        encoded: factors and codes.
        key: name of the details.
        what: the score in words, for notes.
        labels: all scores; those that are lacking are undefined.
        score: scores a decoder by its name: scores, details and notes.
        settings: further settings of the results.
    """
    run, results = encoded.run, []
    for name in encoded.codes:
        try:
            scores, details, notes = score(name)
        except InputError as error:
            scores, details, notes = {}, {}, [f"{name}: no {what}: {error}"]
        about = run.provenance(name, factors=list(encoded.table.names), **settings)
        found = {label: cut_at_bounds(label, scores.get(label, NO_SCORE)) for label in labels}
        groups = distinct_groups(run.data.groups)
        results.append(StatisticResult(about, found, {}, groups, (), {key: details, "notes": notes}))
    return with_pooled(results)


def _score(
    encoded: Encoded,
    name: str,
    decoder: Decoder,
    judge: Judge,
    rows: Sequence[int],
    images: Float[Tensor, "rows 3 height width"],
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Score one decoder, for each of `RHO`."""
    run, table, codes = encoded.run, encoded.table, encoded.codes[name]
    classes = table.classes.to(run.device)
    found = irs(codes, classes)
    columns = [table.names.index(factor) for factor in judge.accuracy]
    groups = [run.data.groups[row] for row in rows]
    scores: dict[str, Score] = {}
    details: dict[str, Any] = {}
    for rho in RHO:
        if rho > len(found.codes):
            continue
        draws = named_stream(run.options.seed, f"random codes {rho}").random((len(rows), len(found.codes)))
        result = counterfactual_generativeness(
            codes[rows],
            classes[rows][:, columns],
            select_codes(found, rho)[columns],
            resize_decoded(decoder, images.shape[2:]),
            judge.classify,
            judge.accuracy,
            baseline=run.options.baseline,
            images=images,
            random_codes=found.codes[torch.from_numpy(draws).to(run.device).argsort(1)[:, :rho]],
        )
        intervals = result.intervals(groups)
        scores |= {f"{_NAME}({rho}){part}": intervals[f"{_NAME}{part}"] for part in _PARTS}
        details[f"{_NAME}({rho})"] = _describe(result, judge, len(rows))
    return scores, details


def _left_out(details: Mapping[str, Any]) -> list[str]:
    """Tell which factors are left out, if some are."""
    reasons = [f"{name} ({why})" for one in details.values() for name, why in one["left_out"].items()]
    return [f"{_NAME} leaves out {', '.join(dict.fromkeys(reasons))}"] if reasons else []


def _describe(result: CounterfactualGenerativeness, judge: Judge, rows: int) -> dict[str, Any]:
    assert result.reconstruction_error is not None
    assert result.chance is not None  # both were asked for
    return {
        "factors": list(result.factors),
        "by_factor": result.by_factor.tolist(),
        "signed": result.signed.mean(0).tolist(),
        "random_choice": result.chance.abs().mean(0).tolist(),
        "inside": result.inside.tolist(),
        "outside": result.outside.tolist(),
        "certainty": result.certainty.tolist(),
        "left_out": {**result.left_out, **judge.missing},
        "reconstruction_error": float(result.reconstruction_error.mean()),
        "rows": rows,
    }


def find_judge(
    encoded: Encoded, rows: Sequence[int], images: Float[Tensor, "rows 3 height width"], notes: list[str]
) -> Judge | None:
    """Open the classifiers, or train a network on the images; a note tells why there is none."""
    if paths := encoded.run.options.classifiers:
        return _open_classifiers(encoded, paths, rows, images)
    supervised = supervise(encoded, notes)
    if supervised is None:
        return None
    settings = {"classifiers": "heads trained on half of the images"}
    return Judge(supervised.heads, supervised.accuracy, {}, settings)


def _open_classifiers(
    encoded: Encoded, paths: Sequence[Path], rows: Sequence[int], images: Float[Tensor, "rows 3 height width"]
) -> Judge:
    """Open a classifier of each factor, and measure its accuracy on images that it did not learn from.

    Raises:
        InputError: a file is no classifier, has no record of its training, is of an unknown factor or of
            other classes, or has learned from all images; or a factor has two.
    """
    run, table = encoded.run, encoded.table
    parts: dict[str, Callable[[Tensor], Tensor]] = {}
    accuracy: dict[str, float] = {}
    for path in paths:
        trained = load_classifier(path, run.device)
        label = "" if trained.training is None else trained.training.label
        if trained.training is None or label not in table.names or label in parts:
            known = ", ".join(name for name in table.names if name not in parts)
            raise InputError(f"{path}: expected a classifier of one of {known}, got `{label or 'unknown'}`")
        parts[label] = _classifier(path, trained, _class_names(encoded, label))
        used = trained.training.data == replace(run.data.identity, image=trained.training.data.image)
        learned = frozenset(trained.training.training_ids) if used else frozenset[str]()
        unseen = [place for place, row in enumerate(rows) if run.data.ids[row] not in learned]
        if not unseen:
            raise InputError(f"{path}: learned from all of the images; give it --validation, or other images")
        truth = table.classes[[rows[place] for place in unseen], table.names.index(label)].to(run.device)
        shown = images[torch.tensor(unseen).to(run.device)]
        hits = [parts[label](some).argmax(1) for some in torch.split(shown, run.batch_size)]
        accuracy[label] = float((torch.cat(hits) == truth).double().mean())
    missing = {name: "no classifier" for name in table.names if name not in parts}
    settings = {"classifiers": {name: file_sha256(path) for name, path in zip(parts, paths, strict=True)}}
    return Judge(lambda some: [part(some) for part in parts.values()], accuracy, missing, settings)


def _class_names(encoded: Encoded, label: str) -> list[str]:
    """Name the classes of a categorical factor, in the order of the table."""
    data = encoded.run.data
    (column,) = (place for place, info in enumerate(data.factors) if info.name == label)
    values = data.factors[column].values or ()
    return [str(values[int(number)]) for number in np.unique(data.table[:, column])] if values else []


def _classifier(path: Path, trained: TrainedClassifier, names: Sequence[str]) -> Callable[[Tensor], Tensor]:
    """Make a function from images to logits in the order of the classes."""
    if not names or any(name not in trained.classes for name in names):
        got = ", ".join(trained.classes)
        raise InputError(f"{path}: expected the classes {', '.join(names) or 'of values'}, got {got}")
    order: Int[Tensor, " classes"] = torch.tensor([trained.classes.index(name) for name in names])
    size = None if trained.training is None else trained.training.size

    def classify(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        sized = encode(resize_images(decode(images), size))
        with evaluation_mode(trained.network), torch.no_grad():
            return trained.network(sized)[:, order.to(images.device)]

    return classify


GENERATIVENESS = Evaluation(
    name="generativeness",
    version=7,
    better="higher",
    options=GenerativenessOptions,
    reads=Reading(open=open_factors, space="srgb"),
    study=_score_decoders,
    page="candlelight.evaluation.causal.causal_report:GENERATIVENESS_PAGE",
)
