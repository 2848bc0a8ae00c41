"""The commands of ``candlelight evaluate``."""

import click

from candlelight.evaluation.commands.causal_table_command import causal_table
from candlelight.evaluation.commands.evaluation_command import EvaluateGroup, shipped_commands
from candlelight.evaluation.commands.result_commands import compare_command, coverage_tables_command, report


@click.group("evaluate", cls=EvaluateGroup)
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


for command in shipped_commands():
    evaluate_group.add_command(command)
evaluate_group.add_command(causal_table)
evaluate_group.add_command(report)
evaluate_group.add_command(compare_command)
evaluate_group.add_command(coverage_tables_command)
