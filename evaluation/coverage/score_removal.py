"""Score explanations by images that were rendered without the parts that they call important."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from candlelight.evaluation.catalogue.coverage_options import HEATMAPS, RemovalOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.coverage.explained_images import (
    describe_network,
    explained_networks,
    explainer_provenance,
    first_users,
    fitted_runs,
    open_counterfactuals,
)
from candlelight.evaluation.coverage.explainers import Explainer, open_explainer
from candlelight.evaluation.coverage.explanations import explain_images, merge_explanation
from candlelight.evaluation.coverage.filter_methods import GradCAM
from candlelight.evaluation.coverage.part_removal import (
    THRESHOLDS,
    Checks,
    PartCurves,
    SharedParts,
    choose_shared_parts,
    completeness_checks,
    map_change,
    minimal_sets,
    pair_interactions,
    part_curves,
    part_importance,
    part_shapley,
    rank_score,
    removal_infidelity,
    target_sensitivity,
)
from candlelight.evaluation.coverage.removal_controls import PAINTED, UNINFORMED, Maps, PaintedControl
from candlelight.evaluation.coverage.removal_images import (
    Linear,
    RemovalImages,
    TrueEffects,
    classifier_logits,
    measure_truth,
    sort_changes,
)
from candlelight.evaluation.coverage.thresholds import resize_heatmap
from candlelight.evaluation.coverage.usual_scores import (
    cascade_layers,
    curve_area,
    pixel_curves,
    pointing_hits,
    randomised_similarity,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import read_batches
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.fingerprints import weights_sha256
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.run.steps import Step, batch_key, model_key
from candlelight.evaluation.views.counterfactual_frames import ABSENT_MATERIAL
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, encode
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar

_PLACES = 4  # of each axis, to which maps are moved
GAMES = ("rendered", "gray", "blurred")
_STEPS = 16  # of curves of pixels
_TOLERANCE = 15 / 224  # of the pointing game, in the height of the image
USUAL = ("pixel_deletion_area", "pixel_insertion_area", "pointing", "randomised")
_GROUPS = ("completeness", "single_deletion", "target_sensitivity")
RANKS = ("single_deletion", "shapley", "recolouring")
BETTER: dict[str, Any] = {
    "explainability": "higher",
    **{f"{name}{more}": "higher" for name in RANKS for more in ("", "_above_areas", "_above_moved")},
    "infidelity": "lower",
    "completeness": "higher",
    "controlled": "higher",
    "preservation": "higher",
    "deletion": "higher",
    "distractibility": "higher",
    "target_sensitivity": "higher",
    "max_sensitivity": "lower",
    **{f"{game}_deletion_area": "lower" for game in GAMES},
    **{f"{game}_insertion_area": "higher" for game in GAMES},
    **dict(zip(USUAL, ("lower", "higher", "higher", "lower"), strict=True)),
}
_WORST = {name: -1.0 if "_above_" in name else float(better == "lower") for name, better in BETTER.items()}
_RANGES = {
    name: (-1.0, 1.0) if "_above_" in name else (0.0, math.inf if name == "max_sensitivity" else 1.0)
    for name in BETTER
}


@dataclass(frozen=True, eq=False)
class KnownImage:
    """An image of which the true effects are known, without its pixels.

    Attributes:
        place: its row.
        id: its name.
        parts: names of its parts.
        slots: factor that takes each part away; see `RemovalImages`.
        painted: see `RemovalImages`.
        truth: outputs of the classifier.
        key: identifies the image and the classifier among finished steps; None if they cannot be hashed.
        sufficient: minimal sets of parts of the predicted class.
        shared: two classes that share parts with the image; None without such classes.
    """

    place: int
    id: str
    parts: tuple[str, ...]
    slots: tuple[str, ...]
    painted: tuple[int, ...]
    truth: TrueEffects
    key: Mapping[str, Any] | None
    sufficient: Sequence[frozenset[int]] = ()
    shared: SharedParts | None = None

    @property
    def target(self) -> int:
        """The explained class."""
        return self.truth.rendered.predicted

    def asked(self, images: RemovalImages) -> tuple[Linear, Int[Tensor, " maps"]]:
        """Choose images and classes to explain: the image, for two other classes too, and nearby images."""
        others = [*self.shared.classes] if self.shared else []
        targets = [self.target, *others, *[self.target] * len(images.nearby)]
        shown = torch.cat([images.sets[:1].expand(1 + len(others), -1, -1, -1), images.nearby])
        return shown, torch.tensor(targets, device=shown.device)


class ExplainedParts(NamedTuple):
    """Numbers of one explanation of one image.

    Attributes:
        columns: scores, but those of `completeness_checks`; nan where undefined.
        checks: the checks, by threshold.
        importance: of the parts, then of other objects; nan for a failed map.
        curves: of the rendered, gray and blurred sets.
    """

    columns: dict[str, float]
    checks: Checks
    importance: Float64[Tensor, " regions"]
    curves: dict[str, PartCurves]


def explain_targets(named: NamedModel, row: KnownImage, images: RemovalImages) -> Maps:
    """Explain classes of an image and of its nearby images by one method.

    An attribution explains the given class; any other method the class that it chooses, so its maps are the
    same for all classes.

    Returns:
        Maps at the size of the image; nan for a map that is not finite. The maps of a control that knows the
        effects end before the nearby images, and a file has the map of the image alone.
    """
    linear, targets = row.asked(images)
    model, size = named.model, linear.shape[2:]
    if isinstance(model, PaintedControl):
        return model(images, row.truth, targets[: len(targets) - len(images.nearby)])
    if explainer := attribution_of(model):
        maps = explainer.explain(encode(linear), targets)
        failed = maps.isnan().flatten(1).any(1)
    else:
        nearby = len(images.nearby)
        shown, order = torch.cat([linear[:1], images.nearby]), [0] * (len(targets) - nearby)
        order += range(1, 1 + nearby)
        if isinstance(model, Heatmaps):
            shown, order = linear[:1], [0]
        merged = merge_explanation(explain_images(named, [row.id] * len(shown), shown), 1)
        maps, failed = merged.heatmap[order], (merged.members < 0).all(1)[order]
    resized = resize_heatmap(maps.nan_to_num(0), *size)
    return resized.masked_fill(failed[:, None, None], torch.nan)


def measure_explanation(
    row: KnownImage, images: RemovalImages, maps: Maps, options: RemovalOptions
) -> ExplainedParts:
    """Score the maps of one image; see `score_removal` for the scores.

    Args:
        row: the image.
        images: its pixels.
        maps: maps of the classes and images of `KnownImage.asked`, or the first of them.
        options: how the importance of a part is read.
    """
    truth, target, parts = row.truth, row.target, len(images.parts)
    importance = part_importance(maps, images.masks, options.importance).cpu()
    of_image = importance[0, :parts]
    effects = {
        "single_deletion": truth.rendered.drops()[:, target],
        "shapley": part_shapley(truth.rendered, target).values,
        "recolouring": truth.recolouring(row.painted, target),
    }
    sizes = images.masks[:parts].sum((1, 2)).double().cpu()[None]
    moved = part_importance(_moved(maps[0]), images.masks[:parts], options.importance).cpu()
    columns: dict[str, float] = {}
    for name, effect in effects.items():
        own, by_area, elsewhere = (rank_score(one, effect) for one in (of_image[None], sizes, moved))
        columns[name] = float(own)
        # Rounded: equal ranks differ by rounding errors, whose mean is not 0.
        columns[f"{name}_above_areas"] = round(float(own - by_area), 12)
        columns[f"{name}_above_moved"] = round(float(own - elsewhere.mean()), 12)
    columns["infidelity"] = removal_infidelity(truth.rendered, of_image, target)
    last = 3 if row.shared else 1
    others, nearby = importance[1:last, :parts], maps[last:]
    known = row.shared if len(others) else None
    columns["target_sensitivity"] = target_sensitivity(others, known) if known else math.nan
    columns["max_sensitivity"] = float(map_change(maps[0], nearby).max()) if len(nearby) else math.nan
    curves = {name: part_curves(getattr(truth, name), of_image, target) for name in GAMES}
    for name, curve in curves.items():
        areas = curve_area(torch.stack(curve)).tolist()
        columns[f"{name}_deletion_area"], columns[f"{name}_insertion_area"] = areas
    checks = completeness_checks(truth.rendered, importance[0], truth.irrelevant(target), row.sufficient)
    return ExplainedParts(columns, checks, importance[0], curves)


def _moved(heatmap: Float[Tensor, "height width"]) -> Maps:
    """Move a map to other places: maps with the same values that know nothing of the image."""
    steps = [(row, column) for row in range(_PLACES) for column in range(_PLACES) if (row, column) != (0, 0)]
    height, width = heatmap.shape
    rolled = [
        heatmap.roll((row * height // _PLACES, column * width // _PLACES), (0, 1)) for row, column in steps
    ]
    return torch.stack(rolled)


def score_removal(run: Run[RemovalOptions]) -> dict[str, Result]:
    """Score explanations by images that were rendered without the parts that they call important.

    Each image comes with counterfactuals in which parts are absent, everything else being equal. The
    explained class is the one that the classifier predicts; the effect of a part is the drop of its logit
    when the part is taken away; the importance m_P of a part is read from the map by `part_importance`.
    Scores of an image, whose ideal is 1 unless it says otherwise:

    - ``single_deletion``: `rank_score` of importance and effect; ideal are the true effects;
    - ``shapley``: the same with the Shapley values over the parts, which additive explanations approximate;
    - ``recolouring``: the same with the effect of another colour of the part, where there is one;
    - ``infidelity``: `removal_infidelity`, ideal 0;
    - ``controlled``, ``preservation``, ``deletion``, ``distractibility``: `completeness_checks`, at the
      threshold that is best for the method over all images, as in the paper; and ``completeness``, ``((
      controlled + preservation + deletion) / 3 + distractibility) / 2``. The smallest sufficient set is
      ideal for preservation, but need not be for deletion;
    - ``target_sensitivity``: of two other classes that share parts with the image;
    - ``explainability``: mean of completeness, single deletion (correctness) and target sensitivity
      (contrastivity), over those that are defined: the total of FunnyBirds (Hesse, Schaub-Meyer and Roth
      2023, sec. 4.4);
    - ``max_sensitivity``: largest `map_change` under ``nearby`` interventions, ideal 0, which constant maps
      have too;
    - ``*_deletion_area``, ``*_insertion_area``: areas under `part_curves` of sets of parts that are rendered,
      or gray or blurred in the original image. Their difference is an artefact of erased pixels;
    - ``pixel_deletion_area``, ``pixel_insertion_area`` (`pixel_curves` to gray, from a blurred image),
      ``pointing`` (`pointing_hits` of the whole object) and ``randomised`` (size of `randomised_similarity`
      after the output layer, ideal 0): usual scores, which need no counterfactuals.

    Of each rank score, ``_above_areas`` is the difference from that of the parts' areas, and ``_above_moved``
    the difference from the mean of those of the same map at 15 other places. Noise has 0 there.

    A map that is not finite has failed: the worst value of each score. Images whose logits are not finite are
    undefined.

    Blind to: where in a part a map is large; parts that no counterfactual takes away, such as the body.

    Returns:
        A result for each method and control, with intervals over groups of images. The details hold the
        classifier's accuracy by number of absent parts, effects by slot, curves, and the threshold.

    Raises:
        InputError: no part is taken away alone, or a method has no classifier.
    """
    results: dict[str, Result] = {}
    run.kept["removal"] = kept = []
    for fitted, own in fitted_runs(run):
        methods, networks, labels = explained_networks(fitted, own, run, {})
        users = first_users(networks)
        for user in dict.fromkeys(users.values()):
            mine = {name: one for name, one in methods.items() if users[name] == user}
            network: Any = networks[user]
            if fitted and network is fitted.named.model:
                network = fitted.named  # which is identified by its file
            (classifier,) = identify_models({user: network}, [], "srgb", None).values()
            before = fitted.source.name if fitted else user if len(mine) < len(methods) else ""
            controls = _controls(before)
            if taken := sorted(controls.keys() & mine.keys()):
                raise InputError(f"a control has the name `{taken[0]}`; give the explanation another name")
            part = replace(own, models=mine | controls)
            known = _read_truth(part, classifier, labels)
            if not any(_has_shapley_values(row) for row in known):
                shapley = next(one for one, named in controls.items() if named.model is PAINTED["shapley"])
                part = replace(part, models={one: part.models[one] for one in part.models if one != shapley})
            found = _measure(part, known, classifier)
            name = fitted.source.name if fitted else user
            facts = _describe(known, labels, part.data.groups, name)
            notes = _surprise_notes(part.data, networks[user], known, facts)
            facts["notes"] = [*facts.get("notes", ()), *notes]
            results |= {name: _result(part, name, classifier, known, found[name], facts) for name in found}
            kept.append((part, known, found))
    return results


def _controls(before: str) -> dict[str, NamedModel]:
    """Name the controls after their classifier, if there are several."""
    controls = {f"{before} {name}".strip(): one for name, one in {**PAINTED, **UNINFORMED}.items()}
    return {
        name: replace(one, identity=replace(one.identity, source="shipped"))
        for name, one in identify_models(controls, [], "srgb", None).items()
    }


def _has_shapley_values(row: KnownImage) -> bool:
    return bool(part_shapley(row.truth.rendered, row.target).values.isfinite().any())


def _read_truth(
    run: Run[RemovalOptions], classifier: NamedModel, labels: Sequence[int] | None
) -> list[KnownImage]:
    """Measure the true effects of all images."""
    options = run.options
    seen = {"metric": "removal", **{one: getattr(options, one) for one in ("size", "nearby", "widen")}}
    key = model_key(classifier, run.device, **seen)
    found, parts_of = [], defaultdict[int, set[str]](set)
    for batch in read_batches(
        run.data, 1, lambda item: check_srgb_image(item.image), run.fingerprint, "remove parts"
    ):
        (place,), (name,) = batch.rows, batch.ids
        images, step = open_images(run, place), batch_key(key, batch, run.fingerprint)
        truth = measure_truth(classifier, images, run.batch_size, partial(run.steps.get_or_compute, step))
        found.append(KnownImage(place, name, images.parts, images.slots, images.painted, truth, step))
        if labels is not None:
            parts_of[labels[place]].update(images.parts)
    classes = found[0].truth.rendered.logits.shape[1]
    if unknown := [label for label in parts_of if label >= classes]:
        name = classifier.identity.name
        raise InputError(f"`{name}` has {classes} classes, but an image is of class number {unknown[0]}")
    if options.nearby != RemovalOptions.nearby and not any(len(row.truth.nearby) for row in found):
        raise InputError(
            f"{argument('nearby')} {options.nearby}: no counterfactual changes this factor alone"
        )
    return [_with_classes(row, parts_of) for row in found]


def _with_classes(row: KnownImage, parts_of: Mapping[int, set[str]]) -> KnownImage:
    """Add what is known of an image once the parts of all classes are known."""
    rest = [parts for label, parts in parts_of.items() if label != row.target]
    own = parts_of.get(row.target, set())
    minimal = [one for one in minimal_sets(own, rest) if rest and one <= {*row.parts}]
    numbered = [parts_of.get(label, set()) for label in range(row.truth.rendered.logits.shape[1])]
    return replace(
        row,
        sufficient=[frozenset(map(row.parts.index, one)) for one in minimal],
        shared=choose_shared_parts(row.truth.rendered, row.parts, numbered),
    )


def open_images(run: Run[RemovalOptions], place: int) -> RemovalImages:
    """Open one image with its counterfactuals, on the device.

    Raises:
        InputError: see `sort_changes`; the message names the image.
    """
    options = run.options
    try:
        return sort_changes(
            on_device(run.data[place], run.device), options.nearby, options.size, options.widen
        )
    except InputError as error:
        raise InputError(f"`{run.data.ids[place]}`: {error}") from error


def _measure(
    run: Run[RemovalOptions], known: Sequence[KnownImage], classifier: NamedModel
) -> dict[str, list[ExplainedParts]]:
    """Explain all images by all methods."""
    found: dict[str, list[ExplainedParts]] = {name: [] for name in run.models}
    keys = {name: model_key(one, run.device, metric="removal maps") for name, one in run.models.items()}
    for row in progress_bar(known, desc="explain", unit="image"):
        images = open_images(run, row.place)
        for name, named in run.models.items():
            facts = {"truth": row.key, "asked": row.asked(images)[1].tolist()}
            key, make = keys[name], partial(_maps, named, row, images, classifier)
            step = run.steps.get_or_compute({**key, **facts} if key and row.key else None, make, run.device)
            numbers = measure_explanation(row, images, step["maps"], run.options)
            numbers.columns.update(zip(USUAL, step["usual"].tolist(), strict=True))
            found[name].append(numbers)
    return found


def _maps(named: NamedModel, row: KnownImage, images: RemovalImages, classifier: NamedModel) -> Step:
    """Explain an image, and compute the usual scores of the map of the predicted class."""
    maps = explain_targets(named, row, images)
    image, target = images.sets[:1], torch.tensor([row.target], device=maps.device)
    logits, before = classifier_logits(classifier, image).cpu(), row.truth.rendered.logits[:1]
    if not torch.allclose(logits, before, 1e-3, 1e-3, equal_nan=True):
        raise InputError(
            f"`{named.identity.name}`: after it explained an image, the classifier gives other logits; "
            "restore its weights, and remove hooks"
        )

    def classify(some: Tensor) -> Tensor:
        return classifier_logits(classifier, decode(some)).softmax(1)

    curves = partial(pixel_curves, classify, encode(image), maps[:1], target, steps=_STEPS)
    areas = [curve_area(curves("gray")), curve_area(curves("blur", mode="insertion"))]
    hits = pointing_hits(maps[:1], images.whole[None], _TOLERANCE * len(images.whole))
    explainer, similar = attribution_of(named.model), hits.new_full((1,), torch.nan)
    network = classifier.model
    layers = cascade_layers(network)[:1] if isinstance(network, nn.Module) else []
    if explainer and layers:
        similar = randomised_similarity(network, explainer.explain, encode(image), target, layers)[0].abs()
    elif named.model in UNINFORMED.values():  # the maps of any network
        similar = hits.new_ones(1)
    return {"maps": maps, "usual": torch.stack([*areas, hits, similar])[:, 0].double()}


def attribution_of(model: Any) -> Explainer | None:
    """Return the explainer of any class that a method stands for; None if it chooses the class itself."""
    if isinstance(model, GradCAM):
        return open_explainer(model.name, model.network, model.layer)
    explainer = getattr(model, "explainer", model)
    return explainer if isinstance(explainer, Explainer) else None


def _result(
    run: Run[RemovalOptions],
    name: str,
    classifier: NamedModel,
    known: Sequence[KnownImage],
    numbers: Sequence[ExplainedParts],
    facts: Mapping[str, Any],
) -> MeanResult:
    """Make the result of one method; its threshold is the one of the largest mean completeness."""
    about = explainer_provenance(run, name)
    if weights := weights_sha256(classifier.model):
        about = replace(about, model=about.model | {"classifier_sha256": weights})
    if run.models[name].model in (*PAINTED.values(), *UNINFORMED.values()):
        about = replace(about, model=about.model | {"source": "control"})
    checks = {one: torch.stack([getattr(row.checks, one) for row in numbers]) for one in Checks._fields}
    parts = torch.stack([checks[one] for one in Checks._fields[:3]]).nanmean(0)
    whole = torch.stack([parts, checks["distractibility"]]).nanmean(0)
    rendered = ~(checks["preservation"] + checks["deletion"]).isnan()
    finite = torch.tensor([row.truth.finite for row in known])[:, None]
    whole = whole.where(rendered & finite, torch.nan)
    best = int(whole.nanmean(0).nan_to_num(-1).argmax())
    failed = tuple(
        row.id for row, its in zip(known, numbers, strict=True) if not bool(its.importance.isfinite().all())
    )
    columns: dict[str, list[float]] = {column: [] for column in BETTER}
    for place, (row, its) in enumerate(zip(known, numbers, strict=True)):
        own = its.columns | {one: float(table[place, best]) for one, table in checks.items()}
        own["completeness"] = float(whole[place, best])
        own["explainability"] = round(_mean([own[one] for one in _GROUPS]), 12)
        if not row.truth.finite:
            own = dict.fromkeys(BETTER, math.nan)
        elif row.id in failed:
            own = _WORST
        for column, some in columns.items():
            some.append(own[column])
    details = {**facts, "threshold": THRESHOLDS[best], "slots": _slots(known, numbers)}
    details["curves"] = {
        game: {
            kind: _mean_curve([getattr(its.curves[game], kind) for its in numbers])
            for kind in PartCurves._fields
        }
        for game in GAMES
    }
    values = {column: tuple(some) for column, some in columns.items()}
    ids, groups = tuple(run.data.ids), tuple(run.data.groups)
    return MeanResult(about, ids, groups, values, failed, details, _RANGES)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are defined; nan without any."""
    known = [one for one in values if not math.isnan(one)]
    return sum(known) / len(known) if known else math.nan


