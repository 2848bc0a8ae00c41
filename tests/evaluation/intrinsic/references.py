"""Scores by plain loops, which the fast metrics and the protocols are compared with."""

import math
from itertools import pairwise

import numpy as np
import torch
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.judgements import saw_thresholds
from candlelight.loaders.colour import linear_to_srgb


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, shape))


def slow_lmse(prediction: ndarray, target: ndarray, mask: ndarray, window: int = 20, step: int = 10) -> float:
    """Compute the score of one image [channels, height, width] window by window, channels end to end."""
    errors = total = 0.0
    for top in range(0, target.shape[1] - window + 1, step):
        for left in range(0, target.shape[2] - window + 1, step):
            here = np.s_[:, top : top + window, left : left + window]
            e, c = prediction[here].ravel(), target[here].ravel()
            m = np.concatenate([mask[here[1:]].ravel()] * len(target))
            energy = np.sum(m * e**2)
            scale = np.sum(m * c * e) / energy if energy > 1e-5 else 0.0
            errors += np.sum(m * (c - scale * e) ** 2)
            total += np.sum(m * c**2)
    return errors / total


def slow_sintel(
    prediction: ndarray, target: ndarray, mask: ndarray, floor: float = 0.0, cap: float = 1.0, last: int = 0
) -> float:
    """Compute the error of one image [channels, height, width] by windows of a tenth of its longer side.

    A half is rounded up. No window begins in the last half window, or one pixel later with ``last``.
    """
    height, width = mask.shape
    k = math.floor(max(height, width) * 0.1 + 0.5)
    s = math.floor(k / 2 + 0.5)
    errors = []
    for i in range(0, height - s + last, s):
        for j in range(0, width - s + last, s):
            here = np.s_[:, i : min(height, i + k), j : min(width, j + k)]
            a, b = prediction[here], target[here]
            m = np.broadcast_to(mask[here[1:]], a.shape)
            energy = np.sum(m * a * a)
            scaled = np.minimum(a * (np.sum(m * a * b) / energy), cap) if energy > floor else 0 * a
            errors.append(np.sum(m * (scaled - b) ** 2) / m.sum() if m.any() else np.nan)
    return float(np.nanmean(errors) if last == 0 else np.mean(np.nan_to_num(errors)))


