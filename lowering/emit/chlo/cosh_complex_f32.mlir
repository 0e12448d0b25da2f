// Expansion of chlo.cosh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<(5.000000e-01,0.000000e+00)> : tensor<SHAPEcomplex<f32>>
%0 = stablehlo.log %cst : tensor<SHAPEcomplex<f32>>
%1 = stablehlo.add %arg0, %0 : tensor<SHAPEcomplex<f32>>
%2 = stablehlo.exponential %1 : tensor<SHAPEcomplex<f32>>
%3 = stablehlo.subtract %0, %arg0 : tensor<SHAPEcomplex<f32>>
%4 = stablehlo.exponential %3 : tensor<SHAPEcomplex<f32>>
%5 = stablehlo.add %2, %4 : tensor<SHAPEcomplex<f32>>
return %5 : tensor<SHAPEcomplex<f32>>
