from .catalogue.record import At as At
from .catalogue.record import Evaluation as Evaluation
from .catalogue.record import Help as Help
from .run.evaluate import evaluate as evaluate