def slow_lmse_crefnet(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Compute the error of CRefNet, which counts windows without a pixel and cuts nothing."""
    return slow_sintel(prediction, target, mask, floor=1e-5, cap=np.inf, last=1)


def slow_barron(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Compute the score of one gray image block by block, as MATLAB does with `X(start:end, ...)`."""
    errors = total = 0.0
    for first_row in (1, 20 // 2):  # counted from 1
        for first_column in (1, 20 // 2):
            e, c, m = (values[first_row - 1 :, first_column - 1 :] for values in (prediction, target, mask))
            height, width = -(-np.array(c.shape) // 20) * 20
            e, c, m = (
                np.pad(values, ((0, height - len(values)), (0, width - values.shape[1])))
                for values in (e * (m > 0), c * (m > 0), m)
            )
            for top in range(0, height, 20):
                for left in range(0, width, 20):
                    here = np.s_[top : top + 20, left : left + 20]
                    scale = np.sum(m[here] * c[here] * e[here]) / max(2**-52, np.sum(m[here] * e[here] ** 2))
                    errors += np.sum(m[here] * (c[here] - scale * e[here]) ** 2)
                    total += np.sum(m[here] * c[here] ** 2)
    return errors / total


ACROSS = torch.exp(-((torch.arange(11).double() - 5) ** 2) / (2 * 1.5**2))


def similarity(x: ndarray, y: ndarray, data_range: float) -> tuple[ndarray, ndarray]:
    """Compute the SSIM of all windows of two gray images (Wang et al., eq. 13); also without luminance."""
    across = ACROSS.numpy()
    weights = np.outer(across, across) / across.sum() ** 2
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    a, b = (sliding_window_view(values, (11, 11)) for values in (x, y))  # [rows, columns, 11, 11]

    def mean(values: ndarray) -> ndarray:
        return (weights * values).sum((2, 3))

    mean_a, mean_b = mean(a), mean(b)
    off_a, off_b = a - mean_a[..., None, None], b - mean_b[..., None, None]
    structure = (2 * mean(off_a * off_b) + c2) / (mean(off_a**2) + mean(off_b**2) + c2)
    return (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1) * structure, structure


def touching(mask: ndarray) -> ndarray:
    """Tell which windows contain a pixel of the mask."""
    return sliding_window_view(mask, (11, 11)).any((2, 3))


def slow_ssim_padded(x: ndarray, y: ndarray) -> float:
    """Average the SSIM of the window around every pixel; the border is mirrored and not repeated."""
    return similarity(np.pad(x, 5, mode="reflect"), np.pad(y, 5, mode="reflect"), 1.0)[0].mean()


def slow_dssim_crefnet(prediction: ndarray, target: ndarray, mask: ndarray) -> float:
    """Search the scale of the best SSIM of one image, as the program does."""
    prediction, target = prediction * mask, target * mask
    energy = np.sum(mask * prediction**2)
    alpha = np.sum(mask * prediction * target) / energy if energy > 1e-5 else 0.0

    def dissimilarity(scale: float) -> float:
        pairs = zip(scale * prediction, target, strict=True)
        return (1 - np.mean([similarity(one, other, 1.0)[0].mean() for one, other in pairs])) / 2

    best = dissimilarity(alpha)
    for i in range(2, 11):
        for sign in (-1, 1):
            step = sign * 2.0**-i
            while 0 < alpha + step < 5:
                new = dissimilarity(alpha + step)
                if not new < best:
                    break
                alpha, best = alpha + step, new
    return float(best)


def slow_ciede2000(one, other) -> float:
    """Compute one difference step by step, in degrees and with the branches of the paper."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_c**7 / (mean_c**7 + 25**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1 = math.degrees(math.atan2(b1, a1)) % 360 if c1 else 0.0
    h2 = math.degrees(math.atan2(b2, a2)) % 360 if c2 else 0.0
    if c1 * c2 == 0:
        dh, mh = 0.0, h1 + h2
    else:
        dh = h2 - h1
        if dh > 180:
            dh -= 360
        elif dh < -180:
            dh += 360
        if abs(h1 - h2) <= 180:
            mh = (h1 + h2) / 2
        elif h1 + h2 < 360:
            mh = (h1 + h2 + 360) / 2
        else:
            mh = (h1 + h2 - 360) / 2
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2))
    ml, mc = (l1 + l2) / 2, (c1 + c2) / 2

    def cos(degrees):
        return math.cos(math.radians(degrees))

    t = 1 - 0.17 * cos(mh - 30) + 0.24 * cos(2 * mh) + 0.32 * cos(3 * mh + 6) - 0.2 * cos(4 * mh - 63)
    theta = 30 * math.exp(-(((mh - 275) / 25) ** 2))
    rc = 2 * math.sqrt(mc**7 / (mc**7 + 25**7))
    sl = 1 + 0.015 * (ml - 50) ** 2 / math.sqrt(20 + (ml - 50) ** 2)
    sc, sh = 1 + 0.045 * mc, 1 + 0.015 * mc * t
    rt = -math.sin(math.radians(2 * theta)) * rc
    parts = (l2 - l1) / sl, (c2 - c1) / sc, big_h / sh
    return math.sqrt(sum(part**2 for part in parts) + rt * parts[1] * parts[2])


def slow_lab(rgb) -> list[float]:
    """Convert one colour by the printed matrix of IEC 61966-2-1."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    shares = [sum(m * v for m, v in zip(row, rgb, strict=True)) / sum(row) for row in matrix]
    f = [s ** (1 / 3) if s > 216 / 24389 else (24389 / 27 * s + 16) / 116 for s in shares]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


def slow_intensity(prediction, target, weights):
    above = below = 0.0
    for p, t, w in zip(prediction, target, weights, strict=True):
        above += w * np.mean(p) * np.mean(t)
        below += w * np.mean(p) ** 2
    scale = above / max(below, 1e-6)
    errors = [
        w * (scale * np.mean(p) - np.mean(t)) ** 2
        for p, t, w in zip(prediction, target, weights, strict=True)
    ]
    return sum(errors) / sum(weights)


def slow_chromaticity(prediction, target, weights):
    total = 0.0
    for p, t, w in zip(prediction, target, weights, strict=True):
        scale = np.mean(p) * np.mean(t) / max(np.mean(p) ** 2, 1e-6)
        labs = [linear_to_lab(torch.from_numpy(np.clip(one, 0, 1))) for one in (scale * p, t)]
        total += w * ciede2000(*labs).item()
    return total / sum(weights)


def slow_means(image, regions, count):
    colours, pixels = np.zeros((count, len(image))), np.zeros(count)
    for number in range(1, count + 1):
        inside = regions == number
        pixels[number - 1] = inside.sum()
        if inside.any():
            colours[number - 1] = image[:, inside].mean(1)
    return colours, pixels


def slow_constancy(scene, truth):
    """Compute variation (aligned and not), drift and retention of one scene by plain loops."""
    lights, materials = scene.shape[:2]
    aligned = [scene[k] / scene[k].mean() for k in range(lights)]
    variations, plain, drifts, red, blue, true_red, true_blue = ([] for _ in range(7))
    for m in range(materials):
        for values, kept in ((aligned, variations), (scene, plain)):
            gray = [np.mean(values[k][m]) for k in range(lights)]
            kept.append(np.std(gray) / np.mean(gray))
        ratios = [(scene[k][m][0] / scene[k][m][1], scene[k][m][2] / scene[k][m][1]) for k in range(lights)]
        drifts.append(np.var([r for r, _ in ratios]) + np.var([b for _, b in ratios]))
        red.append(np.mean([r for r, _ in ratios]))
        blue.append(np.mean([b for _, b in ratios]))
        true_red.append(truth[m][0] / truth[m][1])
        true_blue.append(truth[m][2] / truth[m][1])
    retained = (np.var(red) + np.var(blue)) / (np.var(true_red) + np.var(true_blue))
    return np.mean(variations), np.mean(plain), np.mean(drifts), retained


def slow_whdr(reflectance, comparisons, threshold=0.10):
    """Compute WHDR with the loop of the benchmark, over plain lists."""
    rows, columns = reflectance.shape[1:]
    wrong = total = 0.0
    for points, darker, weight in comparisons:
        values = []
        for x, y in points:
            mean = sum(channel[int(y * rows), int(x * columns)] for channel in reflectance) / len(reflectance)
            values.append(max(1e-10, mean))
        if values[1] / values[0] > 1 + threshold:
            answer = 1
        elif values[0] / values[1] > 1 + threshold:
            answer = 2
        else:
            answer = 0
        wrong += weight * (answer != darker)
        total += weight
    return wrong / total if total else np.nan


SOBEL = [(-1, -1, 1), (-1, 0, 2), (-1, 1, 1), (1, -1, -1), (1, 0, -2), (1, 1, -1)]


def slow_gradient(gray):
    """Compute the Sobel magnitude pixel by pixel; the border is repeated."""
    height, width = gray.shape
    found = np.zeros_like(gray)
    for y in range(height):
        for x in range(width):
            down = right = 0.0
            for one, other, weight in SOBEL:
                down += weight * gray[min(max(y + one, 0), height - 1), min(max(x + other, 0), width - 1)]
                right += weight * gray[min(max(y + other, 0), height - 1), min(max(x + one, 0), width - 1)]
            found[y, x] = math.hypot(down, right)
    return found


def slow_maximum(values):
    """Take the maximum over the ten rows and columns from 5 before a pixel to 4 after it."""
    found = np.zeros_like(values)
    for y, x in np.ndindex(values.shape):
        found[y, x] = values[max(0, y - 5) : y + 5, max(0, x - 5) : x + 5].max()
    return found


def slow_weights(image, labels):
    """Average the gradient of the encoded photograph over each region, found by flooding."""
    slope, weights = slow_gradient(linear_to_srgb(image).mean(0)), np.zeros(labels.shape)
    free = {tuple(place) for place in np.argwhere(labels == 2)}
    while free:
        region, border = [], [free.pop()]
        while border:
            y, x = border.pop()
            region.append((y, x))
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & free
            free -= near
            border += near
        for place in region:
            weights[place] = np.mean([slope[one] for one in region])
    return weights


def slow_counts(shading, labels, image, variant):
    """Fill a 3x2 table at each threshold, pixel by pixel."""
    gray = shading.mean(0)
    if variant != "kovacs2017":
        gray = np.log(np.maximum(gray, 1e-4))
    plain = slow_gradient(gray)
    widest = slow_maximum(plain)
    weights = slow_weights(image, labels) if variant == "challenge2018" else np.ones(labels.shape)
    tables = []
    for threshold in saw_thresholds(variant):
        table = np.zeros((3, 2))
        for place in np.ndindex(labels.shape):
            label = labels[place]
            if label == 100:
                continue
            filtered = label != 2 or variant == "kovacs2017"
            smooth = (widest if filtered else plain)[place] < threshold
            table[label, int(smooth)] += weights[place] if label == 2 else 1
        tables.append(np.floor(table))
    return np.stack(tables)


def slow_precision(counts, variant):
    """Balance the classes, and sum trapezoids."""
    added = 0 if variant == "kovacs2017" else 1e-5
    path = []
    for table in counts:
        rows = [w * row / (row.sum() + added) for w, row in zip((1, 1, 2), table, strict=True)]
        found = sum(row[1] for row in rows)
        precision = 1 if found + added == 0 else rows[2][1] / (found + added)
        path.append((rows[2][1] / (rows[2].sum() + added), precision))
    path = [(0, path[0][1]), *path] + ([] if variant == "kovacs2017" else [(1, 0.5)])
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(path))


def drawn_saw(seed=0, height=17, width=23, labels=(0, 1, 2, 2, 100)):
    """Draw shading in patches of several contrasts, labels in patches, and a photograph."""
    rng = np.random.default_rng(seed)
    patches = np.kron(rng.uniform(0, 0.2, (height // 6 + 1, width // 6 + 1)), np.ones((6, 6)))
    shading = patches[:height, :width] * rng.uniform(0.8, 1.2, (3, 1, 1))
    shading += rng.normal(size=shading.shape) * 0.0002
    regions = np.kron(rng.choice(labels, (height // 4 + 1, width // 4 + 1)), np.ones((4, 4), int))
    return (
        torch.from_numpy(shading)[None],
        torch.from_numpy(regions[:height, :width].copy())[None],
        torch.from_numpy(rng.random((3, height, width)))[None],
    )
