"""Python code as an asset: found in a folder that the user allows, and hashed with what it imports."""

import pytest

from candlelight.blender_assets import AssetLibrary
from tests.refusals import refused

LABEL = "knots.py:trefoil"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "knots.py").write_text("import curves\n")
    (tmp_path / "curves.py").write_text("")
    return tmp_path


def test_code_is_found_in_its_folder_and_hashed_with_its_imports(folder):
    library = AssetLibrary({"code": folder})
    assert library.find("code", LABEL) == folder / "knots.py"
    assert library.entry("code", LABEL) is None
    before = library.sha256("code", LABEL)
    (folder / "curves.py").write_text("turns = 3\n")
    assert library.sha256("code", LABEL) == before
    library.look_again()
    assert library.sha256("code", LABEL) != before


def test_code_without_leave_missing_or_outside_its_folder_is_refused(folder):
    with refused("`knots.py:trefoil` is Python code, which runs only if you allow it: `run_code`"):
        AssetLibrary().find("code", LABEL)
    with refused("`knot.py:trefoil`: there is no file `knot.py` in .*knots.py"):
        AssetLibrary({"code": folder}).find("code", "knot.py:trefoil")
    (folder / "below").mkdir()
    with refused("`../knots.py:trefoil` lies outside its folder"):
        AssetLibrary({"code": folder / "below"}).find("code", "../knots.py:trefoil")
