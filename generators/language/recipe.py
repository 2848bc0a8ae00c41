"""Recipes, as a pydantic model: image sets, and the fields that they share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError, model_validator

from candlelight.blender_assets import ASSET_SUFFIXES
from candlelight.generators.language.dead_leaves_fields import DEAD_LEAVES_LAYERS
from candlelight.generators.language.factors import Categorical, Change, Name
from candlelight.generators.language.field_types import LayerNames, PlainType, described
from candlelight.generators.language.image_set import ImageSet, ImageSize, RenderSettings
from candlelight.loaders.errors import InputError, did_you_mean, within
from candlelight.loaders.schema import LIGHT_PREFIX, AssetKind, Record, Statements, layer

ALL_LIGHTS = "light/*"
ALL_LAYERS = ("all",)
DATA_SET_PATTERN = r"^[a-z][a-z0-9-]*$"
DEFAULT_LAYERS = ("image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object")


def _utf8(folder: Path) -> Path:
    """Refuse a folder that JSON cannot name: render processes get the recipe as JSON."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ValueError("expected a folder whose path is UTF-8; rename the folder") from None
    return folder


class Recipe(Record):
    """A recipe: image sets, and the fields that they share."""

    name: str = described(
        ..., "Name of the data set: lower-case letters, digits and hyphens.", "mine", pattern=DATA_SET_PATTERN
    )
    description: str = described("", "A description for the data set's card.", "Cubes and cones.")
    licence: str = described(
        "", "Licence of the data set, as an SPDX identifier; `push` needs one.", "CC-BY-4.0"
    )
    statements: Statements = described(
        Statements(), "Statements on responsible use, for the card.", {"limitations": "Rendered scenes only."}
    )
    seed: int = described(0, "Seed of all random numbers.", 7, ge=0)
    image: ImageSize = described(ImageSize(), "Size of the images.", {"width": 64, "height": 48})
    render: RenderSettings = described(
        RenderSettings.model_validate({}), "Quality of rendering.", {"preset": "draft"}
    )
    layers: LayerNames = described(
        DEFAULT_LAYERS,
        f"Layers to store, `image` among them; `{ALL_LIGHTS}` is one for each light, and `all` all that "
        "each set can have.",
        ["image", "depth"],
    )
    exposure: float = described(
        0.3, "Factor from scene radiance to image, the same for every sample.", 0.5, gt=0
    )
    assets: Annotated[
        dict[AssetKind, Annotated[Path, AfterValidator(_utf8)]],
        PlainType(f"mapping from {', '.join(ASSET_SUFFIXES)} to path"),
    ] = described(
        {},
        "Your own folders of assets by kind, relative to this file; searched before the shipped ones.",
        {"objects": "meshes"},
    )
    do: dict[str, Change] = described({}, "Interventions in every set that has the factor.", {"color": "red"})
    sets: dict[Name, ImageSet] = described(
        ...,
        "Image sets by name.",
        {
            "train": {
                "factors": {"color": {"values": ["red", "blue"]}},
                "layout": {
                    "objects": [{"type": "cube", "material": "$color"}],
                    "camera": {"location": [0, 5, 3], "look_at": [0, 0, 0]},
                },
            }
        },
        min_length=1,
    )

    def __init__(self, **fields: Any) -> None:
        """Check the fields of a recipe; `load_recipe` reads a file or a mapping.

        Raises:
            InputError: a field is wrong; the message names the first one.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            from candlelight.generators.language.load_recipe import first_error

            raise InputError(first_error(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _one_set(cls, data: Any) -> Any:
        return with_sets(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_layers(self) -> "Recipe":
        for name, image_set in self.sets.items():
            with within(f"sets.{name}.layers"):
                _check_names(image_set.layers or self.layers, image_set)
        return self

    @model_validator(mode="after")
    def _check_sets(self) -> "Recipe":
        for name, kinds in self._kinds().items():
            if len(kinds) > 1:
                raise ValueError(f"`{name}`: expected names in every set or numbers in every set, got both")
        known = {name for image_set in self.sets.values() for name in image_set.mechanisms()}
        for name in sorted(self.do.keys() - known):
            raise ValueError(f"do: `{name}` is no factor or variable of any set{did_you_mean(name, known)}")
        self._check_counterfactuals()
        # Sets that name their units in different ways would share none, without a message.
        sharing = {name: one for name, one in self.sets.items() if one.shares_units}
        if len({(one.unit_factors, one.draws > 1) for one in sharing.values()}) > 1:
            names = ", ".join(sharing)
            raise ValueError(
                f"shares_units: expected one `unit_factors`, and `draws` in all or none, of {names}"
            )
        return self

    def _check_counterfactuals(self) -> None:
        for name, image_set in self.sets.items():
            asked = image_set.counterfactual
            if asked is None:
                continue
            above = list(self.sets)[: list(self.sets).index(name)]
            base = self.sets[asked.of] if asked.of in above else None
            if base is None or base.counterfactual is not None:
                plain = ", ".join(n for n in above if self.sets[n].counterfactual is None) or "none"
                raise ValueError(
                    f"sets.{name}.counterfactual.of: expected a set above ({plain}), got `{asked.of}`"
                )
            if image_set.model_copy(update={"counterfactual": None}) != base:
                raise ValueError(
                    f"sets.{name}: a set with `counterfactual` has the fields of `{asked.of}`; "
                    "expected no other field"
                )
            changed = {factor for change in asked.do or () for factor in change}
            fields = {"do": changed, "targets.of": asked.targets.of.keys() if asked.targets else set()}
            for field, names in fields.items():
                for factor in sorted(names - base.mechanisms().keys()):
                    raise ValueError(
                        f"sets.{name}.counterfactual.{field}: `{factor}` is no factor or variable of "
                        f"`{asked.of}`"
                    )

    def _kinds(self) -> dict[str, set[str]]:
        """Return the kinds of each factor and variable: a plan has one column of one kind for all sets."""
        kinds: dict[str, set[str]] = {}
        for image_set in self.sets.values():
            for name, factor in image_set.mechanisms().items():
                named = isinstance(factor, Categorical) and factor.has_names()
                kinds.setdefault(name, set()).add("name" if named else "number")
        return kinds


def with_sets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a recipe with ``sets``: fields of a single set may stand beside ``name``.

    The set has the name of the recipe, with ``_`` for a hyphen.

    Example:
        >>> with_sets({"name": "my-knots", "draws": 9})
        {'name': 'my-knots', 'sets': {'my_knots': {'draws': 9}}}
    """
    own = {field: value for field, value in data.items() if is_set_field(field)}
    if "sets" in data or not own:
        return dict(data)
    rest = {field: value for field, value in data.items() if field not in own}
    return {**rest, "sets": {str(data.get("name")).replace("-", "_"): own}}


