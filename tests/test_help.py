"""The help of every command: each has an example, and each example fits the command's own parameters."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from candlelight.cli import main

RUN = [  # examples that take no files and little time
    "candlelight recipes",
    "candlelight recipes show candle > mine.yaml",
    "candlelight recipes show concepts > mine.yaml",
    "candlelight assets list",
    "candlelight assets list --kind scenes",
]


def commands(group, path=()):
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def find(path):
    command = main
    for name in path:
        command = command.commands[name]
    return command


def examples_of(command):
    """List the lines of a help text that start with the name of the program; a backslash joins two lines."""
    lines = [line.strip() for line in command.help.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("candlelight ")]


def words_of(example):
    """Split an example as a shell does, without the program, comments and redirections."""
    words = shlex.split(example, comments=True)[1:]
    return words[: words.index(">")] if ">" in words else words


def examples_of_pages():
    """List the commands in blocks of code of all pages, without those that name variables of a shell."""
    root = Path(__file__).parent.parent
    for page in [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        text = re.sub(r"^```.*?^```", lambda block: block[0].replace("\n", "\n    "), text, flags=re.M | re.S)
        yield from (
            line.strip() for line in re.findall(r"^ {4,}(candlelight .*)$", text, re.M) if "$" not in line
        )


EXAMPLES = sorted({example for path in commands(main) for example in examples_of(find(path))})


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Work in a folder with the folders of assets that examples name."""
    monkeypatch.chdir(tmp_path)
    for name in ("colours", "objects"):
        (tmp_path / name).mkdir()


def parse(words):
    """Parse the words of an example by the parameters of its command, without running the command."""
    command = main
    while isinstance(command, click.Group) and words:
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return command.make_context(str(command.name), list(words))


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_help_has_an_example_of_its_own_command(path):
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    examples = examples_of(find(path))
    assert any(tuple(words_of(example)[: len(path)]) == path for example in examples)
    shown = " ".join(result.output.split())
    assert all(" ".join(example.split()[:3]) in shown for example in examples)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_every_option_says_what_it_does(path):
    command = find(path)
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts[0] for one in options if not (one.help or "").endswith((".", ")", "]"))] == []
    assert command.get_short_help_str(limit=200).endswith(".")


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_fits_the_parameters_of_its_command(example):
    assert parse(words_of(example)).params is not None


@pytest.mark.parametrize("example", sorted({*examples_of_pages()}))
def test_an_example_of_a_page_fits_the_parameters_of_its_command(example, tmp_path):
    for folder in re.findall(r"--assets \w+=(\S+)", example):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    assert parse(words_of(example)).params is not None


def test_the_check_of_examples_can_fail():
    with pytest.raises(click.UsageError, match="No such option"):
        parse(["render", "candle", "--out", "frames", "--colours", "candle"])
    with pytest.raises(click.UsageError, match="there is no folder nowhere"):
        parse(["render", "candle", "--out", "frames", "--assets", "objects=nowhere"])
    with pytest.raises(AssertionError, match="there is no command draw"):
        parse(["draw", "candle"])


@pytest.mark.parametrize("example", RUN)
def test_examples_that_need_no_files_run(example):
    assert example in EXAMPLES
    result = CliRunner().invoke(main, words_of(example))
    assert result.exit_code == 0, result.output
    assert result.stdout
