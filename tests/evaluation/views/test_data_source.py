import subprocess
import sys

import pytest

from candlelight.evaluation.views import open_decompositions, parse_data, split_secondary
from candlelight.evaluation.views.data_source import DataText, hub_folder
from candlelight.loaders.errors import InputError


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
    with pytest.raises(InputError, match=message):
        parse_data("cub7:birds")
    for text, form in (("mit:", "mit:PATH"), ("hf:", "hf:NAME")):
        with pytest.raises(InputError, match=rf"^expected {form}, got `{text}` with nothing after the colon"):
            parse_data(text)
    with pytest.raises(InputError, match=r"there is no such path and no layout `x{300}`"):
        parse_data("x" * 300 + ":y")


def test_secondary_data_may_name_a_set(tmp_path, monkeypatch):
    path = str(tmp_path)
    assert split_secondary(f"{path}:negatives") == (path, {"set_name": "negatives"})
    assert split_secondary(f"{path}:a:test") == (path, {"set_name": "a", "split": "test"})
    assert split_secondary(path) == (path, {})
    assert split_secondary(f"mit:{path}") == (f"mit:{path}", {})
    assert split_secondary(f"mit:{path}:grosse") == (f"mit:{path}", {"split": "grosse"})
    assert split_secondary(f"{path}:a:b:c") == (f"{path}:a:b:c", {})
    assert split_secondary("nowhere:negatives") == ("nowhere:negatives", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mit").mkdir()
    assert split_secondary("mit:mit") == ("mit:mit", {})
    (tmp_path / "a:b").mkdir()
    assert split_secondary(f"{path}/a:b") == (f"{path}/a:b", {})
    assert split_secondary(f"{path}/a:b:c") == (f"{path}/a:b", {"set_name": "c"})


def test_other_objects_are_refused():
    with pytest.raises(
        InputError, match=r"expected PATH, LAYOUT:PATH, hf:NAME, a reader of frames .* got int"
    ):
        open_decompositions(3)


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
    with pytest.raises(
        InputError, match=r"^hf:user/none: cannot be downloaded from the Hugging Face Hub: no network$"
    ):
        hub_folder("user/none")


def test_importing_views_stays_light():
    code = "import sys, candlelight.evaluation.views; print(*({'torch', 'datasets', 'pyarrow', 'pandas'} & "
    code += "sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
