import subprocess
import sys

import pytest

from candlelight.evaluation.views import open_data, open_secondary, parse_data
from candlelight.evaluation.views.data_layouts import DataText, hub_folder, split_text
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("frames", ("frames", "frames")),
        ("mit:data/MIT", ("mit", "data/MIT")),
        ("multi-illumination:a:b", ("multi-illumination", "a:b")),
        ("mit:/data/MIT", ("mit", "/data/MIT")),
        ("hf:user/name", ("hf", "user/name")),
        ("s3://bucket/frames", ("frames", "s3://bucket/frames")),
        ("file:///frames", ("frames", "file:///frames")),
        ("C:\\frames", ("frames", "C:\\frames")),
        ("./mit:x", ("frames", "./mit:x")),
    ],
)
def test_text_is_parsed(text, parsed):
    assert parse_data(text) == DataText(*parsed)


def test_an_existing_path_is_always_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mit:x").mkdir()
    assert parse_data("mit:x") == DataText("frames", "mit:x")
    assert parse_data(tmp_path / "iiw:y") == DataText("frames", str(tmp_path / "iiw:y"))


def test_unknown_layouts_are_refused():
    message = (
        r"^cub7:birds: there is no such path and no layout `cub7`; expected a path or one of mit:PATH, "
        r"arap:PATH, hypersim:PATH, .*, tid2013:PATH, hf:NAME; did you mean `cub70`\?$"
    )
    with refused(message):
        parse_data("cub7:birds")
    for text, form in (("mit:", "mit:PATH"), ("hf:", "hf:NAME")):
        with refused(rf"^expected {form}, got `{text}` with nothing after the colon"):
            parse_data(text)
    with refused(r"there is no such path and no layout `x{300}`"):
        parse_data("x" * 300 + ":y")


def test_secondary_data_may_name_a_set(tmp_path, monkeypatch):
    path = str(tmp_path)
    assert split_text(f"{path}:negatives") == (path, {"set_name": "negatives"})
    assert split_text(f"{path}:a:test") == (path, {"set_name": "a", "split": "test"})
    assert split_text(path) == (path, {})
    assert split_text(f"mit:{path}") == (f"mit:{path}", {})
    assert split_text(f"mit:{path}:grosse") == (f"mit:{path}", {"split": "grosse"})
    assert split_text(f"{path}:a:b:c") == (f"{path}:a:b:c", {})
    assert split_text("nowhere:negatives") == ("nowhere:negatives", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mit").mkdir()
    assert split_text("mit:mit") == ("mit:mit", {})
    (tmp_path / "a:b").mkdir()
    assert split_text(f"{path}/a:b") == (f"{path}/a:b", {})
    assert split_text(f"{path}/a:b:c") == (f"{path}/a:b", {"set_name": "c"})


def test_secondary_data_may_be_a_set_of_data(frames_root, tmp_path, monkeypatch):
    for given in ((frames_root, "grid"), (None, f"{frames_root}:grid"), (frames_root, f"{frames_root}:grid")):
        view = open_secondary("images", *given, limit=2)
        assert (view.identity.set_name, len(view)) == ("grid", 2)
    monkeypatch.chdir(tmp_path)
    with refused(r"set `other` is not there; expected one of: grid, free$"):
        open_secondary("images", frames_root, "other")
    (tmp_path / "other").symlink_to(frames_root)
    with refused(r"^other: choose a set "):
        open_secondary("images", frames_root, "other")


def test_a_view_is_returned_as_it_is(frames_root, memory_view):
    made, opened = memory_view([1, 2]), open_data("images", frames_root, set_name="grid")
    for view in (made, opened):
        assert open_data("images", view) is view
    for choice in ({"set_name": "a"}, {"split": "a"}, {"rows": "0:1"}, {"limit": 1}, {"size": None}):
        with refused(r"^open_data: expected no set, split, rows, limit or option with"):
            open_data("images", made, **choice)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "decompositions",
            {"ligths": True},
            "open_data: `decompositions` has no option `ligths`; .*; did you mean `lights`",
        ),
        ("pairs", {"lights": True}, "open_data: `pairs` has no option `lights`; it has none"),
        ("decompositions", {"leave_edges": -1}, "leave_edges: expected 0 or more pixels, got -1"),
        (
            "decompositions",
            {"image": "orginal"},
            "`image` must be one of: diffuse, original; got orginal; did",
        ),
        ("regions", {"longest": 0}, "longest: expected at least 1 pixel, got 0"),
        ("images", {"size": (0, 4)}, r"size: expected height and width of at least 1, got \(0, 4\)"),
        ("parts", {"by": "kind"}, "by: expected type or part, got 'kind'"),
        ("part", {}, "`kind` must be one of: decompositions, judgements, "),
        ("moved", {"rows": "0:1"}, "rows: not for whole sets of a folder; choose by `limit`, got '0:1'"),
    ],
)
def test_options_are_checked_before_data_are_opened(kind, options, message):
    with refused(rf"\A{message}"):
        open_data(kind, "nowhere", **options)


def test_other_objects_are_refused():
    with refused(r"expected PATH, LAYOUT:PATH, hf:NAME, a view, a reader of frames .* got int"):
        open_data("decompositions", 3)


def test_hub_data_are_downloaded(tmp_path, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    requested = []

    def download(name, **options):
        requested.append((name, options))
        if name == "user/none":
            raise OSError("no\nnetwork")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert hub_folder("user/name") == tmp_path
    assert hub_folder(str(tmp_path), ["a"]) == tmp_path
    assert requested == [("user/name", {"repo_type": "dataset", "allow_patterns": None})]
    with refused(r"^hf:user/none: cannot be downloaded from the Hugging Face Hub: no network$"):
        hub_folder("user/none")


def test_importing_views_stays_light():
    code = "import sys, candlelight.evaluation.views; print(*({'torch', 'datasets', 'pyarrow', 'pandas'} & "
    code += "sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
