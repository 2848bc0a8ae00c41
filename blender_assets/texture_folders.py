"""Images as textures: a folder in the layout of the Describable Textures Dataset, or a flat one."""

from pathlib import Path

from loaders.errors import InputError

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


def find_images(folder: Path) -> dict[str, Path]:
    """List the images of a folder by label.

    Args:
        folder: holds images, or one folder of them per class; or ``images``, which does, as the root of the
            Describable Textures Dataset. Files that lie elsewhere and are only linked to are left out.

    Returns:
        Label to file, in alphabetical order: ``NAME`` of NAME.jpg beside others, ``CLASS/NAME`` in a class.

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
