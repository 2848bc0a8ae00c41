"""Every way in which a worker may fall short."""

import hashlib
from dataclasses import replace
from importlib.util import find_spec

import pytest

import generators.engine.worker_checks
from generators.engine.devices import Device, DeviceRequest
from generators.engine.render_process import RunSettings
from generators.engine.worker_checks import find_unmet_requirement, worker_requirements
from generators.language.load_recipe import load_recipe
from loaders.errors import InputError
from loaders.schema import AssetRecord

pytestmark = pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is one of the things to have")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(generators.engine.worker_checks, "find_devices", lambda: [Device("CPU", "EPYC")])


@pytest.fixture
def job(tmp_path, tiny):
    for name in ("out", "materials"):
        (tmp_path / name).mkdir()
    (tmp_path / "materials" / "pink.blend").write_bytes(b"pink")
    recipe = load_recipe(tiny, assets={"materials": tmp_path / "materials"})
    return RunSettings(tmp_path / "out", recipe)


@pytest.fixture
def standard(job):
    pink = AssetRecord(kind="materials", label="pink", sha256=hashlib.sha256(b"pink").hexdigest())
    with worker_requirements(job, (pink,)) as standard:
        yield standard


def test_who_has_everything_is_fit_and_leaves_nothing(job, standard):
    assert find_unmet_requirement(standard) == ""
    assert [path.name for path in job.root.iterdir()] == [standard.probe[0].name]


def test_the_probe_goes_in_the_end(job):
    with worker_requirements(job, ()):
        assert len(list(job.root.iterdir())) == 1
    assert list(job.root.iterdir()) == []


def test_where_samples_go_to_a_url_no_folder_is_shared(job):
    with worker_requirements(replace(job, store="memory://frames"), ()) as standard:
        assert standard.probe is None
        assert find_unmet_requirement(standard) == ""


def test_painting_needs_no_blender(job):
    with worker_requirements(
        RunSettings(job.root, load_recipe("negatives", ["sets.negatives.draws=1"])), ()
    ) as standard:
        assert {"candlelight", "distributed"} <= standard.versions.keys()
    with worker_requirements(job, ()) as traced:
        assert {"bpy", "pyoidn", "OpenEXR"} <= traced.versions.keys()


def test_versions(standard):
    def told(**versions):
        return find_unmet_requirement(replace(standard, versions=versions))

    assert find_unmet_requirement(replace(standard, python="3.1")).endswith(", the submitting side has 3.1")
    assert told(numpy="0.1").endswith("the submitting side has 0.1")
    assert told(nothing_of_that_name="1") == "it has no nothing_of_that_name"
    # A login node need not have what only children need.
    assert told(numpy=None) == ""


def test_assets_are_those_of_the_plan(tmp_path, standard):
    (tmp_path / "materials" / "pink.blend").write_bytes(b"sham")  # of the same size
    assert find_unmet_requirement(standard).startswith("the plan was made with another `pink` of materials")
    elsewhere = replace(standard, folders={"materials": tmp_path / "nowhere"})
    assert find_unmet_requirement(elsewhere).startswith("assets.materials: folder `")


def test_the_folder_must_be_the_same_one(tmp_path, job, standard):
    probe, text = standard.probe
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / probe.name
    told = find_unmet_requirement(replace(standard, probe=(other, text)))
    assert told.startswith(f"it does not see the submitting side's output folder {other.parent}")
    other.write_text("something else")
    assert "is another one" in find_unmet_requirement(replace(standard, probe=(other, text)))


def test_the_folder_must_be_writable(monkeypatch, job, standard):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(generators.engine.worker_checks.Path, "write_text", refuse)
    told = find_unmet_requirement(standard)
    assert told == f"it cannot write to the output folder {job.root}: Permission denied"


def test_devices_are_looked_for(job):
    with worker_requirements(replace(job, device=DeviceRequest("cuda")), ()) as standard:
        assert find_unmet_requirement(standard).startswith("--device cuda: expected a GPU of that kind")


def test_a_host_on_which_blender_does_not_start_falls_short(monkeypatch, standard):
    def refuse():
        raise InputError("devices: Blender ended with status 1 listing them (libGL.so.1)")

    monkeypatch.setattr(generators.engine.worker_checks, "find_devices", refuse)
    assert "libGL" in find_unmet_requirement(replace(standard, versions={"bpy": None}))
    assert find_unmet_requirement(replace(standard, versions={})) == ""
