"""Metrics of predicted reflectance and shading: errors against the truth, and constancy over lights."""

from evaluation.intrinsic.ciede2000 import ciede2000 as ciede2000
from evaluation.intrinsic.constancy import chroma_drift as chroma_drift
from evaluation.intrinsic.constancy import chroma_retention as chroma_retention
from evaluation.intrinsic.constancy import material_variation as material_variation
from evaluation.intrinsic.lmse import lmse as lmse
from evaluation.intrinsic.lmse import lmse_score as lmse_score
from evaluation.intrinsic.lmse_barron import geometric_mean as geometric_mean
from evaluation.intrinsic.lmse_barron import lmse_barron as lmse_barron
from evaluation.intrinsic.lmse_barron import lmse_barron_score as lmse_barron_score
from evaluation.intrinsic.lmse_chrislib_rgb import lmse_chrislib_rgb as lmse_chrislib_rgb
from evaluation.intrinsic.lmse_sintel import lmse_sintel as lmse_sintel
from evaluation.intrinsic.maw_errors import maw_chromaticity as maw_chromaticity
from evaluation.intrinsic.maw_errors import maw_intensity as maw_intensity
from evaluation.intrinsic.maw_protocol import resize_for_maw as resize_for_maw
from evaluation.intrinsic.mse import mse as mse
from evaluation.intrinsic.psnr import psnr as psnr
from evaluation.intrinsic.region_means import region_means as region_means
from evaluation.intrinsic.score_constancy import score_constancy as score_constancy
from evaluation.intrinsic.score_intrinsic import score_baselines as score_baselines
from evaluation.intrinsic.score_intrinsic import score_intrinsic as score_intrinsic
from evaluation.intrinsic.score_maw import score_maw as score_maw
from evaluation.intrinsic.si_mse import si_mse as si_mse
from evaluation.intrinsic.ssim import SSIM_DEFINITION as SSIM_DEFINITION
from evaluation.intrinsic.ssim import dssim as dssim
from evaluation.intrinsic.ssim import ms_ssim as ms_ssim
from evaluation.intrinsic.ssim import ssim as ssim
