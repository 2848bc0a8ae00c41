"""Resolve the objects and the environment of a layout for one sample: materials, places and poses."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE
from candlelight.generators.language.field_types import Choice
from candlelight.generators.language.layout import Object, RandomPose, Scatter, Scene
from candlelight.generators.scenes.camera import about
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_materials import choose_material, choose_part_materials, is_absent
from candlelight.generators.scenes.plan_records import PlacedMaterial, SceneObject
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.schema import EnvironmentRecord

PLACING_ATTEMPTS = 2000  # random places tried for one object
PLACINGS = 20  # times that all objects are placed anew
MOST_OBJECTS = 255  # a mask numbers objects in one byte, 0 for no object


def place_objects(layout: Scene, inputs: LayoutInputs) -> tuple[SceneObject, ...]:
    """Resolve the objects of a layout.

    Raises:
        InputError: a type or material that does not exist, a choice without an entry for this sample, more
            objects than a mask numbers, or no room for a scattered one.
    """
    if layout.scatter is not None:
        specs, field = scatter(layout.scatter, inputs), "layout.scatter"
    else:
        specs, field = inputs.chosen(layout.objects, "layout.objects")
        _require_objects(specs, layout, inputs.library)
    _require_numbers(len(specs))
    cover, cover_field = inputs.chosen(layout.material, "layout.material")
    objects = []
    for i, spec in enumerate(specs):
        where = f"{field}.{i}"
        kind = _label(spec, inputs, where)
        wanted, wanted_field = inputs.chosen(spec.material, f"{where}.material")
        if cover is not None:
            if not is_absent(wanted, inputs):
                wanted, wanted_field = cover, cover_field
            # A cover gives materials to parts that are there, and brings back none.
            absent = {part: its for part, its in spec.parts.items() if is_absent(its, inputs)}
            spec = spec.model_copy(update={"parts": absent})
        material = choose_material(wanted, kind, i, layout.random_material, inputs, wanted_field)
        posed = vary_pose(spec, layout.random_pose, i, inputs, where)
        objects.append(_place_object(posed, kind, material, inputs, where))
    return tuple(objects)


def _label(spec: Object, inputs: LayoutInputs, field: str) -> str:
    """Return the label of an object: of an asset, or of own code."""
    if spec.type is None:
        return inputs.asset(CODE, str(spec.build), f"{field}.build")
    return inputs.asset("objects", spec.type, f"{field}.type")


def _require_numbers(count: int) -> None:
    if count > MOST_OBJECTS:
        raise InputError(
            f"layout: expected at most {MOST_OBJECTS} objects, as many as a mask can number, got {count}"
        )


def _require_objects(specs: Sequence[Object], layout: Scene, library: AssetLibrary) -> None:
    """Look up the objects of a choice; if an object is missing, name the missing objects of all entries."""
    if not isinstance(layout.objects, Choice):
        return

    def missing_types(specs: Iterable[Object]) -> list[str]:
        types = dict.fromkeys(spec.type for spec in specs if spec.type is not None)
        return [kind for kind in types if not kind.startswith("$") and not library.has("objects", kind)]

    if not missing_types(specs):
        return
    missing = missing_types(itertools.chain.from_iterable(layout.objects.among.values()))
    raise InputError(
        f"layout.objects.among: there are no objects {', '.join(f'`{kind}`' for kind in missing)}; "
        "bring each in with `candlelight assets add MESH --name LABEL --out FOLDER`, and name the folder "
        f"with {argument('assets')} objects=FOLDER"
    )


def _place_object(
    spec: Object, kind: str, material: PlacedMaterial, inputs: LayoutInputs, field: str
) -> SceneObject:
    placed = SceneObject(
        type=kind,
        numbers=inputs.arguments(spec.numbers),
        material=material,
        parts=choose_part_materials(spec.parts, kind, material, inputs, f"{field}.parts"),
        **inputs.numbers(spec, field, "size", "rotation", "tilt"),
        location=inputs.vector((*spec.location, 0.0)[:3], f"{field}.location"),
    )
    return placed if spec.anchor == "base" else _place_by_center(placed, inputs.library)


def _place_by_center(placed: SceneObject, library: AssetLibrary) -> SceneObject:
    """Move an object so that the middle of its height is where its base was."""
    height = library.facts("objects", placed.type).get("dimensions", (1.0, 1.0, 1.0))[2]
    up = turn(placed.tilt, placed.rotation)[:, 2]
    x, y, z = (placed.location - 0.5 * placed.size * height * up).round(9).tolist()
    return placed.model_copy(update={"location": (x, y, z)})


def turn(tilt: tuple[float, float], rotation: float) -> Float64[ndarray, "3 3"]:
    """Rotation matrix of an object: about x, then y, by ``tilt``, then about z, in world axes.

    Args:
        tilt: degrees about x and y.
        rotation: degrees about z.

    Returns:
        Matrix from the object's axes to the world's.

    Example:
        >>> (turn((90, 0), 90) @ (0, 0, 1)).round(6) + 0.0
        array([1., 0., 0.])
    """
    return about(2, rotation) @ about(1, tilt[1]) @ about(0, tilt[0])


def scatter(plan: Scatter, inputs: LayoutInputs) -> tuple[Object, ...]:
    """Place objects at random so that their bounding circles keep their distance.

    Each object has streams of its own, so that one more object moves no other object. If an object finds no
    room, all objects get new places, each from its next stream; types and sizes stay.

    Raises:
        InputError: an object found no room `PLACINGS` times, or there are more objects than a mask numbers.
    """
    count = inputs.whole(plan.count, "layout.scatter.count")
    _require_numbers(count)  # before the search for room, which would take long
    streams = [inputs.stream(f"scatter/{i}") for i in range(count)]
    drawn = [_scattered(plan, rng) for rng in streams]
    radii = [float(spec.size) * footprint(inputs.library, str(spec.type)) for spec in drawn]
    for placing in range(PLACINGS):
        if placing:
            streams = [inputs.stream(f"scatter/{i}/{placing}") for i in range(len(drawn))]
        places = _places(plan, radii, streams)
        if len(places) == len(drawn):
            located = zip(drawn, places, strict=True)
            return tuple(spec.model_copy(update={"location": place}) for spec, place in located)
    raise InputError(
        f"layout.scatter: no room for object {len(places) + 1} in region {list(plan.region)}; "
        "widen the region, or lower count, size or gap"
    )


def _scattered(plan: Scatter, rng: np.random.Generator) -> Object:
    """Draw the type, size and rotation of a scattered object, not yet its place."""
    kind = plan.types[int(rng.integers(len(plan.types)))]
    size = round(float(rng.uniform(*plan.size)), 6)
    return Object(type=kind, size=size, rotation=round(float(rng.uniform(0.0, 360.0)), 6))


def _places(
    plan: Scatter, radii: Sequence[float], streams: Sequence[np.random.Generator]
) -> list[tuple[float, float]]:
    """Draw a place for one circle after another, up to the first circle that finds no room."""
    x_low, x_high, y_low, y_high = plan.region
    places: list[tuple[float, float]] = []
    for radius, rng in zip(radii, streams, strict=True):
        for _ in range(PLACING_ATTEMPTS):
            x, y = round(float(rng.uniform(x_low, x_high)), 6), round(float(rng.uniform(y_low, y_high)), 6)
            others = zip(places, radii, strict=False)
            if all(math.dist((x, y), place) >= radius + r + plan.gap for place, r in others):
                places.append((x, y))
                break
        else:
            break
    return places


def footprint(library: AssetLibrary, kind: str) -> float:
    """Radius in metres of the circle about the origin of an object of size 1 that holds it, seen from above.

    An object that no manifest describes has the radius of a unit box.
    """
    facts = library.facts("objects", kind)
    if "footprint" in facts:
        return float(facts["footprint"])
    width, depth, _ = facts.get("dimensions", (1.0, 1.0, 1.0))
    return math.hypot(width, depth) / 2


def place_environment(layout: Scene, inputs: LayoutInputs) -> EnvironmentRecord | None:
    """Resolve the environment of a layout: turn and strength of its manifest, changed by the layout's.

    A .blend file counts as a modelled scene unless its manifest says that it holds a world alone.

    Raises:
        InputError: there is no such scene, the strength is negative, or a .blend file is turned or scaled.
    """
    spec = layout.environment
    if spec is None:
        return None
    label = inputs.asset("scenes", spec.scene, "layout.environment.scene")
    facts = inputs.library.facts("scenes", label)
    strength = inputs.number(spec.strength, "layout.environment.strength") * facts.get("strength", 1.0)
    if strength < 0:
        raise InputError(f"layout.environment.strength: expected at least 0, got {strength}")
    rotation = inputs.number(spec.rotation, "layout.environment.rotation") + facts.get("rotation", 0.0)
    blend = inputs.library.find("scenes", label).suffix == ".blend"
    if blend and (rotation % 360.0, strength) != (0.0, 1.0):
        raise InputError(
            f"layout.environment: `{label}` is a .blend file, which has its own place and light; expected "
            f"rotation 0 and strength 1, got {rotation} and {strength}"
        )
    modelled = blend and facts.get("modelled", True)
    return EnvironmentRecord(scene=label, rotation=rotation % 360.0, strength=strength, modelled=modelled)


def vary_pose(
    spec: Object, random_pose: RandomPose | None, i: int, inputs: LayoutInputs, field: str
) -> Object:
    """Turn and move object ``i`` by the numbered variation of the unit, the same at every call.

    Each object has a stream of its own for each variation, so that one more object moves no other object.

    Args:
        spec: the object.
        random_pose: largest turn and move; None leaves the object as it is.
        i: number of the object in the scene.
        inputs: values and streams of the sample.
        field: path of the object in the set, for messages.

    Returns:
        The object with numbers as rotation and location.

    Raises:
        InputError: the variation is no whole number, at least 0, or a number of the pose names a factor whose
            value is no number.

    Example:
        >>> inputs = LayoutInputs(0, "scene=cube", {"pose": 3})
        >>> cube, spec = Object(type="cube", rotation=25), RandomPose(variation="$pose", turn=30)
        >>> vary_pose(cube, spec, 0, inputs, "layout.objects.0").rotation
        -4.247275
    """
    if random_pose is None:
        return spec
    variation = inputs.whole(random_pose.variation, "layout.random_pose.variation")
    # The name of the stream decides the numbers: it stays.
    drawn = inputs.stream(f"pose/{variation}/{i}").uniform(-1.0, 1.0, 3)
    turned, dx, dy = (drawn * (random_pose.turn, random_pose.move, random_pose.move)).round(6).tolist()
    x, y, z = inputs.vector((*spec.location, 0.0)[:3], f"{field}.location")
    rotation = inputs.number(spec.rotation, f"{field}.rotation") + turned
    return spec.model_copy(
        update={"rotation": round(rotation, 9), "location": (round(x + dx, 9), round(y + dy, 9), z)}
    )
