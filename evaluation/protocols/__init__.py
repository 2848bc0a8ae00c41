"""Named evaluation protocols of intrinsic images: all choices that decide the numbers of a paper's table."""

from evaluation.protocols.evaluation_protocol import NEVER_COMPARE as NEVER_COMPARE
from evaluation.protocols.evaluation_protocol import EvaluationProtocol as EvaluationProtocol
from evaluation.protocols.protocol_order import changed_orders as changed_orders
from evaluation.protocols.protocol_order import protocol_rows as protocol_rows
from evaluation.protocols.protocol_records import PROTOCOLS as PROTOCOLS
from evaluation.protocols.score_protocols import score_protocol as score_protocol
from evaluation.protocols.score_protocols import score_protocols as score_protocols
