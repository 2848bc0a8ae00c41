"""Metrics of intrinsic images: predicted reflectance and shading against ground truth and judgements."""

from evaluation.intrinsic.lmse import lmse as lmse
from evaluation.intrinsic.lmse import lmse_score as lmse_score
from evaluation.intrinsic.mse import mse as mse
from evaluation.intrinsic.saw_precision import SAWCurve as SAWCurve
from evaluation.intrinsic.saw_precision import SAWVariant as SAWVariant
from evaluation.intrinsic.saw_precision import count_smooth as count_smooth
from evaluation.intrinsic.saw_precision import saw_average_precision as saw_average_precision
from evaluation.intrinsic.saw_precision import saw_curve as saw_curve
from evaluation.intrinsic.score_intrinsic import score_baselines as score_baselines
from evaluation.intrinsic.score_intrinsic import score_intrinsic as score_intrinsic
from evaluation.intrinsic.score_judgements import score_saw as score_saw
from evaluation.intrinsic.score_judgements import score_whdr as score_whdr
from evaluation.intrinsic.si_mse import si_mse as si_mse
from evaluation.intrinsic.whdr import whdr as whdr
