// Each operation of StableHLO and CHLO in a module of its own, in generic form.
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x8xf32>) {
  %r = "stablehlo.all_gather"(%a) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.all_reduce"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32> "stablehlo.return"(%z) : (tensor<f32>) -> () }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<8x2xf32>) {
  %r = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4x4xf32>) -> tensor<8x2xf32>
  return %r : tensor<8x2xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x2xf32>) {
  %r = "stablehlo.reduce_scatter"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32> "stablehlo.return"(%z) : (tensor<f32>) -> () }) {scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}
// -----
func.func @main(%img: tensor<1x8x8x3xf32>, %v: tensor<3xf32>) -> (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_grad"(%img, %v, %v, %v, %img) {epsilon = 0.1 : f32, feature_index = 3 : i64} : (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1x8x8x3xf32>) -> (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>
}
// -----
func.func @main(%img: tensor<1x8x8x3xf32>, %v: tensor<3xf32>) -> (tensor<1x8x8x3xf32>) {
  %r = "stablehlo.batch_norm_inference"(%img, %v, %v, %v, %v) {epsilon = 0.1 : f32, feature_index = 3 : i64} : (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x8x8x3xf32>
  return %r : tensor<1x8x8x3xf32>
}
// -----
func.func @main(%img: tensor<1x8x8x3xf32>, %v: tensor<3xf32>) -> (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_training"(%img, %v, %v) {epsilon = 0.1 : f32, feature_index = 3 : i64} : (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %i: tensor<i32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.case"(%i) ({ "stablehlo.return"(%a) : (tensor<4x4xf32>) -> () }, { "stablehlo.return"(%a) : (tensor<4x4xf32>) -> () }) : (tensor<i32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %p: tensor<i1>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.if"(%p) ({ "stablehlo.return"(%a) : (tensor<4x4xf32>) -> () }, { "stablehlo.return"(%a) : (tensor<4x4xf32>) -> () }) : (tensor<i1>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %gi: tensor<2x1xi32>, %ss: tensor<2xi32>) -> (tensor<2x?xf32>) {
  %r = "stablehlo.dynamic_gather"(%a, %gi, %ss) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false} : (tensor<4x4xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %gi: tensor<2x1xi32>) -> (tensor<2x4xf32>) {
  %r = "stablehlo.gather"(%a, %gi) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = true} : (tensor<4x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %gi: tensor<2x1xi32>, %up: tensor<2x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.scatter"(%a, %gi, %up) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): "stablehlo.return"(%y) : (tensor<f32>) -> () }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true} : (tensor<4x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %s: tensor<f32>, %w22: tensor<2x2xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.select_and_scatter"(%a, %w22, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.compare"(%x, %y) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> tensor<i1> "stablehlo.return"(%z) : (tensor<i1>) -> () }, { ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32> "stablehlo.return"(%z) : (tensor<f32>) -> () }) {window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>} : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %s: tensor<f32>) -> (tensor<2x2xf32>) {
  %r = "stablehlo.reduce_window"(%a, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32> "stablehlo.return"(%z) : (tensor<f32>) -> () }) {window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.sort"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = "stablehlo.compare"(%x, %y) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>} : (tensor<f32>, tensor<f32>) -> tensor<i1> "stablehlo.return"(%z) : (tensor<i1>) -> () }) {dimension = 0 : i64, is_stable = true} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.map"(%a) ({ ^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> () }) {dimensions = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>, %tk: !stablehlo.token) -> (!stablehlo.token) {
  %r = "stablehlo.outfeed"(%a, %tk) {outfeed_config = "x"} : (tensor<4x4xf32>, !stablehlo.token) -> !stablehlo.token
  return %r : !stablehlo.token
}
// -----
func.func @main(%a: tensor<4x4xf32>, %tk: !stablehlo.token) -> (!stablehlo.token) {
  %r = "stablehlo.send"(%a, %tk) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true} : (tensor<4x4xf32>, !stablehlo.token) -> !stablehlo.token
  return %r : !stablehlo.token
}
// -----
func.func @main(%tk: !stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token) {
  %r:2 = "stablehlo.recv"(%tk) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token)
  return %r#0, %r#1 : tensor<4x4xf32>, !stablehlo.token
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4xf32>) {
  %r = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.custom_call"(%a) {call_target_name = "foo", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], mhlo.backend_config = {a = 1 : i32, b = "x"}, api_version = 4 : i32, called_computations = [@f]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func private @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %a : tensor<4x4xf32>
}
// -----
func.func @main(%img: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>) -> (tensor<1x6x6x4xf32>) {
  %r = "stablehlo.convolution"(%img, %k) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.custom_call"(%a) {call_target_name = "foo", x = dense<[1.0, 2.0]> : tensor<2xf32>, y = array<i64: 1, 2>, z = [1 : i32, "a"], u, w = true, q = 2.5 : f64, t = tensor<4xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.abs"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.add"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.and"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.atan2"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.cbrt"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.ceil"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.cosine"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.divide"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.exponential"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.exponential_minus_one"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.floor"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.imag"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.log"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.log_plus_one"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.logistic"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.maximum"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.minimum"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.multiply"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.negate"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.not"(%n) : (tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.or"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.popcnt"(%n) : (tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.count_leading_zeros"(%n) : (tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.power"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.remainder"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.round_nearest_afz"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.round_nearest_even"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.rsqrt"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.shift_left"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.shift_right_arithmetic"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.shift_right_logical"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.sign"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.sine"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.sqrt"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.subtract"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.tan"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.tanh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%n: tensor<4xi32>) -> (tensor<4xi32>) {
  %r = "stablehlo.xor"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.acos"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.acosh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.asin"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.asinh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.atan"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.atanh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.bessel_i1e"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.cosh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.digamma"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.erf_inv"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.erf"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.erfc"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.lgamma"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.sinh"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.square"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.tan"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.conj"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xi1>) {
  %r = "chlo.is_neg_inf"(%a) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xi1>) {
  %r = "chlo.is_pos_inf"(%a) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.next_after"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.zeta"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.polygamma"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.cholesky"(%x0) <{lower = true}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.cholesky"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x3xcomplex<f32>>) {
  %r = "stablehlo.fft"(%x0) <{fft_length = array<i64: 4>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<4x4xf32>) -> tensor<4x3xcomplex<f32>>
  return %r : tensor<4x3xcomplex<f32>>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<i32>) -> (tuple<tensor<4x4xf32>, tensor<i32>>) {
  %r = "stablehlo.tuple"(%x0, %x1) : (tensor<4x4xf32>, tensor<i32>) -> tuple<tensor<4x4xf32>, tensor<i32>>
  return %r : tuple<tensor<4x4xf32>, tensor<i32>>
}
// -----
func.func @main(%x0: tuple<tensor<4x4xf32>, tensor<i32>>) -> (tensor<i32>) {
  %r = "stablehlo.get_tuple_element"(%x0) <{index = 1 : i32}> : (tuple<tensor<4x4xf32>, tensor<i32>>) -> tensor<i32>
  return %r : tensor<i32>
}
// -----
func.func @main(%x0: tensor<?xf32>) -> (tensor<i32>) {
  %r = "stablehlo.get_dimension_size"(%x0) <{dimension = 0 : i64}> : (tensor<?xf32>) -> tensor<i32>
  return %r : tensor<i32>
}
// -----
func.func @main(%x0: tensor<?xf32>, %x1: tensor<i32>) -> (tensor<?xf32>) {
  %r = "stablehlo.set_dimension_size"(%x0, %x1) <{dimension = 0 : i64}> : (tensor<?xf32>, tensor<i32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<f32>, %x1: tensor<f32>, %x2: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.rng"(%x0, %x1, %x2) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>) {
  %r:2 = "stablehlo.rng_bit_generator"(%x0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %r#0, %r#1 : tensor<2xui64>, tensor<4xui32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.reduce_precision"(%x0) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<i32>) -> (tensor<4x4xf32>, tensor<i32>) {
  %r:2 = "stablehlo.optimization_barrier"(%x0, %x1) : (tensor<4x4xf32>, tensor<i32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %r#0, %r#1 : tensor<4x4xf32>, tensor<i32>
}
// -----
func.func @main(%x0: tensor<?xf32>, %x1: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%x0, %x1) <{broadcast_dimensions = array<i64: 0>, known_expanding_dimensions = array<i64>, known_nonexpanding_dimensions = array<i64: 0>}> : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_iota"(%x0) <{iota_dimension = 0 : i64}> : (tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<?xf32>, %x1: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_reshape"(%x0, %x1) : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<?xf32>, %x1: tensor<f32>, %x2: tensor<1xi64>, %x3: tensor<1xi64>, %x4: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_pad"(%x0, %x1, %x2, %x3, %x4) : (tensor<?xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<?xf32>, %x1: tensor<1xi64>, %x2: tensor<1xi64>, %x3: tensor<1xi64>) -> (tensor<?xf32>) {
  %r = "stablehlo.real_dynamic_slice"(%x0, %x1, %x2, %x3) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.composite"(%x0) <{composite_attributes = {x = 1 : i32}, decomposition = @f, name = "foo.bar", version = 1 : i32}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = "stablehlo.composite"(%r) <{decomposition = @f, name = "foo.baz"}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}
func.func private @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %a : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.einsum"(%x0, %x1) <{einsum_config = "ij,jk->ik"}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4xf32>) {
  %r = "stablehlo.unary_einsum"(%x0) <{einsum_config = "ij->i"}> : (tensor<4x4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.triangular_solve"(%x0, %x1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<1xi64>) -> (tensor<1x4xf32>) {
  %r = "stablehlo.torch_index_select"(%x0, %x1) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<4x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}
// -----
func.func @main() -> (tensor<ui32>) {
  %r = "stablehlo.partition_id"() : () -> tensor<ui32>
  return %r : tensor<ui32>
}
// -----
func.func @main() -> (tensor<ui32>) {
  %r = "stablehlo.replica_id"() : () -> tensor<ui32>
  return %r : tensor<ui32>
}
// -----
func.func @main() -> (!stablehlo.token) {
  %r = "stablehlo.create_token"() : () -> !stablehlo.token
  return %r : !stablehlo.token
}
// -----
func.func @main() -> (tensor<2x2xi32>) {
  %r = "stablehlo.constant"() <{value = dense<1> : tensor<2x2xi32>}> : () -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}
// -----
func.func @main(%x0: !stablehlo.token, %x1: !stablehlo.token) -> (!stablehlo.token) {
  %r = "stablehlo.after_all"(%x0, %x1) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
  return %r : !stablehlo.token
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.cross-replica-sum"(%x0) <{replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<1x8x8x3xf32>, %x1: tensor<3x3x3x4xf32>) -> (tensor<1x4x4x4xf32>) {
  %r = "stablehlo.convolution"(%x0, %x1) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<1> : tensor<2x2xi64>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, true>, window_strides = array<i64: 2, 2>}> : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>
  return %r : tensor<1x4x4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.dot"(%x0, %x1) <{precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<2x2xf32>) {
  %r = "stablehlo.slice"(%x0) <{limit_indices = array<i64: 4, 3>, start_indices = array<i64: 0, 1>, strides = array<i64: 2, 1>}> : (tensor<4x4xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<i32>, %x2: tensor<i32>) -> (tensor<2x2xf32>) {
  %r = "stablehlo.dynamic_slice"(%x0, %x1, %x2) <{slice_sizes = array<i64: 2, 2>}> : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<i32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.custom_call"(%x0, %x1) <{api_version = 1 : i32, backend_config = "abc", call_target_name = "foo bar", has_side_effect = true, operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}> : (tensor<4x4xf32>, tensor<i32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xi1>) {
  %r = "stablehlo.compare"(%x0, %x1) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main(%x0: tensor<4x4xi1>, %x1: tensor<4x4xf32>, %x2: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.select"(%x0, %x1, %x2) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<f32>, %x1: tensor<4x4xf32>, %x2: tensor<f32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.clamp"(%x0, %x1, %x2) : (tensor<f32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: !stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token) {
  %r:2 = "stablehlo.infeed"(%x0) <{infeed_config = "", layout = [[0, 1]]}> : (!stablehlo.token) -> (tensor<4x4xf32>, !stablehlo.token)
  return %r#0, %r#1 : tensor<4x4xf32>, !stablehlo.token
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.exponential"(%x0) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, ulps = 1, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xi32>) {
  %r = "stablehlo.bitcast_convert"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xi32>
  return %r : tensor<4x4xi32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.reverse"(%x0) <{dimensions = array<i64: 0, 1>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<f32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.pad"(%x0, %x1) <{edge_padding_high = array<i64: 0, -1>, edge_padding_low = array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<2x4x4xf32>) {
  %r = "stablehlo.broadcast"(%x0) <{broadcast_sizes = array<i64: 2>}> : (tensor<4x4xf32>) -> tensor<2x4x4xf32>
  return %r : tensor<2x4x4xf32>
}
// -----
func.func @main() -> (tensor<2xi32>) {
  %r = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi32>}> {foo = "x"} : () -> tensor<2xi32>
  return %r : tensor<2xi32>
}
// -----
func.func @main() -> (tensor<4xi32>) {
  %r = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi32>
  return %r : tensor<4xi32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<8x4xf32>) {
  %r = "stablehlo.concatenate"(%x0, %x1) <{dimension = 0 : i64}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.transpose"(%x0) <{permutation = array<i64: 1, 0>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xcomplex<f32>>) {
  %r = "stablehlo.complex"(%x0, %x1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xcomplex<f32>>
  return %r : tensor<4x4xcomplex<f32>>
}
// -----
func.func @main(%x0: tensor<4x4xcomplex<f32>>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.real"(%x0) : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<1x8x8x3xf32>, %x1: tensor<3x3x3x4xf32>, %x2: tensor<2x2xi32>) -> (tensor<1x8x8x4xf32>) {
  %r = "stablehlo.dynamic_conv"(%x0, %x1, %x2) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>, tensor<2x2xi32>) -> tensor<1x8x8x4xf32>
  return %r : tensor<1x8x8x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "stablehlo.convert"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xi1>) {
  %r = "stablehlo.is_finite"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.erf"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<f32>) -> (tensor<4x4xf32>) {
  %r = "chlo.broadcast_add"(%x0, %x1) <{broadcast_dimensions = array<i64>}> : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
  %r:2 = "chlo.top_k"(%x0) <{k = 2 : i64}> : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return %r#0, %r#1 : tensor<4x2xf32>, tensor<4x2xi32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.constant_like"(%x0) <{value = 3.000000e+00 : f32}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main() -> (tensor<i32>) {
  %r = "chlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  return %r : tensor<i32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.polygamma"(%x0, %x1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>, %x1: tensor<f32>) -> (tensor<4x4xi1>) {
  %r = "chlo.broadcast_compare"(%x0, %x1) <{comparison_direction = #chlo<comparison_direction LT>}> : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main(%x0: tensor<4x4xi1>, %x1: tensor<4x4xf32>, %x2: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "chlo.broadcast_select"(%x0, %x1, %x2) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xi1>) {
  %r = "chlo.is_inf"(%x0) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  return %r : tensor<4x4xi1>
}
// -----
func.func @main() -> (tensor<i32>) {
  %r = "arith.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  return %r : tensor<i32>
}
// -----
func.func @main() -> (i32) {
  %r = "arith.constant"() <{value = 1 : i32}> : () -> i32
  return %r : i32
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "sdy.sharding_constraint"(%x0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
// -----
func.func @main(%x0: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r = "func.call"(%x0) <{callee = @f}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func private @f(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %a : tensor<4x4xf32>
}
