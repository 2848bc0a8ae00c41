from .run.evaluate import evaluate as evaluate
from .run.record import At as At
from .run.record import Evaluation as Evaluation
from .run.record import Help as Help