def _mean_curve(curves: Sequence[Float64[Tensor, " steps"]]) -> list[float]:
    """Average curves of the most frequent number of steps."""
    length = Counter(len(one) for one in curves).most_common(1)[0][0]
    return torch.stack([one for one in curves if len(one) == length]).nanmean(0).tolist()


def _slots(known: Sequence[KnownImage], numbers: Sequence[ExplainedParts]) -> list[dict[str, Any]]:
    """Average effects by slot; ``effect`` and ``importance`` are shares of the largest one of an image."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for row, its in zip(known, numbers, strict=True):
        truth, target = row.truth, row.target
        effects = [getattr(truth, game).drops()[:, target] for game in (*GAMES, "within")]
        importance = its.importance[: len(row.parts)]
        table = [
            *effects,
            part_shapley(truth.rendered, target).values,
            truth.recolouring(row.painted, target),
        ]
        table += [one / one.abs().max() for one in (effects[0], importance)]
        for slot, column in zip(row.slots, torch.stack(table).T.tolist(), strict=True):
            found.setdefault(slot, []).append(tuple(column))
    names = (*GAMES, "within", "shapley", "recolouring", "effect", "importance")
    means = {slot: map(_mean, zip(*rows, strict=True)) for slot, rows in found.items()}
    return [{"slot": slot, **dict(zip(names, some, strict=True))} for slot, some in means.items()]


def _classes(logits: Float64[Tensor, "images classes"]) -> Int[Tensor, " images"]:
    """Return the predicted classes; -1 where logits are not finite."""
    return logits.argmax(1).masked_fill(~logits.isfinite().all(1), -1)


def _describe(
    known: Sequence[KnownImage], labels: Sequence[int] | None, groups: Sequence[str], user: str
) -> dict[str, Any]:
    """Describe a classifier: its accuracy by number of absent parts, and what its effects are made of."""
    predicted = [int(_classes(row.truth.rendered.logits[:1])[0]) for row in known]
    facts: dict[str, Any] = {"network": describe_network(user, predicted, labels, groups)}
    shares: dict[str, list[float]] = {"light": [], "interaction": [], "background_independence": []}
    interactions: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in known:
        truth, target = row.truth, row.target
        drops, within = (game.drops()[:, target] for game in (truth.rendered, truth.within))
        size = float(drops.abs().sum())
        shares["light"].append(float((drops - within).abs().sum()) / size if size else math.nan)
        pairs = pair_interactions(truth.rendered, target)
        total = float(pairs.abs().sum()) / max(1, len(drops) - 1)
        shares["interaction"].append(total / size if size else math.nan)
        for one, other in itertools.permutations(range(len(row.parts)), 2):
            interactions[row.slots[one], row.slots[other]].append(float(pairs[one, other]))
        if len(truth.cleared):
            irrelevant = truth.irrelevant(target)[len(drops) :]
            shares["background_independence"].append(float(irrelevant.double().mean()))
    facts |= {name: _mean(some) for name, some in shares.items()}
    facts["interactions"] = [[*pair, _mean(some)] for pair, some in sorted(interactions.items())]
    if labels is None:
        return facts
    right: dict[int, list[float]] = {}
    scenes: list[float] = []
    for row, label in zip(known, labels, strict=True):
        missing = (~row.truth.rendered.present).sum(1).tolist()
        for count, one in zip(missing, _classes(row.truth.rendered.logits).tolist(), strict=True):
            right.setdefault(count, []).append(float(one == label))
        scenes += (_classes(row.truth.scenes) == label).double().tolist()
    accuracy = [[count, _mean(some)] for count, some in sorted(right.items())]
    facts |= {"accuracy_by_absent": accuracy, "accuracy_in_other_scenes": _mean(scenes)}
    classes = known[0].truth.rendered.logits.shape[1]
    if unseen := classes - len({*labels}):
        facts["notes"] = [
            f"no image shows {unseen} of the {classes} classes: controlled takes sets of parts that tell a "
            "class from the shown ones, and target sensitivity compares shown classes"
        ]
    return facts


def _surprise_notes(data: Any, network: Any, known: Sequence[KnownImage], facts: dict[str, Any]) -> list[str]:
    """Say so if a classifier has not learned from images with absent parts."""
    reason, trained = "", getattr(network, "trained_on", None)
    if trained and hasattr(data, "values_in") and trained.data.recipe == data.identity.recipe:
        slots = {slot for row in known for slot in row.slots}
        values = frozenset[Any]().union(*(data.values_in(trained.data.set_name, slot) for slot in slots))
        if values and ABSENT_MATERIAL not in values:
            reason = f"no part is absent in the set `{trained.data.set_name}`, on which it was trained"
    accuracy, chance = facts.get("accuracy_by_absent", ()), facts["network"].get("chance")
    if not reason and chance is not None and len(accuracy) > 1:
        whole, fewer = (one for _, one in accuracy[:2])
        if whole > chance and fewer < (whole + chance) / 2:
            reason = f"its accuracy falls from {whole:.3g} to {fewer:.3g} when one part is absent"
    if not reason:
        return []
    return [
        f"`{facts['network']['of']}` seems never to have seen absent parts: {reason}. Effects may come from "
        "unfamiliar images as much as from the parts; train it on images with random subsets of parts (set "
        "train of parts-removed)"
    ]


REMOVAL = Evaluation(
    name="removal",
    version=1,
    better=BETTER,
    options=RemovalOptions,
    reads=Reading(open=open_counterfactuals, space="srgb", files=HEATMAPS),
    study=score_removal,
    page="candlelight.evaluation.coverage.removal_report:REMOVAL_PAGE",
)
