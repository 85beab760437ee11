//! Device links for AArch64: programs of the cross compiler, started by qemu.

use super::{ARCHS, DeviceLinkLab, LIMIT, RUNTIME, generate, succeed};
use anyhow::{Result, ensure};
use culd_testkit::reference::oracle::process;
use std::fs;
use std::process::Command;

const COMPILER: &str = "aarch64-linux-gnu-g++";

/// A program with a static kernel, a constant and a managed variable, and a second module.
const MAIN: &str = r#"
#include <cstdio>
extern __device__ int f(int);
__constant__ int c[4];
__managed__ int g;
static __global__ void k(int *p) { *p = f(*p) + c[1] + g; }
extern "C" void other();
int main() { k<<<1, 1>>>(nullptr); other(); return 0; }
"#;
const OTHER: &str = r#"
__device__ int f(int x) { return x * 3; }
__global__ void second(int *p) { *p = f(*p); }
extern "C" void other() { second<<<1, 1>>>(nullptr); }
"#;

/// The functions of the runtime that a launch calls.
const LAUNCH: &str = "
int __cudaPushCallConfiguration() { return 0; }
int __cudaPopCallConfiguration() { return 0; }
int __cudaGetKernel() { return 0; }
int __cudaLaunchKernel() { fprintf(stderr, \"launch\\n\"); return 0; }
int cudaLaunchKernel() { fprintf(stderr, \"launch\\n\"); return 0; }
";

impl DeviceLinkLab {
    /// Programs for AArch64 make the same calls with either object.
    pub(super) fn aarch64(&mut self) -> Result<()> {
        let runtime = format!("{RUNTIME}{LAUNCH}").replace("#include <dlfcn.h>\n", "");
        for (name, text) in [("arm.cu", MAIN), ("other.cu", OTHER), ("arm-calls.c", &runtime)] {
            fs::write(self.dir.join(name), text)?;
        }
        for stem in ["arm", "other"] {
            let mut nvcc = self.nvcc(&self.reference);
            nvcc.args(["-ccbin", COMPILER, "-dc"]).args(generate(ARCHS[1]));
            succeed(nvcc.args([&format!("{stem}.cu"), "-o", &format!("{stem}.arm.o")]))?;
        }
        for kind in ["-pie", "-no-pie", "-Wl,--gc-sections,-z,now,-z,text", "-static"] {
            let result = self.arm_program(kind);
            self.check(&format!("aarch64 {kind}"), result);
        }
        Ok(())
    }

    fn arm_program(&self, kind: &str) -> Result<()> {
        let objects = ["arm.arm.o", "other.arm.o"];
        let mut logs = Vec::new();
        for mut command in [self.nvcc(&self.linked), self.device_link(&self.linked)] {
            let is_nvcc = !command.get_args().any(|word| word == "device-link");
            command.args(is_nvcc.then_some("-dlink")).args(["-ccbin", COMPILER]);
            command.args(generate(ARCHS[1])).args(objects);
            succeed(command.args(["-cudadevrt", "none", "-o", "arm-dlink.o"]))?;
            let mut compiler = Command::new("aarch64-linux-gnu-gcc");
            compiler.current_dir(&self.dir).args(["-w", "-c", "-fPIC", "arm-calls.c"]);
            succeed(compiler.args(["-o", "arm-calls.o"]))?;
            let mut compiler = Command::new(COMPILER);
            compiler.current_dir(&self.dir).arg(kind).args(objects);
            succeed(compiler.args(["arm-dlink.o", "arm-calls.o", "-o", "arm-prog"]))?;
            let mut program = Command::new("qemu-aarch64");
            program.current_dir(&self.dir).args(["-L", "/usr/aarch64-linux-gnu", "./arm-prog"]);
            let run = process::run(&mut program, LIMIT)?;
            let text = run.stderr_text();
            ensure!(text.contains("fatbin 466243b1 2"), "nothing is registered: {text}");
            logs.push((text, run.status));
        }
        ensure!(logs[0] == logs[1], "calls differ:\n{}\n---\n{}", logs[0].0, logs[1].0);
        Ok(())
    }
}
