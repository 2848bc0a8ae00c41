"""``scripts/setup`` finds the Python to use; stand-ins take the place of Pythons, uv and the download."""

import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "scripts" / "setup"
# Everything but the choice of the Python is left out.
MAIN = """
source "$SETUP"
missing_packages() { :; }
require_packages() { :; }
environment() { echo "$2"; }
main_environment
"""
# A Python of some version: `python -c CODE VERSION`, and `python -m pip install ... --target FOLDER uv`.
PYTHON = """#!/bin/sh
if [ "$2" = pip ]; then
    for last; do [ "$before" != --target ] || target=$last; before=$last; done
    mkdir -p "$target/bin" && cp "$UV_TO_INSTALL" "$target/bin/uv"
else
    [ "$3" = VERSION ] && echo "$0"
fi
"""
UV = """#!/bin/sh
[ "$*" = "python install 3.13" ] || exit 2
python="$UV_PYTHON_INSTALL_DIR/cpython-3.13.9-linux/bin/python3"
mkdir -p "${python%/*}" && cp "$PYTHON_TO_DOWNLOAD" "$python"
"""
NO_UV = "#!/bin/sh\necho 'error: no network' >&2; exit 1\n"


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def setup(tmp_path):
    """Return a function that runs the set-up on a machine with the given programs."""

    def run(programs, uv_to_install=UV):
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("bash", "sh", "cat", "cp", "mkdir", "realpath", "dirname"):
            (tools / name).symlink_to(shutil.which(name) or name)
        for name, text in programs.items():
            write(tools / name, text)
        variables = {
            **{"PATH": str(tools), "HOME": str(tmp_path), "SETUP": str(SETUP)},
            **{"CANDLELIGHT_VENV": str(tmp_path / "env"), "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv")},
            "UV_TO_INSTALL": str(write(tmp_path / "uv-to-install", uv_to_install)),
            "PYTHON_TO_DOWNLOAD": str(write(tmp_path / "downloaded", PYTHON.replace("VERSION", "3.13"))),
        }
        return subprocess.run(["bash", "-c", MAIN], env=variables, capture_output=True, text=True)

    return run


def python(version):
    return PYTHON.replace("VERSION", version)


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [(("3.11", "3.13"), "python3.13"), (("3.13",), "python3.13"), (("3.11", "3.12"), "python3.11")],
)
def test_the_newest_python_with_a_blender_is_chosen(setup, versions, chosen):
    done = setup({f"python{version}": python(version) for version in versions})
    assert (done.returncode, Path(done.stdout.strip()).name, done.stderr) == (0, chosen, "")


@pytest.mark.parametrize("programs", [{"uv": UV}, {"python3": python("3.12")}], ids=["uv", "pip"])
def test_python_is_downloaded_where_neither_is_there(setup, tmp_path, programs):
    done = setup(programs)
    assert done.stdout.strip() == str(tmp_path / "uv/cpython-3.13.9-linux/bin/python3")
    assert "downloading Python 3.13 with uv (about 30 MB)" in done.stderr


@pytest.mark.parametrize(
    "programs", [{"uv": NO_UV}, {"python3": python("3.12")}, {}], ids=["uv", "pip", "none"]
)
def test_a_failed_download_ends_with_two_ways_to_go_on(setup, programs):
    done = setup(programs, uv_to_install=NO_UV)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert "install Python 3.13 or 3.11 yourself" in last
    assert "or run this again with a network and `uv` or `pip`" in last
