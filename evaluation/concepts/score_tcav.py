"""Score any network with TCAV: how concepts of the user's own choice move a number of its output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from candlelight.evaluation.concepts.exchange_groups import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    known_groups,
)
from candlelight.evaluation.concepts.few_images import few_images
from candlelight.evaluation.concepts.layer_rows import read_activations, read_gradients
from candlelight.evaluation.concepts.permutation_test import permutation_test
from candlelight.evaluation.concepts.probe import Probe, common_size
from candlelight.evaluation.concepts.rows.row_source import RowSource
from candlelight.evaluation.concepts.solvers import Classifier
from candlelight.evaluation.concepts.targets import Target, parse_target
from candlelight.evaluation.concepts.tcav_scores import LayerScorer, TCAVScore, scores_to_step, step_to_scores
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.result import MeanResult
from candlelight.evaluation.running.batches import Fingerprint, check_srgb_image, make_provenance
from candlelight.evaluation.running.finished_steps import FinishedSteps, model_key
from candlelight.evaluation.running.named_models import identify_models
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.views import Images

METRIC, VERSION = "tcav", 2


def score_tcav(
    models: Mapping[str, nn.Module | NamedModel],
    concepts: Mapping[str, Images],
    negatives: Images,
    test: Images,
    *,
    layers: Sequence[str],
    target: str | Target,
    controls: Mapping[str, Images] | None = None,
    runs: int = 100,
    seed: int = 0,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    p: float = 0.05,
    permutations: int = 999,
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]:
    """Score networks with TCAV (Kim et al. 2018, sec. 3) at hidden layers.

    For each layer and concept, ``runs`` vectors separate the activations of the concept's images from those
    of negatives (`fit_cavs`). The TCAV score of a run is the share of test images at which the derivative of
    the target along the vector has the wanted sign (eq. 2): above 0 for a logit, below 0 for a loss. A result
    has two columns for each concept and layer:

    - ``CONCEPT at LAYER``: for each test image, the share of runs with the wanted sign. Its mean is the mean
      TCAV score of the runs.
    - ``CONCEPT at LAYER, derivative``: for each test image, the mean over runs of the derivative along the
      vector of length 1, positive in the wanted direction. It shrinks to 0 where the sign is a matter of
      chance; the count of signs, which is 0 or 1 at each image and run, does not.

    ``details["scores"]`` holds the spread over runs, the held-out accuracy of the vectors, scores of random
    vectors, the paper's t-test against them (`significant`), and, where there is a control, the permutation
    test (`permutation_test`), whose p-values are corrected for all concepts with a control at a layer;
    ``details["notes"]`` names concepts and controls with fewer than 20 images.

    Blind to: the correctness of the network; the common scene of the images of a concept, which vectors may
    represent instead of the concept (a control tells them apart); and the direction of the activations that
    no image of the two sets shows. Scores of different layers have different units of the derivative.

    Args:
        models: networks by name, on ``device``. Images are sRGB-encoded, in [0, 1], unless the network has an
            attribute ``colour_space`` that says "linear".
        concepts: images of each concept, by name; 20 or more are advised. `set_images` makes such a view of
            one set of `open_concepts`.
        negatives: images without the concepts, at least 4. Use at least twice as many as images in the
            largest concept, so that random vectors are trained on sets of that size.
        test: images at which the target is differentiated.
        layers: names of hidden layers, as ``named_modules()`` gives them; several are a sweep.
        target: text for `parse_target`, or a `Target`.
        controls: control images of some concepts, by the name of the concept: the same scene without the
            concept.
        runs: vectors for each concept and layer, at least 2.
        seed: seed of all random draws.
        classifier: see `fit_cavs`; it trains the random vectors too.
        regularisation: see `fit_cavs`.
        p: level of the t-test.
        permutations: exchanges of the permutation test.
        size: height and width to which all images are resized; needed if they differ in size.
        batch_size: images per pass.
        device: torch device of the networks.
        steps: keeps finished concepts, so that an interrupted run resumes; negatives and test images are run
            again.

    Returns:
        A result for each network, with 95 % intervals over groups of test images. No direction is better.

    Raises:
        InputError: an argument is misspelt or out of range; a model is no `torch.nn.Module`; a layer does not
            exist, does not run once, or the target does not depend on it; the target does not fit the
            output; images have several sizes; there are too few images; or a number is not finite.

    Example:
        >>> from candlelight.loaders.views import open_images
        >>> striped, plain, zebras = map(open_images, ("striped", "plain", "zebras"))  # doctest: +SKIP
        >>> views = {"striped": striped}, plain, zebras  # doctest: +SKIP
        >>> score_tcav({"net": net}, *views, layers=["layer4"], target="logit:340")["net"]  # doctest: +SKIP
    """
    check_choice("classifier", classifier, Classifier)
    chosen = parse_target(target) if isinstance(target, str) else target
    controls = dict(controls or {})
    _check_arguments(concepts, controls, layers)
    views = [*concepts.values(), *controls.values(), negatives, test]
    named_models = identify_models(models, views, "srgb", None)
    for name, named in named_models.items():
        if not isinstance(named.model, nn.Module):
            raise InputError(f"`{name}` has no hidden layers: TCAV needs a torch.nn.Module")
    settings: dict[str, Any] = {"layers": list(layers), "target": chosen.name, "runs": runs, "seed": seed}
    settings |= {"gradient_of": chosen.gradient_of, "target_sha256": chosen.sha256, "p": p, "size": size}
    settings |= {"classifier": classifier, "regularisation": regularisation}
    settings |= {"permutations": permutations} if controls else {}
    run = _Run(tuple(layers), chosen, dict(concepts), controls, negatives, test, settings)
    results = {}
    for name, named in named_models.items():
        key = None
        if steps is not None and isinstance(target, str):  # a function that is given in Python may change
            key = model_key(named, device, metric=METRIC, version=VERSION, batch_size=batch_size, **settings)
        probe = Probe(named, size, batch_size, device)
        results[name] = run.score(probe, steps or FinishedSteps(), key)
    return results


def _check_arguments(
    concepts: Mapping[str, Images], controls: Mapping[str, Images], layers: Sequence[str]
) -> None:
    if not concepts:
        raise InputError("expected at least one concept, got none")
    if isinstance(layers, str) or not layers or len(set(layers)) < len(layers):
        raise InputError(
            f"{argument('layer', 'layers')} must be a list of different names, at least one, got {layers!r}"
        )
    if surplus := [name for name in controls if name not in concepts]:
        raise InputError(f"control `{surplus[0]}`: expected one of the concepts, {', '.join(concepts)}")
    for kind, views in (("concept", concepts), ("control of concept", controls)):
        for name, view in views.items():
            if len(view.ids) < 2:
                raise InputError(
                    f"{kind} `{name}`: expected at least 2 images, got {len(view.ids)}; add images"
                )


@dataclass(frozen=True)
class _Run:
    """Arguments that are the same for all networks."""

    layers: tuple[str, ...]
    target: Target
    concepts: dict[str, Images]
    controls: dict[str, Images]
    negatives: Images
    test: Images
    settings: dict[str, Any]

    def score(self, probe: Probe, steps: FinishedSteps, key: Mapping[str, Any] | None) -> MeanResult:
        """Score one network."""
        fingerprint = Fingerprint()
        gradients = read_gradients(probe, self.layers, self.test, self.target, fingerprint)
        against = read_activations(probe, self.layers, self.negatives, fingerprint)
        size = common_size([gradients.size, against.size])
        fitting = {name: self.settings[name] for name in ("runs", "classifier", "regularisation")}
        scorers = {
            layer: LayerScorer(
                against.rows[layer],
                gradients.rows[layer],
                self.target.gradient_of,
                fitting,
                self.settings["seed"],
            )
            for layer in self.layers
        }
        scores = {}
        bar = progress_bar(self.concepts, desc=f"{probe.named.identity.name}: concepts", unit="concept")
        for name in bar:
            self._add(name, fingerprint)
            read = {"read": fingerprint.hexdigest(), "groups": self._groups(name)}
            whole = None if key is None else {**key, **read}
            step = steps.get_or_compute(whole, partial(self._step, probe, scorers, name, size))
            scores[name] = step_to_scores(step, self.layers)
        return self._result(probe, scores, fingerprint)

    def _add(self, concept: str, fingerprint: Fingerprint) -> None:
        """Add the images of a concept and of its control to the hash."""
        for views in (self.concepts, self.controls):
            if view := views.get(concept):
                for row, identifier in enumerate(view.ids):
                    fingerprint.add(identifier, check_srgb_image(view[row]))

    def _step(
        self, probe: Probe, scorers: Mapping[str, LayerScorer], concept: str, size: tuple[int, int]
    ) -> dict[str, Tensor]:
        """Run a network on the images of one concept and of its control, and score each layer."""
        found = read_activations(probe, self.layers, self.concepts[concept], Fingerprint())
        common_size([size, found.size])
        control: dict[str, Tensor | RowSource] = {}
        groups = self._groups(concept)
        if concept in self.controls and self._tested(concept):
            read = read_activations(probe, self.layers, self.controls[concept], Fingerprint())
            common_size([size, read.size])
            control = read.rows
        permutations = self.settings.get("permutations", 0)
        scores = {
            layer: scorer.score(found.rows[layer], control.get(layer), permutations, groups)
            for layer, scorer in scorers.items()
        }
        return scores_to_step(scores)

    def _result(
        self, probe: Probe, scores: Mapping[str, Mapping[str, TCAVScore]], fingerprint: Fingerprint
    ) -> MeanResult:
        data = fingerprint.describe(self.test) | {"negatives": view_name(self.negatives)}
        data["concepts"] = {name: view_name(view) for name, view in self.concepts.items()}
        data |= {"controls": {name: view_name(view) for name, view in self.controls.items()}}
        columns = {}
        for ending, of in (("", "shares"), (", derivative", "gains")):
            for name, of_layers in scores.items():
                for layer, score in of_layers.items():
                    columns[f"{name} at {layer}{ending}"] = tuple(getattr(score, of).tolist())
        return MeanResult(
            make_provenance(METRIC, VERSION, "neither", probe.named, data, self.settings),
            tuple(self.test.ids),
            tuple(self.test.groups),
            columns,
            (),
            {
                "scores": [one for layer in self.layers for one in self._describe(layer, scores)],
                "notes": [*self._notes(), *probe.notes()],
            },
            {f"{name} at {layer}": (0.0, 1.0) for name, of_layers in scores.items() for layer in of_layers},
        )

    def _groups(self, concept: str) -> ImageGroups | None:
        """Return the groups of the images of a concept and of its control; None if there are none known."""
        if concept not in self.controls:
            return None
        return known_groups(self.concepts[concept], self.controls[concept])

    def _tested(self, concept: str) -> bool:
        """Tell whether groups leave enough exchanges of a concept and its control for a p-value."""
        groups = self._groups(concept)
        return groups is None or count_exchanges(groups) >= LEAST_EXCHANGES

    def _notes(self) -> list[str]:
        """Word a note on each concept and control that is small, and on the scenes of the tests."""
        counts = {f"concept `{name}`": len(view.ids) for name, view in self.concepts.items()}
        notes = few_images(
            counts | {f"control of `{name}`": len(view.ids) for name, view in self.controls.items()}
        )
        independent = [f"`{name}`" for name in self.controls if self._groups(name) is None]
        if independent:
            notes.append(
                f"permutation test of {', '.join(independent)}: no scenes are known, so all images count as "
                "independent; p is too small if several show one scene"
            )
        return notes + [
            f"control of `{name}`: too few scenes for a permutation test; use at least 4 in each of the "
            "two, or the same ones in both"
            for name in self.controls
            if not self._tested(name)
        ]

    def _describe(self, layer: str, scores: Mapping[str, Mapping[str, TCAVScore]]) -> list[dict[str, Any]]:
        """Collect the details of all concepts at one layer, with the permutation test over these concepts."""
        tested = [name for name in scores if name in self.controls and self._tested(name)]
        test = (
            permutation_test(torch.stack([scores[name][layer].draws for name in tested])) if tested else None
        )
        details = []
        for name, of_layers in scores.items():
            one = {"layer": layer, "concept": name, "images": len(self.concepts[name].ids)}
            one |= of_layers[layer].describe(self.settings["p"])
            if name in self.controls:
                row = tested.index(name) if name in tested else None
                one["control"] = {
                    "images": len(self.controls[name].ids),
                    "scenes": None
                    if (groups := self._groups(name)) is None
                    else [len(set(n)) for n in groups],
                    "effect": None if test is None or row is None else float(test.effect[row]),
                    "permutation_p": None if test is None or row is None else float(test.p_value[row]),
                    "adjusted_p": None if test is None or row is None else float(test.adjusted[row]),
                }
            details.append(one)
        return details


def view_name(view: Images) -> str:
    """Name the data of a view, with its set and split.

    Example:
        >>> from candlelight.loaders.views import DataIdentity
        >>> from types import SimpleNamespace
        >>> view_name(SimpleNamespace(identity=DataIdentity("demo", "frames", "albedo")))
        'demo, albedo'
    """
    identity = view.identity
    return ", ".join(part for part in (identity.name, identity.set_name, identity.split) if part)
