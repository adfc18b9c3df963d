"""The method once more, slowly: one word, one candidate and one coordinate at a time."""

import itertools

import numpy as np


def monotone(a, w, b):
    return min(w, b) <= a <= max(w, b)


def monotonize(anchor, point, baseline, m):
    return np.array(
        [a if monotone(a, w, b) else w - (w - b) / m for a, w, b in zip(anchor, point, baseline, strict=True)],
        dtype=anchor.dtype,
    )


def neighbors(rows, word, k):
    distances = [float(np.sqrt(((rows[word] - row) ** 2).sum())) for row in rows]
    return sorted((i for i in range(len(rows)) if i != word), key=lambda i: (distances[i], i))[:k]


def cost(rows, candidate, word, baseline, m, strategy):
    if strategy == "maxcount":
        return sum(not monotone(a, w, b) for a, w, b in zip(rows[candidate], rows[word], baseline, strict=True))
    moved = monotonize(rows[candidate], rows[word], baseline, m)
    return float(np.sqrt(((rows[candidate] - moved) ** 2).sum()))


def is_baseline(rows, word, baseline_id):
    """A row with the contents of the baseline is the baseline, whatever its number."""
    return bool((rows[word] == rows[baseline_id]).all())


def anchor_ids(rows, word, baseline_id, m, k, strategy):
    """The ids of the walk, the word first."""
    walk = [word]
    for _ in range(m):
        current = walk[-1]
        if is_baseline(rows, current, baseline_id):
            walk.append(baseline_id)
            continue
        near = neighbors(rows, current, k)
        candidates = [c for c in near if not is_baseline(rows, c, baseline_id) and c not in walk]
        costs = [cost(rows, c, current, rows[baseline_id], m, strategy) for c in candidates]
        # min() takes the first of equals, and neighbours come nearest first.
        walk.append(candidates[costs.index(min(costs))] if candidates else baseline_id)
    return walk


def uniform_anchor_ids(rows, word, baseline_id, m, k, strategy):
    """The ids of the walk that looks around the points of the straight line, the word first."""
    walk = [word]
    for j in range(m, 0, -1):
        current, baseline = walk[-1], rows[baseline_id]
        if is_baseline(rows, current, baseline_id):
            walk.append(baseline_id)
            continue
        point = baseline + np.float32(j / (m + 1)) * (rows[word] - baseline)
        distances = [float(np.sqrt(((point - row) ** 2).sum())) for row in rows]
        near = sorted(range(len(rows)), key=lambda i: (distances[i], i))[:k]
        candidates = [c for c in near if not is_baseline(rows, c, baseline_id) and c not in walk]
        costs = [cost(rows, c, current, baseline, m, strategy) for c in candidates]
        walk.append(candidates[costs.index(min(costs))] if candidates else baseline_id)
    return walk


def knots(rows, walk, baseline_id):
    """The points of the walk, baseline first, shape (m + 2, D)."""
    m = len(walk) - 1
    points = [rows[walk[0]]]
    for anchor in walk[1:]:
        points.append(monotonize(rows[anchor], points[-1], rows[baseline_id], m))
    return np.stack([*points, rows[baseline_id]])[::-1]


def path_integral(gradient, points, n_per_piece=400):
    """Attributions of a path by the midpoint rule with very many nodes on each straight piece; float64."""
    total = np.zeros_like(points[0], dtype=np.float64)
    for left, right in itertools.pairwise(points):
        step = (right - left) / n_per_piece
        for k in range(n_per_piece):
            total += gradient(left + (k + 0.5) * step) * step
    return total
