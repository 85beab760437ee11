//! Programs in CUDA C++: several files that include the same parts, as headers make them.
//!
//! In: a program without items and a random number generator. Out: the same with units of CUDA C++
//! in parts. Guaranteed: a part names only what parts in front of it declare, and no two files
//! define anything twice that may be defined once.

mod features;
mod parts;

use super::mix::Mix;
use super::model::{Cuda, GeneratedProgram, PtxArch};
use super::rng::Rng;
use features::FEATURES;
use parts::{ATTRIBUTES, KERNELS, OWN, SHARED, SourcePart, TEMPLATE_KERNEL};

/// Makes the units of `program` CUDA C++.
pub(super) fn fill(program: &mut GeneratedProgram, mix: &Mix, rng: &mut Rng) {
    let arch = program.link_arch;
    let mut header = SharedText::default();
    for _ in 0..rng.range(3, 9) {
        match mix.features_pc > 0 && rng.chance(mix.features_pc) {
            true => header.add_feature(arch, rng),
            false => header.add(SHARED, rng),
        }
    }
    if mix.whole_pc > 0 && rng.chance(mix.whole_pc) {
        // Nobody links two of them, but it can be done.
        program.units.truncate(if rng.chance(75) { 1 } else { 2 });
        program.units.iter_mut().for_each(|unit| unit.whole_program = rng.chance(90));
        without_debug(program);
    }
    program.library = header.library && rng.chance(95);
    header.headers.sort_unstable();
    let count = program.units.len();
    for (number, unit) in program.units.iter_mut().enumerate() {
        (unit.arch, unit.target) = (arch, arch);
        let mut file = SharedText { number, ..header.clone() };
        // A file that sees another definition than the others, as behind a macro of its own.
        if rng.chance(15) {
            let part = &mut file.parts[rng.below(header.parts.len())];
            *part = part.replace("return x", "return 5 + x");
        }
        for other in (0..count).filter(|&other| other != number) {
            if rng.chance(60) && !unit.whole_program {
                file.declare(other);
            }
        }
        for _ in 0..rng.range(1, 3) {
            file.add(OWN, rng);
        }
        file.define(rng);
        if rng.chance(25) {
            let text = file.filled(TEMPLATE_KERNEL, arch.number(), rng);
            file.parts.push(text);
        }
        for _ in 0..rng.range(usize::from(number == 0), 2) {
            file.kernel(arch.number(), rng);
        }
        unit.options = options(mix, rng);
        if unit.whole_program {
            unit.options.retain(|option| option != "-G");
        }
        unit.cuda = Some(Cuda { headers: file.headers, parts: file.parts });
    }
}

/// nvlink loses shared memory of whole programs where debug information is asked for
/// (docs/DIFFERENCES.md, whole-program-debug).
pub(super) fn without_debug(program: &mut GeneratedProgram) {
    if program.units.iter().any(|unit| unit.whole_program) {
        program.link_options.retain(|option| option != "-g");
    }
}

/// Options of nvcc for one file.
fn options(mix: &Mix, rng: &mut Rng) -> Vec<String> {
    if rng.chance(mix.debug_pc) {
        return vec!["-G".to_owned()];
    }
    let mut options = Vec::new();
    if rng.chance(mix.lines_pc) {
        options.push("-lineinfo".to_owned());
    }
    if rng.chance(mix.options_pc) {
        let more =
            ["-use_fast_math", "-maxrregcount=128", "-Xptxas=-O1", "-fmad=false", "-Xptxas=-O3"];
        options.push(rng.pick(&more).to_owned());
    }
    options
}

/// The text of a file, or of what all of them share.
#[derive(Clone, Default)]
struct SharedText {
    parts: Vec<String>,
    /// Headers that they need.
    headers: Vec<String>,
    /// Some part calls libcudadevrt.
    library: bool,
    /// Expressions in which parts are used.
    uses: Vec<String>,
    number: usize,
}

