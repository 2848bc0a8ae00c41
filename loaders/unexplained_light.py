"""Tell which frames show light that albedo, shading and residual do not explain."""

from candlelight.loaders.schema import Metadata

MOST_ERROR = 1e-3  # of `identity_error`; rounding stays below 1e-6, and light without an AOV is above 1e-2


def unexplained_light(metadata: Metadata) -> str:
    """Say in one line what is wrong with a frame whose light passes do not add up, and what to do.

    Args:
        metadata: metadata of a frame.

    Returns:
        "" if ``checks.identity_error`` is unknown or at most `MOST_ERROR`.
    """
    error = metadata.checks.identity_error
    if error is None or error <= MOST_ERROR:
        return ""
    scene = metadata.environment
    if scene is not None and scene.modelled:
        place = f"the scene `{scene.scene}`"
    else:
        place = f"materials ({', '.join(sorted({one.material for one in metadata.objects})) or 'none'})"
    return (
        f"{metadata.id} has light without albedo (identity_error {error:.2g}, expected at most "
        f"{MOST_ERROR:g}), from {place}; give each surface a Principled BSDF (`candlelight assets scan` "
        "names others), and render into another folder"
    )
