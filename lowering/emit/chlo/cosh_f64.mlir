// Expansion of chlo.cosh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<5.000000e-01> : tensor<SHAPEf64>
%0 = stablehlo.log %cst : tensor<SHAPEf64>
%1 = stablehlo.add %arg0, %0 : tensor<SHAPEf64>
%2 = stablehlo.exponential %1 : tensor<SHAPEf64>
%3 = stablehlo.subtract %0, %arg0 : tensor<SHAPEf64>
%4 = stablehlo.exponential %3 : tensor<SHAPEf64>
%5 = stablehlo.add %2, %4 : tensor<SHAPEf64>
return %5 : tensor<SHAPEf64>
