"""Compare the metrics of codes and factors with loops over scikit-learn.

    python -m benchmarks.metrics.information [--samples 10000] [--codes 32] [--rounds 3] [--only mig infomec]

Random codes that mix six factors of 3 to 20 values; one thread, CPU seconds, both programs by turns in one
process. The kernel regression has a tenth of the samples, because its time grows with their cube.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy import ndarray
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor

from benchmarks.metrics.irs import SIZES, cpu_seconds
from benchmarks.processes import print_table
from candlelight.evaluation.causal import block_r2, explicitness, infomec, mcc, mig, modularity, sap
from candlelight.evaluation.causal.estimators import PENALTIES, WIDTHS

BINS = 20


def loop_information(codes: ndarray, factors: ndarray) -> ndarray:
    """Count every pair with scikit-learn."""
    classes = np.stack([np.digitize(code, np.histogram(code, BINS)[1][:-1]) for code in codes.T], axis=1)
    return np.array([[mutual_info_score(code, factor) for factor in factors.T] for code in classes.T])


def loop_mig(codes: ndarray, factors: ndarray) -> float:
    ordered = np.sort(loop_information(codes, factors), axis=0)
    entropies = [mutual_info_score(factor, factor) for factor in factors.T]
    return ((ordered[-1] - ordered[-2]) / entropies).mean()


def loop_modularity(codes: ndarray, factors: ndarray) -> float:
    squared = loop_information(codes, factors) ** 2
    largest = squared.max(1)
    return (1 - (squared.sum(1) - largest) / (largest * (factors.shape[1] - 1))).mean()


def loop_sap(codes: ndarray, factors: ndarray) -> float:
    scaled = StandardScaler().fit_transform(codes)
    found = [
        [
            LinearSVC(C=0.01, class_weight="balanced").fit(code[:, None], factor).score(code[:, None], factor)
            for factor in factors.T
        ]
        for code in scaled.T
    ]
    ordered = np.sort(found, axis=0)
    return (ordered[-1] - ordered[-2]).mean()


def loop_explicitness(codes: ndarray, factors: ndarray) -> float:
    scaled = StandardScaler().fit_transform(codes)
    found = []
    for factor in factors.T:
        areas = []
        for value in np.unique(factor):
            model = LogisticRegression().fit(scaled, factor == value)
            areas.append(roc_auc_score(factor == value, model.decision_function(scaled)))
        found.append(2 * np.mean(areas) - 1)
    return float(np.mean(found))


def loop_mcc(codes: ndarray, factors: ndarray, correlation: str) -> float:
    both = np.concatenate([codes, factors], axis=1)
    whole = np.corrcoef(both, rowvar=False) if correlation == "pearson" else spearmanr(both)[0]
    table = abs(whole[: codes.shape[1], codes.shape[1] :])
    return table[linear_sum_assignment(table, maximize=True)].mean()


def loop_linear(codes: ndarray, factors: ndarray) -> float:
    return r2_score(factors, LinearRegression().fit(codes, factors).predict(codes))


def loop_kernel(codes: ndarray, factors: ndarray) -> float:
    rows, targets = StandardScaler().fit_transform(codes), StandardScaler().fit_transform(factors)
    folds = np.arange(len(rows)) % 3
    splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(3)]
    grid = {"alpha": PENALTIES, "gamma": WIDTHS}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=splits).fit(rows, targets)
    return r2_score(targets, search.predict(rows))


def loop_infomec(codes: ndarray, factors: ndarray) -> float:
    """Compute InfoC and InfoE, and return InfoM."""
    rows, table, explicit = StandardScaler().fit_transform(codes), [], []
    for factor in factors.T:
        entropy = mutual_info_score(factor, factor)
        table.append(mutual_info_classif(rows, factor, n_neighbors=10, random_state=0) / entropy)
        model = LogisticRegression(C=np.inf).fit(rows, factor)
        explicit.append(1 - log_loss(factor, model.predict_proba(rows)) / entropy)
    shares = np.max(table, axis=0) / np.sum(table, axis=0)
    return (shares.mean() - 1 / len(table)) / (1 - 1 / len(table))


Program = tuple[float, Callable[[ndarray, ndarray], float], Callable[[Tensor, Tensor], Tensor], float]
# Share of the samples, the loop, ours, and the wanted ratio of CPU seconds.
PROGRAMS: dict[str, Program] = {
    "mig": (1, loop_mig, lambda codes, factors: mig(codes, factors).score, 5),
    "modularity": (1, loop_modularity, lambda codes, factors: modularity(codes, factors).score, 1),
    "sap": (1, loop_sap, lambda codes, factors: sap(codes, factors).score, 1),
    "explicitness": (1, loop_explicitness, lambda codes, factors: explicitness(codes, factors).score, 1),
    "mcc, pearson": (1, lambda *given: loop_mcc(*given, "pearson"), lambda *given: mcc(*given).score, 1),
    "mcc, spearman": (
        1,
        lambda *given: loop_mcc(*given, "spearman"),
        lambda *given: mcc(*given, "spearman").score,
        1,
    ),
    "block_r2, linear": (1, loop_linear, lambda *given: block_r2(*given).score, 1),
    "block_r2, kernel": (0.1, loop_kernel, lambda *given: block_r2(*given, "kernel").score, 1),
    "infomec": (1, loop_infomec, lambda codes, factors: infomec(codes, factors).modularity, 1),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=10000)
    parser.add_argument("--codes", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)  # of separable classes without a penalty
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=options.samples) for size in SIZES], axis=1)
    codes = factors @ rng.normal(size=(len(SIZES), options.codes))
    codes += rng.normal(size=codes.shape)
    rows = []
    for name in options.only:
        share, loop, metric, wanted = PROGRAMS[name]
        given = codes[: int(share * options.samples)], factors[: int(share * options.samples)]
        tensors = torch.from_numpy(given[0]), torch.from_numpy(given[1])
        difference = abs(float(loop(*given)) - float(metric(*tensors)))
        times = [(cpu_seconds(loop, *given), cpu_seconds(metric, *tensors)) for _ in range(options.rounds)]
        slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(one / other for one, other in times)
        rows.append((name, len(given[0]), slow, fast, ratio, wanted, difference))
    heads = ("metric", "samples", "loop, CPU s", "ours, CPU s", "ratio", "wanted", "difference")
    print(f"{options.codes} codes, {len(SIZES)} factors")
    print_table(heads, rows)


if __name__ == "__main__":
    main()
