"""Imports between packages go in one direction, and importing a package stays light."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import candlelight

ROOT = Path(__file__).parents[1]
HEAVY = {"bpy", "torch", "datasets", "pandas", "matplotlib", "distributed", "sklearn"}
# Neither the packages nor `candlelight --help` load these: the help is there in a tenth of a second.
SLOW = {"h5py", "jaxtyping", "numpy", "pyarrow", "pydantic", "yaml", "candlelight.evaluation.catalogue"}
MAY_IMPORT = {
    "loaders": set(),
    "blender_assets": {"loaders"},
    "evaluation": {"loaders"},
    "generators": {"loaders", "blender_assets"},
}
PACKAGES = {*MAY_IMPORT, "cli"}
# In the order of the data flow: each folder imports from folders before it alone.
FOLDERS = {
    "generators": (
        *("language", "scenes", "planning", "layers", "engine", "blender", "reports", "user_assets"),
        "commands",
    ),
    "evaluation": (
        *("catalogue", "views", "models", "run", "report", "intrinsic", "concepts", "training"),
        *("coverage", "causal", "perception", "commands"),
    ),
}


def imported_weight(names: str) -> set[str]:
    code = f"import sys, {names}; print(*({HEAVY | SLOW!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())  # Blender prints lines too


def test_importing_the_packages_stays_light():
    names = (*MAY_IMPORT, "cli")
    assert imported_weight(", ".join(f"candlelight.{name}" for name in names)) == set()


def test_importing_the_metrics_imports_torch_alone():
    names = ("concepts", "intrinsic", "causal", "coverage", "perception")
    assert imported_weight(", ".join(f"candlelight.evaluation.{name}" for name in names)) & HEAVY == {"torch"}


@pytest.mark.parametrize("module", ["engine.dead_leaves", "blender.renderer"])
def test_a_render_process_imports_nothing_of_packs_and_schedulers(module):
    if module == "blender.renderer":
        pytest.importorskip("bpy")
    weight = imported_weight(f"candlelight.generators.{module}")
    assert weight <= {"bpy", "jaxtyping", "numpy", "pydantic", "yaml"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*packages):
    return [path for package in packages or MAY_IMPORT for path in (ROOT / package).rglob("*.py")]


def imports_of(path):
    """Yield the top-level package of every import, below `candlelight` for our own."""
    for node in ast.walk(parsed(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix("candlelight.").split(".")[0] for name in names)


OWN_FILES = ("generators.py", "loaders.py", "evaluation/__init__.py", "blender_assets/__init__.py")
READ_ALL = """
from candlelight.evaluation.intrinsic import lmse
from candlelight.generators import load_recipe
import candlelight, evaluation, generators, loaders
assert candlelight.open_frames is candlelight.loaders.open_frames
print(evaluation.OWN, generators.OWN, loaders.OWN, load_recipe("candle").name)
"""


def test_packages_live_beside_a_users_modules_of_the_same_names(tmp_path):
    for name in OWN_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("OWN = 1\n")
    (tmp_path / "train.py").write_text(READ_ALL)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1 1 1 candle\n", "")


@pytest.mark.parametrize("package", ["loaders", "evaluation"])
def test_a_bare_import_in_the_checkout_names_the_package(package):
    done = subprocess.run(
        [sys.executable, "-c", f"import {package}"], cwd=ROOT, capture_output=True, text=True
    )
    line = f"ImportError: `{package}` is a part of candlelight: import `candlelight.{package}`"
    assert done.stderr.splitlines()[-1] == line


IMPORT_ALL = """
import os, pkgutil, sys, candlelight
from importlib import import_module
for name in PACKAGES:
    for found in pkgutil.walk_packages(import_module(f"candlelight.{name}").__path__, f"candlelight.{name}."):
        if not found.name.startswith("candlelight.generators.blender"):
            import_module(found.name)
