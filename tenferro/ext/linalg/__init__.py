"""Linear algebra as extension families: ops, native runtimes and derivative rules."""

from tenferro.ext.linalg import families, rules
from tenferro.ext.linalg.runtime import LinalgRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (
    Family(families.Cholesky, LinalgRuntime, rules.CholeskyRule),
    Family(families.Qr, LinalgRuntime, rules.QrRule),
    Family(families.Svd, LinalgRuntime, rules.SvdRule),
    Family(families.Eigh, LinalgRuntime, rules.EighRule),
    Family(families.Eig, LinalgRuntime, rules.EigRule),
    Family(families.Lu, LinalgRuntime, rules.LuRule),
    Family(families.TriangularSolve, LinalgRuntime, rules.TriangularSolveRule),
    Family(families.Solve, LinalgRuntime, rules.SolveRule),
    Family(families.LuSolve, LinalgRuntime, rules.LuSolveRule),
    Family(families.Distinct, LinalgRuntime, rules.DistinctRule),
)
