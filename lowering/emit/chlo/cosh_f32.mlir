// Expansion of chlo.cosh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<5.000000e-01> : tensor<SHAPEf32>
%0 = stablehlo.log %cst : tensor<SHAPEf32>
%1 = stablehlo.add %arg0, %0 : tensor<SHAPEf32>
%2 = stablehlo.exponential %1 : tensor<SHAPEf32>
%3 = stablehlo.subtract %0, %arg0 : tensor<SHAPEf32>
%4 = stablehlo.exponential %3 : tensor<SHAPEf32>
%5 = stablehlo.add %2, %4 : tensor<SHAPEf32>
return %5 : tensor<SHAPEf32>
