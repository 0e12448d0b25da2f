"""Table of the signatures of operations: the numbers of operands, results and regions, and the attributes.

Bytecode stores the attributes without names, in alphabetical order.

Source: StableHLO's and CHLO's operation definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["DEFINITIONS", "Definition"]


class Definition(NamedTuple):
    """An operation's signature.

    Attributes:
        operands, results, regions: the number of operands, results and regions; None allows any number.
        attributes: names in alphabetical order, each with a flag: True if the attribute is required.
    """

    operands: int | None
    results: int | None
    regions: int | None
    attributes: tuple[tuple[str, bool], ...]


_ROWS = """
chlo *:*:1 scan ; dimension is_associative? is_reverse? scan_dim_size?
chlo 0:1:0 constant ; value
chlo 1:1:0 _asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc
    is_inf is_neg_inf is_pos_inf lgamma sinh square tan
chlo 1:1:0 constant_like ; value
chlo 1:2:0 top_k ; k
chlo 2:1:0 broadcast_add broadcast_and broadcast_atan2 broadcast_complex broadcast_divide broadcast_maximum
    broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or broadcast_polygamma broadcast_power
    broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical
    broadcast_subtract broadcast_xor broadcast_zeta ; broadcast_dimensions?
chlo 2:1:0 broadcast_compare ; broadcast_dimensions? compare_type? comparison_direction
chlo 2:1:0 mulhi next_after polygamma zeta
chlo 3:1:0 broadcast_select
chlo 3:1:0 ragged_dot ; precision_config? ragged_dot_dimension_numbers
stablehlo *:*:* composite ; composite_attributes? decomposition name version?
stablehlo *:*:0 all_gather ; all_gather_dim channel_handle? replica_groups use_global_device_ids?
stablehlo *:*:0 all_to_all ; channel_handle? concat_dimension replica_groups split_count split_dimension
stablehlo *:*:0 collective_broadcast ; channel_handle? has_dynamic_root? replica_groups
stablehlo *:*:0 custom_call ; api_version? backend_config? call_target_name called_computations?
    has_side_effect? operand_layouts? output_operand_aliases? result_layouts?
stablehlo *:*:0 optimization_barrier
stablehlo *:*:1 all_reduce ; channel_handle? replica_groups use_global_device_ids?
stablehlo *:*:1 collective_reduce ; channel_handle? has_dynamic_root? replica_groups use_global_device_ids?
stablehlo *:*:1 reduce ; dimensions
stablehlo *:*:1 reduce_window ; base_dilations? padding? window_dilations? window_dimensions window_strides?
stablehlo *:*:1 scatter ; indices_are_sorted? scatter_dimension_numbers unique_indices?
stablehlo *:*:1 sort ; dimension? is_stable?
stablehlo *:*:2 while
stablehlo *:0:0 return
stablehlo *:1:0 after_all dynamic_update_slice tuple
stablehlo *:1:0 concatenate ; dimension
stablehlo *:1:0 dynamic_slice ; slice_sizes
stablehlo *:1:0 outfeed ; outfeed_config?
stablehlo *:1:0 send ; channel_handle is_host_transfer? source_target_pairs?
stablehlo *:1:1 async_start
stablehlo *:1:1 map ; dimensions
stablehlo 0:1:0 constant ; value
stablehlo 0:1:0 create_token partition_id replica_id
stablehlo 0:1:0 iota ; iota_dimension
stablehlo 1:*:* case
stablehlo 1:*:0 async_done
stablehlo 1:*:0 infeed ; infeed_config? layout?
stablehlo 1:*:0 recv ; channel_handle is_host_transfer? source_target_pairs?
stablehlo 1:*:2 if
stablehlo 1:1:0 abs bitcast_convert ceil convert count_leading_zeros floor imag is_finite negate not popcnt
    real reshape round_nearest_afz round_nearest_even sign uniform_dequantize uniform_quantize
stablehlo 1:1:0 broadcast ; broadcast_sizes
stablehlo 1:1:0 broadcast_in_dim ; broadcast_dimensions
stablehlo 1:1:0 cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan
    tanh ; result_accuracy?
stablehlo 1:1:0 square
stablehlo 1:1:0 cholesky ; lower?
stablehlo 1:1:0 collective_permute ; channel_handle? source_target_pairs
stablehlo 1:1:0 cross-replica-sum ; replica_groups
stablehlo 1:1:0 dynamic_iota ; iota_dimension
stablehlo 1:1:0 fft ; fft_length fft_type
stablehlo 1:1:0 get_dimension_size ; dimension
stablehlo 1:1:0 get_tuple_element ; index
stablehlo 1:1:0 reduce_precision ; exponent_bits mantissa_bits
stablehlo 1:1:0 reverse ; dimensions
stablehlo 1:1:0 slice ; limit_indices start_indices strides
stablehlo 1:1:0 transpose ; permutation
stablehlo 1:1:0 unary_einsum ; einsum_config
stablehlo 1:1:1 reduce_scatter ; channel_handle? replica_groups scatter_dimension use_global_device_ids?
stablehlo 1:2:0 rng_bit_generator ; rng_algorithm
stablehlo 2:1:0 add and atan2 complex divide dynamic_reshape maximum minimum multiply or power remainder
    shift_left shift_right_arithmetic shift_right_logical subtract xor
