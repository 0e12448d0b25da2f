"""Checks of payload fields, which reject wrong values when an op is created, loaded or changed.

The arguments of each function are the name of the op, the name of the field, and the value. The function returns the
value in its normal form.
"""

from tenferro.rules.payload import as_bool, as_choice, as_dim, as_dims, as_int, as_ints, as_tuple

__all__ = ["as_bool", "as_choice", "as_dim", "as_dims", "as_int", "as_ints", "as_tuple"]