def is_set_field(field: str) -> bool:
    """Tell whether a field belongs to an image set and not to the whole recipe."""
    return field in {"extends", *ImageSet.model_fields} - Recipe.model_fields.keys()


def _check_names(layers: tuple[str, ...], image_set: ImageSet) -> None:
    if layers == ALL_LAYERS:
        return
    if "image" not in layers or len(set(layers)) != len(layers):
        raise InputError(f"expected distinct names, `image` among them, got {list(layers)}")
    for name in layers:
        layer(name)
        if name.startswith(LIGHT_PREFIX) and name != ALL_LIGHTS:
            raise InputError(f"expected `{ALL_LIGHTS}`, one layer for each light, got `{name}`")
    if not image_set.traced and (other := set(layers) - set(DEAD_LEAVES_LAYERS)):
        raise InputError(
            f"dead leaves have {', '.join(DEAD_LEAVES_LAYERS)}, got {', '.join(sorted(other))} as well"
        )
    if ALL_LIGHTS in layers and image_set.scene is not None and not image_set.scene.lights:
        raise InputError(
            "light layers need the same lights in every sample; name them in `scene: {code: ..., lights: "
            "[...]}`, or leave `light/*` out"
        )
    if ALL_LIGHTS in layers and image_set.layout is not None and image_set.layout.has_catcher:
        raise InputError(
            "light layers are black on a shadow catcher; use a plain floor or leave `light/*` out"
        )
