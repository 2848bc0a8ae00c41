"""Error metrics of intrinsic images: predicted reflectance and shading against the ground truth."""

from evaluation.intrinsic.lmse import lmse as lmse
from evaluation.intrinsic.lmse import lmse_score as lmse_score
from evaluation.intrinsic.lmse_barron import geometric_mean as geometric_mean
from evaluation.intrinsic.lmse_barron import lmse_barron as lmse_barron
from evaluation.intrinsic.lmse_barron import lmse_barron_score as lmse_barron_score
from evaluation.intrinsic.lmse_chrislib_rgb import lmse_chrislib_rgb as lmse_chrislib_rgb
from evaluation.intrinsic.lmse_sintel import lmse_sintel as lmse_sintel
from evaluation.intrinsic.mse import mse as mse
from evaluation.intrinsic.psnr import psnr as psnr
from evaluation.intrinsic.score_intrinsic import score_baselines as score_baselines
from evaluation.intrinsic.score_intrinsic import score_intrinsic as score_intrinsic
from evaluation.intrinsic.si_mse import si_mse as si_mse
from evaluation.intrinsic.ssim import SSIM_DEFINITION as SSIM_DEFINITION
from evaluation.intrinsic.ssim import dssim as dssim
from evaluation.intrinsic.ssim import ms_ssim as ms_ssim
from evaluation.intrinsic.ssim import ssim as ssim
