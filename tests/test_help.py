"""The help of every command; each command in it or on a page fits the program: name, options and values.

A command is parsed as the program does it, without running it. This does not see whether files exist, whether
fields of ``--set`` and ids of samples exist, and whether the command does what the page says. In running text
a command may be incomplete, such as `evaluate tcav --target norm`.
"""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest

from candlelight.cli import main
from tests.command_line import run

ROOT = Path(__file__).parent.parent
PAGES = [
    *map(ROOT.joinpath, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)
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
    """Split a line as a shell does: the words after the program, up to a comment, a redirection or a pipe.

    The program may stand behind others, as in `srun candlelight doctor`; a line without it has no words.
    """
    words = shlex.split(example, comments=True)
    starts = [i for i, word in enumerate(words) if word.rpartition("/")[2] == "candlelight"]
    words = words[starts[-1] + 1 :] if starts else []
    ends = [i for i, word in enumerate(words) if word in (">", "|", "&&", ";")]
    return words[: ends[0]] if ends else words


def commands_of_page(text):
    """List the words of all commands in blocks of code, and of all commands in running text."""
    loops = dict(re.findall(r"^ *for (\w+) in (\S+)", text, re.MULTILINE))
    text = re.sub(r"\\\n\s*", " ", text)
    shell = "".join(block for language, block in FENCED.findall(text) if language in ("", "sh"))
    running = FENCED.sub("", text)
    shell += "\n".join(re.findall(r"^ {4,}.*$", running, re.MULTILINE))
    shell = re.sub(r"\$\{?(\w+)\}?", lambda name: loops.get(name[1], "1"), shell)
    blocks = [words_of(line) for line in shell.splitlines() if re.search(r"candlelight [a-z]", line)]
    running = re.sub(r"^ {4,}.*$", "", running, flags=re.MULTILINE)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", running)]
    starts = tuple(f"{name} " for name in main.commands)
    named = [f"candlelight {code}" for code in inline if code.startswith(starts)]
    named += [code for code in inline if re.match("candlelight [a-z]", code)]
    return [words for words in blocks if words and re.match("[a-z]", words[0])], [*map(words_of, named)]


PATHS = list(commands(main))


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Work in a folder with the folders of assets and the evaluation that examples name."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "own-evaluation.md").read_text(encoding="utf-8")
    (tmp_path / "psnr.py").write_text(FENCED.search(page)[2])
    for name in ("colours", "objects"):
        (tmp_path / name).mkdir()


def parse(words):
    """Parse the words of an example by the parameters of its command, without running the command."""
    command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    return command.make_context(str(command.name), list(words))


def test_help_of_every_command(snapshot):
    shown = [
        f"$ candlelight {' '.join((*path, '--help'))}\n{run(*path, '--help', width=110)}" for path in PATHS
    ]
    assert "\n".join(shown) == snapshot


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_option_says_what_it_does_and_examples_fit_their_commands(path):
    command = find(path)
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts[0] for one in options if not (one.help or "").endswith((".", ")", "]"))] == []
    assert command.get_short_help_str(limit=200).endswith(".")
    examples = [words_of(example) for example in examples_of(command)]
    assert any(tuple(words[: len(path)]) == path for words in examples)
    assert [wrong for words in examples if (wrong := refusal(words))] == []


def refusal(words, incomplete=False):
    """Parse a command for which all folders of assets exist; return what is wrong, or None."""
    for option, value in itertools.pairwise(words):
        if option == "--assets":
            Path(value.partition("=")[2]).mkdir(parents=True, exist_ok=True)
    try:
        parse(words)
    except click.exceptions.Exit:  # --help
        return None
    except click.UsageError as error:
        missing = isinstance(error, (click.MissingParameter, click.exceptions.NoArgsIsHelpError))
        if not (incomplete and (missing or "requires an argument" in str(error))):
            return error.format_message()
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_fit_their_parameters(page):
    blocks, named = commands_of_page(page.read_text(encoding="utf-8"))
    found = {" ".join(words): refusal(words) for words in blocks}
    found |= {" ".join(words): refusal(words, incomplete=True) for words in named}
    assert {words: wrong for words, wrong in found.items() if wrong} == {}


def test_the_check_of_pages_finds_commands_and_faults():
    pages = [commands_of_page(page.read_text(encoding="utf-8")) for page in PAGES]
    assert sum(len(blocks) for blocks, _ in pages) > 150
    assert sum(len(named) for _, named in pages) > 80
    page = """`info --verify`, `info --verifies`, `evaluate nothing`
    for net in vgg19 resnet50; do
        srun env/bin/candlelight train classifier parts --label kind \\
            --backbone $net --out $net.pt                       # `train` a network
    candlelight pack frames --to zip --out pack > log
"""
    blocks, named = commands_of_page(page)
    assert blocks[0][-4:] == ["--backbone", "vgg19", "--out", "vgg19.pt"]
    assert [refusal(words) for words in blocks] == [
        None,
        "Invalid value for '--to': 'zip' is not one of 'hub', 'hdf5'.",
    ]
    checked = [refusal(words, incomplete=True) for words in named]
    assert checked[0] is None
    assert checked[1].startswith("No such option '--verifies'.")
    assert checked[2].startswith("there is no command nothing")


def test_a_missing_folder_is_told():
    with pytest.raises(click.UsageError, match="there is no folder nowhere"):
        parse(["render", "candle", "--out", "frames", "--assets", "objects=nowhere"])


@pytest.mark.parametrize("example", RUN)
def test_examples_that_need_no_files_run(example):
    assert any(example in examples_of(find(path)) for path in PATHS)
    assert run(*words_of(example))
