"""Find textures in a folder of images, flat or in the layout of the Describable Textures Dataset."""

from pathlib import Path

from candlelight.loaders.errors import InputError

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


def find_images(folder: Path) -> dict[str, Path]:
    """List the images of a folder by label.

    Args:
        folder: a folder of images, or of one folder of images per class, or with such a folder ``images``,
            like the root of the Describable Textures Dataset. Links out of the folder are left out.

    Returns:
        Files by label, in alphabetical order of labels: ``NAME`` for NAME.jpg in the folder itself,
        ``CLASS/NAME`` for NAME.jpg in a class.

    Raises:
        InputError: two files have one label.
    """
    root = folder / "images" if (folder / "images").is_dir() else folder
    inside = root.resolve()
    found: dict[str, Path] = {}
    for path in sorted([*root.glob("[!.]*"), *root.glob("[!.]*/[!.]*")]):
        if path.suffix.lower() not in _IMAGE_SUFFIXES or not path.is_file():
            continue
        if not path.resolve().is_relative_to(inside):
            continue
        label = path.relative_to(root).with_suffix("").as_posix()
        if label in found:
            raise InputError(
                f"assets.textures: `{found[label].name}` and `{path.name}` in {path.parent} have one label; "
                "rename or remove one"
            )
        found[label] = path
    return dict(sorted(found.items()))
