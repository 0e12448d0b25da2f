// Expansion of chlo.acosh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf64>
%cst_0 = stablehlo.constant dense<1.7976931348623157E+308> : tensor<SHAPEf64>
%cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<SHAPEf64>
%0 = stablehlo.divide %cst_0, %cst_1 : tensor<SHAPEf64>
%1 = stablehlo.compare GE, %arg0, %0 : (tensor<SHAPEf64>, tensor<SHAPEf64>) -> tensor<SHAPEi1>
%2 = stablehlo.log %cst_1 : tensor<SHAPEf64>
%3 = stablehlo.log %arg0 : tensor<SHAPEf64>
%4 = stablehlo.add %2, %3 : tensor<SHAPEf64>
%5 = stablehlo.subtract %arg0, %cst : tensor<SHAPEf64>
%6 = stablehlo.sqrt %5 : tensor<SHAPEf64>
%7 = stablehlo.add %arg0, %cst : tensor<SHAPEf64>
%8 = stablehlo.sqrt %7 : tensor<SHAPEf64>
%9 = stablehlo.add %8, %6 : tensor<SHAPEf64>
%10 = stablehlo.multiply %6, %9 : tensor<SHAPEf64>
%11 = stablehlo.log_plus_one %10 : tensor<SHAPEf64>
%12 = stablehlo.select %1, %4, %11 : tensor<SHAPEi1>, tensor<SHAPEf64>
return %12 : tensor<SHAPEf64>
