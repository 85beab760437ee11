//! Makes large link inputs for benchmarks in about a second.
//!
//! In: a [`ScaleCase`] and the reference compiler. Out: a folder of cubins, or of host objects with
//! them. Guaranteed: every cubin has the bytes that ptxas would make of its source. It is a clone
//! of a compiled template with other symbol names of the same length, so no offset in the file
//! changes.

mod template;

use crate::fixtures::pack::{self, HostParts};
use crate::reference::oracle::Oracle;
use anyhow::{Context, Result};
use culd_fatbin::writer::{Compression, ImageTarget, InputImage};
use std::fs;
use std::path::Path;
use template::{Role, Template};

/// The numbers that define one set of inputs.
#[derive(Clone, Copy, Debug)]
pub struct ScaleCase {
    /// Name on the command line.
    pub name: &'static str,
    /// What it stresses.
    pub what: &'static str,
    /// Number of files.
    pub modules: usize,
    /// Functions per file.
    pub functions: usize,
    /// Approximate bytes of code per function.
    pub code: usize,
    /// Relocations against variables per function; every access makes two.
    pub relocations: usize,
    /// Variables per file.
    pub globals: usize,
    /// Calls per function into other files.
    pub calls: usize,
    /// Files that a file calls into.
    pub fan: usize,
    /// Files that call no others; for layers, the width of a layer.
    pub leaves: usize,
    /// The shape of the calls.
    pub graph: CallPattern,
    /// Percentage of functions that nobody calls.
    pub dead_pc: usize,
    /// Kernels per file; with 0 only the first file has one.
    pub kernels: usize,
    /// Bytes of shared memory per kernel.
    pub shared: usize,
    /// Entries of the table of function addresses of each file.
    pub table: usize,
    /// Each file has a local function.
    pub local: bool,
    /// Debug information.
    pub debug: ScaleDebug,
    /// The container of the cubins.
    pub container: ScaleContainer,
    /// The architecture, if it is fixed.
    pub arch: Option<&'static str>,
    /// Linked with the runtime library, as nvcc does.
    pub runtime: bool,
    /// nvlink takes so long that the case is measured only if it is named.
    pub long: bool,
    /// nvlink does not end.
    pub endless: bool,
}

/// Which file calls which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPattern {
    /// No calls between files.
    None,
    /// File i calls files i+1 to i+fan.
    Chain,
    /// File i calls files fan·i+1 to fan·i+fan.
    Tree,
    /// Every file calls some of the leaves.
    Library,
    /// Layers of `leaves` files; each file calls `fan` files of the next layer.
    Layers,
}

/// Debug information of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDebug {
    /// None.
    Off,
    /// Line tables.
    Lines,
    /// Full DWARF, from CUDA C++ by nvcc -G.
    Full,
}

/// The containers of the cubins of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleContainer {
    /// Files of their own.
    Files,
    /// Host objects; all but the first are members of one archive.
    Archive,
    /// Host objects with compressed fat binaries.
    Compressed,
}

const USUAL: ScaleCase = ScaleCase {
    name: "",
    what: "",
    modules: 1,
    functions: 10,
    code: 1024,
    relocations: 4,
    globals: 4,
    calls: 1,
    fan: 1,
    leaves: 1,
    graph: CallPattern::Chain,
    dead_pc: 0,
    kernels: 1,
    shared: 64,
    table: 2,
    local: true,
    debug: ScaleDebug::Off,
    container: ScaleContainer::Files,
    arch: None,
    runtime: false,
    long: false,
    endless: false,
};

/// Many files that call each other like a tree.
const TREE: ScaleCase =
    ScaleCase { calls: 2, fan: 2, leaves: 4, graph: CallPattern::Tree, ..USUAL };

/// Functions with hardly any code.
const MINIMAL: ScaleCase = ScaleCase {
    functions: 1,
    code: 128,
    relocations: 0,
    globals: 0,
    table: 0,
    local: false,
    shared: 0,
    ..USUAL
};

/// Every path through the layers is another call path.
const ROWS: ScaleCase =
    ScaleCase { calls: 4, fan: 4, leaves: 4, graph: CallPattern::Layers, kernels: 0, ..MINIMAL };

