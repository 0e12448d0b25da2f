"""Extension families that return LAPACK's raw results: packed factors, pivots, and failures as `info` numbers."""

from tenferro.ext.lapack import families, rules
from tenferro.ext.lapack.runtime import LapackRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (
    Family(families.Getrf, LapackRuntime, rules.GetrfRule),
    Family(families.PivotsToPermutation, LapackRuntime, rules.MatrixRule),
    Family(families.Geqrf, LapackRuntime, rules.GeqrfRule),
    Family(families.Geqp3, LapackRuntime, rules.Geqp3Rule),
    Family(families.HouseholderProduct, LapackRuntime, rules.HouseholderProductRule),
    Family(families.Geev, LapackRuntime, rules.GeevRule),
    Family(families.Gtsv, LapackRuntime, rules.GtsvRule),
    Family(families.Sytrd, LapackRuntime, rules.MatrixRule),
    Family(families.Gehrd, LapackRuntime, rules.MatrixRule),
    Family(families.Gees, LapackRuntime, rules.MatrixRule),
)
