"""Error metrics of intrinsic images: predicted reflectance and shading against the ground truth."""

from evaluation.intrinsic.lmse import lmse as lmse
from evaluation.intrinsic.lmse import lmse_score as lmse_score
from evaluation.intrinsic.mse import mse as mse
from evaluation.intrinsic.score_intrinsic import score_baselines as score_baselines
from evaluation.intrinsic.score_intrinsic import score_intrinsic as score_intrinsic
from evaluation.intrinsic.si_mse import si_mse as si_mse
