"""Score intrinsic image models with the Concept Sensitivity Metrics on concept sets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from candlelight.evaluation.concepts.branches import (
    Branches,
    BranchLayers,
    branch_activations,
    branch_gradients,
)
from candlelight.evaluation.concepts.chosen_sets import ChosenSet, choose_sets
from candlelight.evaluation.concepts.csm_by_factor import every_factor_group
from candlelight.evaluation.concepts.exchange_groups import LEAST_EXCHANGES, count_exchanges
from candlelight.evaluation.concepts.few_images import few_images
from candlelight.evaluation.concepts.probe import Probe
from candlelight.evaluation.concepts.rows.gram import row_norms
from candlelight.evaluation.concepts.rows.row_storage import DEFAULT_STORAGE, RowStorage
from candlelight.evaluation.concepts.score_by_runs import score_by_runs
from candlelight.evaluation.concepts.set_images import set_images
from candlelight.evaluation.concepts.set_scorer import SetScorer
from candlelight.evaluation.concepts.set_scores import (
    BRANCHES,
    CONTROLLED,
    METRICS,
    Concept,
    Ratios,
    SetScore,
    SetTest,
    frame_means,
    from_step,
    merge_controls,
    to_step,
    with_p_values,
)
from candlelight.evaluation.concepts.solvers import Classifier
from candlelight.evaluation.inputs.predictions import Predictions
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.mean_intervals import distinct_groups
from candlelight.evaluation.results.resampled_intervals import LEAST_GROUPS, resampled_interval
from candlelight.evaluation.results.result import StatisticResult
from candlelight.evaluation.running.batches import Fingerprint, make_provenance
from candlelight.evaluation.running.finished_steps import FinishedSteps, model_key
from candlelight.evaluation.running.named_models import identify_models
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.views import ConceptSets, Decompositions, Images

METRIC, VERSION = "csm", 5


def score_concepts(
    models: Mapping[str, DecompositionModel],
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    negatives: Images,
    test: Decompositions,
    *,
    controls: Mapping[Concept, ConceptSets] | None = None,
    layer: str | tuple[str, str] | None = None,
    runs: int = 100,
    seed: int = 0,
    significance: SetTest = "t-test",
    p: float = 0.01,
    permutations: int = 999,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    size: tuple[int, int] | None = None,
    max_sets: int | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
    storage: RowStorage = DEFAULT_STORAGE,
) -> dict[str, StatisticResult]:
    """Score models with CSM_S and CSM_R (Gupta et al. 2022, sec. 3 and 4).

    For each concept set and branch, ``runs`` vectors separate the set's images from negatives (`fit_cavs`).
    The score of a vector is the share of test frames on which it lowers the loss (eq. 3). Both branches draw
    the same images. The scores of a set depend on ``seed`` and its factors, not on the other sets. With
    ``controls`` each set is scored again with each of its controls in place of the negatives: then the
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

    Blind to: the correctness of a prediction (a prediction that equals the ground truth has no gradient and
    counts as insensitive to everything); the common scene of the images, which vectors may represent instead
    of the concept; and everything that the test frames do not show.

    Args:
        models: by name, a callable from image to (reflectance, shading); for hidden layers, a
            `torch.nn.Module` on ``device``. Predictions of another program are scored at the output.
        albedo: concept sets in which only the albedo varies; None leaves out CSM_S.
        illumination: concept sets in which only the illumination varies; None leaves out CSM_R.
        negatives: unrelated images, at least 4. Use at least twice as many as images in the largest concept
            set, so that random vectors are trained on sets of that size.
        test: images with their ground-truth decomposition.
        controls: control sets by concept, such as ``{"albedo": open_concepts(..., set_name="albedo_pose")}``:
            images of the same scenes in which camera or poses vary
            (`candlelight.loaders.views.match_controls`).
        layer: None for the output, the name of one hidden layer, or two names (reflectance first).
        runs: vectors for each set and branch, at least 2; 80 are enough according to the paper.
        seed: seed of all random draws.
        significance: "t-test" or "permutation", the test that decides about the sets of a rule; the details
            of a result have both.
        p: level of this test; the permutation test is corrected for the number of sets.
        permutations: exchanges of images; p-values of the permutation test are multiples of
            1 / (permutations + 1).
        classifier: "svm", "logistic", "ridge", "mean" or "sgd", see `fit_cavs`; it trains the random vectors
            too.
        regularisation: see `fit_cavs`.
        size: height and width to which all images are resized (256 x 256 in the paper); needed if they
            differ in size.
        max_sets: maximal number of concept sets of each kind, drawn at random; all if None.
        batch_size: images per pass.
        device: torch device of the models.
        steps: keeps finished concept sets, so that an interrupted run resumes; negatives and test frames are
            run again.
        storage: limit of the activations of one branch in memory, and the folder of the temporary files that
            hold larger ones; results do not depend on it.

    Returns:
        A result for each model: ratios with 95 % intervals over groups of test frames, higher is better;
        against controls over scenes and controls too, and none with fewer than 6 of either. Its details have
        the scores of all ``sets``, sensitivities of single ``frames``, means over the sets, and ``notes`` on
        sets of fewer than 20 images and on too few scenes or controls.

    Raises:
        InputError: ``classifier`` or ``significance`` is misspelt, there are no concept sets, albedo and
            illumination sets are swapped, a set has no control or fewer than 2 images, controls have no sets,
            there are no test frames or some lack ground truth, images have several sizes, a layer cannot be
            read, there are too few images, or a temporary file cannot be written.
    """
    check_choice("classifier", classifier, Classifier)
    check_choice("significance", significance, SetTest)
    controls = controls or {}
    chosen_sets = choose_sets(albedo, illumination, controls, max_sets, seed)
    views = [view for view in (albedo, illumination, *controls.values(), negatives, test) if view is not None]
    named_models = identify_models(models, views, "linear", None)
    if size is not None and any(isinstance(named.model, Predictions) for named in named_models.values()):
        raise InputError(f"predictions are scored at their own size: omit {argument('size')}, or use a model")
    for name, named in named_models.items():
        if layer is not None and not isinstance(named.model, nn.Module):
            raise InputError(f"layer {layer}: `{name}` has no hidden layers; omit it, or give a network")
    settings: dict[str, Any] = {"runs": runs, "seed": seed, "p": p, "classifier": classifier}
    settings |= {"regularisation": regularisation, "size": size, "max_sets": max_sets}
    settings |= {"significance": significance, "permutations": permutations}
    pair = (layer, layer) if isinstance(layer, str) else layer
    fitting: dict[str, Any] = {"runs": runs, "classifier": classifier, "regularisation": regularisation}
    # The level and the choice of the test change no score of a set.
    run = settings | {
        "layer": layer,
        "max_sets": None,
        "batch_size": batch_size,
        "significance": None,
        "p": None,
    }
    steps = steps or FinishedSteps()
    keys = {
        name: model_key(named, device, metric=METRIC, version=VERSION, **run)
        for name, named in named_models.items()
    }
    results = {}
    for name, named in named_models.items():
        probe = Probe(named, size, batch_size, device, storage)
        fingerprint = Fingerprint()
        against = branch_activations(probe, pair, negatives, range(len(negatives.ids)), fingerprint)
        slopes = branch_gradients(probe, pair, test, fingerprint)
        scorer = SetScorer(against, slopes, test.groups, fitting, permutations, seed)
        sets = []
        for chosen in progress_bar(chosen_sets, desc=f"{name}: sets", unit="set"):
            key = chosen.key(keys[name], fingerprint)
            computed = steps.get_or_compute(key, partial(_score, scorer, probe, pair, chosen, negatives))
            sets.append(from_step(computed, chosen.concept, chosen.images))
        sets = [merge_controls(one) for one in with_p_values(sets)]
        result = _result(named, sets, settings, fingerprint, test, negatives, controls, chosen_sets)
        about = result.about
        if layer is not None:
            about = replace(about, model={**about.model, "layer": layer})
        details = result.details | {
            "notes": [
                *_notes(chosen_sets, negatives),
                *_few_units(result),
                *probe.notes(),
                *_undefined(name, sets, slopes),
            ]
        }
        results[name] = replace(result, about=about, details=details)
        del against, slopes, scorer  # the rows of the next model may need their room
    return results


def _score(
    scorer: SetScorer, probe: Probe, layers: BranchLayers, chosen: ChosenSet, negatives: Images
) -> dict[str, Tensor]:
    """Run the model on one concept set and its control, and score the set."""
    features = branch_activations(probe, layers, chosen.view, chosen.images.rows, Fingerprint())
    branches = scorer.score(chosen.concept, chosen.images, features, chosen.groups(negatives))
    for number, control in enumerate(chosen.controls, 1):
        assert chosen.control_view is not None
        against = branch_activations(probe, layers, chosen.control_view, control.rows, Fingerprint())
        groups = chosen.groups(set_images(chosen.control_view, control))
        controlled = replace(scorer, against=against).score(chosen.concept, chosen.images, features, groups)
        ending = CONTROLLED if len(chosen.controls) == 1 else f"{CONTROLLED} {number}"
        for branch, scores in controlled.items():
            branches[branch] |= {alignment + ending: score for alignment, score in scores.items()}
    images = chosen.images
    return to_step(SetScore(chosen.concept, dict(images.fixed), len(images.rows), branches, images.objects))


def _notes(chosen_sets: Sequence[ChosenSet], negatives: Images) -> list[str]:
    """Word a note on the smallest concept set, the smallest control and the negatives, if they are small."""
    counts = {"smallest concept set": min(len(one.images.rows) for one in chosen_sets)}
    controls = [len(control.rows) for one in chosen_sets for control in one.controls]
    counts |= {"smallest control": min(controls)} if controls else {}
    notes = few_images(counts | {"negatives": len(negatives.ids)})
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


def _undefined(model: str, sets: Sequence[SetScore], slopes: Mapping[str, Branches]) -> list[str]:
    """Word a note on each branch that is insensitive to everything: it is ideal, or it is constant."""
    notes = []
    for branch in BRANCHES:
        exact = [how for how, one in slopes.items() if not bool(row_norms(getattr(one, branch)).any())]
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
    named: NamedModel,
    sets: list[SetScore],
    settings: dict[str, Any],
    fingerprint: Fingerprint,
    test: Decompositions,
    negatives: Images,
    controls: Mapping[Concept, ConceptSets],
    chosen_sets: Sequence[ChosenSet],
) -> StatisticResult:
    data = fingerprint.describe(test) | {"negatives": negatives.identity.name}
    data |= {"controls": {concept: view.identity.set_name for concept, view in controls.items()}}
    rule = (settings["significance"], settings["p"])
    ratios = Ratios(sets, *rule)
    units = ratios.units()
    scores, replicates = resampled_interval(ratios, test.groups, seed=settings["seed"], units=units)
    labels = {METRICS[one.concept]: one.labels for one in chosen_sets}
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, data, settings),
        scores,
        replicates,
        distinct_groups(test.groups),
        (),
        {
            "sets": [one.describe(*rule) for one in sets],
            "groups": every_factor_group(sets, test.groups, settings["seed"]),
            "by_runs": score_by_runs(sets),
            "by_control": {
                name: dict(zip(labels[name.partition(" ")[0]], values, strict=False))
                for name, values in ratios.by_control().items()
            },
            "frames": {"ids": list(test.ids), **frame_means(sets)},
        },
        units,
    )
