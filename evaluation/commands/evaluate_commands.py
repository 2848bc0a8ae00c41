"""The commands of ``candlelight evaluate``."""

from candlelight.evaluation.commands.causal_table_command import causal_table
from candlelight.evaluation.commands.evaluation_command import shipped_commands
from candlelight.evaluation.commands.result_commands import compare_command, coverage_tables_command, report

COMMANDS = (*shipped_commands(), causal_table, report, compare_command, coverage_tables_command)
