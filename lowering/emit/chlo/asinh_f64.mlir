// Expansion of chlo.asinh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf64>
%cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<SHAPEf64>
%cst_1 = stablehlo.constant dense<1.7976931348623157E+308> : tensor<SHAPEf64>
%0 = stablehlo.sign %arg0 : tensor<SHAPEf64>
%1 = stablehlo.abs %arg0 : tensor<SHAPEf64>
%2 = stablehlo.sqrt %cst_1 : tensor<SHAPEf64>
%3 = stablehlo.compare GE, %1, %2 : (tensor<SHAPEf64>, tensor<SHAPEf64>) -> tensor<SHAPEi1>
%4 = stablehlo.log %cst_0 : tensor<SHAPEf64>
%5 = stablehlo.log %1 : tensor<SHAPEf64>
%6 = stablehlo.add %4, %5 : tensor<SHAPEf64>
%7 = stablehlo.multiply %1, %1 : tensor<SHAPEf64>
%8 = stablehlo.add %cst, %7 : tensor<SHAPEf64>
%9 = stablehlo.sqrt %8 : tensor<SHAPEf64>
%10 = stablehlo.add %cst, %9 : tensor<SHAPEf64>
%11 = stablehlo.divide %7, %10 : tensor<SHAPEf64>
%12 = stablehlo.add %1, %11 : tensor<SHAPEf64>
%13 = stablehlo.log_plus_one %12 : tensor<SHAPEf64>
%14 = stablehlo.select %3, %6, %13 : tensor<SHAPEi1>, tensor<SHAPEf64>
%15 = stablehlo.multiply %0, %14 : tensor<SHAPEf64>
return %15 : tensor<SHAPEf64>
