//! One compiled module that is cloned many times.
//!
//! In: the numbers of a [`ScaleCase`] and the role of a module. Out: a cubin with placeholders for
//! names, and clones of it. Guaranteed: names have 8 bytes before and after the exchange, in every
//! section.

use super::{CallPattern, ScaleCase, ScaleDebug};
use crate::reference::oracle::{Oracle, process};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Stands for the module itself.
const OWN: &str = "QSELFxxQ";
/// Prefix of section names with a checksum of the source, which differs between modules of real
/// programs.
const SOURCE_SECTION: &[u8] = b".nv_debug_ptx_txt.";
const LIMIT: Duration = Duration::from_secs(600);

/// The placeholder of the k-th module that is called.
fn callee(k: usize) -> String {
    format!("QFAN{k:02}xQ")
}

/// The role of a module in the call graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The first one, which always has a kernel.
    Root {
        /// It calls no other module.
        leaf: bool,
    },
    /// Calls others.
    Middle,
    /// Calls no other module.
    Leaf,
}

/// A compiled module.
pub(super) struct Template {
    pub(super) role: Role,
    bytes: Vec<u8>,
    /// The places of names: offset, and the number of the called module (`None`: itself).
    names: Vec<(usize, Option<usize>)>,
    /// The places of checksums of sources: offset and number of digits.
    checksums: Vec<(usize, usize)>,
}

impl Template {
    pub(super) fn compile(
        oracle: &Oracle,
        case: &ScaleCase,
        role: Role,
        arch: &str,
        dir: &Path,
    ) -> Result<Self> {
        let stem = match role {
            Role::Root { .. } => "root",
            Role::Middle => "middle",
            Role::Leaf => "leaf",
        };
        let full = case.debug == ScaleDebug::Full;
        let source = dir.join(format!("{stem}.{}", if full { "cu" } else { "ptx" }));
        let cubin = dir.join(format!("{stem}.template"));
        let writer = SourceWriter { case, role, out: String::new() };
        fs::write(&source, if full { writer.cuda() } else { writer.ptx(arch) })?;
        let mut command = oracle.command(if full { "nvcc" } else { "ptxas" });
        command.args(if full { &["-rdc=true", "-cubin", "-G"][..] } else { &["-c"] });
        if case.debug == ScaleDebug::Lines {
            command.arg("-lineinfo");
        }
        command.current_dir(dir).arg(format!("-arch={arch}")).arg(&source).arg("-o").arg(&cubin);
        let run = process::run(&mut command, LIMIT)?;
        if !run.status.success() {
            bail!("{}: {}\n{}", source.display(), run.status, run.stderr_text());
        }
        let bytes = fs::read(&cubin).with_context(|| cubin.display().to_string())?;
        let mut names: Vec<(usize, Option<usize>)> =
            find(&bytes, OWN.as_bytes()).map(|at| (at, None)).collect();
        for k in 0..case.fan {
            names.extend(find(&bytes, callee(k).as_bytes()).map(|at| (at, Some(k))));
        }
        let checksums = find(&bytes, SOURCE_SECTION).map(|at| {
            let at = at + SOURCE_SECTION.len();
            (at, bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count())
        });
        let checksums = checksums.collect();
        Ok(Self { role, bytes, names, checksums })
    }

    /// The cubin of one module.
    pub(super) fn clone_for(&self, index: usize, callees: &[usize]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for &(at, which) in &self.names {
            let module = which.map_or(index, |k| callees[k]);
            bytes[at..at + 8].copy_from_slice(format!("M{module:07x}").as_bytes());
        }
        for &(at, digits) in &self.checksums {
            let text = std::str::from_utf8(&bytes[at..at + digits]).unwrap_or("0");
            let number: u64 = text.parse().unwrap_or(0);
            let limit = 10_u64.saturating_pow(digits as u32);
            let other = (number.wrapping_mul(31).wrapping_add(index as u64 * 7919)) % limit;
            bytes[at..at + digits].copy_from_slice(format!("{other:0digits$}").as_bytes());
        }
        bytes
    }
}

/// Offsets of all occurrences.
fn find<'b>(bytes: &'b [u8], pattern: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    bytes
        .windows(pattern.len())
        .enumerate()
        .filter(move |(_, window)| *window == pattern)
        .map(|(at, _)| at)
}

/// Writes the source of a module.
struct SourceWriter<'c> {
    case: &'c ScaleCase,
    role: Role,
    out: String,
}

