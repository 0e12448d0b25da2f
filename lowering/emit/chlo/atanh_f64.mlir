// Expansion of chlo.atanh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<5.000000e-01> : tensor<SHAPEf64>
%cst_0 = stablehlo.constant dense<0x7FF8000000000000> : tensor<SHAPEf64>
%cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf64>
%0 = stablehlo.abs %arg0 : tensor<SHAPEf64>
%1 = stablehlo.compare GT, %0, %cst_1 : (tensor<SHAPEf64>, tensor<SHAPEf64>) -> tensor<SHAPEi1>
%2 = stablehlo.log_plus_one %arg0 : tensor<SHAPEf64>
%3 = stablehlo.negate %arg0 : tensor<SHAPEf64>
%4 = stablehlo.log_plus_one %3 : tensor<SHAPEf64>
%5 = stablehlo.subtract %2, %4 : tensor<SHAPEf64>
%6 = stablehlo.multiply %5, %cst : tensor<SHAPEf64>
%7 = stablehlo.select %1, %cst_0, %6 : tensor<SHAPEi1>, tensor<SHAPEf64>
return %7 : tensor<SHAPEf64>
