"""Turn and move the objects of a layout at random, for sets in which only the poses change."""

from candlelight.generators.language.layout import ObjectSpec, RandomPose
from candlelight.generators.scenes.layout_inputs import LayoutInputs


def vary_pose(
    spec: ObjectSpec, random_pose: RandomPose | None, i: int, inputs: LayoutInputs, field: str
) -> ObjectSpec:
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
        >>> cube, spec = ObjectSpec(type="cube", rotation=25), RandomPose(variation="$pose", turn=30)
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