/// The benchmark suite.
pub const CASES: &[ScaleCase] = &[
    ScaleCase { name: "tiny", what: "one file: start-up", ..USUAL },
    ScaleCase {
        name: "tiny-cudadevrt",
        what: "one file and -lcudadevrt, as nvcc has it",
        runtime: true,
        ..USUAL
    },
    ScaleCase { name: "many100", what: "100 files", modules: 100, ..TREE },
    ScaleCase { name: "many1000", what: "1000 files", modules: 1000, ..TREE },
    ScaleCase { name: "many3000", what: "3000 files", modules: 3000, ..TREE },
    ScaleCase { name: "many10000", what: "10,000 files", modules: 10_000, long: true, ..TREE },
    ScaleCase {
        name: "many1000-sm_100",
        what: "1000 files with Mercury",
        modules: 1000,
        arch: Some("sm_100"),
        ..TREE
    },
    ScaleCase {
        name: "functions-sm_100",
        what: "10,000 functions with Mercury in ten files",
        modules: 10,
        functions: 1000,
        arch: Some("sm_100"),
        ..TREE
    },
    ScaleCase {
        name: "deepchain",
        what: "call depth 1000, a kernel at every level",
        modules: 1000,
        ..MINIMAL
    },
    ScaleCase { name: "paths14", what: "14 rows of 4: 4^14 call paths", modules: 56, ..ROWS },
    ScaleCase {
        name: "paths40",
        what: "40 rows of 4: 4^40 call paths",
        modules: 160,
        endless: true,
        ..ROWS
    },
    ScaleCase {
        name: "relocs",
        what: "a million relocations",
        modules: 100,
        code: 256,
        relocations: 1000,
        globals: 1000,
        graph: CallPattern::None,
        ..USUAL
    },
    ScaleCase {
        name: "bigcode",
        what: "a gigabyte of code",
        modules: 1000,
        functions: 16,
        code: 65536,
        graph: CallPattern::Library,
        leaves: 8,
        ..USUAL
    },
    ScaleCase {
        name: "debug_g",
        what: "full debug information, 300 files",
        modules: 300,
        debug: ScaleDebug::Full,
        ..TREE
    },
    ScaleCase {
        name: "lineinfo",
        what: "line tables, 300 files",
        modules: 300,
        debug: ScaleDebug::Lines,
        ..TREE
    },
    ScaleCase {
        name: "xindex",
        what: "more sections than 16 bits count",
        modules: 400,
        functions: 100,
        code: 128,
        relocations: 2,
        globals: 2,
        graph: CallPattern::Library,
        table: 0,
        shared: 0,
        ..USUAL
    },
    ScaleCase {
        name: "archive",
        what: "1000 host objects, all but one in an archive",
        modules: 1000,
        container: ScaleContainer::Archive,
        ..TREE
    },
    ScaleCase {
        name: "zfat",
        what: "1000 host objects with compressed fat binaries",
        modules: 1000,
        container: ScaleContainer::Compressed,
        ..TREE
    },
    ScaleCase {
        name: "dead",
        what: "nine of ten functions are dead",
        modules: 300,
        functions: 40,
        code: 512,
        graph: CallPattern::Library,
        leaves: 4,
        dead_pc: 90,
        ..USUAL
    },
];

/// The case of that name.
pub fn case(name: &str) -> Option<&'static ScaleCase> {
    CASES.iter().find(|case| case.name == name)
}

/// Files of a case, in link order.
#[derive(Clone, Debug)]
pub struct ScaleInputs {
    /// Names inside the folder.
    pub files: Vec<String>,
    /// Their size together.
    pub bytes: u64,
}

impl ScaleCase {
    /// Modules that module `index` calls; none for a leaf.
    fn callees(&self, index: usize) -> Vec<usize> {
        let (count, fan) = (self.modules, self.fan);
        if self.graph == CallPattern::None || fan == 0 || count == 1 {
            return Vec::new();
        }
        let leaves = (count - 1).min(fan.max(self.leaves));
        let first_leaf = count - leaves;
        if index >= first_leaf {
            return Vec::new();
        }
        let wanted = |k: usize| match self.graph {
            CallPattern::None => index,
            CallPattern::Chain => index + 1 + k,
            CallPattern::Tree => fan * index + 1 + k,
            CallPattern::Library => first_leaf + (index * fan + k) % leaves,
            CallPattern::Layers => (index / leaves + 1) * leaves + (index + k) % leaves,
        };
        (0..fan)
            .map(wanted)
            .map(|callee| if callee < count { callee } else { first_leaf + callee % leaves })
            .collect()
    }

    fn role(&self, index: usize) -> Role {
        match (index, self.callees(index).is_empty()) {
            (0, leaf) => Role::Root { leaf },
            (_, true) => Role::Leaf,
            (_, false) => Role::Middle,
        }
    }
}

