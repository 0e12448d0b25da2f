// Expansion of chlo.acos by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf64>
%0 = stablehlo.subtract %cst, %arg0 : tensor<SHAPEf64>
%1 = stablehlo.add %cst, %arg0 : tensor<SHAPEf64>
%2 = stablehlo.multiply %0, %1 : tensor<SHAPEf64>
%3 = stablehlo.sqrt %2 : tensor<SHAPEf64>
%4 = stablehlo.atan2 %3, %arg0 : tensor<SHAPEf64>
return %4 : tensor<SHAPEf64>
