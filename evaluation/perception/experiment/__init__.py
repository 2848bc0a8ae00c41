"""Two-alternative forced choice in a local page: people pick the distorted image of each pair."""

from candlelight.evaluation.catalogue.perception_options import ExperimentSettings as ExperimentSettings
from candlelight.evaluation.perception.experiment.answers import AnswerFit as AnswerFit
from candlelight.evaluation.perception.experiment.answers import ExperimentAnswers as ExperimentAnswers
from candlelight.evaluation.perception.experiment.answers import fit_answers as fit_answers
from candlelight.evaluation.perception.experiment.answers import measured_thresholds as measured_thresholds
from candlelight.evaluation.perception.experiment.answers import read_answers as read_answers
from candlelight.evaluation.perception.experiment.stimuli import open_stimuli as open_stimuli
from candlelight.evaluation.perception.experiment.stimuli import plan_trials as plan_trials
