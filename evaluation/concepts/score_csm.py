"""Score models by CSM over concept sets, against negatives and controls."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from candlelight.evaluation.catalogue.concepts_options import CSMOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.concepts.branches import (
    BranchLayers,
    branch_activations,
    branch_gradients,
    planted_decompositions,
)
from candlelight.evaluation.concepts.concept_data import (
    CSMData,
    ReadImages,
    few_images,
    few_negatives,
    open_csm,
)
from candlelight.evaluation.concepts.contrast import Contrast
from candlelight.evaluation.concepts.csm import every_factor_group, score_by_runs
from candlelight.evaluation.concepts.permutation import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    effect_interval,
    input_scores,
)
from candlelight.evaluation.concepts.probe import LayerRows, Probe, common_size
from candlelight.evaluation.concepts.rows import row_norms, row_storage
from candlelight.evaluation.concepts.sensitivity import significant
from candlelight.evaluation.concepts.set_scores import (
    BRANCHES,
    CONTROLLED,
    METRICS,
    BranchScore,
    Concept,
    Ratios,
    SetScore,
    frame_means,
    from_step,
    merge_controls,
    to_step,
    with_p_values,
)
from candlelight.evaluation.concepts.sets import ChosenSet, choose_sets
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.fingerprints import make_provenance
from candlelight.evaluation.run.hidden_layers import match_layers
from candlelight.evaluation.run.intervals import LEAST_GROUPS, Score, distinct_groups, resampled_interval
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import Predictions
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.run.steps import model_key
from candlelight.evaluation.views import ConceptSet, Images
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar


@dataclass(frozen=True)
class SetScorer:
    """Images that are no concept, and the gradients; they are shared by all sets that are scored.

    Attributes:
        against: activations of the negatives, or of the control of one concept set, by branch.
        gradients: gradients at the test frames, by alignment of the loss and by branch.
        groups: the group of each test frame.
        fitting: arguments of `fit_concept` and `fit_random`.
        permutations: exchanges of the permutation test.
        seed: seed of all random draws.
    """

    against: LayerRows
    gradients: dict[str, LayerRows]
    groups: Sequence[str]
    fitting: dict[str, Any]
    permutations: int
    seed: int

    @cached_property
    def _contrasts(self) -> dict[str, Contrast]:
        return {
            branch: Contrast(
                self.against.rows[branch],
                {alignment: one.rows[branch] for alignment, one in self.gradients.items()},
                self.fitting,
                self.seed,
            )
            for branch in BRANCHES
        }

    def score(
        self, concept: Concept, chosen: ConceptSet, features: LayerRows, groups: ImageGroups | None
    ) -> dict[str, dict[str, BranchScore]]:
        """Score both branches on one concept set, in each alignment; the vectors are the same.

        ``groups`` are those of the images of the set and of the others; where they leave too few exchanges
        for the permutation test, there are no ``draws``.

        Raises:
            InputError: concept, negative and test images differ in size, or there are too few.
        """
        common_size([features.size, self.against.size, *(some.size for some in self.gradients.values())])
        names = (concept, sorted(chosen.fixed.items()))
        return {
            branch: self._score_branch(contrast, names, features.rows[branch], groups)
            for branch, contrast in self._contrasts.items()
        }

    def _score_branch(
        self, contrast: Contrast, names: tuple[object, ...], rows: Any, groups: ImageGroups | None
    ) -> dict[str, BranchScore]:
        gram, products = contrast.products(rows)
        fit = contrast.fit(gram, len(rows), names)
        exchanged: dict[str, Tensor] = {}
        if groups is None or count_exchanges(groups) >= LEAST_EXCHANGES:
            exchanged = contrast.exchanged(gram, products, len(rows), self.permutations, groups)
        _, by_chance = contrast.random(len(rows))
        scores = {}
        for alignment, derivatives in contrast.derivatives(fit, products).items():
            helps = (derivatives < 0).double()
            shares, chance = helps.mean(1), (by_chance[alignment] < 0).double().mean(1)
            cosines = torch.nan_to_num(derivatives / fit.norm[:, None] / contrast.lengths[alignment], 0, 0, 0)
            draws, effect = torch.zeros(0, 1), Score(math.nan, math.nan, math.nan)
            if alignment in exchanged:
                draws = input_scores(exchanged[alignment])
                effect = effect_interval(draws, self.groups, self.seed)
            scores[alignment] = BranchScore(
                frames=tuple(helps.mean(0).tolist()),
                spread=float(shares.std()),
                cosine=-float(cosines.mean()),
                accuracy=float(fit.accuracy.mean()),
                t_test_p=significant(shares, chance).p_value,
                effect=(effect.value, effect.low, effect.high),
                draws=tuple(draws.mean(1).tolist()),
                runs=tuple(shares.tolist()),
                vectors=float((fit.norm > 0).double().mean()),
            )
        return scores


class _Scored(NamedTuple):
    """A model and the layers that are read; None for the outputs."""

    named: NamedModel
    layers: BranchLayers


def scored_models(run: Run[CSMOptions]) -> dict[str, _Scored]:
    """Name what is scored: models, planted decompositions, and with several layers each model's layers.

    Raises:
        InputError: predictions and a size or a layer, ids that do not match, or layers that are not there.
    """
    options, data = run.options, run.data
    if options.planted and not data.truth:
        raise InputError(f"{argument('planted')}: needs the ground truth of all images, `truth` of `CSMData`")
    planted = planted_decompositions(data.truth) if options.planted else {}
    models = identify_models(run.models | planted, data.views, "linear", None)
    if options.size is not None and any(isinstance(one.model, Predictions) for one in models.values()):
        raise InputError(f"predictions are scored at their own size: omit {argument('size')}, or use a model")
    places = {name: _split_layers(named, options.layer) for name, named in models.items()}
    texts = list(dict.fromkeys(text for some in places.values() for text in some))
    scored = {}
    for text in texts:
        for name, named in models.items():
            if text not in places[name]:
                continue
            one = _Scored(named, places[name][text])
            if len(texts) > 1:  # all layers of a sweep stand in one result
                name = f"{name} {text}"
                one = one._replace(named=replace(named, identity=replace(named.identity, name=name)))
            scored[name] = one
    return scored


def _split_layers(named: NamedModel, texts: Sequence[str]) -> dict[str, BranchLayers]:
    """Map each text of the option `layer`, patterns resolved, to the layers of both branches."""
    places: dict[str, BranchLayers] = {} if texts else {"": None}
    for text in texts:
        if not isinstance(named.model, nn.Module):
            name = named.identity.name
            raise InputError(f"layer {text}: `{name}` has no hidden layers; omit it, or give a network")
        names = text.split(",")
        if len(names) > 2 or not all(names):
            raise InputError(f"{argument('layer')} {text}: expected NAME, or REFLECTANCE,SHADING")
        found = [match_layers(named.model, [name]) for name in names]
        if len(found[0]) != len(found[-1]):
            raise InputError(
                f"{argument('layer')} {text}: expected as many layers of the reflectance as of the shading, "
                f"got {len(found[0])} and {len(found[1])}"
            )
        for pair in zip(found[0], found[-1], strict=True):
            places[",".join(dict.fromkeys(pair))] = pair
    return places


def _score_models(run: Run[CSMOptions]) -> dict[str, Result]:
    """Score models with CSM_S and CSM_R (Gupta et al. 2022, sec. 3 and 4).

    For each concept set and branch, ``runs`` vectors separate the set's images from negatives (`fit_cavs`).
    The score of a vector is the share of test frames on which it lowers the loss (eq. 3). Both branches draw
    the same images. The scores of a set depend on ``seed`` and its factors, not on the other sets. With
    controls each set is scored again with each of its controls in place of the negatives: then the
    vectors cannot follow the scene, which a set and its controls share. The scores against controls come
    first; they are ratios of means over all sets and controls, with intervals over scenes and controls too.

    Two tests tell whether a set matters to a branch. The paper's t-test compares the scores of the runs with
    scores of random vectors (`significant`); it finds differences in more than half of the sets in which
    there are none. The permutation test (`permutation_test`) exchanges images of the set with its control; it
    is made against negatives only where they are of the same scenes or no scenes are known. With several
    controls a set is significant if it is against each.

    The loss is the MSE over pixels with an albedo above 0, in two alignments. "unaligned" is the MSE of the
    prediction, as in the paper; a decomposition is defined up to one scale per image, so this CSM also
    measures the scale of the reflectance. "aligned" is the MSE after the best scale, and is reported first.
    There are also three rules on significance (`Ratios`): all sets; sets that are significant for both
    branches, as in the paper (sec. 4.2); and sets that are significant for the wanted branch. All sets come
    first, because an ideal model is not sensitive to the unwanted concept, so the paper's rule would drop its
    sets.

    Models run, vectors are fitted and sets are exchanged on the device of the run; with "sgd", scikit-learn
    trains on the CPU. Rows beyond ``memory`` pass through a file.

    Blind to: the correctness of a prediction (a prediction that equals the ground truth has no gradient and
    counts as insensitive to everything); the common scene of the images, which vectors may represent instead
    of the concept; and everything that the test frames do not show.

    Returns:
        A result for each model and layer: ratios with 95 % intervals over groups of test frames, higher is
        better; against controls over scenes and controls too, and none with fewer than 6 of either. Its
        details have the scores of all ``sets``, sensitivities of single ``frames``, means over the sets, and
        ``notes``. The settings hold no layer, which is a part of the model, and no names of data, so that
        results can be compared.

    Raises:
        InputError: there are no concept sets, albedo and illumination sets are swapped, a set has no control
            or fewer than 2 images, controls have no sets, images are of a concept and negatives too, there
            are no test frames or some lack ground truth, images have several sizes, a layer cannot be read,
            there are too few images, or a temporary file cannot be written.
    """
    data, options = run.data, run.options
    chosen_sets = choose_sets(data.albedo, data.illumination, data.controls, options.max_sets, options.seed)
    run.kept["models"] = scored = scored_models(run)
    images = ReadImages()
    reads = _read(images, data, chosen_sets)
    results: dict[str, Result] = {}
    for name, one in scored.items():
        storage = row_storage(options.memory, run.device)
        probe = Probe(one.named, options.size, run.batch_size, run.device, storage)
        sets, slopes = _score_sets(run, probe, one.layers, chosen_sets, reads)
        result = _result(run, one, sets, images, chosen_sets)
        notes = [*_few_units(result), *probe.notes(), *_undefined(name, sets, slopes)]
        details = {"notes": [*_notes(chosen_sets, data.negatives), *notes]}
        results[name] = replace(result, details=result.details | details)
        del slopes  # the rows of the next model may need their room
    return results


def _read(images: ReadImages, data: CSMData, chosen_sets: Sequence[ChosenSet]) -> list[str]:
    """Read all images, and return the hash of all rows up to each concept set."""
    images.add_negatives(data.negatives)
    images.add_test(data.test)
    reads = []
    for one in chosen_sets:
        images.add_images(one.shown, one.title)
        for control in one.shown_controls:
            images.add_images(control)
        reads.append(images.hexdigest())
    return reads


_FITTING = ("runs", "classifier", "regularisation")
# These options change no score of a set.
_NO_KEY = {"albedo", "illumination", "control", "negatives", "negatives_limit", "planted", "layer", "memory"}
_NO_KEY |= {"max_sets", "significance", "p"}
_SETTINGS = (
    *("runs", "seed", "p", "classifier", "regularisation", "size", "max_sets", "significance"),
    "permutations",
)


def _score_sets(
    run: Run[CSMOptions],
    probe: Probe,
    layers: BranchLayers,
    chosen_sets: Sequence[ChosenSet],
    reads: Sequence[str],
) -> tuple[list[SetScore], dict[str, LayerRows]]:
    """Score one model on all sets; return the gradients too."""
    data, options = run.data, run.options
    settings = {name: value for name, value in asdict(options).items() if name not in _NO_KEY}
    settings |= {"layer": layers, "batch_size": run.batch_size}
    record = run.evaluation
    key = model_key(probe.named, run.device, metric=record.name, version=record.version, **settings)
    against = branch_activations(probe, layers, data.negatives)
    slopes = branch_gradients(probe, layers, data.test)
    scorer = SetScorer(
        against,
        slopes,
        data.test.groups,
        {name: getattr(options, name) for name in _FITTING},
        options.permutations,
        options.seed,
    )
    sets = []
    pairs = zip(chosen_sets, reads, strict=True)
    for chosen, read in progress_bar(pairs, desc=f"{probe.name}: sets", unit="set", total=len(reads)):
        whole = None if key is None else {**key, **chosen.facts, "read": read}
        step = run.steps.get_or_compute(whole, partial(_score, scorer, probe, layers, chosen, data.negatives))
        sets.append(from_step(step, chosen.concept, chosen.images))
    return [merge_controls(one) for one in with_p_values(sets)], slopes


def _score(
    scorer: SetScorer, probe: Probe, layers: BranchLayers, chosen: ChosenSet, negatives: Images
) -> dict[str, Tensor]:
    """Run the model on one concept set and its controls, and score the set."""
    features = branch_activations(probe, layers, chosen.shown)
    branches = scorer.score(chosen.concept, chosen.images, features, chosen.groups(negatives))
    for number, control in enumerate(chosen.shown_controls, 1):
        against = branch_activations(probe, layers, control)
        controlled = replace(scorer, against=against).score(
            chosen.concept, chosen.images, features, chosen.groups(control)
        )
        ending = CONTROLLED if len(chosen.controls) == 1 else f"{CONTROLLED} {number}"
        for branch, scores in controlled.items():
            branches[branch] |= {alignment + ending: score for alignment, score in scores.items()}
    images = chosen.images
    return to_step(SetScore(chosen.concept, dict(images.fixed), len(images.rows), branches, images.objects))


def _notes(chosen_sets: Sequence[ChosenSet], negatives: Images) -> list[str]:
    """Word notes on small sets, controls and negatives, and on sets that cannot be exchanged with those."""
    sizes = [len(one.images.rows) for one in chosen_sets]
    counts = {"smallest concept set": min(sizes)}
    controls = [len(control.rows) for one in chosen_sets for control in one.controls]
    counts |= {"smallest control": min(controls)} if controls else {}
    notes = few_images(counts | {"negatives": len(negatives.ids)})
    notes += few_negatives({"largest concept set": max(sizes)}, len(negatives.ids))
    groups = [one.groups(negatives) for one in chosen_sets]
    if any(one is not None and count_exchanges(one) < LEAST_EXCHANGES for one in groups):
        notes.append(
            "permutation test: sets of one scene cannot be exchanged with negatives of others, so it is made "
            "against controls alone"
        )
    return notes


def _few_units(result: StatisticResult) -> list[str]:
    """Word a note on each score against controls of too few scenes or controls for an interval."""
    notes = []
    for metric in METRICS.values():
        counts = result.units.get(f"{metric} aligned{CONTROLLED}, all sets", {})
        if counts and min(counts.values()) < LEAST_GROUPS:
            got = " and ".join(map(str, counts.values()))
            notes.append(
                f"{metric} against controls: intervals and verdicts need {LEAST_GROUPS} or more "
                f"{' and '.join(counts)}, got {got}; render more"
            )
    return notes


def _undefined(model: str, sets: Sequence[SetScore], slopes: Mapping[str, LayerRows]) -> list[str]:
    """Word a note on each branch that is insensitive to everything: it is ideal, or it is constant."""
    notes = []
    for branch in BRANCHES:
        exact = [how for how, one in slopes.items() if not bool(row_norms(one.rows[branch]).any())]
        if exact:
            notes.append(
                f"`{model}`, {branch} {' and '.join(exact)}: the predictions equal the ground truth of all "
                "test frames, so the loss has no gradient: an ideal branch, whose sensitivities are all 0"
            )
        if not any(score.vectors for one in sets for score in one.branches[branch].values()):
            notes.append(
                f"`{model}`, {branch}: all images give one output, so there is no concept vector: a constant "
                "branch, whose sensitivities are all 0"
            )
    return notes


def _result(
    run: Run[CSMOptions],
    scored: _Scored,
    sets: list[SetScore],
    images: ReadImages,
    chosen_sets: Sequence[ChosenSet],
) -> StatisticResult:
    data, options = run.data, run.options
    described = images.describe(data.test) | {
        "negatives": data.negatives.identity.name,
        "controls": {concept: view.identity.set_name for concept, view in data.controls.items()},
    }
    record = run.evaluation
    settings = {name: getattr(options, name) for name in _SETTINGS}
    about = make_provenance(record.name, record.version, record.better, scored.named, described, settings)
    if scored.layers is not None:
        of_both = len(set(scored.layers)) == 1
        layer = scored.layers[0] if of_both else list(scored.layers)
        about = replace(about, model={**about.model, "layer": layer})
    rule = (options.significance, options.p)
    ratios = Ratios(sets, *rule)
    units = ratios.units()
    scores, replicates = resampled_interval(ratios, data.test.groups, seed=options.seed, units=units)
    labels = {METRICS[one.concept]: one.labels for one in chosen_sets}
    details = {
        "sets": [one.describe(*rule) for one in sets],
        "groups": every_factor_group(sets, data.test.groups, options.seed),
        "by_runs": score_by_runs(sets),
        "by_control": {
            name: dict(zip(labels[name.partition(" ")[0]], values, strict=False))
            for name, values in ratios.by_control().items()
        },
        "frames": {"ids": list(data.test.ids), **frame_means(sets)},
    }
    groups = distinct_groups(data.test.groups)
    return StatisticResult(about, scores, replicates, groups, (), details, units)


CONCEPT_SENSITIVITY = Evaluation(
    name="csm",
    version=5,
    better="higher",
    options=CSMOptions,
    reads=Reading(open=open_csm, files=CSMOptions.files),
    study=_score_models,
    page="candlelight.evaluation.concepts.concepts_pictures:CSM_PAGE",
)
