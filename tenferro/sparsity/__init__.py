"""Structural sparsity: the elements of the inputs on which each element of the result depends.

`dependencies` propagates sets of input elements through a program. `reads` defines, for each op, the elements of an
operand that an element of the result reads. `coloring` groups columns or rows that one derivative can compute together.
"""

from tenferro.sparsity.coloring import Cover, cover_of, symmetric_cover_of
from tenferro.sparsity.propagation import dependencies
from tenferro.sparsity.reads import READS

__all__ = ["READS", "Cover", "cover_of", "dependencies", "symmetric_cover_of"]