impl SharedText {
    /// One more part, of one of many kinds.
    fn add(&mut self, kinds: &[SourcePart], rng: &mut Rng) {
        self.add_part(kinds[rng.below(kinds.len())], rng);
    }

    /// One more part about a feature that `arch` has.
    fn add_feature(&mut self, arch: PtxArch, rng: &mut Rng) {
        let possible: Vec<_> =
            FEATURES.iter().filter(|feature| feature.since.suits(arch)).collect();
        let Some(feature) = rng.choose(&possible) else { return };
        for header in feature.headers {
            if !self.headers.iter().any(|known| known == header) {
                self.headers.push((*header).to_owned());
            }
        }
        self.library |= feature.library;
        self.add_part(feature.part, rng);
    }

    fn add_part(&mut self, (text, uses): SourcePart, rng: &mut Rng) {
        let (n, k) = (rng.range(2, 9), rng.range(1, 99));
        let callee = self.expression("x", rng);
        let text = text.replace("@C", &callee);
        let uses: Vec<String> = uses.iter().map(|text| self.numbered(text, n, k)).collect();
        self.parts.push(self.numbered(&text, n, k));
        self.uses.extend(uses);
    }

    fn numbered(&self, text: &str, n: usize, k: usize) -> String {
        let own = self.parts.len().to_string();
        let text = text.replace("@I", &own).replace("@U", &self.number.to_string());
        text.replace("@N", &n.to_string()).replace("@K", &k.to_string())
    }

    /// The text of a kernel with everything drawn.
    fn filled(&self, text: &str, arch: u32, rng: &mut Rng) -> String {
        let possible: Vec<&str> =
            ATTRIBUTES.iter().filter(|(_, since)| *since <= arch).map(|(text, _)| *text).collect();
        let text = text.replace("@A", rng.pick(&possible));
        self.numbered(&text, rng.range(2, 9), rng.range(1, 300))
    }

    /// Declares the definitions of another file.
    fn declare(&mut self, other: usize) {
        self.parts.push(format!(
            "extern __device__ int of_{other}(int x);
extern __device__ int data_{other}[]; extern __constant__ float table_{other}[8];"
        ));
        self.uses.push(format!("of_{other}(X)"));
        self.uses.push(format!("data_{other}[X % 4]"));
        self.uses.push(format!("(int)table_{other}[X % 8]"));
    }

    /// Adds definitions for other files.
    fn define(&mut self, rng: &mut Rng) {
        let (number, body) = (self.number, self.body(rng));
        let (first, second) = (rng.below(100), rng.below(100));
        self.parts.push(format!(
            "__device__ int data_{number}[] = {{1, 2, 3, {first}}}; __constant__ float table_{number}[8] = {{{second}}};
__device__ int of_{number}(int x) {{\n{body}  return x;\n}}"
        ));
    }

    fn kernel(&mut self, arch: u32, rng: &mut Rng) {
        let (head, end) = KERNELS[rng.below(KERNELS.len())];
        let body = self.body(rng);
        let text = self.filled(&format!("{head}@B{end}"), arch, rng);
        self.parts.push(text.replace("@B", &body));
    }

    /// A few statements about `x`.
    fn body(&self, rng: &mut Rng) -> String {
        let mut text = String::new();
        for _ in 0..rng.range(1, 4) {
            let value = self.expression("x", rng);
            text.push_str(&match rng.below(4) {
                0 => format!("  if (x > {}) x += {value};\n", rng.below(50)),
                1 => format!("  for (int i = 0; i < (x & 7); ++i) {{\n    x ^= {value};\n  }}\n"),
                _ => format!("  x += {value};\n"),
            });
        }
        text
    }

    /// A use of a part, or plain arithmetic.
    fn expression(&self, x: &str, rng: &mut Rng) -> String {
        match rng.choose(&self.uses) {
            Some(text) if rng.chance(80) => text.replace('X', x),
            _ => format!("({x} * {} + 1)", rng.range(2, 50)),
        }
    }
}
