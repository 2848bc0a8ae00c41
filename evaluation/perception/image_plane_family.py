"""The moves of a camera or of lights as transforms of the reference image, at the same magnitudes."""

from candlelight.evaluation.perception.mirror_resampling import ResamplingKernel
from candlelight.evaluation.perception.transform_families import TransformFamily
from candlelight.loaders.illuminants import EQUAL_ENERGY
from candlelight.loaders.views import MovedImages


def image_plane_family(frames: MovedImages, kernel: ResamplingKernel = "cubic") -> TransformFamily:
    """Give the transform of the reference image that repeats the moves of frames, at their magnitudes.

    As the families of `measure_distances`, it gives the curves of image-plane transforms beside those of the
    frames, for the same references. Where they differ, the frames show what no transform of an image can: the
    scene beyond the border, parallax, detail that was not resolved, and noise that does not move. The
    counterpart of "parallax x" is "translation x" by the same angle, as an image has no depth.

    Args:
        frames: from `candlelight.loaders.views.open_moved_images`.
        kernel: see `rotate_images`.

    Raises:
        InputError: the frames have no camera, and so no pixels per degree.

    Example:
        >>> import torch
        >>> image, magnitudes = torch.rand(3, 4, 6), torch.tensor([0.0, 0.5]).double()
        >>> moved = torch.zeros(2, 3, 4, 6)
        >>> frames = MovedImages(image, moved, "parallax x", "degrees", magnitudes, magnitudes, 29.2)
        >>> family = image_plane_family(frames)
        >>> family.name, family.magnitudes
        ('translation x', (0.0, 0.5))
    """
    magnitudes = tuple(frames.magnitudes.tolist())
    name = "translation x" if frames.transform == "parallax x" else frames.transform
    return TransformFamily(name, magnitudes, frames.pixels_per_degree, kernel, white=EQUAL_ENERGY)
