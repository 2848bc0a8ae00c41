import pytest

from candlelight.loaders.files.python_files import code_sha256, local_files
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    files = {
        "knots.py": "import math\nimport numpy as np\nfrom curves import helix\nimport shapes.torus\n",
        "curves.py": "def helix():\n    from shapes import wave\n    return wave\n",
        "shapes/__init__.py": "",
        "shapes/torus.py": "from . import round\nfrom .round import ring\n",
        "shapes/round.py": "ring = 1\n",
        "shapes/wave.py": "import knots\n",
        "math.txt": "",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_by_a_name_in_quotes_are_local_files_too(tmp_path):
    (tmp_path / "own.py").write_text(
        "import importlib\nimportlib.import_module('net.parts')\n__import__('x' + 'y')\n"
    )
    (tmp_path / "net").mkdir()
    for name in ("net/__init__.py", "net/parts.py", "xy.py"):
        (tmp_path / name).write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in local_files(tmp_path / "own.py")]
    assert found == ["net/__init__.py", "net/parts.py", "own.py"]


def test_a_file_is_listed_with_every_local_file_that_it_imports(folder):
    found = [path.relative_to(folder).as_posix() for path in local_files(folder / "knots.py")]
    assert found == [
        *("curves.py", "knots.py", "shapes/__init__.py", "shapes/round.py", "shapes/torus.py"),
        "shapes/wave.py",
    ]


@pytest.mark.parametrize(("name", "changes"), [("shapes/round.py", True), ("other.py", False)])
def test_the_hash_changes_with_imported_files_alone(folder, name, changes):
    before = code_sha256(folder / "knots.py")
    (folder / name).write_text("ring = 2\n")
    assert (code_sha256(folder / "knots.py") != before) is changes


@pytest.mark.parametrize(("text", "message"), [("def", "expected Python: inv"), ("a\0", "expected Python")])
def test_files_that_are_no_python_are_refused(tmp_path, text, message):
    (tmp_path / "mine.py").write_text(text)
    with refused(f"mine.py: {message}"):
        code_sha256(tmp_path / "mine.py")
