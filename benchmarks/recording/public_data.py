"""Write small public data sets in their layouts on disk, pictures, and stand-ins for methods of others.

The makers are those of the tests; a name of `MAKERS` is that of a folder of the data.
"""

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

TESTS = Path(__file__).resolve().parents[2] / "tests"
HEIGHT, WIDTH = 40, 60  # pixels of the layouts of `layout`
_ANSWERS = {  # of people: levels, threshold, slope, and answers at each level
    None: ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 0.35, 20, 40),
    "translation x": ([0.05, 0.1, 0.15, 0.2, 0.25, 0.3], 0.16, 60, 20),
    "translation y": ([0.05, 0.1, 0.15, 0.2, 0.25, 0.3], 0.18, 60, 20),
    "rotation": ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, 2, 20),
    "scale": ([1.01, 1.02, 1.03, 1.04], 1.2, 1, 40),
}


def module_of(path: str) -> ModuleType:
    """Import a file of the tests."""
    spec = spec_from_file_location(Path(path).stem, TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layout(name: str) -> Callable[[Path], None]:
    """Return the maker of noise in a public layout."""

    def make(path: Path) -> None:
        module = module_of("evaluation/views/conftest.py")
        vars(module).update(HEIGHT=HEIGHT, WIDTH=WIDTH)
        module.WRITERS[name](path)

    return make


def of_tests(file: str, function: str, **values: object) -> Callable[[Path], None]:
    """Return a maker that fills a folder by a function of a file of the tests, with other values in it."""

    def make(path: Path) -> None:
        path.mkdir()
        module = module_of(file)
        vars(module).update(values)
        getattr(module, function)(path)

    return make


def write_patches(root: Path) -> None:
    """Write folders of pictures, and a table of the groups of those in two folders."""
    module = module_of("evaluation/commands/test_tcav_command.py")
    root.mkdir()
    module.write_pictures(root)
    module.write_groups(root / "groups.csv", {"red": [row % 5 for row in range(20)], "gray": range(22)})


def write_mpi3d(root: Path) -> None:
    """Write the whole grid with 4 x 4 pixels, whose colours follow the factors."""
    from candlelight.loaders.public import grid_images

    sizes = [len(values) for values in grid_images._WHOLE.values()]
    images = np.zeros((*sizes, 4, 4, 3), np.uint8)
    for axis, size in enumerate(sizes):
        shape = [1] * axis + [size] + [1] * (len(sizes) - axis - 1)
        ramp = (np.arange(size) * (200 // size)).astype(np.uint8).reshape(shape)
        images[..., axis // 3 % 4, axis % 4, axis % 3] += ramp
    root.mkdir()
    np.savez(root / "mpi3d_toy.npz", images=images.reshape(-1, 4, 4, 3))


def write_tid2013(root: Path) -> None:
    scores = [9 - 0.3 * (place % 5) - 0.2 * (place // 5 % 24) for place in range(240)]
    module_of("evaluation/perception/experiment/conftest.py").write_pairs(root, scores, 24, 32)


def write_answers(root: Path) -> None:
    """Write logs of answers: of rated pairs, and of transforms."""
    write = module_of("evaluation/commands/test_perception_command.py").write_answers
    root.mkdir()
    for transform, (levels, threshold, slope, repeats) in _ANSWERS.items():
        log = root / ("turned.jsonl" if transform else "rated.jsonl")
        write(log, transform, levels, threshold, slope, repeats)


def write_adapters(root: Path) -> None:
    """Write checkouts and weights of published methods, which are stand-ins."""
    module = module_of("evaluation/adapters/conftest.py")
    for method, files in module.FILES.items():
        module.write(root / method, files)
        torch.save(module.STATES[method](), root / f"{method}.pth")
    marigold = module_of("evaluation/adapters/test_marigold.py")
    marigold.save(root / "marigold", marigold.LIGHTING)


def write_lpips(root: Path) -> None:
    from candlelight.evaluation.intrinsic.lpips import FEATURE_STACKS

    root.mkdir()
    backbone, heads, _ = module_of("evaluation/perception/test_lpips.py").made_files(root, "squeeze")
    backbone.rename(root / FEATURE_STACKS["squeeze"].file)
    heads.rename(root / "squeeze.pth")


def write_vision(root: Path) -> None:
    """Write classifiers of transformers with random weights."""
    import transformers

    module = module_of("evaluation/models/test_vision.py")
    root.mkdir()
    module.save(root / "resnet", transformers.ResNetForImageClassification(module.resnet_config()))
    module.save(root / "vit", transformers.ViTForImageClassification(module.vit_config()))


def write_own(root: Path) -> None:
    """Write the networks, distances and targets of the tests as files of Python."""
    root.mkdir()
    for name, file in {
        "networks": "conftest",
        "tcav": "test_tcav_command",
        "split": "test_csm_command",
        "distances": "test_perception_command",
    }.items():
        (root / f"{name}.py").write_text(module_of(f"evaluation/commands/{file}.py").CODE, encoding="utf-8")


MAKERS: dict[str, Callable[[Path], None]] = {
    **{
        name: layout(name) for name in ("iiw", "saw", "maw", "hypersim", "celebamask", "dsprites", "shapes3d")
    },
    "mit": of_tests("evaluation/commands/test_intrinsic_command.py", "write_objects"),
    "table3": of_tests("evaluation/commands/test_csm_command.py", "write_table3", SIZE=(24, 32)),
    "birds": of_tests("evaluation/commands/conftest.py", "write_birds"),
    "drawn": of_tests("evaluation/commands/test_causal_table_command.py", "write_candle"),
    "patches": write_patches,
    "ramps": of_tests("evaluation/commands/test_perception_command.py", "write_ramps"),
    "raid": of_tests("evaluation/test_pages.py", "write_raid"),
    "photographs": of_tests("evaluation/test_pages.py", "write_photographs"),
    "mpi3d": write_mpi3d,
    "tid2013": write_tid2013,
    "answers": write_answers,
    "adapters": write_adapters,
    "lpips": write_lpips,
    "vision": write_vision,
    "own": write_own,
}
