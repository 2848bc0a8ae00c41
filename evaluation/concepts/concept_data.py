"""Data of the evaluations of concepts: concepts, controls, negatives and test images, opened from options."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor

from candlelight.evaluation.catalogue.concepts_options import (
    SECONDARY,
    ConceptOptions,
    CSMOptions,
    TCAVOptions,
)
from candlelight.evaluation.catalogue.record import split_pairs
from candlelight.evaluation.concepts.set_scores import Concept
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.views import (
    ConceptSets,
    DataIdentity,
    Decompositions,
    Images,
    View,
    open_data,
    open_secondary,
    read_picture_groups,
)
from candlelight.evaluation.views.image_tensors import check_srgb_image
from candlelight.loaders.errors import InputError, argument

_ADVISED = 20  # Kim et al. 2018, Gupta et al. 2022


@dataclass(frozen=True, eq=False)
class CSMData:
    """Views that CSM reads, in place of DATA and of the options that name them.

    Attributes:
        test: images with their ground-truth decomposition.
        negatives: unrelated images, at least 4. Use at least twice as many as images in the largest concept
            set, so that random vectors are trained on sets of that size.
        albedo: concept sets in which only the albedo varies; None leaves out CSM_S.
        illumination: concept sets in which only the illumination varies; None leaves out CSM_R.
        controls: control sets by concept: images of the same scenes in which camera or poses vary
            (`candlelight.evaluation.views.match_controls`).
        truth: ground truth of all images, test frames included, for the option ``planted``.

    Example:
        >>> from candlelight.evaluation import evaluate
        >>> names = ("albedo", "illumination")
        >>> albedo, lit = (open_data("concepts", "frames", set_name=n) for n in names)  # doctest: +SKIP
        >>> test = open_data("decompositions", "frames", set_name="test")  # doctest: +SKIP
        >>> negatives = open_data("images", "photographs", size=test[0].image.shape[1:])  # doctest: +SKIP
        >>> evaluate("csm", CSMData(test, negatives, albedo, lit), {"mine": network})  # doctest: +SKIP
    """

    test: Decompositions
    negatives: Images
    albedo: ConceptSets | None = None
    illumination: ConceptSets | None = None
    controls: Mapping[Concept, ConceptSets] = field(default_factory=dict)
    truth: Sequence[Decompositions] = ()

    @property
    def views(self) -> list[View[Any]]:
        """All views, without the ground truth."""
        every = (self.albedo, self.illumination, *self.controls.values(), self.negatives, self.test)
        return [view for view in every if view is not None]


@dataclass(frozen=True, eq=False)
class TCAVData:
    """Views that TCAV reads, in place of DATA and of the options that name them.

    Attributes:
        test: images at which the target is differentiated.
        negatives: images without the concepts, at least 4. Use at least twice as many as images in the
            largest concept, so that random vectors are trained on sets of that size.
        concepts: images of each concept, by name; 20 or more are advised. `set_images` makes such a view of
            one set of `open_data("concepts", ...)`.
        controls: control images of some concepts, by the name of the concept: the same scenes without the
            concept.

    Example:
        >>> from candlelight.evaluation import evaluate
        >>> striped, plain, zebras = (open_data("images", one) for one in folders)  # doctest: +SKIP
        >>> data = TCAVData(zebras, plain, {"striped": striped})  # doctest: +SKIP
        >>> evaluate("tcav", data, {"net": net}, layer=["layer4"], target="logit:340")  # doctest: +SKIP
    """

    test: Images
    negatives: Images
    concepts: Mapping[str, Images]
    controls: Mapping[str, Images] = field(default_factory=dict)


def open_csm(choice: Mapping[str, Any], options: CSMOptions, models: Mapping[str, NamedModel]) -> CSMData:
    """Open the data of CSM; `CSMData` is returned as it is.

    Raises:
        InputError: a source cannot be opened; or ``planted``, and images have no ground truth.
    """
    data = choice["data"]
    if isinstance(data, CSMData):
        _refuse_sources(options, "negatives", "albedo", "illumination", "control")
        return data
    test = open_data("decompositions", **choice)
    named = {name: getattr(options, name) for name in ("albedo", "illumination")}
    sets = {name: text for name, text in named.items() if text != "none"}
    controls = split_pairs(options.control, argument("control"))
    opened: dict[Any, Any] = {name: _open("concepts", name, data, text) for name, text in sets.items()}
    others: dict[Any, Any] = {
        name: _open("concepts", "control", data, text, of=name) for name, text in controls.items()
    }
    # A folder of images is resized to the test frames; rendered data keep their size.
    negatives = _open_negatives(data, options, options.size or tuple(test[0].image.shape[1:]))
    truth = []
    if options.planted:
        limits: dict[str, int | None] = dict.fromkeys((*sets.values(), *controls.values()))
        limits |= {options.negatives or _NEGATIVES: options.negatives_limit}
        truth = [test, *(_open("decompositions", "planted", data, *one) for one in limits.items())]
    return CSMData(test, negatives, opened.get("albedo"), opened.get("illumination"), others, truth)


def open_tcav(choice: Mapping[str, Any], options: TCAVOptions, models: Mapping[str, NamedModel]) -> TCAVData:
    """Open the data of TCAV; `TCAVData` is returned as it is.

    Raises:
        InputError: a source cannot be opened; or there are groups, but no pictures that are tested.
    """
    data = choice["data"]
    if isinstance(data, TCAVData):
        _refuse_sources(options, "negatives", "concept", "control", "groups")
        return data
    concepts, controls = (
        split_pairs(getattr(options, name), argument(name)) for name in ("concept", "control")
    )
    # Concepts without a control are not tested, and need no groups.
    groups = dict.fromkeys(controls, read_picture_groups(options.groups)) if options.groups else {}
    test = open_data("images", **choice, size=options.size)
    # Pictures are resized to the test images; rendered data keep their size.
    size = options.size or tuple(test[0].shape[1:])
    opened: dict[str, dict[str, Images]] = {
        kind: {
            name: _open("images", kind, data, text, of=name, size=size, groups=groups.get(name))
            for name, text in sources.items()
        }
        for kind, sources in (("concept", concepts), ("control", controls))
    }
    tested = [
        *opened["control"].values(),
        *(opened["concept"][name] for name in controls if name in concepts),
    ]
    if options.groups and all(view.identity.layout != "pictures" for view in tested):
        raise InputError(
            f"{argument('groups')}: neither a {argument('control')} nor its concept is a folder of pictures; "
            "add a control, or omit it"
        )
    return TCAVData(test, _open_negatives(data, options, size), opened["concept"], opened["control"])


_NEGATIVES = "negatives"  # the set of DATA that is taken where no negatives are named


def _open(
    kind: Any, option: str, data: Any, text: str, limit: int | None = None, of: str = "", **options: Any
) -> Any:
    """Open the source that an option names; errors name the option."""
    try:
        return open_secondary(kind, data, text, limit=limit, **options)
    except InputError as error:
        if option == "planted":
            raise InputError(f"{argument(option)}: needs the ground truth of all images: {error}") from error
        raise InputError(f"{argument(option)} {of and f'{of}='}{text}: {error}") from error


def _open_negatives(data: Any, options: ConceptOptions, size: Sequence[int]) -> Any:
    fitted: dict[str, Any] = {"limit": options.negatives_limit, "size": tuple(size)}
    if options.negatives is not None:
        return _open("images", _NEGATIVES, data, options.negatives, **fitted)
    try:
        return open_data("images", data, set_name=_NEGATIVES, **fitted)
    except InputError as error:
        raise InputError(
            f"{argument(_NEGATIVES)} is needed, as DATA has no set `{_NEGATIVES}` ({error}); expected "
            f"unrelated images: {SECONDARY}, a folder of images, or hf:NAME"
        ) from error


def _refuse_sources(options: ConceptOptions, *names: str) -> None:
    """Refuse options that name data, where the data are open."""
    defaults = {one.name: one.default for one in fields(options)}
    for name in names:
        if getattr(options, name) != defaults[name]:
            raise InputError(f"{argument(name)}: the data are open already; omit it, or give DATA by name")


class ReadImages(Fingerprint):
    """Hash of all rows that a study reads, which refuses images that are of a concept and negatives too."""

    def __init__(self) -> None:
        super().__init__()
        self._negatives: set[bytes] = set()

    def add_test(self, view: View[Any]) -> None:
        """Add the test images."""
        for row, name in enumerate(view.ids):
            self.add(name, view[row])

    def add_negatives(self, view: Images) -> None:
        """Add the negatives, before any concept."""
        for row, name in enumerate(view.ids):
            image = check_srgb_image(view[row])
            self.add(name, image)
            self._negatives.add(_digest(image))

    def add_images(self, view: Images, concept: str = "") -> None:
        """Add images of a concept, or with an empty name of a control.

        Raises:
            InputError: images of the concept are negatives too.
        """
        same = []
        for row, name in enumerate(view.ids):
            image = check_srgb_image(view[row])
            self.add(name, image)
            same += [name] if concept and _digest(image) in self._negatives else []
        if same:
            raise InputError(
                f"{concept}: {len(same)} of {len(view.ids)} images, such as `{same[0]}`, are negatives too; "
                f"give other {argument(_NEGATIVES)}"
            )


def _digest(image: Tensor) -> bytes:
    return hashlib.sha256(image.contiguous().numpy().data).digest()


def few_images(counts: Mapping[str, int]) -> list[str]:
    """Word a note on each set of images with fewer than 20.

    Args:
        counts: number of images in each set.

    Example:
        >>> few_images({"concept `red`": 12, "negatives": 40})
        ['concept `red`: at least 20 images are advised, got 12']
    """
    return [
        f"{name}: at least {_ADVISED} images are advised, got {count}"
        for name, count in counts.items()
        if count < _ADVISED
    ]


def few_negatives(concepts: Mapping[str, int], negatives: int) -> list[str]:
    """Word a note on each set of concept images that has more images than there are negatives.

    Args:
        concepts: number of images in each set.
        negatives: number of negatives.

    Example:
        >>> few_negatives({"concept `red`": 24}, 4)
        ['concept `red`: 24 images beside 4 negatives, so each run draws 4 of both; use 48 negatives or more']
    """
    return [
        f"{name}: {count} images beside {negatives} negatives, so each run draws {negatives} of both; use "
        f"{2 * count} negatives or more"
        for name, count in concepts.items()
        if negatives < count
    ]


def view_name(identity: DataIdentity) -> str:
    """Name data with their set and split.

    Example:
        >>> view_name(DataIdentity("demo", "frames", "albedo"))
        'demo, albedo'
    """
    return ", ".join(part for part in (identity.name, identity.set_name, identity.split) if part)
