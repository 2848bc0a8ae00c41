"""Train a network to decompose images under one of three regimes."""

from evaluation.training.regimes import Regime as Regime
from evaluation.training.small_rows import SmallRows as SmallRows
from evaluation.training.supervised_loss import intrinsic_loss as intrinsic_loss
from evaluation.training.train_intrinsic import History as History
from evaluation.training.train_intrinsic import train_intrinsic as train_intrinsic
from evaluation.training.training_record import hold_out as hold_out
from evaluation.training.training_record import write_record as write_record
