"""Groups of columns or rows of a sparse matrix that one derivative can compute together.

A cover assigns to each nonzero the product from which it is read. A forward product is the matrix times the sum of the
unit vectors of a group of columns. A reverse product is the transposed matrix times such a sum for a group of rows. The
groups are the colours of a graph colouring. There are four kinds of covers:

- columns: columns of one colour have no nonzero in a common row (Curtis, Powell and Reid, 1974);
- both directions: dense rows are read by colours of rows, other rows by colours of columns (Coleman and Verma, 1998);
- star, for a symmetric matrix: no path of four vertices has only two colours, and each nonzero is read directly;
- acyclic, for a symmetric matrix: no cycle has only two colours, and nonzeros are computed by substitution.

Source: A. Gebremedhin, F. Manne and A. Pothen, "What color is your Jacobian?", SIAM Review 47, 2005.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from tenferro.sparsity.relations import Pattern

__all__ = ["Cover", "cover_of", "lattice_colors", "symmetric_cover_of"]

Array = np.ndarray[Any, Any]

ROUNDS = 8
"""Number of passes that improve a colouring.

Each pass colours the columns again, visiting the old colours in a new order.
"""
MAX_PASSED_NONZEROS = 2_000_000
"""Maximum number of nonzeros that all improving passes visit together."""
MAX_LATTICE_TRIALS = 5_000
"""Maximum number of linear colourings of a grid that `_linear_colorings` tries."""
MAX_DISPLACEMENTS = 4096
"""Maximum number of distinct displacements between columns of a row. With more, linear colourings are not tried."""
SAMPLED_ROWS = 300
"""Number of rows in the first sample, for which displacements are computed."""
MAX_SAMPLES = 12
"""Maximum number of times that rows are added to the sample of rows."""
MAX_LATTICE_ROW = 200
"""Maximum number of columns of a row for which displacements are computed."""
DENSE = 3
"""Minimum ratio of the longest row or column to the mean length for which covers in both directions are tried."""
MAX_STAR_WORK = 3_000_000
"""Maximum number of paths of two edges for which star colourings are computed. For more paths they take too long."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Colours of columns and rows, and for each nonzero the position in the products from which it is read.

    Attributes:
        kind: "forward", "reverse", "bidirectional", "star" or "acyclic".
        columns: the colour of each column, -1 for a column without nonzeros; None if there are no forward products.
        rows: the colour of each row, -1 for a row that is not needed; None if there are no reverse products.
        forward: the number of colours of columns.
        reverse: the number of colours of rows.
        source: for each nonzero in row-major order, its position in the array of all products. The array contains the
            forward products one after another, followed by the reverse products.
        substitution: for "acyclic", the factorised triangular system whose solution contains the nonzeros.
        order: for "acyclic", the position in that solution of each nonzero.
    """

    kind: str
    columns: Array | None
    rows: Array | None
    forward: int
    reverse: int
    source: Array
    substitution: SuperLU | None = None
    order: Array | None = None

    @property
    def count(self) -> int:
        """The number of products, forward and reverse."""
        return self.forward + self.reverse

    def nonzeros(self, products: Array) -> Array:
        """Return the nonzeros in row-major order. `products` contains all products, one after another."""
        read = products[self.source]
        if self.substitution is None:
            return read
        return self.substitution.solve(read.astype(np.float64)).astype(products.dtype)[self.order]


# ---- Jacobians -------------------------------------------------------------------------------------


def cover_of(pattern: Pattern, kind: str, shapes: Sequence[tuple[int, ...]]) -> Cover:
    """Choose a cover for a matrix whose nonzeros are given by `pattern`.

    Args:
        kind: "forward", "reverse", "bidirectional", or "auto" for the kind with the fewest products.
        shapes: the shapes of the tensors whose elements the columns stand for, in the order of the columns.
    """
    longest_row = _largest(np.diff(pattern.indptr))
    longest_column = _largest(np.bincount(pattern.indices))
    best: Cover | None = None
    if kind in ("auto", "forward"):
        best = _forward(pattern, colors_of_columns(pattern, shapes))
    if kind == "reverse" or (best is not None and kind == "auto" and longest_column < best.count):
        cover = _reverse(pattern, colors_of_columns(pattern.T.tocsr(), ()))
        best = cover if best is None or cover.count < best.count else best
    has_dense_lines = longest_row > DENSE * max(
        pattern.nnz / max(pattern.shape[0], 1), 1
    ) and longest_column > DENSE * max(pattern.nnz / max(pattern.shape[1], 1), 1)
    if kind == "bidirectional" or (kind == "auto" and has_dense_lines):
        cover = _bidirectional(pattern)
        best = cover if best is None or cover.count < best.count else best
    assert best is not None
    return best


def _largest(counts: Array) -> int:
    return int(counts.max()) if counts.size else 0


def _forward(pattern: Pattern, colors: Array) -> Cover:
    rows = pattern.shape[0]
    source = colors[pattern.indices].astype(np.int64) * rows + _rows_of(pattern)
    return Cover("forward", colors, None, _count(colors), 0, source)


def _reverse(pattern: Pattern, colors: Array) -> Cover:
    columns = pattern.shape[1]
    source = colors[_rows_of(pattern)].astype(np.int64) * columns + pattern.indices
    return Cover("reverse", None, colors, 0, _count(colors), source)


def _bidirectional(pattern: Pattern) -> Cover:
    """Cover a matrix by products in both directions.

    Rows with more nonzeros than a threshold are read from reverse products, and the other rows from forward products.
    The same is tried with columns in place of rows. The threshold with the fewest products is chosen.
    """
    if not pattern.nnz:
        return _forward(pattern, np.zeros(pattern.shape[1], np.int32))
    best: tuple[int, Array, Array, Array] | None = None
    rows = _rows_of(pattern)
    for lines, by_row in ((rows, True), (pattern.indices, False)):
        sizes = np.bincount(lines, minlength=pattern.shape[0 if by_row else 1])
        distinct = np.unique(sizes)
        for threshold in distinct[np.unique(np.linspace(0, distinct.size - 1, 6, dtype=int))]:
            dense = sizes[lines] > threshold
            reverse = dense if by_row else ~dense
            forward_part, reverse_part = _where(pattern, ~reverse), _where(pattern, reverse)
            columns = _used(colors_of_columns(forward_part, ()), forward_part)
            across = reverse_part.T.tocsr()
            lines_of = _used(colors_of_columns(across, ()), across)
            count = _count(columns) + _count(lines_of)
            if best is None or count < best[0]:
                best = count, columns, lines_of, reverse
    assert best is not None
    _, columns, lines_of, reverse = best
    forward, backward = _count(columns), _count(lines_of)
    in_forward = columns[pattern.indices].astype(np.int64) * pattern.shape[0] + rows
    in_reverse = lines_of[rows].astype(np.int64) * pattern.shape[1] + pattern.indices
    source = np.where(reverse, forward * pattern.shape[0] + in_reverse, in_forward)
    if not backward:
        return Cover("forward", columns, None, forward, 0, source)
    if not forward:
        return Cover("reverse", None, lines_of, 0, backward, source)
    return Cover("bidirectional", columns, lines_of, forward, backward, source)


def _where(pattern: Pattern, chosen: Array) -> Pattern:
    rows, columns = _rows_of(pattern)[chosen], pattern.indices[chosen]
    return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), pattern.shape)


def _used(colors: Array, pattern: Pattern) -> Array:
    """Return the colours renumbered from 0 for columns that have nonzeros, and -1 for all other columns."""
    used = np.bincount(pattern.indices, minlength=pattern.shape[1]) > 0
    result = np.full(colors.size, -1, np.int32)
    result[used] = np.unique(colors[used], return_inverse=True)[1]
    return result


def _rows_of(pattern: Pattern) -> Array:
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))


def _count(colors: Array) -> int:
    return int(colors.max()) + 1 if colors.size else 0


# ---- colours of columns ------------------------------------------------------------------------------


def colors_of_columns(pattern: Pattern, shapes: Sequence[tuple[int, ...]]) -> Array:
    """Find colours for the columns such that columns of one colour have no nonzero in a common row.

    Linear functions of the indices of a grid, modulo the number of colours, are tried as colourings. A greedy colouring
    is also tried, unless the linear colouring has the minimum number of colours, the number of nonzeros in the longest
    row.
    """
    columns = pattern.shape[1]
    least = max(_largest(np.diff(pattern.indptr)), 1)
    if least == 1 or not columns:
        return np.zeros(columns, np.int32)
    if least == columns:
        return np.arange(columns, dtype=np.int32)
    linear = lattice_colors(pattern, shapes, least)
    if linear is not None and _count(linear) == least:
        return linear
    greedy = _greedy(pattern, least)
    return greedy if linear is None or _count(greedy) <= _count(linear) else linear


def lattice_colors(pattern: Pattern, shapes: Sequence[tuple[int, ...]], least: int) -> Array | None:
    """Find linear colours of the columns; None if no tried colouring is valid.

    A column with indices i_a in a grid gets the colour sum_a c_a i_a mod k, where the c_a are coefficients, and k is
    the number of colours. The colouring is valid if the sum for the displacement between two columns of a row is never
    a multiple of k. Displacements are computed for a sample of rows. Rows in which a colouring turns out to be invalid
    are added to the sample.
    """
    shape = _common_grid(shapes, pattern.shape[1])
    index = np.stack(np.unravel_index(np.arange(pattern.shape[1]), shape)).astype(np.int64)
    displacements = np.empty((len(shape), 0), np.int64)
    rows = np.unique(np.linspace(0, pattern.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
    candidates = _linear_colorings(shape, least)
    coefficients, k = next(candidates)
    for _ in range(MAX_SAMPLES):
        more = _displacements(pattern, rows, index)
        displacements = np.unique(np.hstack([displacements, more]), axis=1)
        if displacements.shape[1] > MAX_DISPLACEMENTS:
            return None
        while not np.all((coefficients @ displacements) % k):
            coefficients, k = next(candidates, (coefficients, 0))
            if not k:
                return None
        colors = (coefficients @ index) % k
        rows = _rows_with_repeats(pattern, colors, k)[:SAMPLED_ROWS]
        if not rows.size:
            return _compact(colors)
    return None


def _linear_colorings(shape: tuple[int, ...], least: int) -> Iterator[tuple[Array, int]]:
    """Yield candidates for linear colourings, as coefficients and number of colours, with the fewest colours first."""
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    trials = 0
    for k in range(least, 2 * least + 2):
        for some in product(range(k), repeat=len(axes)):
            trials += 1
            if trials > MAX_LATTICE_TRIALS:
                return
            coefficients = np.zeros(len(shape), np.int64)
            coefficients[axes] = some
            yield coefficients, k


def _rows_with_repeats(pattern: Pattern, colors: Array, count: int) -> Array:
    """Return the rows in which two nonzeros are in columns of the same colour."""
    each = colors[pattern.indices]
    filled = np.flatnonzero(np.diff(pattern.indptr))
    starts = pattern.indptr[filled]
    if count <= 62:
        bits = np.int64(1) << each
        repeats = np.add.reduceat(bits, starts) != np.bitwise_or.reduceat(bits, starts)
        return filled[repeats]
    code = np.sort(_rows_of(pattern) * count + each)
    return np.unique(code[1:][code[1:] == code[:-1]] // count)


def _common_grid(shapes: Sequence[tuple[int, ...]], columns: int) -> tuple[int, ...]:
    """Return the shape of one grid of all columns.

    Tensors of equal shape are stacked; otherwise the grid has one axis.
    """
    distinct = set(shapes)
    if len(distinct) == 1 and prod(shapes[0]) * len(shapes) == columns:
        return (len(shapes), *shapes[0])
    return (columns,)


def _displacements(pattern: Pattern, rows: Array, index: Array) -> Array:
    """Return the distinct differences between the grid indices of two nonzeros in the same row, for the rows `rows`."""
    differences = [np.empty((index.shape[0], 0), np.int64)]
    for row in rows.tolist():
        own = index[:, pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]]]
        if own.shape[1] > MAX_LATTICE_ROW:
            own = own[:, :MAX_LATTICE_ROW]
        first, second = np.triu_indices(own.shape[1], 1)
        differences.append(own[:, second] - own[:, first])
    return np.unique(np.hstack(differences), axis=1)


def _compact(colors: Array) -> Array:
    return np.unique(colors, return_inverse=True)[1].astype(np.int32)


def _greedy(pattern: Pattern, least: int) -> Array:
    """Find colours of columns greedily, column by column. Two orders are tried: falling degree, and column number.

    The better colouring is improved by further passes. A pass that visits the columns colour by colour never needs more
    colours than before (Culberson, 1992).
    """
    across = pattern.T.tocsr()
    indptr, indices = across.indptr.tolist(), across.indices.tolist()
    lines = [indices[start:stop] for start, stop in pairwise(indptr)]
    degrees = across.astype(np.int64) @ np.diff(pattern.indptr)
    passes = max(1, min(ROUNDS, MAX_PASSED_NONZEROS // max(pattern.nnz, 1)))
    random = np.random.default_rng(0)
    best: Array | None = None
    for order in (np.argsort(-degrees, kind="stable"), np.arange(degrees.size)):
        colors = _sequential(lines, pattern.shape[0], order)
        for attempt in range(passes):
            count = _count(colors)
            if count == least:
                return colors
            rank = np.arange(count)[::-1]
            if attempt % 3 == 1:
                rank = np.bincount(colors, minlength=count)
            elif attempt % 3 == 2:
                rank = random.permutation(count)
            colors = _sequential(lines, pattern.shape[0], np.lexsort((colors, rank[colors])))
        if best is None or _count(colors) < _count(best):
            best = colors
    assert best is not None
    return best


def _sequential(lines: Sequence[Sequence[int]], rows: int, order: Array) -> Array:
    """Assign to each column, in `order`, the smallest colour that none of its rows has yet.

    The colours of a row are stored as the bits of an integer.
    """
    row_colors, colors = [0] * rows, np.empty(len(lines), np.int32)
    for column in order.tolist():
        line, used = lines[column], 0
        for row in line:
            used |= row_colors[row]
        free = ~used & (used + 1)
        colors[column] = free.bit_length() - 1
        for row in line:
            row_colors[row] |= free
    return colors


# ---- Hessians ----------------------------------------------------------------------------------------


def symmetric_cover_of(pattern: Pattern, kind: str, shapes: Sequence[tuple[int, ...]]) -> Cover:
    """Choose a cover for a symmetric matrix whose nonzeros are given by `pattern`.

    Args:
        kind: "star", "acyclic", "forward", which ignores the symmetry, or "auto". "auto" chooses "star" if "forward"
            needs more products.
        shapes: the shapes of the tensors whose elements the columns stand for, in the order of the columns.
    """
    if kind == "acyclic":
        return _acyclic(pattern, shapes)
    forward = _forward(pattern, colors_of_columns(pattern, shapes))
    if kind == "forward":
        return forward
    degrees = np.diff(pattern.indptr).astype(np.float64)
    if kind == "auto" and (degrees**2).sum() > MAX_STAR_WORK:
        return forward
    least = (
        3 if kind == "auto" else 0
    )  # if there is a path of four vertices, a star colouring has at least three colours
    if forward.count <= least:
        return forward
    colors = min([_star_colors(pattern, order) for order in _orders(pattern)], key=_count)
    if _count(colors) >= forward.count:
        return forward
    return _star(pattern, colors)


def _orders(pattern: Pattern) -> Iterator[Array]:
    """Yield orders of the vertices: by number and, if degrees differ, by falling degree."""
    degrees = np.diff(pattern.indptr)
    yield np.arange(degrees.size)
    if degrees.size and degrees.min() != degrees.max():
        yield np.argsort(-degrees, kind="stable")


def _star(pattern: Pattern, colors: Array) -> Cover:
    """Return the cover for a star colouring, in which each nonzero is read directly from a product.

    Nonzero (i, j) is read from row i if no other nonzero of that row has the colour of j. Otherwise it is read from row
    j.
    """
    n, count = pattern.shape[0], _count(colors)
    rows, columns = _rows_of(pattern), pattern.indices
    code = rows.astype(np.int64) * count + colors[columns]
    is_alone = np.bincount(code, minlength=n * count)[code] == 1
    here = colors[columns].astype(np.int64) * n + rows
    there = colors[rows].astype(np.int64) * n + columns
    return Cover("star", colors, None, count, 0, np.where(is_alone, here, there))


def _neighbours(pattern: Pattern) -> list[list[int]]:
    indptr, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    return [
        [w for w in indices[indptr[v] : indptr[v + 1]] if w != v] for v in range(pattern.shape[0])
    ]


def _star_colors(pattern: Pattern, order: Array) -> Array:
    """Find star colours of the vertices greedily, in the order `order`.

    Source: Gebremedhin, Tarafdar, Manne and Pothen, "New acyclic and star coloring algorithms", SISC 29, 2007.
    """
    neighbours = _neighbours(pattern)
    color = [-1] * len(neighbours)
    counts: list[dict[int, int]] = [
        {} for _ in neighbours
    ]  # for each vertex, the number of neighbours by colour
    for v in order.tolist():
        forbidden: set[int] = set()
        for w in neighbours[v]:
            own = color[w]
            if own < 0:
                continue
            forbidden.add(own)
            is_repeated = counts[v][own] > 1
            for x in neighbours[w]:
                # No path v, w, x, y or x, w, v, y may have only two colours, where y is another neighbour of x or of v.
                if color[x] >= 0 and (is_repeated or counts[x].get(own, 0) > 1):
                    forbidden.add(color[x])
        chosen = _smallest_but(forbidden)
        color[v] = chosen
        for w in neighbours[v]:
            counts[w][chosen] = counts[w].get(chosen, 0) + 1
    return np.array(color, np.int32)


def _smallest_but(forbidden: set[int]) -> int:
    chosen = 0
    while chosen in forbidden:
        chosen += 1
    return chosen


def _acyclic(pattern: Pattern, shapes: Sequence[tuple[int, ...]]) -> Cover:
    """Cover a symmetric matrix by an acyclic colouring.

    Edges between vertices of two colours form trees. If an edge ends in a leaf, its nonzero is read from a product. The
    nonzeros of the other edges of the tree, and of the diagonal, follow by substitution.
    """
    colors = min([_acyclic_colors(pattern, order) for order in _orders(pattern)], key=_count)
    linear = _acyclic_lattice(pattern, shapes, _count(colors))
    colors = colors if linear is None else linear
    n = pattern.shape[0]
    rows, columns = _rows_of(pattern), pattern.indices
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    edges, unknown = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
    # Equation (i, c): element i of the product for colour c is the sum of the nonzeros (i, j) over all j of colour c.
    equations: dict[tuple[int, int], set[int]] = {}
    ends: list[list[tuple[int, int]]] = [[] for _ in edges]
    own = colors.tolist()
    for i, j, edge in zip(rows.tolist(), columns.tolist(), unknown.tolist(), strict=True):
        equations.setdefault((i, own[j]), set()).add(edge)
        ends[edge].append((i, own[j]))
    members = {key: tuple(edges_of) for key, edges_of in equations.items()}
    ready = [key for key, edges_of in equations.items() if len(edges_of) == 1]
    solved: dict[int, tuple[int, int]] = {}
    while ready:
        key = ready.pop()
        if len(equations[key]) != 1:
            continue
        (edge,) = equations[key]
        solved[edge] = key
        for other in ends[edge]:
            equations[other].discard(edge)
            if len(equations[other]) == 1:
                ready.append(other)
    assert len(solved) == edges.size, "an acyclic colouring leaves trees"
    place = np.empty(edges.size, np.int64)
    place[list(solved)] = np.arange(edges.size)
    triangle = [
        (position, place[edge])
        for position, key in enumerate(solved.values())
        for edge in members[key]
    ]
    row, column = np.array(triangle, np.int64).reshape(-1, 2).T
    matrix = sp.csc_array((np.ones(row.size), (row, column)), (edges.size, edges.size))
    source = np.array([c * n + i for i, c in solved.values()], np.int64)
    if not edges.size:
        return Cover("acyclic", colors, None, _count(colors), 0, source)
    factor = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0)
    return Cover("acyclic", colors, None, _count(colors), 0, source, factor, place[unknown])


def _acyclic_lattice(
    pattern: Pattern, shapes: Sequence[tuple[int, ...]], count: int
) -> Array | None:
    """Find a linear colouring of a grid that is acyclic and has fewer than `count` colours; None if there is none."""
    n = pattern.shape[0]
    shape = _common_grid(shapes, n)
    index = np.stack(np.unravel_index(np.arange(n), shape)).astype(np.int64)
    rows, columns = _rows_of(pattern), pattern.indices
    is_edge = rows < columns
    rows, columns = rows[is_edge], columns[is_edge]
    for coefficients, k in _linear_colorings(shape, 2):
        if k >= count:
            return None
        colors = (coefficients @ index) % k
        if (colors[rows] == colors[columns]).any():
            continue
        pair = colors[rows] + colors[columns], colors[rows] * colors[columns]
        if all([
            _is_forest(rows[chosen], columns[chosen], n)
            for chosen in [
                (pair[0] == a + b) & (pair[1] == a * b) for a in range(k) for b in range(a)
            ]
        ]):  # fmt: skip
            return _compact(colors)
    return None


def _is_forest(rows: Array, columns: Array, n: int) -> bool:
    graph = sp.csr_array((np.ones(rows.size, bool), (rows, columns)), (n, n))
    components, _ = connected_components(graph, directed=False)
    return rows.size == n - components


def _acyclic_colors(pattern: Pattern, order: Array) -> Array:
    """Find acyclic colours of the vertices greedily, in the order `order`.

    Two neighbours of a vertex that have the same colour must not be in one tree of two colours.

    Source: Gebremedhin, Tarafdar, Manne and Pothen, as for `_star_colors`.
    """
    neighbours = _neighbours(pattern)
    color = [-1] * len(neighbours)
    parent: dict[
        tuple[int, int], tuple[int, int]
    ] = {}  # maps an edge to its parent in the union-find forest of two-coloured trees
    of_color: list[dict[int, tuple[int, int]]] = [
        {} for _ in neighbours
    ]  # for each vertex, one of its edges by colour

    def root(edge: tuple[int, int]) -> tuple[int, int]:
        while parent[edge] != edge:
            parent[edge] = parent[parent[edge]]
            edge = parent[edge]
        return edge

    for v in order.tolist():
        forbidden = {color[w] for w in neighbours[v]}
        seen: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for w in neighbours[v]:
            if color[w] < 0:
                continue
            for other, edge in of_color[w].items():
                if other in forbidden:
                    continue
                roots = seen.setdefault((color[w], other), set())
                tree = root(edge)
                if tree in roots:
                    forbidden.add(other)
                roots.add(tree)
        chosen = _smallest_but(forbidden)
        color[v] = chosen
        for w in neighbours[v]:
            if color[w] < 0:
                continue
            edge = (min(v, w), max(v, w))
            parent[edge] = edge
            for end, other in ((w, chosen), (v, color[w])):
                first = of_color[end].setdefault(other, edge)
                parent[root(edge)] = root(first)
    return np.array(color, np.int32)
