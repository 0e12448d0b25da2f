"""Patterns of the pretty forms in which MLIR prints operations.

For each operation, a pattern says in which order operands, attributes, punctuation and types occur. It consists of
words that are separated by spaces:

    %            an operand
    %*           operands, up to the first token that is not an operand
    %,           operands, each followed by a comma
    {}           an optional dictionary of attributes
    name:kind    an attribute, which is read by the method `FormParser.read_<kind>` or as a word of an enumeration
    ?( .. )      an optional part, present if its first word is the next token
    types:kind   the types at the end of the operation, which are read by the method `FormParser.types_<kind>`
    other        a token of the text

Source: StableHLO's and CHLO's operation definitions, and the text that their printers write.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FORMS", "REGION_FORMS"]

_UNARY = [
    "abs",
    "cbrt",
    "ceil",
    "convert",
    "cosine",
    "count_leading_zeros",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "uniform_quantize",
    "uniform_dequantize",
]
_RESHAPING = ["reshape", "bitcast_convert"]
_BINARY = [
    "add",
    "and",
    "atan2",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
]
_CHLO_UNARY = [
    "acos",
    "acosh",
    "_asin_acos_kernel",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "sinh",
    "square",
    "tan",
]
_CHLO_BINARY = ["mulhi", "next_after", "polygamma", "zeta"]
_ARITH_INTEGERS = ["addi", "maxsi", "minsi", "muli", "subi"]
_ARITH_FLOATS = ["addf", "divf", "mulf", "subf"]
_FAST = "?( fastmath fastmath:flags )"
_CHLO_BROADCAST = [*_BINARY, *_CHLO_BINARY, "compare", "complex"]

ELEMENTWISE = frozenset([f"stablehlo.{name}" for name in (*_UNARY, *_BINARY)])
"""Elementwise operations of StableHLO whose pretty form consists of operands and types.