folders = tuple(os.path.join(ROOT, name, "") for name in PACKAGES)
files = {name: os.path.realpath(getattr(m, "__file__", None) or "") for name, m in [*sys.modules.items()]}
ours = [name for name, file in files.items() if file.startswith(folders)]
print([name for name in ours if not name.startswith("candlelight.")], len(ours) > 300)
"""


def test_no_module_is_imported_under_two_names():
    code = f"PACKAGES, ROOT = {[*MAY_IMPORT]}, {str(ROOT)!r}" + IMPORT_ALL
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[] True"  # Blender prints a line too


def test_the_package_offers_its_common_names_lazily():
    for name in candlelight.__all__:
        assert getattr(candlelight, name).__module__.startswith("candlelight."), name
    assert {*candlelight.__all__} <= {*dir(candlelight)}
    with pytest.raises(AttributeError, match="rendr"):
        candlelight.rendr  # noqa: B018


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_in_one_direction_only(package):
    found = {name for path in modules(package) for name in imports_of(path)}
    assert (found & PACKAGES) - {package} <= MAY_IMPORT[package]


@pytest.mark.parametrize("package", FOLDERS)
def test_folders_import_in_one_direction_only(package):
    folders, root = FOLDERS[package], ROOT / package
    assert {path.parent.name for path in root.glob("*/__init__.py")} == set(folders)
    for place, folder in enumerate(folders):
        found = {
            node.module.split(".")[2]
            for path in (root / folder).glob("*.py")
            # Imports below an `if` are those that type checkers alone see.
            for statement in parsed(path).body
            if not isinstance(statement, ast.If)
            for node in ast.walk(statement)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"candlelight.{package}.")
        }
        assert found & set(folders) <= set(folders[: place + 1]), folder


def test_no_two_modules_have_one_name():
    names = Counter(path.stem for path in modules() if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_blender_is_imported_in_one_folder_only():
    users = {path.relative_to(ROOT) for path in modules() if "bpy" in imports_of(path)}
    assert users == {Path("generators/blender/__init__.py")}


def test_no_relative_imports():
    nodes = [(path, node) for path in modules() for node in ast.walk(parsed(path))]
    imports = [(str(path), node.level) for path, node in nodes if isinstance(node, ast.ImportFrom)]
    assert len(imports) > 500
    assert [path for path, level in imports if level] == []


def test_public_classes_and_constants_have_a_name_each():
    # Of each public data set, of each section of a report, and of each group of commands.
    conventions = {"SOURCE", "READING", "NEEDS", "COMMANDS"}
    names: Counter[str] = Counter()
    for node in (node for path in modules() for node in parsed(path).body):
        marks = getattr(node, "decorator_list", [])
        if any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in marks):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names.update(target.id for target in targets if isinstance(target, ast.Name))
        names.update([node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else [])
    assert [n for n, count in names.items() if count > 1 and n[0] != "_" and n not in conventions] == []


WITHOUT_EXTRAS = """
import sys
MISSING = "bpy dask datasets distributed huggingface_hub matplotlib psutil sklearn torch".split()
sys.modules.update(dict.fromkeys(MISSING))
from click.testing import CliRunner
from candlelight.cli import main
from candlelight.loaders import FrameFolder, HDF5Frames, HubFrames

def try_helps(command, words):
    assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0, words
    for name, child in getattr(command, "commands", {}).items():
        try_helps(child, [*words, name])

try_helps(main, [])
assert CliRunner().invoke(main, ["recipes"]).exit_code == 0
for name in ("causal", "concepts", "coverage", "intrinsic", "models", "perception", "training"):
    try:
        __import__(f"candlelight.evaluation.{name}")
    except ImportError as error:
        print(error)
"""


def test_commands_and_readers_are_there_without_the_extras():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=True)
    line = 'this needs torch, not installed here; run `pip install "candlelight[evaluate]"`'
    assert done.stdout.splitlines() == [line] * 7
