"""Kernels of GradBench, a benchmark of automatic differentiation, written from the definitions in GradBench."""

from __future__ import annotations

import itertools
import math

import numpy as np
from kernel import Kernel

__all__ = ["GRADBENCH"]


def rotated(n, angles, points):
    """Rotate points by Rodrigues' formula.

    Each row of `angles` is a rotation: its norm is the angle, and its direction is the axis.
    """
    angle = n.sqrt(n.sum(angles * angles, axis=-1, keepdims=True))
    axis = angles / angle
    along = n.sum(axis * points, axis=-1, keepdims=True)
    across = [
        axis[..., i] * points[..., j] - axis[..., j] * points[..., i]
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    c = n.cos(angle)
    return points * c + n.stack(across, axis=-1) * n.sin(angle) + axis * along * (1 - c)


def bundle_inputs(rng, cameras, points, seen):
    rows = rng.standard_normal((cameras, 11))
    rows[:, 3:6] *= 0.1
    rows[:, 9:] *= 0.01
    pairs = np.arange(seen) % cameras, np.arange(seen) % points
    xs = rng.standard_normal((points, 3)) + 10.0
    return rows, xs, rng.uniform(0.0, 1.0, seen), *pairs, rng.standard_normal((seen, 2))


def bundle(n, cameras, points, weights, camera, point, features):
    """Return the residuals of bundle adjustment.

    They are the reprojection errors of points in cameras, and the errors of the weights.
    """
    rows, apart = cameras[camera], points[point] - cameras[camera, 3:6]
    x = rotated(n, rows[:, :3], apart)
    flat = x[:, :2] / x[:, 2:]
    square = n.sum(flat * flat, axis=1)
    distortion = 1 + rows[:, 9] * square + rows[:, 10] * square * square
    seen = flat * (distortion * rows[:, 6])[:, None] + rows[:, 7:9]
    return weights[:, None] * (seen - features), 1 - weights * weights


def bundle_numpy(cameras, points, weights, camera, point, features):
    return bundle(np, cameras, points, weights, camera, point, features)


def bundle_numba(cameras, points, weights, camera, point, features):
    errors = np.empty((len(weights), 2))
    for k in range(len(weights)):
        row = cameras[camera[k]]
        a, b, c = points[point[k]] - row[3:6]
        angle = np.sqrt(row[0] ** 2 + row[1] ** 2 + row[2] ** 2)
        p, q, r = row[0] / angle, row[1] / angle, row[2] / angle
        cosine, sine = np.cos(angle), np.sin(angle)
        along = (p * a + q * b + r * c) * (1 - cosine)
        x = a * cosine + (q * c - r * b) * sine + p * along
        y = b * cosine + (r * a - p * c) * sine + q * along
        z = c * cosine + (p * b - q * a) * sine + r * along
        x, y = x / z, y / z
        square = x * x + y * y
        factor = row[6] * (1 + row[9] * square + row[10] * square * square)
        errors[k, 0] = weights[k] * (x * factor + row[7] - features[k, 0])
        errors[k, 1] = weights[k] * (y * factor + row[8] - features[k, 1])
    return errors, 1 - weights * weights


def mixture_inputs(rng, points, features, clusters):
    triangle = features * (features - 1) // 2
    return (
        rng.standard_normal(clusters),
        rng.standard_normal((clusters, features)),
        0.3 * rng.standard_normal((clusters, features)),
        0.3 * rng.standard_normal((clusters, triangle)),
        rng.standard_normal((points, features)),
    )


def wishart_constant(features):
    """Return the constant term of the Wishart prior of one cluster, for the parameters gamma = 1 and m = 0."""
    degrees = features + 1
    scale = sum(math.lgamma(0.5 * (degrees - j)) for j in range(features))
    scale += 0.25 * features * (features - 1) * math.log(math.pi)
    return 0.5 * degrees * features * math.log(2) + scale


def mixture(n, logits, means, logarithms, lower, xs):
    """Return the log likelihood of a Gaussian mixture plus the logarithm of its prior.

    Triangular factors define the inverse covariances. `logarithms` has the logarithms of their diagonals, and `lower`
    their elements below the diagonal.
    """
    clusters, features = means.shape
    points = xs.shape[0]
    # `places` has, for each element below the diagonal, its position in `lower`, column by column. All other elements
    # have the position of the zero that is appended to `lower`.
    columns, rows = np.triu_indices(features, 1)
    places = np.full((features, features), len(rows))
    places[rows, columns] = np.arange(len(rows))
    factors = n.pad(lower, ((0, 0), (0, 1)))[:, places]
    diagonal = n.exp(logarithms)
    apart = xs - means[:, None]
    whitened = diagonal[:, None] * apart + apart @ n.swapaxes(factors, 1, 2)
    squares = n.sum(whitened * whitened, axis=2)
    inner = logits + n.sum(logarithms, axis=1) - 0.5 * squares.T
    likelihood = n.sum(n.logsumexp(inner, axis=1)) - points * n.logsumexp(logits)
    prior = 0.5 * (n.sum(diagonal * diagonal) + n.sum(lower * lower))
    constant = -0.5 * points * features * math.log(2 * math.pi)
    return likelihood + constant + prior + clusters * wishart_constant(features)


def mixture_numpy(logits, means, logarithms, lower, xs):
    clusters, features = means.shape
    columns, rows = np.triu_indices(features, 1)
    inner = np.empty((clusters, len(xs)))
    for k in range(clusters):
        factor = np.diag(np.exp(logarithms[k]))
        factor[rows, columns] = lower[k]
        whitened = (xs - means[k]) @ factor.T
        squares = np.einsum("ij,ij->i", whitened, whitened)
        inner[k] = logits[k] + logarithms[k].sum() - 0.5 * squares
    most = inner.max(axis=0)
    total = np.sum(np.log(np.exp(inner - most).sum(axis=0)) + most)
    total -= len(xs) * np.log(np.exp(logits).sum())
    total += 0.5 * (np.exp(2 * logarithms).sum() + np.square(lower).sum())
    constant = -0.5 * len(xs) * features * math.log(2 * math.pi)
    return total + constant + clusters * wishart_constant(features)


BONES = 22
PARENTS = np.array([0, 0, *[0 if k % 4 == 2 else k - 1 for k in range(2, BONES)]])
"""Parent of each bone.

The first two bones are the wrist and the forearm, followed by five fingers of four bones each.
"""
ANGLES = np.full((BONES, 3), 26)
ANGLES[[2 + 4 * finger + k for finger in range(5) for k in (0, 0, 1, 2)], [0, 1, 0, 0] * 5] = (
    np.arange(6, 26)
)
"""Positions of each bone's three angles in the parameters.

An angle that is always zero has the position of the appended zero.
"""


def hand_inputs(rng, vertices):
    def affine(count):
        rows = np.zeros((count, 4, 4))
        rows[:, :3, :3] = np.linalg.qr(rng.standard_normal((count, 3, 3)))[0]
        rows[:, :3, 3] = 0.1 * rng.standard_normal((count, 3))
        rows[:, 3, 3] = 1
        return rows

    weights = rng.uniform(0.0, 1.0, (vertices, BONES))
    weights /= weights.sum(axis=1, keepdims=True)
    positions = np.concatenate([rng.standard_normal((vertices, 3)), np.ones((vertices, 1))], 1)
    matched = rng.integers(0, vertices, vertices)
    points = rng.standard_normal((vertices, 3))
    return (
        rng.standard_normal(26),
        affine(BONES),
        affine(BONES),
        weights,
        positions,
        matched,
        points,
    )


def bent(n, angles):
    """Return the product of three rotations for each row of angles.

    They are about x by the first angle, about z by the second, and about y by the last.
    """
    (x, z, y), (u, w, v) = n.cos(angles).T, n.sin(angles).T
    rows = [
        [z * y, z * v * u - w * x, z * v * x + w * u],
        [w * y, w * v * u + z * x, w * v * x - z * u],
        [-v, y * u, y * x],
    ]
    return n.stack([n.stack(row, axis=-1) for row in rows], axis=-2)


def hand(n, theta, relatives, inverses, weights, positions, matched, points):
    """Return the differences between the vertices of a hand in a pose and the points that they should match."""
    angles = n.pad(theta, (0, 1))[ANGLES]
    posed = n.concatenate([relatives[:, :, :3] @ bent(n, angles), relatives[:, :, 3:]], axis=2)

    def attach(k, bones):
        return bones.at[k].set(bones[n.take(PARENTS, k)] @ bones[k])

    transforms = n.fori_loop(1, BONES, attach, posed) @ inverses
    blended = n.einsum("vb,bij->vij", weights, transforms[:, :3])
    vertices = rotated(n, theta[:3], n.einsum("vij,vj->vi", blended, positions)) + theta[3:6]
    return points - vertices[matched]


def hand_numpy(theta, relatives, inverses, weights, positions, matched, points):
    angles = np.append(theta, 0.0)[ANGLES]
    bones = relatives.copy()
    bones[:, :, :3] = relatives[:, :, :3] @ bent(np, angles)
    for k in range(1, BONES):
        bones[k] = bones[PARENTS[k]] @ bones[k]
    transforms = (bones @ inverses)[:, :3]
    blended = (weights @ transforms.reshape(BONES, 12)).reshape(-1, 3, 4)
    vertices = rotated(np, theta[:3], np.einsum("vij,vj->vi", blended, positions)) + theta[3:6]
    return points - vertices[matched]


def clusters_inputs(rng, points, features, clusters):
    xs = rng.standard_normal((points, features))
    return xs, xs[:clusters] + 0.0


def clusters(n, xs, centres):
    """Compute the k-means cost of the centres.

    Return a Newton step of the centres for this cost, and the cost.
    """

    def cost(centres):
        squares = n.sum(xs * xs, axis=1)[:, None] + n.sum(centres * centres, axis=1)
        return n.sum(n.min(squares - 2 * xs @ centres.T, axis=1))

    # The matrix of second derivatives is diagonal. Its product with a vector of ones, which a forward derivative
    # computes, is therefore the diagonal.
    slope, curvature = n.jvp(n.grad(cost), (centres,), (n.ones_like(centres),))
    return slope / curvature, cost(centres)


def clusters_numpy(xs, centres):
    squares = np.sum(xs * xs, axis=1)[:, None] + np.sum(centres * centres, axis=1)
    squares -= 2 * xs @ centres.T
    nearest = np.argmin(squares, axis=1)
    counts = np.bincount(nearest, minlength=len(centres))[:, None]
    sums = np.stack([np.bincount(nearest, x, len(centres)) for x in xs.T], axis=1)
    return centres - sums / counts, squares[np.arange(len(xs)), nearest].sum()


def clusters_numba(xs, centres):
    sums, counts, total = np.zeros_like(centres), np.zeros(len(centres)), 0.0
    for i in range(len(xs)):
        nearest, least = 0, np.inf
        for k in range(len(centres)):
            square = 0.0
            for j in range(xs.shape[1]):
                square += (xs[i, j] - centres[k, j]) ** 2
            if square < least:
                nearest, least = k, square
        counts[nearest] += 1
        total += least
        for j in range(xs.shape[1]):
            sums[nearest, j] += xs[i, j]
    steps = np.empty_like(centres)
    for k in range(len(centres)):
        steps[k] = centres[k] - sums[k] / counts[k]
    return steps, total


def polynomial_inputs(rng, coefficients, points):
    return rng.standard_normal(coefficients), np.linspace(-1.0, 1.0, points)


def polynomial(n, coefficients, ts):
    """Return half the sum of squared differences between the sign function and a polynomial at the points `ts`."""

    def iteration(value, coefficient):
        return value * ts + coefficient, None

    value, _ = n.scan(iteration, n.zeros_like(ts), coefficients, reverse=True)
    return 0.5 * n.sum((n.sign(ts) - value) ** 2)


def polynomial_numpy(coefficients, ts):
    value = np.zeros_like(ts)
    for coefficient in coefficients[::-1]:
        value *= ts
        value += coefficient
    return 0.5 * np.sum((np.sign(ts) - value) ** 2)


def polynomial_numba(coefficients, ts):
    total = 0.0
    for i in range(len(ts)):
        value = 0.0
        for k in range(len(coefficients) - 1, -1, -1):
            value = value * ts[i] + coefficients[k]
        total += (np.sign(ts[i]) - value) ** 2
    return 0.5 * total


def exponentials_inputs(rng, size):
    return (rng.standard_normal(size),)


def exponentials(n, xs):
    return n.logsumexp(xs)


def exponentials_numpy(xs):
    most = xs.max()
    return np.log(np.sum(np.exp(xs - most))) + most


def exponentials_numba(xs):
    most, total = -np.inf, 0.0
    for i in range(len(xs)):
        most = max(most, xs[i])
    for i in range(len(xs)):
        total += np.exp(xs[i] - most)
    return np.log(total) + most


def letters_inputs(rng, layers, bits, letters):
    return (
        rng.standard_normal((layers, 2, 4, bits)),
        rng.standard_normal((3, bits)),
        rng.standard_normal((layers, 2, bits)),
        1.0 * (rng.uniform(size=(letters, bits)) < 0.3),
    )


def cells(n, layers, ends, hidden, memory, x):
    """Compute one step of a diagonal LSTM; return the new hidden states and memories, and the log probabilities."""
    x = x * ends[0]
    states, memories = [], []
    for (weights, biases), h, c in zip(layers, hidden, memory, strict=True):
        gates = n.stack([x, h, x, h]) * weights + biases
        forget, enter, leave = 1 / (1 + n.exp(-gates[:3]))
        memories.append(c * forget + enter * n.tanh(gates[3]))
        x = leave * n.tanh(memories[-1])
        states.append(x)
    x = x * ends[1] + ends[2]
    return states, memories, x - n.log(n.sum(n.exp(x)) + 2)


def letters(n, layers, ends, state, sequence):
    """Return the mean negative log probability of the next letter, over all letters of the sequence."""

    def step(carry, pair):
        x, following = pair
        hidden, memory, predicted = cells(n, layers, ends, *carry, x)
        return (n.stack(hidden), n.stack(memory)), n.sum(following * predicted)

    _, sums = n.scan(step, (state[:, 0], state[:, 1]), (sequence[:-1], sequence[1:]))
    return -n.sum(sums) / ((sequence.shape[0] - 1) * sequence.shape[1])


def letters_numpy(layers, ends, state, sequence):
    hidden, memory, total = state[:, 0], state[:, 1], 0.0
    for x, following in itertools.pairwise(sequence):
        hidden, memory, predicted = cells(np, layers, ends, hidden, memory, x)
        total += following @ predicted
    return -total / ((len(sequence) - 1) * sequence.shape[1])


def letters_numba(layers, ends, state, sequence):
    depth, bits = len(layers), sequence.shape[1]
    hidden, memory = state[:, 0].copy(), state[:, 1].copy()
    total = 0.0
    for k in range(len(sequence) - 1):
        exponentials = 2.0
        products = 0.0
        for j in range(bits):
            x = sequence[k, j] * ends[0, j]
            for m in range(depth):
                weights, biases = layers[m, 0], layers[m, 1]
                h = hidden[m, j]
                forget = 1 / (1 + np.exp(-x * weights[0, j] - biases[0, j]))
                enter = 1 / (1 + np.exp(-h * weights[1, j] - biases[1, j]))
                leave = 1 / (1 + np.exp(-x * weights[2, j] - biases[2, j]))
                change = np.tanh(h * weights[3, j] + biases[3, j])
                memory[m, j] = memory[m, j] * forget + enter * change
                hidden[m, j] = x = leave * np.tanh(memory[m, j])
            x = x * ends[1, j] + ends[2, j]
            exponentials += np.exp(x)
            products += sequence[k + 1, j] * x
        total += products - np.sum(sequence[k + 1]) * np.log(exponentials)
    return -total / ((len(sequence) - 1) * bits)


def chain_inputs(rng, size, steps):
    return rng.uniform(0.5, 1.5, size), steps


def chain_slope(n, x, y):
    return n.concatenate([x[:1], x[1:] * y[:-1]])


def chain(n, x, steps):
    """Integrate a chain of equations from 0 to 2 by Runge-Kutta steps. Each element drives the next one."""
    h = 2 / steps

    def step(_, y):
        a = chain_slope(n, x, y)
        b = chain_slope(n, x, y + h / 2 * a)
        c = chain_slope(n, x, y + h / 2 * b)
        d = chain_slope(n, x, y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d)

    return n.fori_loop(0, steps, step, n.zeros_like(x))


def chain_numpy(x, steps):
    h, y = 2 / steps, np.zeros_like(x)
    for _ in range(steps):
        a = chain_slope(np, x, y)
        b = chain_slope(np, x, y + h / 2 * a)
        c = chain_slope(np, x, y + h / 2 * b)
        d = chain_slope(np, x, y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
    return y


def chain_numba(x, steps):
    h, n = 2 / steps, len(x)
    y, moved, total = np.zeros(n), np.empty(n), np.empty(n)
    parts = np.array([0.5, 0.5, 1.0])
    weights = np.array([1.0, 2.0, 2.0, 1.0])
    for _ in range(steps):
        moved[:] = y
        total[:] = 0
        for stage in range(4):
            # Update the elements from last to first. The slope of each element needs the old value of the preceding
            # element.
            for i in range(n - 1, -1, -1):
                slope = x[i] * moved[i - 1] if i else x[0]
                total[i] += weights[stage] * slope
                if stage < 3:
                    moved[i] = y[i] + h * parts[stage] * slope
        for i in range(n):
            y[i] += h / 6 * total[i]
    return y


def minors_inputs(rng, size):
    return (rng.standard_normal((size, size)),)


def minors_table(size):
    """Return, for each set of columns and each column, the set without this column, and the sign of the column in the
    expansion.

    Sets are bit masks. The sign is 0 if the column is not in the set.
    """
    sets, columns = np.arange(2**size)[:, None], np.arange(size)
    inside = (sets >> columns) & 1
    after = np.cumsum(inside[:, ::-1], axis=1)[:, ::-1] - inside
    return sets & ~(1 << columns), inside * (-1.0) ** after


def minors(n, a):
    """Return the determinant by expansion along the rows. The minor of each set of columns is computed only once."""
    size = a.shape[0]
    without, signs = minors_table(size)
    start = n.where(n.arange(2**size) == 0, 1.0, 0.0)

    def iteration(values, row):
        return n.sum(signs * row * values[without], axis=1), None

    values, _ = n.scan(iteration, start, a)
    return values[-1]


def minors_numpy(a):
    without, signs = minors_table(len(a))
    values = np.zeros(2 ** len(a))
    values[0] = 1
    for row in a:
        values = np.einsum("sj,j,sj->s", signs, row, values[without])
    return values[-1]


def minors_numba(a):
    size = len(a)
    values = np.zeros(2**size)
    values[0] = 1.0
    for s in range(1, 2**size):
        row = -1
        for j in range(size):
            row += (s >> j) & 1
        sign = 1.0
        for j in range(size - 1, -1, -1):
            if (s >> j) & 1:
                values[s] += sign * a[row, j] * values[s & ~(1 << j)]
                sign = -sign
    return values[-1]


SQUARE = 1e-10
"""Bound of the squared norms of the gradient and of a step. Below it, gradient descent ends."""


def descent(n, measured, start, rate):
    """Minimise a function by gradient descent, and return the point of the minimum.

    `measured(x)` returns the value and the gradient at x. The step size `rate` doubles after ten steps that decrease
    the value, and halves after a step that does not.
    """

    def continues(carry):
        _, _, slope, _, _, moved = carry
        return (n.sum(slope * slope) > SQUARE) & (moved > SQUARE)

    def iteration(carry):
        x, value, slope, rate, helped, _ = carry
        rate = n.where(helped == 10, 2 * rate, rate)
        helped = n.where(helped == 10, 0, helped)
        step = rate * slope
        moved = n.sum(step * step)
        after, after_slope = measured(x - step)
        better = (after < value) & (moved > SQUARE)
        return (
            n.where(better, x - step, x),
            n.where(better, after, value),
            n.where(better, after_slope, slope),
            n.where(better, rate, rate / 2),
            n.where(better, helped + 1, 0),
            moved,
        )

    return n.while_loop(continues, iteration, (start, *measured(start), rate, 0, rate + 1))[0]


def descent_numpy(measured, start, rate):
    x, helped = start, 0
    value, slope = measured(x)
    while sum(s * s for s in slope) > SQUARE:
        if helped == 10:
            rate, helped = 2 * rate, 0
        step = [rate * s for s in slope]
        if sum(s * s for s in step) <= SQUARE:
            break
        candidate = [a - s for a, s in zip(x, step, strict=True)]
        after, after_slope = measured(candidate)
        if after < value:
            x, value, slope, helped = candidate, after, after_slope, helped + 1
        else:
            rate, helped = rate / 2, 0
    return x


def forward(n, function):
    """Return a function that computes the value and the gradient of `function`.

    The gradient is computed in forward mode, by one JVP per element of the vector.
    """

    def measured(x):
        pairs = [n.jvp(function, (x,), (direction,)) for direction in np.eye(x.shape[0])]
        return pairs[0][0], n.stack([slope for _, slope in pairs])

    return measured


def particle_inputs(rng, slowness, steps):
    return np.zeros(1), np.float64(1 / slowness), np.float64(1 / steps)


def particle(n, w, rate, interval):
    """Optimise the position of a charge, so that a particle passes through the origin; return this position."""

    def missed(w):
        charges = n.stack([n.stack([10.0 + 0 * w[0], 10 - w[0]]), n.asarray([10.0, 0.0])])

        def potential(x):
            apart = charges - x
            return n.sum(1 / n.sqrt(n.sum(apart * apart, axis=1)))

        def flies(state):
            x, v = state
            return x[1] + interval * v[1] > 0

        def step(state):
            x, v = state
            return x + interval * v, v - interval * n.grad(potential)(x)

        x, v = n.while_loop(flies, step, (n.asarray([0.0, 8.0]), n.asarray([0.75, 0.0])))
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    return descent(n, forward(n, missed), w, rate)


def particle_numpy(w, rate, interval):
    def missed(w):
        # The particle has the position x, y and the velocity u, v. The first charge moves down by w, and dx, dy, du,
        # dv are derivatives with respect to w.
        x, y, u, v = 0.0, 8.0, 0.75, 0.0
        dx = dy = du = dv = 0.0
        while y + interval * v > 0:
            a = b = da = db = 0.0
            for top, falls in ((10 - w[0], 1), (0.0, 0)):
                p, q, dq = x - 10, y - top, dy + falls
                square = p * p + q * q
                cube = square * math.sqrt(square)
                share = 3 * (p * dx + q * dq) / square
                a, b = a + p / cube, b + q / cube
                da, db = da + (dx - share * p) / cube, db + (dq - share * q) / cube
            x, y, u, v = x + interval * u, y + interval * v, u + interval * a, v + interval * b
            dx, dy, du, dv = (
                dx + interval * du,
                dy + interval * dv,
                du + interval * da,
                dv + interval * db,
            )
        left = -y / v
        end = x + left * u
        slope = dx + left * du - (dy + left * dv) / v * u
        return end * end, [2 * end * slope]

    return np.array(descent_numpy(missed, [float(w[0])], float(rate)))


def saddle_inputs(rng, slowness):
    return np.ones(2), np.float64(1 / slowness)


def saddle(n, start, rate):
    """Return the point x that minimises the maximum over y of |x|^2 - |y|^2, and the y of this maximum."""

    def height(x, y):
        return n.sum(x * x) - n.sum(y * y)

    def lowest(x):
        downwards = n.value_and_grad(lambda y: -height(x, y))
        return descent(n, downwards, start, rate)

    x = descent(n, forward(n, lambda x: height(x, lowest(x))), start, rate)
    return x, lowest(x)


def saddle_numpy(start, rate):
    start, rate = start.tolist(), float(rate)

    def highest(x):
        def downwards(y):
            square = y[0] * y[0] + y[1] * y[1]
            return square - x[0] * x[0] - x[1] * x[1], [2 * y[0], 2 * y[1]]

        return descent_numpy(downwards, start, rate)

    def measured(x):
        # The gradient with respect to x needs no derivative of y, because the maximising y does not depend on x.
        y = highest(x)
        height = x[0] * x[0] + x[1] * x[1] - y[0] * y[0] - y[1] * y[1]
        return height, [2 * x[0], 2 * x[1]]

    x = descent_numpy(measured, start, rate)
    return np.array(x), np.array(highest(x))


GRADBENCH = [
    Kernel(
        "gradbench ba",
        "GradBench, ba: bundle adjustment",
        bundle_inputs,
        bundle,
        bundle_numpy,
        size=(50, 5000, 50_000),
        small=(3, 5, 7),
        numba=bundle_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench gmm",
        "GradBench, gmm: mixtures of Gaussians",
        mixture_inputs,
        mixture,
        mixture_numpy,
        size=(10_000, 10, 25),
        small=(6, 3, 2),
        gradient=1,
    ),
    Kernel(
        "gradbench ht",
        "GradBench, ht: tracking of a hand",
        hand_inputs,
        hand,
        hand_numpy,
        size=(100_000,),
        small=(5,),
        gradient=0,
    ),
    Kernel(
        "gradbench kmeans",
        "GradBench, kmeans: Newton's step",
        clusters_inputs,
        clusters,
        clusters_numpy,
        size=(60_000, 8, 20),
        small=(20, 2, 3),
        numba=clusters_numba,
    ),
    Kernel(
        "gradbench llsq",
        "GradBench, llsq: least squares of a polynomial",
        polynomial_inputs,
        polynomial,
        polynomial_numpy,
        size=(100, 200_000),
        small=(4, 7),
        numba=polynomial_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench lse",
        "GradBench, lse: logarithm of a sum of exponentials",
        exponentials_inputs,
        exponentials,
        exponentials_numpy,
        size=(2_000_000,),
        small=(7,),
        numba=exponentials_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench lstm",
        "GradBench, lstm: weights diagonal",
        letters_inputs,
        letters,
        letters_numpy,
        size=(2, 14, 500),
        small=(2, 3, 4),
        numba=letters_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench ode",
        "GradBench, ode: a chain by Runge and Kutta",
        chain_inputs,
        chain,
        chain_numpy,
        size=(100, 1000),
        small=(5, 4),
        numba=chain_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench det",
        "GradBench, det: by minors, each computed once",
        minors_inputs,
        minors,
        minors_numpy,
        size=(14,),
        small=(4,),
        numba=minors_numba,
        gradient=0,
    ),
    Kernel(
        "gradbench particle",
        "GradBench, particle: forward mode over reverse mode",
        particle_inputs,
        particle,
        particle_numpy,
        size=(100_000, 10),
        small=(100, 1),
        tolerance=1e-6,
    ),
    Kernel(
        "gradbench saddle",
        "GradBench, saddle: forward mode over reverse mode",
        saddle_inputs,
        saddle,
        saddle_numpy,
        size=(100_000,),
        small=(3,),
        tolerance=1e-6,
    ),
]
