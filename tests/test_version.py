"""The version of a checkout, a shallow clone, a source distribution and a copy without git."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

import candlelight
from candlelight.version import RELEASE, code_version
from tests.command_line import run

ROOT = Path(__file__).parents[1]


def version_of(folder):
    return runpy.run_path(str(folder / "version.py"))["code_version"]()


def git(folder, *words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "--allow-empty", "--message=.")
    return git(folder, "rev-parse", "--short=7", "HEAD")


@pytest.fixture
def copy(tmp_path):
    """A folder with a copy of version.py, inside a repository of something else."""
    git(tmp_path, "init", "--quiet")
    folder = tmp_path / "copy"
    folder.mkdir()
    commit(tmp_path)
    shutil.copy(ROOT / "version.py", folder)
    return folder


@pytest.fixture
def checkout(copy):
    git(copy, "init", "--quiet")
    commit(copy)
    return copy


def test_a_commit_is_counted_from_the_change_of_the_release(checkout):
    assert version_of(checkout) == f"{RELEASE}.dev0+g{git(checkout, 'rev-parse', '--short=7', 'HEAD')}"
    file = checkout / "version.py"
    file.write_text(f"{file.read_text()}# a line\n")
    commit(checkout)
    last = commit(checkout)
    git(checkout, "tag", "-a", "v1", "-m", "a tag changes nothing")
    assert version_of(checkout) == f"{RELEASE}.dev2+g{last}"
    file.write_text(file.read_text().replace(f'RELEASE = "{RELEASE}"', 'RELEASE = "9.0"'))
    assert version_of(checkout).endswith(".dirty")
    last = commit(checkout)
    assert version_of(checkout) == f"9.0.dev0+g{last}"


def test_a_shallow_clone_has_the_commit_alone(checkout, tmp_path):
    commit(checkout)
    last = commit(checkout)
    git(tmp_path, "clone", "--quiet", "--depth=1", checkout.as_uri(), "shallow")
    assert version_of(tmp_path / "shallow") == f"{RELEASE}.dev0+g{last}"


def test_another_repository_is_never_asked(copy, checkout, tmp_path, monkeypatch):
    known = version_of(checkout)
    # As in a hook of the other repository.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / ".git" / "index"))
    assert version_of(checkout) == known
    shutil.rmtree(checkout / ".git")
    assert version_of(copy) == RELEASE


def test_a_checkout_without_git_has_the_release(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert version_of(checkout) == RELEASE


def test_a_source_distribution_has_the_version_that_it_was_built_as(copy):
    package = copy / "src" / "candlelight"
    package.mkdir(parents=True)
    (copy / "version.py").rename(package / "version.py")
    (copy / "PKG-INFO").write_text(f"Name: candlelight\nVersion: {RELEASE}.dev7+gabc\n")
    assert version_of(package) == f"{RELEASE}.dev7+gabc"


def test_command_and_package_say_the_version():
    assert run("--version") == f"candlelight, version {code_version()}\n"
    assert candlelight.__version__ == code_version()


def test_the_first_section_of_the_changelog_is_the_release():
    found = re.findall(
        r"(?m)^## \[(.*)\] - (?:unreleased|\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text()
    )
    assert found[0] == RELEASE
