"""Reports for reading: contact sheets of image sets, and an HTML page of sets and scores."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.report.page import write_report as write_report
from candlelight.loaders.looking.sheet import contact_sheet as contact_sheet
from candlelight.loaders.looking.sheet import write_png as write_png
from candlelight.loaders.looking.sheet_rows import pick_rows as pick_rows
