"""Named evaluation protocols of intrinsic images: all choices that decide the numbers of a paper's table."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.protocols.evaluation_protocol import NEVER_COMPARE as NEVER_COMPARE
from candlelight.evaluation.protocols.evaluation_protocol import EvaluationProtocol as EvaluationProtocol
from candlelight.evaluation.protocols.protocol_order import changed_orders as changed_orders
from candlelight.evaluation.protocols.protocol_order import protocol_rows as protocol_rows
from candlelight.evaluation.protocols.protocol_records import PROTOCOLS as PROTOCOLS
from candlelight.evaluation.protocols.score_protocols import score_protocol as score_protocol
from candlelight.evaluation.protocols.score_protocols import score_protocols as score_protocols