/// Makes the files of `case` for `arch` in `dir`.
///
/// # Errors
/// When the compiler fails or a file cannot be written.
pub fn generate(oracle: &Oracle, case: &ScaleCase, arch: &str, dir: &Path) -> Result<ScaleInputs> {
    let arch = case.arch.unwrap_or(arch);
    fs::create_dir_all(dir)?;
    let mut templates = Templates { oracle, case, dir, all: Vec::new() };
    let mut inputs = ScaleInputs { files: Vec::with_capacity(case.modules), bytes: 0 };
    let mut members = Vec::new();
    for index in 0..case.modules {
        let cubin = templates.module(index, arch)?;
        match case.container {
            ScaleContainer::Files => inputs.add(dir, format!("m{index:06}.cubin"), &cubin)?,
            ScaleContainer::Compressed => {
                inputs.add(dir, format!("m{index:06}.o"), &object(cubin, index, arch, true)?)?;
            }
            ScaleContainer::Archive => {
                let object = object(cubin, index, arch, false)?;
                match index {
                    0 => inputs.add(dir, "m000000.o".to_owned(), &object)?,
                    _ => members.push((format!("m{index:06}.o"), object)),
                }
            }
        }
    }
    if case.container == ScaleContainer::Archive {
        let members: Vec<(&str, &[u8])> =
            members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        inputs.add(dir, "lib.a".to_owned(), &pack::archive(&members, pack::ArchiveFlavour::Gnu))?;
    }
    Ok(inputs)
}

/// Makes the modules of `case` as objects of `nvcc -dc` for all of `archs`, in `dir`: compressed
/// images and the id of the module.
///
/// # Errors
/// As [`generate`].
pub fn generate_objects(
    oracle: &Oracle,
    case: &ScaleCase,
    archs: &[&str],
    dir: &Path,
) -> Result<ScaleInputs> {
    fs::create_dir_all(dir)?;
    let mut templates = Templates { oracle, case, dir, all: Vec::new() };
    let mut inputs = ScaleInputs { files: Vec::with_capacity(case.modules), bytes: 0 };
    for index in 0..case.modules {
        let mut images = Vec::new();
        for &arch in archs {
            let cubin = templates.module(index, arch)?;
            images.push(image(cubin, arch)?.compressed(Compression::Zstd)?);
        }
        inputs.add(dir, format!("m{index:06}.o"), &packed(&images, index)?)?;
    }
    Ok(inputs)
}

/// The templates of a case that were compiled so far, with their architectures.
struct Templates<'a> {
    oracle: &'a Oracle,
    case: &'a ScaleCase,
    dir: &'a Path,
    all: Vec<(&'a str, Template)>,
}

impl<'a> Templates<'a> {
    /// The cubin of module `index` for `arch`.
    fn module(&mut self, index: usize, arch: &'a str) -> Result<Vec<u8>> {
        let role = self.case.role(index);
        let is_it = |(name, template): &(&str, Template)| *name == arch && template.role == role;
        let at = match self.all.iter().position(is_it) {
            Some(at) => at,
            None => {
                let made = Template::compile(self.oracle, self.case, role, arch, self.dir)?;
                self.all.push((arch, made));
                self.all.len() - 1
            }
        };
        Ok(self.all[at].1.clone_for(index, &self.case.callees(index)))
    }
}

impl ScaleInputs {
    fn add(&mut self, dir: &Path, name: String, bytes: &[u8]) -> Result<()> {
        let path = dir.join(&name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        self.bytes += bytes.len() as u64;
        self.files.push(name);
        Ok(())
    }
}

/// The host object of a module.
fn object(cubin: Vec<u8>, index: usize, arch: &str, compressed: bool) -> Result<Vec<u8>> {
    let image = image(cubin, arch)?;
    let image = if compressed { image.compressed(Compression::Zstd)? } else { image };
    packed(&[image], index)
}

fn image(cubin: Vec<u8>, arch: &str) -> Result<InputImage> {
    let number = arch.trim_start_matches("sm_").parse();
    Ok(InputImage::cubin(cubin, ImageTarget::sm(number.with_context(|| arch.to_owned())?))?)
}

fn packed(images: &[InputImage], index: usize) -> Result<Vec<u8>> {
    pack::host_object(&HostParts {
        fatbins: vec![pack::fatbin(images)?],
        module_ids: vec![format!("_M{index:07x}_x_cu")],
        ..HostParts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_forward_so_that_graphs_end() {
        for case in CASES {
            for index in 0..case.modules {
                for callee in case.callees(index) {
                    assert!(
                        callee > index && callee < case.modules,
                        "{} {index} {callee}",
                        case.name
                    );
                }
            }
        }
    }

    #[test]
    fn rows_are_as_wide_and_deep_as_named() {
        let rows = case("paths14").expect("a case");
        assert_eq!(rows.modules / rows.leaves, 14);
        assert_eq!(rows.callees(5), [9, 10, 11, 8]);
        assert!(rows.callees(52).is_empty());
    }
}
