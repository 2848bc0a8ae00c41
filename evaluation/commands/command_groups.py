"""The groups ``candlelight evaluate``, ``train`` and ``perception``, without their commands."""

from importlib import import_module
from typing import Any

import click

from candlelight.loaders.errors import InputError

_HERE = "candlelight.evaluation.commands"


class LateGroup(click.Group):
    """A group that imports the module of its commands, ``COMMANDS``, when one of them is asked for.

    The options of evaluations take a fifth of the time of `candlelight --help`, which needs none of them.
    """

    def __init__(self, *args: Any, module: str, **options: Any) -> None:
        self._module, self._made = module, dict[str, click.Command]()
        super().__init__(*args, **options)

    @property
    def commands(self) -> dict[str, click.Command]:
        """The commands by name."""
        if not self._made:
            self._made = {one.name: one for one in import_module(f"{_HERE}.{self._module}").COMMANDS}
        return self._made

    @commands.setter
    def commands(self, given: object) -> None:
        """Leave out the empty dictionary that click gives at first."""


class EvaluateGroup(LateGroup):
    """The group of evaluations: the shipped ones, and a user's own as ``file.py:name`` or ``module:name``."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name; of a record in a file, make it."""
        if cmd_name.endswith(".py"):
            raise InputError(f"{cmd_name}: name the record in the file: {cmd_name}:NAME")
        if cmd_name in self.commands or ":" not in cmd_name:
            return super().get_command(ctx, cmd_name)
        from candlelight.evaluation.commands.evaluation_command import evaluation_command
        from candlelight.evaluation.run.evaluate import find_evaluation

        record = find_evaluation(cmd_name)
        files = getattr(record.options, "files", record.reads.files)
        return evaluation_command(cmd_name, record.options, files)


@click.group("evaluate", cls=EvaluateGroup, module="evaluate_commands")
def evaluate_group() -> None:
    """Score models, or result files of other programs, on image sets with ground truth.

    DATA is a folder of frames or a pack (PATH), a public data set (LAYOUT:PATH, such as mit:MIT-intrinsic),
    or a data set of the Hugging Face Hub (hf:NAME). An evaluation of your own is `file.py:name` in place of a
    command (docs/own-evaluation.md).

    \b
    candlelight evaluate lmse demo/frames --set tabletop_test --model retinex --out lmse.json
    candlelight evaluate csm demo/frames --set tabletop_test --model retinex --out csm.json
    candlelight evaluate report lmse.json csm.json --out report.html
    """


@click.group("train", cls=LateGroup, module="train_command")
def train_group() -> None:
    """Train a model on an image set.

    \b
    candlelight train intrinsic relit --set train --regime supervised --out net.pt
    candlelight train classifier parts --label kind --size 64 --out kinds.pt
    candlelight train causal candle --model beta-vae --size 64 --out beta.pt
    """


@click.group("perception", cls=LateGroup, module="experiment_commands")
def perception_group() -> None:
    """Measure the thresholds of people by two-alternative forced choice.

    \b
    candlelight perception experiment photographs --transform rotation --out answers.jsonl
    candlelight perception fit answers.jsonl
    """
