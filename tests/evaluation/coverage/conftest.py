"""Birds and faces in the layout of the archives of CUB-70 and CelebAMask-HQ."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray
from PIL import Image


def _save(path: Path, pixels: ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **({"quality": 100} if path.suffix == ".jpg" else {}))


@pytest.fixture(scope="session")
def band() -> Callable[..., ndarray]:
    """Draw a mask of some rows."""

    def make(height: int, width: int, rows: tuple[int, int]) -> ndarray:
        mask = np.zeros((height, width), np.uint8)
        mask[slice(*rows)] = 255
        return mask

    return make


@pytest.fixture
def write_faces(tmp_path, band) -> Callable[..., Path]:
    """Write square photographs by number, with their numbers in CelebA, and masks of rows of half their size.

    A part that ``lacks`` lists for a number has no mask there.
    """

    def write(
        photographs: Mapping[int, tuple[int, ndarray]],
        parts: Mapping[str, tuple[int, int]],
        lacks: Mapping[int, Sequence[str]] | None = None,
    ) -> Path:
        root, lines = tmp_path / "CelebAMask-HQ", ["idx orig_idx orig_file"]
        for number, (origin, pixels) in photographs.items():
            _save(root / "CelebA-HQ-img" / f"{number}.jpg", pixels)
            for part in set(parts) - set((lacks or {}).get(number, ())):
                mask = band(len(pixels) // 2, len(pixels) // 2, parts[part])
                path = root / "CelebAMask-HQ-mask-anno" / "0" / f"{number:05d}_{part}.png"
                _save(path, np.repeat(mask[..., None], 3, axis=2))
            lines.append(f"{number}  {origin}  {origin:06d}.jpg")
        (root / "CelebA-HQ-to-CelebA-mapping.txt").write_text("\n".join([*lines, ""]))
        return root

    return write


@pytest.fixture
def write_birds(tmp_path) -> Callable[..., Path]:
    """Write birds: number of the species, whether it is a training image, pixels, masks by part."""

    def write(
        species: Sequence[str], birds: Mapping[str, tuple[int, bool, ndarray, Mapping[str, ndarray]]]
    ) -> Path:
        root, lists = tmp_path / "birds", {}
        cub = root / "CUB_200_2011"
        for number, (stem, (label, train, pixels, masks)) in enumerate(birds.items(), 1):
            _save(cub / "images" / species[label] / f"{stem}.jpg", pixels)
            for part, mask in masks.items():
                _save(root / "AnnotationMasksPerclass" / str(label + 1) / f"{stem}_{part}.png", mask)
            for name, value in {
                "images.txt": f"{species[label]}/{stem}.jpg",
                "image_class_labels.txt": label + 1,
                "train_test_split.txt": int(train),
                "bounding_boxes.txt": "1.0 1.0 9.0 9.0",
            }.items():
                lists.setdefault(name, []).append(f"{number} {value}")
        lists["classes.txt"] = [f"{number} {name}" for number, name in enumerate(species, 1)]
        lists |= {"parts/parts.txt": ["1 back"], "parts/part_locs.txt": ["1 1 0.0 0.0 0"]}
        for name, lines in lists.items():
            (cub / name).parent.mkdir(exist_ok=True)
            (cub / name).write_text("\n".join([*lines, ""]))
        return root

    return write
