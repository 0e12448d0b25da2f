// Expansion of chlo.asin by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf32>
%0 = stablehlo.subtract %cst, %arg0 : tensor<SHAPEf32>
%1 = stablehlo.add %cst, %arg0 : tensor<SHAPEf32>
%2 = stablehlo.multiply %0, %1 : tensor<SHAPEf32>
%3 = stablehlo.sqrt %2 : tensor<SHAPEf32>
%4 = stablehlo.add %cst, %3 : tensor<SHAPEf32>
%5 = stablehlo.atan2 %arg0, %4 : tensor<SHAPEf32>
%6 = stablehlo.add %5, %5 : tensor<SHAPEf32>
return %6 : tensor<SHAPEf32>
