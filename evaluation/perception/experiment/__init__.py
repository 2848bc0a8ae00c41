"""Two-alternative forced choice in a local page: people pick the distorted image of each pair."""

from evaluation.perception.experiment.fit_answers import AnswerFit as AnswerFit
from evaluation.perception.experiment.fit_answers import fit_answers as fit_answers
from evaluation.perception.experiment.measured_thresholds import MeasuredThresholds as MeasuredThresholds
from evaluation.perception.experiment.measured_thresholds import measured_thresholds as measured_thresholds
from evaluation.perception.experiment.open_experiment import ExperimentSettings as ExperimentSettings
from evaluation.perception.experiment.open_experiment import open_stimuli as open_stimuli
from evaluation.perception.experiment.read_answers import ExperimentAnswers as ExperimentAnswers
from evaluation.perception.experiment.read_answers import read_answers as read_answers
from evaluation.perception.experiment.trial_plan import plan_trials as plan_trials
