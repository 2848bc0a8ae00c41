import subprocess
import sys

import pytest

# A command that shows progress, writes a file and a message, and prints its result.
COMMAND = """
import sys
import click
from candlelight.loaders.commands.command_line import OneLineGroup, progress

@click.group(cls=OneLineGroup)
def main(): pass

@main.command()
def work():
    with progress(3, "work") as advance, open("result", "w") as file:
        for _ in range(3):
            advance(1)
        assert file.fileno() > 2
        click.echo("a note", err=True)
        file.write("whole")
    click.echo("done")

main()
"""


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- 2>&-", ">&- 2>&-", "2>&1 >done | true"])
def test_work_goes_on_without_standard_error(tmp_path, closed):
    (tmp_path / "command.py").write_text(COMMAND)
    shell = f"{sys.executable} command.py work {closed}; echo ${{PIPESTATUS[0]}} > status"
    subprocess.run(["bash", "-c", shell], cwd=tmp_path, check=True, timeout=60, capture_output=True)
    assert (tmp_path / "result").read_text() == "whole"
    assert (tmp_path / "status").read_text() == "0\n"


def test_errors_keep_their_status_without_standard_error(tmp_path):
    (tmp_path / "command.py").write_text(COMMAND)
    shell = [f"{sys.executable} command.py nothing {where}" for where in ("2>/dev/full", "2>&-")]
    done = [subprocess.run(["bash", "-c", one], cwd=tmp_path, check=False, timeout=60) for one in shell]
    assert [one.returncode for one in done] == [2, 2]
