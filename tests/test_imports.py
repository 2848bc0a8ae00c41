"""Imports between packages go in one direction, and importing a package stays light."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
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
METRICS = ("concepts", "intrinsic", "causal", "coverage", "perception")
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


OWN_FILES = ("generators.py", "loaders.py", "evaluation/__init__.py", "blender_assets/__init__.py")
# Imports torch and Blender once for all tests: what is loaded is noted after each step.
IMPORT_ALL = """
import importlib.util, json, os, pkgutil, sys
from importlib import import_module

def weigh(*names):
    for name in names:
        import_module(f"candlelight.{name}")
    return sorted(NOTED & sys.modules.keys())

weights = {"packages": weigh(*PACKAGES, "cli"), "engine.dead_leaves": weigh("generators.engine.dead_leaves")}
if importlib.util.find_spec("bpy"):
    weights["blender.renderer"] = weigh("generators.blender.renderer")
weights["metrics"] = weigh(*(f"evaluation.{name}" for name in METRICS))

from candlelight.evaluation.intrinsic import lmse
from candlelight.generators import load_recipe
import candlelight, evaluation, generators, loaders
assert candlelight.open_frames is candlelight.loaders.open_frames
offered = {name: getattr(candlelight, name).__module__ for name in candlelight.__all__}
beside = [evaluation.OWN, generators.OWN, loaders.OWN, load_recipe("candle").name]

for name in PACKAGES:
    for found in pkgutil.walk_packages(import_module(f"candlelight.{name}").__path__, f"candlelight.{name}."):
        if not found.name.startswith("candlelight.generators.blender"):
            import_module(found.name)
folders = tuple(os.path.join(ROOT, name, "") for name in PACKAGES)
files = {name: os.path.realpath(getattr(m, "__file__", None) or "") for name, m in [*sys.modules.items()]}
ours = [name for name, file in files.items() if file.startswith(folders)]
twice = [name for name in ours if not name.startswith("candlelight.")]
found = {"weights": weights, "beside": beside, "offered": offered, "count": len(ours), "twice": twice}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Import all modules in a folder with a user's own modules; the checkout is on the path too."""
    folder = tmp_path_factory.mktemp("own")
    for name in OWN_FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("OWN = 1\n")
    names = f"PACKAGES, METRICS, NOTED, ROOT = {[*MAY_IMPORT]}, {METRICS}, {HEAVY | SLOW}, {str(ROOT)!r}"
    (folder / "train.py").write_text(names + IMPORT_ALL)
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # Blender prints lines too


def test_importing_the_packages_stays_light(imported):
    assert imported["weights"]["packages"] == []


def test_importing_the_metrics_imports_torch_alone(imported):
    # Blender is there from the step before.
    assert {*imported["weights"]["metrics"]} & HEAVY - {"bpy"} == {"torch"}


@pytest.mark.parametrize("module", ["engine.dead_leaves", "blender.renderer"])
def test_a_render_process_imports_nothing_of_packs_and_schedulers(imported, module):
    if module not in imported["weights"]:
        pytest.skip("renders, and the extra `render` is not installed")
    assert {*imported["weights"][module]} <= {"bpy", "jaxtyping", "numpy", "pydantic", "yaml"}


def test_packages_live_beside_a_users_modules_of_the_same_names(imported):
    assert imported["beside"] == [1, 1, 1, "candle"]


def test_no_module_is_imported_under_two_names(imported):
    assert imported["twice"] == []
    assert imported["count"] > 300


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*packages):
    return [path for package in packages or MAY_IMPORT for path in (ROOT / package).rglob("*.py")]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, at any depth; expressions hold none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


@cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in statements(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def seen_by_type_checkers_alone(path: Path) -> set[ast.AST]:
    """Return the statements below an `if` of the module."""
    return {node for one in parsed(path).body if isinstance(one, ast.If) for node in statements(one)}


def imports_of(path):
    """Yield the top-level package of every import, below `candlelight` for our own."""
    for node in import_nodes(path):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.removeprefix("candlelight.").split(".")[0] for name in names)


@pytest.mark.parametrize("package", ["loaders", "evaluation"])
def test_a_bare_import_in_the_checkout_names_the_package(package):
    done = subprocess.run(
        [sys.executable, "-c", f"import {package}"], cwd=ROOT, capture_output=True, text=True
    )
    line = f"ImportError: `{package}` is a part of candlelight: import `candlelight.{package}`"
    assert done.stderr.splitlines()[-1] == line


def test_the_package_offers_its_common_names_lazily(imported):
    assert imported["offered"].keys() == {*candlelight.__all__}
    assert all(module.startswith("candlelight.") for module in imported["offered"].values())
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
            for node in import_nodes(path)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(f"candlelight.{package}.")
            and node not in seen_by_type_checkers_alone(path)
        }
        assert found & set(folders) <= set(folders[: place + 1]), folder


def test_no_two_modules_have_one_name():
    names = Counter(path.stem for path in modules() if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_blender_is_imported_in_one_folder_only():
    users = {path.relative_to(ROOT) for path in modules() if "bpy" in imports_of(path)}
    assert users == {Path("generators/blender/__init__.py")}


def test_no_relative_imports():
    nodes = [(path, node) for path in modules() for node in import_nodes(path)]
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
