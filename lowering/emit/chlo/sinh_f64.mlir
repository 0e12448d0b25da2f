// Expansion of chlo.sinh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf64>
%cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<SHAPEf64>
%0 = stablehlo.log %cst_0 : tensor<SHAPEf64>
%1 = stablehlo.add %arg0, %0 : tensor<SHAPEf64>
%2 = stablehlo.exponential %1 : tensor<SHAPEf64>
%3 = stablehlo.subtract %0, %arg0 : tensor<SHAPEf64>
%4 = stablehlo.exponential %3 : tensor<SHAPEf64>
%5 = stablehlo.subtract %2, %4 : tensor<SHAPEf64>
%6 = stablehlo.exponential_minus_one %arg0 : tensor<SHAPEf64>
%7 = stablehlo.add %6, %cst : tensor<SHAPEf64>
%8 = stablehlo.divide %6, %7 : tensor<SHAPEf64>
%9 = stablehlo.add %6, %8 : tensor<SHAPEf64>
%10 = stablehlo.multiply %cst_0, %9 : tensor<SHAPEf64>
%11 = stablehlo.abs %arg0 : tensor<SHAPEf64>
%12 = stablehlo.compare LT, %11, %cst : (tensor<SHAPEf64>, tensor<SHAPEf64>) -> tensor<SHAPEi1>
%13 = stablehlo.select %12, %10, %5 : tensor<SHAPEi1>, tensor<SHAPEf64>
return %13 : tensor<SHAPEf64>
