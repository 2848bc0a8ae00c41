"""The records of protocols with judgements of people (IIW, SAW) and measured colours of regions (MAW)."""

from functools import partial

from candlelight.evaluation.intrinsic.score_judgements import score_saw, score_whdr
from candlelight.evaluation.intrinsic.score_maw import score_maw
from candlelight.evaluation.protocols.evaluation_protocol import EvaluationProtocol
from candlelight.evaluation.protocols.published_scores import GAMMA_TABLE, MAW_TABLE, SAW_TABLE, WHDR_TABLES

_GAMMA_POWER = 0.4545  # of the programs of CGIntrinsics and BigTime, for 1/2.2
_MEAN = "arithmetic, over images"

JUDGEMENT_RECORDS = (
    EvaluationProtocol(
        name="iiw-whdr",
        version=1,
        reads="comparisons",
        better="lower",
        columns=("whdr",),
        rule=partial(score_whdr, threshold=0.10),
        files="IIW: 1,046 test photographs, every fifth in text order (`--split test`); in some papers all "
        "5,230",
        colour_space="linear, mean of the channels",
        scale="none needed",
        mask="points judged opaque",
        resize="prediction enlarged to the photograph",
        window="ratio of two points above 1.10",
        mean=_MEAN,
        source="Bell et al., SIGGRAPH 2014 (whdr.py); MAW and Ordinal Shading",
        published=WHDR_TABLES,
    ),
    EvaluationProtocol(
        name="iiw-gamma",
        version=1,
        reads="comparisons",
        better="lower",
        columns=("whdr",),
        rule=partial(score_whdr, threshold=0.10, power=_GAMMA_POWER),
        files="as `iiw-whdr`",
        colour_space="power 0.4545 (1/2.2), then the mean of the channels",
        scale="none needed",
        mask="points judged opaque",
        resize="prediction enlarged to the photograph after the power",
        window="ratio of two points above 1.10, which is 1.233 in linear light",
        mean=_MEAN,
        source="Li and Snavely, CGIntrinsics, ECCV 2018, and BigTime, CVPR 2018",
        left_out="CRefNet clips the same values to 1. NIID-Net has a faulty sRGB curve, and Fan et al. 2018 "
        "compare the pixels of their files.",
        published=(GAMMA_TABLE,),
    ),
    EvaluationProtocol(
        name="saw",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=partial(score_saw, variant="cgintrinsics2018"),
        files="SAW: test photographs (`--split test`), labels without a filter, as CGIntrinsics takes them",
        colour_space="linear, mean of the channels, raised to 1e-4, logarithm",
        scale="none needed",
        mask="labelled pixels",
        resize="prediction enlarged to the photograph of 512 pixels",
        window="gradients; largest within 10x10 for labels 0 and 1; 400 thresholds, log 1.001 to log 64",
        mean="one curve of all photographs; area from recall 0 to (1, 0.5)",
        source="NIID-Net, mode 0; the area of Li and Snavely, ECCV 2018",
        left_out="BigTime has thresholds up to log 8 and gamma-encoded shading. Kovacs et al. 2017 publish "
        "curves without a number.",
    ),
    EvaluationProtocol(
        name="saw-challenge",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=partial(score_saw, variant="challenge2018", truncate=True, power=_GAMMA_POWER),
        files="as `saw`",
        colour_space="power 0.4545 (1/2.2), mean of the channels, raised to 1e-4, logarithm",
        scale="none needed",
        mask="labelled pixels; smooth regions weigh by the gradient of the photograph",
        resize="as `saw`",
        window="as `saw`",
        mean="as `saw`; sums of weights of each photograph rounded down",
        source="Li and Snavely, CGIntrinsics, ECCV 2018",
        published=(SAW_TABLE,),
    ),
    EvaluationProtocol(
        name="saw-challenge-linear",
        version=1,
        reads="labels",
        better="higher",
        columns=("saw_ap",),
        rule=partial(score_saw, variant="challenge2018", truncate=True),
        files="as `saw`",
        colour_space="as `saw`",
        scale="none needed",
        mask="as `saw-challenge`",
        resize="as `saw`",
        window="as `saw`",
        mean="as `saw-challenge`",
        source="NIID-Net, mode 1; CRefNet (solver/metrics_saw.py)",
    ),
    EvaluationProtocol(
        name="maw-2023",
        version=1,
        reads="regions",
        better="lower",
        columns=("maw_intensity", "maw_chromaticity"),
        rule=score_maw,
        files="MAW: all photographs of the release, without 14 of scene_0",
        colour_space="linear; prediction clipped to [0, 1] and stored as 8-bit sRGB",
        scale="intensity: one for the image; chromaticity: one for each region",
        mask="measured regions, weighted by pixels",
        resize="320x240, without regard to the aspect",
        window="mean colours of regions; CIEDE2000",
        mean=_MEAN,
        source="Wu et al., 2023 (arXiv 2306.15662); numerical_albedo.py, losses si/mean and per_si/deltae",
        left_out="Papers print 100 times the intensity. LPIPS and shading are not scored. Two details "
        "differ: intrinsic.md names them.",
        published=(MAW_TABLE,),
    ),
)