/// Appends a formatted line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{ let _ = writeln!($out, $($arg)*); }};
}

fn function(module: &str, j: usize) -> String {
    format!("f_{module}_{j:05}")
}

fn global(module: &str, j: usize) -> String {
    format!("g_{module}_{j:05}")
}

const SIGNATURE: &str = "(.param .b32 r)";
/// Words per variable.
const WORDS: usize = 4;

impl SourceWriter<'_> {
    fn fan(&self) -> usize {
        let leaf = matches!(self.role, Role::Leaf | Role::Root { leaf: true });
        if leaf || self.case.graph == CallPattern::None { 0 } else { self.case.fan }
    }

    fn live(&self) -> usize {
        self.case.functions - self.case.functions * self.case.dead_pc / 100
    }

    fn kernels(&self) -> usize {
        match self.role {
            Role::Root { .. } => self.case.kernels.max(1),
            _ => self.case.kernels,
        }
    }

    /// Calls of function `j` into other modules.
    fn calls(&self, j: usize) -> Vec<String> {
        let fan = self.fan();
        let calls = if fan == 0 { 0 } else { self.case.calls };
        let reach = (0..calls).take_while(|c| c / fan < self.live());
        reach.map(|c| function(&callee(c % fan), (j + c / fan) % self.live())).collect()
    }

    /// Variables function `j` reads, every fourth of another module.
    fn reads(&self, j: usize) -> Vec<String> {
        let (fan, count) = (self.fan(), self.case.globals);
        if count == 0 {
            return Vec::new();
        }
        let each = self.case.relocations / 2;
        let name = |r: usize| {
            let n = j * each + r;
            if fan > 0 && r % 4 == 3 {
                global(&callee(n % fan), n % count)
            } else {
                global(OWN, n % count)
            }
        };
        (0..each).map(name).collect()
    }

    fn foreign(names: impl Iterator<Item = String>) -> Vec<String> {
        let mut names: Vec<String> = names.filter(|name| !name.contains(OWN)).collect();
        names.sort();
        names.dedup();
        names
    }

    fn ptx(mut self, arch: &str) -> String {
        line!(self.out, ".version 9.0\n.target {arch}\n.address_size 64");
        let functions = 0..self.case.functions;
        for name in Self::foreign(functions.clone().flat_map(|j| self.calls(j))) {
            line!(self.out, ".extern .func {SIGNATURE} {name} (.param .b32 a);");
        }
        for name in Self::foreign(functions.clone().flat_map(|j| self.reads(j))) {
            line!(self.out, ".extern .global .align 4 .u32 {name}[{WORDS}];");
        }
        for g in 0..self.case.globals {
            let init = if g % 2 == 1 { format!(" = {{{}}}", g + 1) } else { String::new() };
            line!(self.out, ".visible .global .align 4 .u32 {}[{WORDS}]{init};", global(OWN, g));
        }
        if self.case.debug == ScaleDebug::Lines {
            line!(self.out, ".file 1 \"/src/{OWN}/{OWN}.cu\"");
        }
        for j in functions.clone() {
            line!(self.out, ".visible .func {SIGNATURE} {} (.param .b32 a);", function(OWN, j));
        }
        if self.case.table > 0 {
            let names: Vec<String> =
                (0..self.case.table.min(self.live())).map(|j| function(OWN, j)).collect();
            line!(
                self.out,
                ".visible .global .align 8 .u64 t_{OWN}[{}] = {{{}}};",
                names.len(),
                names.join(",")
            );
        }
        if self.case.local {
            line!(
                self.out,
                ".func {SIGNATURE} l_{OWN} (.param .b32 a)
{{ .reg .b32 %r<3>; ld.param.u32 %r1,[a]; mul.lo.u32 %r2,%r1,%r1; st.param.b32 [r],%r2; ret; }}"
            );
        }
        let mut source_line = 10;
        for j in functions {
            self.ptx_function(j, &mut source_line);
        }
        for k in 0..self.kernels() {
            self.ptx_kernel(k);
        }
        self.out
    }

    fn location(&mut self, source_line: &mut u32) {
        if self.case.debug == ScaleDebug::Lines {
            *source_line += 1;
            line!(self.out, " .loc 1 {source_line} 3");
        }
    }

    fn ptx_call(&mut self, name: &str) {
        line!(
            self.out,
            " {{ .param .b32 pa; .param .b32 pr; st.param.b32 [pa], %r1; call (pr), {name}, (pa); ld.param.b32 %r1, [pr]; }}"
        );
    }

    fn ptx_function(&mut self, j: usize, source_line: &mut u32) {
        let name = function(OWN, j);
        line!(
            self.out,
            ".visible .func {SIGNATURE} {name} (.param .b32 a)\n{{ .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>;"
        );
        self.location(source_line);
        line!(self.out, " ld.param.u32 %r1, [a];");
        let (reads, calls) = (self.reads(j), self.calls(j));
        for name in &reads {
            self.location(source_line);
            let offset = 4 * (j % WORDS);
            line!(
                self.out,
                " mov.u64 %rd1, {name}; ld.volatile.global.u32 %r2, [%rd1+{offset}]; add.u32 %r1, %r1, %r2;"
            );
        }
        // An instruction takes 16 bytes, a call about 8 of them, a read about 4.
        let steps = (self.case.code / 16).saturating_sub(8 * calls.len() + 4 * reads.len() + 4);
        line!(self.out, " mov.b32 %f1, %r1; mov.b32 %f2, %r1;");
        for i in 0..steps {
            if i % 8 == 0 {
                self.location(source_line);
            }
            let literal = 0x3f00_0000 + ((j * 7919 + i * 104_729) & 0xff_ffff);
            line!(self.out, " fma.rn.f32 %f1, %f1, %f2, 0f{literal:08X};");
        }
        line!(self.out, " mov.b32 %r1, %f1;");
        for name in &calls {
            self.location(source_line);
            self.ptx_call(name);
        }
        if self.case.local && j == 0 {
            self.ptx_call(&format!("l_{OWN}"));
        }
        line!(self.out, " st.param.b32 [r], %r1; ret;\n}}");
    }

    fn ptx_kernel(&mut self, k: usize) {
        line!(
            self.out,
            ".visible .entry k_{OWN}_{k:05}(.param .u64 p)\n{{ .reg .b32 %r<8>; .reg .b64 %rd<4>;"
        );
        let shared = self.case.shared;
        if shared > 0 {
            line!(self.out, " .shared .align 4 .b8 s_{OWN}_{k:05}[{shared}];");
        }
        line!(self.out, " ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;");
        if shared > 0 {
            line!(
                self.out,
                " mov.u64 %rd2, s_{OWN}_{k:05}; st.volatile.shared.u32 [%rd2], %r1; ld.volatile.shared.u32 %r1, [%rd2+4];"
            );
        }
        for j in (k..self.live()).step_by(self.kernels()) {
            self.ptx_call(&function(OWN, j));
        }
        line!(self.out, " st.global.u32 [%rd1], %r1; ret;\n}}");
    }

    /// The CUDA C++ form, for full debug information.
    fn cuda(mut self) -> String {
        line!(self.out, "struct S_{OWN} {{ int a; float b; long c[4]; }};");
        for k in 0..self.fan() {
            for j in 0..self.case.functions {
                line!(self.out, "extern \"C\" __device__ int {}(int a);", function(&callee(k), j));
            }
        }
        for g in 0..self.case.globals {
            let init = if g % 2 == 1 { format!(" = {{{g}}}") } else { String::new() };
            line!(self.out, "extern \"C\" {{ __device__ int {}[{WORDS}]{init}; }}", global(OWN, g));
        }
        for j in 0..self.case.functions {
            let name = function(OWN, j);
            line!(
                self.out,
                "extern \"C\" __device__ int {name}(int a) {{ S_{OWN} s; s.a = a; s.b = a * 0.5f;"
            );
            for r in 0..(self.case.relocations / 2).min(self.case.globals) {
                line!(
                    self.out,
                    " s.a += {}[{}];",
                    global(OWN, (j + r) % self.case.globals),
                    j % WORDS
                );
            }
            for i in 0..(self.case.code / 128).max(1) {
                line!(self.out, " s.b = s.b * {i}.5f + s.a;");
            }
            for name in self.calls(j) {
                line!(self.out, " s.a += {name}(s.a);");
            }
            line!(self.out, " return s.a + (int)s.b; }}");
        }
        for k in 0..self.kernels() {
            line!(
                self.out,
                "extern \"C\" __global__ void k_{OWN}_{k:05}(int *p) {{ int r = threadIdx.x;"
            );
            for j in (k..self.live()).step_by(self.kernels()) {
                line!(self.out, " r = {}(r);", function(OWN, j));
            }
            line!(self.out, " *p = r; }}");
        }
        self.out
    }
}
