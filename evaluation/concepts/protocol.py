"""Score an intrinsic image model with the Concept Sensitivity Metrics on rendered concept sets."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from evaluation.concepts.branches import Branches, Images, Probe, activations, gradients
from evaluation.concepts.cav import fit_cavs, random_cavs
from evaluation.concepts.csm import CSM, Reduce, csm
from evaluation.concepts.sensitivity import sensitivity, significant
from evaluation.concepts.solvers import Classifier
from evaluation.models.protocols import IntrinsicModel
from evaluation.plain import to_plain
from loaders.errors import InputError
from loaders.samples import Frames, group_rows
from loaders.schema import FactorValue

Concept = Literal["albedo", "illumination"]


@dataclass(frozen=True)
class BranchScore:
    """What one branch makes of one concept set.

    Attributes:
        sensitivity: mean over the runs, in [0, 1].
        spread: standard deviation over the runs.
        accuracy: mean held-out accuracy of the vectors; near 0.5 the branch does not tell the concept.
        p_value: of the t-test against random vectors.
        significant: whether that is below the level asked for.
    """

    sensitivity: float
    spread: float
    accuracy: float
    p_value: float
    significant: bool


@dataclass(frozen=True)
class SetScore:
    """One concept set: what varies in it, what is fixed in it, and the score of either branch."""

    concept: Concept
    factors: dict[str, FactorValue]
    images: int
    reflectance: BranchScore
    shading: BranchScore


@dataclass(frozen=True)
class ConceptScores:
    """Scores of all concept sets, and the settings that they were made with."""

    sets: tuple[SetScore, ...]
    settings: dict[str, Any]

    def csm(self, reduce: Reduce = "mean_of_ratios", significant_only: bool = True) -> CSM:
        """Combine the sets into the two metrics.

        Args:
            reduce: order of averaging, see `evaluation.concepts.csm.csm`.
            significant_only: leave out sets that are not significant for both branches, as the paper
                does; without any set left a metric is nan.
        """
        kept = [
            s
            for s in self.sets
            if not significant_only or (s.reflectance.significant and s.shading.significant)
        ]

        def column(concept: Concept, branch: Literal["reflectance", "shading"]) -> Float[Tensor, " sets"]:
            values = [getattr(s, branch).sensitivity for s in kept if s.concept == concept]
            return torch.tensor(values, dtype=torch.float64)

        return csm(
            column("albedo", "reflectance"),
            column("albedo", "shading"),
            column("illumination", "reflectance"),
            column("illumination", "shading"),
            reduce,
        )

    def to_json(self) -> str:
        """Strict JSON: the metrics in both orders of averaging, significant sets and all, then every set.

        nan becomes null and infinity "inf".
        """
        metrics = {
            kept: {
                reduce: _summary(self.csm(reduce, kept == "significant_sets")) for reduce in get_args(Reduce)
            }
            for kept in ("significant_sets", "all_sets")
        }
        result = {
            "metric": "csm",
            "better": "higher",
            **metrics,
            "settings": self.settings,
            "sets": [asdict(s) for s in self.sets],
        }
        return json.dumps(to_plain(result), indent=2, allow_nan=False) + "\n"


def _summary(result: CSM) -> dict[str, Any]:
    numbers = {name: getattr(result, name) for name in ("csm_s", "csm_r", "bounded_s", "bounded_r")}
    return {
        **numbers,
        "albedo_sets": len(result.r_albedo),
        "illumination_sets": len(result.r_illumination),
    }


def score_concepts(
    model: IntrinsicModel,
    concept_frames_albedo: Frames,
    concept_frames_illumination: Frames,
    negatives: Images,
    test_frames: Frames,
    *,
    layer: str | tuple[str, str] = "output",
    runs: int = 100,
    seed: int = 0,
    p: float = 0.01,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    size: tuple[int, int] | None = None,
    max_sets: int | None = None,
    align_scale: bool = False,
    batch_size: int = 16,
    device: str = "cpu",
) -> ConceptScores:
    """Score a model with CSM_S and CSM_R (Gupta et al. 2022, sec. 3 and 4).

    A concept set is the rows of an image set that agree in every factor but ``set_info.varies``. For each
    set and branch: ``runs`` vectors of the set's images against negatives (`fit_cavs`), their
    sensitivities on the test frames (`sensitivity`), and a t-test against random vectors
    (`significant`). Both branches draw the same images. What a set scores depends on ``seed`` and its
    factors, not on the other sets.

    The loss is the plain MSE of the paper, over pixels with an albedo above 0. As a decomposition is only
    defined up to one scale per image, ``align_scale`` measures the error after the best scale instead.

    Blind to: whether a prediction is right (one that equals the ground truth has no gradient and counts as
    insensitive to everything); what the images of a set share besides the concept, which vectors may
    follow just as well; and anything that the test frames do not show.

    Args:
        model: image to (reflectance, shading); for hidden layers a `torch.nn.Module`. It has to be on
            ``device``.
        concept_frames_albedo: image set in whose concept sets only the albedo varies.
        concept_frames_illumination: image set in whose concept sets only the illumination varies.
        negatives: unrelated images, at least 4; as many as the largest concept set or more are advised.
        test_frames: images with ground truth `albedo` and `shading`.
        layer: "output", or the name of one hidden layer, or of one for each branch (reflectance first).
        runs: vectors per set and branch, at least 2; the paper found 80 to be enough.
        seed: of the draws.
        p: level of the t-test.
        classifier: see `fit_cavs`.
        regularisation: see `fit_cavs`.
        size: height and width that all images are resized to (256 x 256 in the paper); needed if they
            differ.
        max_sets: at most so many concept sets of either kind, drawn at random; all if None.
        align_scale: see above.
        batch_size: images per pass.
        device: torch device of the computation.

    Returns:
        Scores; `ConceptScores.csm` combines them.

    Raises:
        InputError: image sets that are not concept sets, or of several sizes; missing ground truth; a
            layer that cannot be read; too few images.
    """
    pair = (layer, layer) if isinstance(layer, str) else layer
    probe = Probe(model, None if layer == "output" else pair, size, align_scale, batch_size, device)
    fitting: dict[str, Any] = {"runs": runs, "classifier": classifier, "regularisation": regularisation}
    scorer = _Scorer(
        against=activations(probe, negatives, range(len(negatives))),
        gradients=gradients(probe, test_frames),
        fitting=fitting,
        seed=seed,
        p=p,
        null={},
    )
    work = [
        *_concept_sets("albedo", concept_frames_albedo, max_sets, seed),
        *_concept_sets("illumination", concept_frames_illumination, max_sets, seed),
    ]
    sets = [
        _score_set(scorer, concept, factors, activations(probe, frames, rows))
        for concept, factors, frames, rows in tqdm(work, desc="concept sets", unit="set", disable=None)
    ]
    settings = {
        **fitting,
        "layer": layer,
        "seed": seed,
        "p": p,
        "size": size,
        "max_sets": max_sets,
        "align_scale": align_scale,
        "negatives": len(negatives),
        "test_frames": len(test_frames),
    }
    return ConceptScores(tuple(sets), settings)


@dataclass(frozen=True)
class _Scorer:
    """What all concept sets have in common; ``null`` remembers random scores by branch and set size."""

    against: Branches
    gradients: Branches
    fitting: dict[str, Any]
    seed: int
    p: float
    null: dict[tuple[str, int], Tensor]

    def random_scores(self, branch: str, images: int) -> Float[Tensor, " runs"]:
        """Scores of random vectors that are trained on as many rows as those of a set."""
        against: Tensor = getattr(self.against, branch)
        size = max(2, min(images, len(against) // 2))
        if (branch, size) not in self.null:
            drawn = _generator(self.seed, "random", size)
            cavs = random_cavs(against, generator=drawn, size=size, **self.fitting)
            self.null[branch, size] = sensitivity(cavs, getattr(self.gradients, branch))
        return self.null[branch, size]


def _concept_sets(
    concept: Concept, frames: Frames, max_sets: int | None, seed: int
) -> Iterator[tuple[Concept, dict[str, FactorValue], Frames, list[int]]]:
    """Concept sets of an image set: what they are of, their fixed factors, and their rows."""
    info = frames.set_info
    if not info.varies:
        raise InputError(f"image set `{frames.set_name}` is no concept set: its `varies` names no factor")
    fixed = [factor.name for factor in info.factors if factor.name not in info.varies]
    groups = list(group_rows(frames, fixed).items())
    chosen = list(range(len(groups)))
    if max_sets is not None and max_sets < len(groups):
        order = torch.randperm(len(groups), generator=_generator(seed, concept))
        chosen = sorted(order[:max_sets].tolist())
    for number in chosen:
        values, rows = groups[number]
        yield concept, dict(zip(fixed, values, strict=True)), frames, rows.tolist()


def _score_set(
    scorer: _Scorer, concept: Concept, factors: dict[str, FactorValue], features: Branches
) -> SetScore:
    """Score both branches on one concept set."""
    sizes = {features.size, scorer.against.size, scorer.gradients.size}
    if len(sizes) > 1:
        raise InputError(
            f"concept, negative and test images differ in size, {sorted(sizes)}; give one `size`"
        )

    def score(branch: str) -> BranchScore:
        rows, against = getattr(features, branch), getattr(scorer.against, branch)
        drawn = _generator(scorer.seed, concept, sorted(factors.items()))
        cavs = fit_cavs(rows, against, generator=drawn, **scorer.fitting)
        scores = sensitivity(cavs, getattr(scorer.gradients, branch))
        test = significant(scores, scorer.random_scores(branch, len(rows)), scorer.p)
        return BranchScore(
            sensitivity=float(scores.mean()),
            spread=float(scores.std()),
            accuracy=float(cavs.accuracy.mean()),
            p_value=test.p_value,
            significant=test.passed,
        )

    return SetScore(concept, factors, len(features.reflectance), score("reflectance"), score("shading"))


def _generator(seed: int, *names: object) -> torch.Generator:
    """A random stream of its own for each purpose."""
    digest = hashlib.sha256(repr((seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
