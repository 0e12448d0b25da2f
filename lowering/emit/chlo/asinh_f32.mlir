// Expansion of chlo.asinh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf32>
%cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<SHAPEf32>
%cst_1 = stablehlo.constant dense<3.40282347E+38> : tensor<SHAPEf32>
%0 = stablehlo.sign %arg0 : tensor<SHAPEf32>
%1 = stablehlo.abs %arg0 : tensor<SHAPEf32>
%2 = stablehlo.sqrt %cst_1 : tensor<SHAPEf32>
%3 = stablehlo.compare GE, %1, %2 : (tensor<SHAPEf32>, tensor<SHAPEf32>) -> tensor<SHAPEi1>
%4 = stablehlo.log %cst_0 : tensor<SHAPEf32>
%5 = stablehlo.log %1 : tensor<SHAPEf32>
%6 = stablehlo.add %4, %5 : tensor<SHAPEf32>
%7 = stablehlo.multiply %1, %1 : tensor<SHAPEf32>
%8 = stablehlo.add %cst, %7 : tensor<SHAPEf32>
%9 = stablehlo.sqrt %8 : tensor<SHAPEf32>
%10 = stablehlo.add %cst, %9 : tensor<SHAPEf32>
%11 = stablehlo.divide %7, %10 : tensor<SHAPEf32>
%12 = stablehlo.add %1, %11 : tensor<SHAPEf32>
%13 = stablehlo.log_plus_one %12 : tensor<SHAPEf32>
%14 = stablehlo.select %3, %6, %13 : tensor<SHAPEi1>, tensor<SHAPEf32>
%15 = stablehlo.multiply %0, %14 : tensor<SHAPEf32>
return %15 : tensor<SHAPEf32>