The form has either one type for all operands and the result, or a type for each of them.
"""

FORMS: Mapping[str, str] = {
    **{f"stablehlo.{name}": "% {} : types:function" for name in [*_UNARY, *_RESHAPING]},
    **{f"stablehlo.{name}": "% , % {} : types:function" for name in [*_BINARY, "dynamic_reshape"]},
    **{f"chlo.{name}": "% {} : types:arrow" for name in _CHLO_UNARY},
    **{f"chlo.{name}": "% , % {} : types:arrow" for name in _CHLO_BINARY},
    **{f"chlo.broadcast_{name}": "% , % {} : types:function" for name in _CHLO_BROADCAST},
    "chlo.broadcast_select": "% , % , % {} : types:function",
    "chlo.constant": "{} value:elements types:value",
    "chlo.top_k": "( % , k = k:i64 ) {} : types:arrow",
    "flow.tensor.dynamic_constant": "value:elements -> types:opened",
    "func.call": "callee:symbol ( %* ) {} : types:function",
    "func.return": "{} %* types:operands",
    "arith.constant": "{} value:attribute types:value",
    **{f"arith.{name}": "% , % {} : types:function" for name in _ARITH_INTEGERS},
    **{f"arith.{name}": f"% , % {_FAST} {{}} : types:function" for name in _ARITH_FLOATS},
    "arith.negf": f"% {_FAST} {{}} : types:function",
    "arith.index_cast": "% {} : types:cast",
    "tensor.dim": "% , % {} : types:dimension",
    "shape.const_shape": "{} shape:integers : types:result",
    "shape.shape_of": "% {} : types:arrow",
    "tensor.extract": "% [ %* ] {} : types:element",
    "tensor.from_elements": "%* {} : types:elements",
    "check.expect_almost_eq": "% , % ?( , tolerance = tolerance:number ) {} : types:checked",
    "check.expect_almost_eq_const": "% , value:elements ?( , tolerance = tolerance:number ) {} types:constant",
    "check.expect_close": (
        "% , % ?( , max_ulp_difference = max_ulp_difference:ui64 ) ?( , min_ulp_difference = min_ulp_difference:ui64 ) "
        "{} : types:checked"
    ),
    "check.expect_eq": "% , % {} : types:checked",
    "check.expect_eq_const": "% , value:elements {} types:constant",
    "check.expect_almost_eq(": "( % , % ?( , tolerance:number ) ) {} : types:checked",
    "check.expect_almost_eq_const(": "( % , value:elements ?( , tolerance:number ) ) {} : types:compared",
    "check.expect_eq(": "( % , % ) {} : types:checked",
    "check.expect_eq_const(": "( % , value:elements ) {} : types:compared",
    "check.expect_serialized_eq": "% , probe_id = probe_id:string ?( , iter = iter:i64 ) {} : types:checked",
    "interpreter.probe": "% , probe_id = probe_id:string {} : types:function",
    "sdy.sharding_constraint": "% sharding:sharding {} : types:function",
    "sdy.return": "%* {} types:operands",
    "stablehlo.after_all": "%* {} : types:function",
    "stablehlo.broadcast": "% , sizes = broadcast_sizes:integers {} : types:function",
    "stablehlo.broadcast_in_dim": "% , dims = broadcast_dimensions:integers {} : types:function",
    "stablehlo.cholesky": "% ?( , lower = lower:bool ) {} : types:function",
    "stablehlo.clamp": "% , % , % {} : types:function",
    "stablehlo.compare": (
        "comparison_direction:comparison_direction , % , % ?( , compare_type:comparison_type ) {} : types:function"
    ),
    "stablehlo.complex": "% , % {} : types:complex",
    "stablehlo.composite": "name:string %* {} : types:function",
    "stablehlo.concatenate": "%, dim = dimension:i64 {} : types:function",
    "stablehlo.constant": "{} value:elements types:value",
    "stablehlo.convolution": (
        "( % , % ) dim_numbers = dimension_numbers:convolution , window = { window:window } {} : types:function"
    ),
    "stablehlo.create_token": "{} : types:result",
    "stablehlo.custom_call": "call_target_name:symbol ( %* ) {} : types:function",
    "stablehlo.dot": "% , % ?( , precision = precision_config:precisions ) {} : types:function",
    "stablehlo.dot_general": (
        "% , % dot_dimension_numbers:contraction precision_config:contraction_options {} : types:function"
    ),
    "stablehlo.dynamic_broadcast_in_dim": "% , % , dims = broadcast_dimensions:integers {} : types:function",
    "stablehlo.dynamic_conv": (
        "( % , % , % ) dim_numbers = dimension_numbers:convolution , window = { window:window } {} : types:function"
    ),
    "stablehlo.dynamic_iota": "% , dim = iota_dimension:i64 {} : types:function",
    "stablehlo.dynamic_pad": "% , % , % , % , % {} : types:function",
    "stablehlo.dynamic_slice": "% , %, sizes = slice_sizes:integers {} : types:function",
    "stablehlo.dynamic_update_slice": "%* {} : types:function",
    "stablehlo.einsum": "% , % , config = einsum_config:string {} : types:function",
    "stablehlo.fft": "% , type = fft_type:fft_type , length = fft_length:integers {} : types:function",
    "stablehlo.get_dimension_size": "% , dim = dimension:i64 {} : types:function",
    "stablehlo.get_tuple_element": "% [ index:i64 ] {} : types:function",
    "stablehlo.iota": "dim = iota_dimension:i64 {} : types:result",
    "stablehlo.optimization_barrier": "%* {} types:pairwise",
    "stablehlo.pad": (
        "% , % , low = edge_padding_low:integers , high = edge_padding_high:integers , "
        "interior = interior_padding:integers {} : types:function"
    ),
    "stablehlo.partition_id": "{} : types:result",
    "stablehlo.real_dynamic_slice": "% , % , % , % {} : types:function",
    "stablehlo.reduce_precision": "% , format = exponent_bits:precision_format {} : types:function",
    "stablehlo.replica_id": "{} : types:result",
    "stablehlo.return": "%* {} types:operands",
    "stablehlo.reverse": "% , dims = dimensions:integers {} : types:function",
    "stablehlo.rng": "% , % , % , distribution = rng_distribution:rng_distribution {} : types:function",
    "stablehlo.rng_bit_generator": "% , algorithm = rng_algorithm:rng_algorithm {} : types:function",
    "stablehlo.select": "% , % , % {} : types:select",
    "stablehlo.set_dimension_size": "% , % , dim = dimension:i64 {} : types:function",
    "stablehlo.slice": "% start_indices:ranges {} : types:function",
    "stablehlo.transpose": "% , dims = permutation:integers {} : types:function",
    "stablehlo.tuple": "%* {} : types:tuple",
    "stablehlo.unary_einsum": "% , config = einsum_config:string {} : types:function",
    "util.unfoldable_constant": "{} value:elements types:value",
}  # fmt: skip
"""Patterns by operation name.

A name that ends with a parenthesis has the pattern of a form with parentheses, which IREE writes.
"""

REGION_FORMS = frozenset(
    {"chlo.scan", "sdy.manual_computation", "stablehlo.reduce", "stablehlo.while"}
)
"""Operations whose pretty form contains regions, for which `lowering.syntax.text` has methods."""
