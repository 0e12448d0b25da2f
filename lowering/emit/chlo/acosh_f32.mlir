// Expansion of chlo.acosh by StableHLO's chlo-legalize-to-stablehlo (Apache-2.0 WITH LLVM-exception).
%cst = stablehlo.constant dense<1.000000e+00> : tensor<SHAPEf32>
%cst_0 = stablehlo.constant dense<3.40282347E+38> : tensor<SHAPEf32>
%cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<SHAPEf32>
%0 = stablehlo.divide %cst_0, %cst_1 : tensor<SHAPEf32>
%1 = stablehlo.compare GE, %arg0, %0 : (tensor<SHAPEf32>, tensor<SHAPEf32>) -> tensor<SHAPEi1>
%2 = stablehlo.log %cst_1 : tensor<SHAPEf32>
%3 = stablehlo.log %arg0 : tensor<SHAPEf32>
%4 = stablehlo.add %2, %3 : tensor<SHAPEf32>
%5 = stablehlo.subtract %arg0, %cst : tensor<SHAPEf32>
%6 = stablehlo.sqrt %5 : tensor<SHAPEf32>
%7 = stablehlo.add %arg0, %cst : tensor<SHAPEf32>
%8 = stablehlo.sqrt %7 : tensor<SHAPEf32>
%9 = stablehlo.add %8, %6 : tensor<SHAPEf32>
%10 = stablehlo.multiply %6, %9 : tensor<SHAPEf32>
%11 = stablehlo.log_plus_one %10 : tensor<SHAPEf32>
%12 = stablehlo.select %1, %4, %11 : tensor<SHAPEi1>, tensor<SHAPEf32>
return %12 : tensor<SHAPEf32>
