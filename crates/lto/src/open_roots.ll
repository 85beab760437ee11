target datalayout = "e-p:64:64:64-p3:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare void @"culd_other_code"()
@llvm.compiler.used = appending global [1 x i8*] [i8* bitcast (void ()* @"culd_other_code" to i8*)], section "llvm.metadata"
