// Expansion of chlo.atan by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf32>
%0 = stablehlo.atan2 %arg0, %cst : tensor<SHAPEf32>
return %0 : tensor<SHAPEf32>
