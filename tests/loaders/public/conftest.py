import shutil

import pytest

from tests.loaders.public.copies import WRITERS


@pytest.fixture(scope="session")
def public_folder(tmp_path_factory):
    """Return a function that writes a copy of a public data set at its first use, and returns its folder."""
    root, written = tmp_path_factory.mktemp("public"), set()

    def folder(name):
        if name not in written:
            (root / name).mkdir(exist_ok=True)
            WRITERS[name](root / name)  # skips each test where OpenEXR is missing
            written.add(name)
        return root / name

    return folder


@pytest.fixture
def own_copy(public_folder, tmp_path):
    """Return a function that copies the copy of a data set, for a test that damages or extends it."""
    return lambda name: shutil.copytree(public_folder(name), tmp_path / name, dirs_exist_ok=True)


@pytest.fixture
def replaced(public_folder, tmp_path_factory):
    """Return a function that replaces or removes a file of a copy for the test, and returns the folder."""
    aside, before = tmp_path_factory.mktemp("whole"), {}

    def replace(name, file, content):
        path = public_folder(name) / file
        if path not in before:
            before[path] = path.exists()
            if before[path]:
                path.rename(aside / str(len(before)))
        if content is not None:
            path.write_bytes(content)
        return public_folder(name)

    yield replace
    for number, (path, existed) in enumerate(before.items(), 1):
        path.unlink(missing_ok=True)
        if existed:
            (aside / str(number)).rename(path)
