"""Every requirement that a worker may not meet."""

import hashlib
from dataclasses import replace
from importlib.util import find_spec

import pytest

from candlelight.generators.engine import worker_checks
from candlelight.generators.engine.devices import Device, DeviceRequest
from candlelight.generators.engine.render_process import RunSettings
from candlelight.generators.engine.worker_checks import find_unmet_requirement, worker_requirements
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import AssetRecord

pytestmark = pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is one of the requirements")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(worker_checks, "find_devices", lambda: [Device("CPU", "EPYC")])


@pytest.fixture
def settings(tmp_path, tiny):
    for name in ("out", "materials"):
        (tmp_path / name).mkdir()
    (tmp_path / "materials" / "pink.blend").write_bytes(b"pink")
    recipe = load_recipe(tiny, assets={"materials": tmp_path / "materials"})
    return RunSettings(tmp_path / "out", recipe)


@pytest.fixture
def requirements(settings):
    pink = AssetRecord(kind="materials", label="pink", sha256=hashlib.sha256(b"pink").hexdigest())
    with worker_requirements(settings, (pink,)) as requirements:
        yield requirements


def test_this_process_meets_its_own_requirements_and_leaves_no_file(settings):
    with worker_requirements(settings, ()) as requirements:
        assert find_unmet_requirement(requirements) == ""
        assert [path.name for path in settings.root.iterdir()] == [requirements.probe[0].name]
    assert list(settings.root.iterdir()) == []


def test_dead_leaves_do_not_require_blender(settings, requirements):
    blender = {"bpy", "pyoidn", "OpenEXR"}
    assert {"candlelight", "distributed", *blender} <= requirements.versions.keys()
    with worker_requirements(replace(settings, recipe=load_recipe("dead-leaves")), ()) as painted:
        assert {"candlelight", "distributed"} <= painted.versions.keys()
        assert not blender & painted.versions.keys()


def test_versions(requirements):
    def unmet(**versions):
        return find_unmet_requirement(replace(requirements, versions=versions))

    assert find_unmet_requirement(replace(requirements, python="3.1")).endswith(
        ", the submitting side has 3.1"
    )
    assert unmet(numpy="0.1").endswith("the submitting side has 0.1")
    assert unmet(nothing_of_that_name="1") == "it has no nothing_of_that_name"
    # The submitting side, such as a login node, may lack packages of the render process.
    assert unmet(numpy=None) == ""


def test_another_commit_is_refused_where_both_sides_know_theirs(monkeypatch, requirements):
    def unmet(own, required):
        monkeypatch.setattr(worker_checks, "code_version", lambda: own)
        return find_unmet_requirement(replace(requirements, versions={"candlelight": required}))

    assert unmet("1.0.dev3+gabc", "1.0.dev3+gabc") == unmet("1.0.dev3+gabc", "1.0") == ""
    assert unmet("1.0", "1.1.dev3+gabc") == "it has candlelight 1.0, the submitting side has 1.1.dev3+gabc"
    assert unmet("1.0.dev3+gabc", "1.0.dev3+gdef").endswith("the submitting side has 1.0.dev3+gdef")


def test_assets_must_be_those_of_the_plan(tmp_path, requirements):
    (tmp_path / "materials" / "pink.blend").write_bytes(b"sham")  # same length, other content
    assert find_unmet_requirement(requirements).startswith(
        "the plan was made with another `pink` of materials"
    )
    elsewhere = replace(requirements, folders={"materials": tmp_path / "nowhere"})
    assert find_unmet_requirement(elsewhere).startswith("assets.materials: folder `")


def test_the_output_folder_must_be_the_same(tmp_path, settings, requirements):
    probe, text = requirements.probe
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / probe.name
    unmet = find_unmet_requirement(replace(requirements, probe=(other, text)))
    assert unmet.startswith(f"it does not see the submitting side's output folder {other.parent}")
    other.write_text("something else")
    assert "is not the folder of the submitting side" in find_unmet_requirement(
        replace(requirements, probe=(other, text))
    )


def test_the_output_folder_must_be_writable(monkeypatch, settings, requirements):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(worker_checks.Path, "write_text", refuse)
    unmet = find_unmet_requirement(requirements)
    assert unmet == f"it cannot write to the output folder {settings.root}: Permission denied"


def test_the_device_must_exist(settings):
    with worker_requirements(replace(settings, device=DeviceRequest("cuda")), ()) as requirements:
        assert find_unmet_requirement(requirements).startswith("`device` cuda: expected a GPU of that kind")


def test_blender_must_start_on_the_host(monkeypatch, requirements):
    def refuse():
        raise InputError("devices: Blender ended with status 1 listing them (libGL.so.1)")

    monkeypatch.setattr(worker_checks, "find_devices", refuse)
    assert "libGL" in find_unmet_requirement(replace(requirements, versions={"bpy": None}))
    assert find_unmet_requirement(replace(requirements, versions={})) == ""
