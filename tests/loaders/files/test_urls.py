from pathlib import Path

import fsspec
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import FrameFolder, open_frames
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.urls import is_elsewhere, is_url, local_folder
from tests.loaders.edits import contents
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "url"),
    [
        *[("s3://bucket/frames", True), ("gs://b", True), ("memory://x", True), ("file:///data", True)],
        *[("dir::memory://a/b", True), ("simplecache::s3://b/c", True), ("git+ssh://host/x", True)],
        *[("frames", False), ("/data/frames", False), ("C:/frames", False), ("C:\\frames", False)],
        *[("run::1", False), ("a:b", False), ("./s3:x/y", False), ("", False), ("12:30/x", False)],
    ],
)
def test_urls_are_distinguished_from_paths(text, url):
    assert is_url(text) is url
    # A Path drops a slash of a URL.
    assert not url or is_url(Path(text))
    assert is_elsewhere(text) is (url and not text.startswith("file"))


@pytest.mark.parametrize("url", ["file:///a/b%20c", "file:/a/b%20c", "file://localhost/a/b%20c"])
def test_file_urls_are_paths(url):
    assert local_folder(url) == Path("/a/b c")


def test_paths_are_returned_unchanged():
    assert local_folder("a/b%20c") == Path("a/b%20c")
    assert local_folder(Path("a")) == Path("a")


@pytest.mark.parametrize("url", ["s3://bucket/x", Path("s3://bucket/x")])
def test_remote_urls_are_refused_with_a_copy_command(url):
    expected = (
        r"s3://bucket/x: expected a local folder; .* copy the folder first: python -c "
        r"\"import fsspec; fs, path = fsspec.url_to_fs\('s3://bucket/x'\); "
        r"fs.get\(path, 'frames', recursive=True\)\""
    )
    for read in (local_folder, open_frames, lambda url: FrameFolder(url, "candle")):
        with refused(expected):
            read(url)


@pytest.mark.parametrize(
    "arguments",
    [
        ("render", "candle", "--out", "s3://bucket/x"),
        ("pack", "s3://bucket/x", "--to", "hub", "--out", "pack"),
        ("pack", "frames", "--to", "hub", "--out", "s3://bucket/x"),
        ("export", "s3://bucket/x", "--to", "candle", "--out", "candle"),
        ("demo", "--out", "s3://bucket/x"),
        ("counterfactual", "candle", "--limit", "1", "--do", "color=blue", "--out", "s3://bucket/x"),
    ],
)
def test_commands_that_need_a_local_folder_refuse_urls(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "s3://bucket/x: expected a local folder; only `info` takes URLs" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_file_url_of_another_machine_is_refused():
    with refused("file://server/x: expected a local folder"):
        local_folder("file://server/x")


def test_the_copy_command_of_the_message_works(frames_root, tmp_path, monkeypatch):
    memory = fsspec.filesystem("memory")
    memory.put(str(frames_root), "/told", recursive=True)
    with pytest.raises(InputError) as caught:
        local_folder("memory://told")
    command = str(caught.value).split('python -c "')[1].removesuffix('"')
    monkeypatch.chdir(tmp_path)
    exec(command, {})
    assert contents(tmp_path / "frames") == contents(frames_root)
    memory.rm("/told", recursive=True)
