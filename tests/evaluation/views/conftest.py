"""Open tiny copies of all public data sets that views read."""

import pytest

from candlelight.evaluation.views import open_data
from candlelight.loaders.public import grid_images
from tests.loaders.conftest import frames_copy, frames_root, info, make_frame  # noqa: F401
from tests.loaders.public.conftest import own_copy, public_folder  # noqa: F401
from tests.loaders.public.copies import MPI3D_SIZES

# Options that a layout with several splits or sets needs.
NEEDED = {
    "mit": {"split": "all"},
    "arap": {"split": "all"},
    "hypersim": {"split": "test"},
    "sintel": {"split": "all"},
    "interiorverse": {"split": "test"},
    "stanford-orb": {"split": "all"},
    "midintrinsics": {"split": "all"},
    "iiw": {"split": "all"},
    "saw": {"split": "test"},
    "multi-illumination": {"split": "all"},
    "cub70": {"split": "annotated"},
    "celebamask": {"split": "all"},
    "mpi3d": {"set_name": "toy"},
}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """Unpack to a folder of the tests, and reduce the grid of MPI3D."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        early = {
            name: values[:n]
            for (name, values), n in zip(grid_images._EARLY.items(), MPI3D_SIZES, strict=True)
        }
        patch.setattr(grid_images, "_EARLY", early)
        yield


@pytest.fixture(scope="session")
def open_copy(public_folder):  # noqa: F811
    """Return a function that opens a copy of a public data set by its text, with the needed options."""

    def open_as(kind, layout, **options):
        return open_data(kind, f"{layout}:{public_folder(layout)}", **{**NEEDED.get(layout, {}), **options})

    return open_as
