"""What fields of payloads are checked by, so that a wrong one is refused where it is written, loaded, or changed.

Each takes the op's name, the field's, and the value, and gives the value in its normal form.
"""

from tenferro.rules.payload import as_bool, as_choice, as_dim, as_dims, as_int, as_ints, as_tuple

__all__ = ["as_bool", "as_choice", "as_dim", "as_dims", "as_int", "as_ints", "as_tuple"]