stablehlo 2:1:0 compare ; compare_type? comparison_direction
stablehlo 2:1:0 convolution ; batch_group_count dimension_numbers feature_group_count lhs_dilation? padding?
    precision_config? rhs_dilation? window_reversal? window_strides?
stablehlo 2:1:0 dot ; precision_config?
stablehlo 2:1:0 dot_general ; algorithm? dot_dimension_numbers precision_config?
stablehlo 2:1:0 dynamic_broadcast_in_dim ; broadcast_dimensions known_expanding_dimensions?
    known_nonexpanding_dimensions?
stablehlo 2:1:0 einsum ; einsum_config
stablehlo 2:1:0 gather ; dimension_numbers indices_are_sorted? slice_sizes
stablehlo 2:1:0 pad ; edge_padding_high edge_padding_low interior_padding
stablehlo 2:1:0 set_dimension_size ; dimension
stablehlo 2:1:0 torch_index_select ; batch_dims dim
stablehlo 2:1:0 triangular_solve ; left_side lower transpose_a unit_diagonal
stablehlo 3:1:0 clamp select
stablehlo 3:1:0 dynamic_conv ; batch_group_count dimension_numbers feature_group_count lhs_dilation?
    precision_config? rhs_dilation? window_reversal? window_strides?
stablehlo 3:1:0 dynamic_gather ; dimension_numbers indices_are_sorted?
stablehlo 3:1:0 rng ; rng_distribution
stablehlo 3:1:2 select_and_scatter ; padding? window_dimensions? window_strides?
stablehlo 3:3:0 batch_norm_training ; epsilon feature_index
stablehlo 4:1:0 real_dynamic_slice
stablehlo 5:1:0 batch_norm_inference ; epsilon feature_index
stablehlo 5:1:0 dynamic_pad
stablehlo 5:3:0 batch_norm_grad ; epsilon feature_index
func 0:0:1 func ; arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?
func *:*:0 call ; arg_attrs? callee no_inline? res_attrs?
func *:0:0 return
builtin 0:0:1 module ; sym_name? sym_visibility?
arith 0:1:0 constant ; value
arith 1:1:0 index_cast
arith 2:1:0 addi muli subi ; overflowFlags?
arith 2:1:0 maxsi minsi
arith 2:1:0 addf divf mulf subf ; fastmath?
arith 1:1:0 negf ; fastmath?
tensor 2:1:0 dim
shape 0:1:0 const_shape ; shape
shape 1:1:0 shape_of
tensor *:1:0 extract from_elements
util 0:1:0 unfoldable_constant ; value
flow.tensor 0:1:0 dynamic_constant ; value
check 1:0:0 expect_eq_const ; value
check 1:0:0 expect_almost_eq_const ; tolerance? value
check 2:0:0 expect_eq
check 2:0:0 expect_almost_eq ; tolerance?
check 2:0:0 expect_close ; max_ulp_difference? min_ulp_difference?
check 1:0:0 expect_serialized_eq ; iter? probe_id
interpreter 1:1:0 probe ; probe_id
interpreter *:*:0 run_parallel ; infeed? programs
sdy 0:0:0 mesh ; mesh sym_name
sdy 1:1:0 sharding_constraint ; sharding
sdy *:*:1 manual_computation ; in_shardings manual_axes out_shardings
sdy *:0:0 return
"""
"""Table of signatures. A row has the form `dialect operands:results:regions name .. ; attribute ..`.

The names are the operations that have this signature. A star in place of a number allows any number. A question mark
follows the name of an optional attribute.
"""


def _definitions() -> dict[str, Definition]:
    definitions: dict[str, Definition] = {}
    rows = _ROWS.replace("\n    ", " ").strip().split("\n")
    for row in rows:
        head, _, attributes = row.partition(";")
        dialect, signature, *names = head.split()
        counts = [None if item == "*" else int(item) for item in signature.split(":")]
        known = tuple([(item.rstrip("?"), not item.endswith("?")) for item in attributes.split()])
        for name in names:
            definitions[f"{dialect}.{name}"] = Definition(counts[0], counts[1], counts[2], known)
    return definitions


DEFINITIONS: Mapping[str, Definition] = _definitions()
