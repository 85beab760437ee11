//! Reads ELF files with independent readers: goblin and readelf.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use goblin::elf::Elf;
use goblin::elf::section_header::{SHN_XINDEX, SHT_SYMTAB_SHNDX};

/// The most sections whose number fits the header of an ELF file.
const MOST_SECTIONS: usize = 0xff00;

/// A function, and the section that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionPlace {
    /// Mangled name.
    pub function: String,
    /// Name of the section; `None` if there is no such section.
    pub section: Option<String>,
}

/// The defined functions of an ELF file. The escape in `st_shndx` for many sections is resolved by
/// the rules of ELF.
///
/// # Errors
/// When goblin cannot read it, or a name is missing.
pub fn functions(image: &[u8]) -> Result<Vec<FunctionPlace>> {
    let elf = Elf::parse(image).context("goblin")?;
    let high = elf.section_headers.iter().find(|header| header.sh_type == SHT_SYMTAB_SHNDX);
    let high = high.and_then(|header| image.get(header.file_range()?));
    let section_of = |number: usize, index: usize| -> Option<String> {
        let index = match index == SHN_XINDEX as usize {
            true => u32::from_le_bytes(*high?.get(4 * number..)?.first_chunk()?) as usize,
            false => index,
        };
        elf.shdr_strtab.get_at(elf.section_headers.get(index)?.sh_name).map(str::to_owned)
    };
    let functions = elf.syms.iter().enumerate();
    let functions = functions.filter(|(_, symbol)| symbol.is_function() && symbol.st_shndx != 0);
    let placed = functions.map(|(number, symbol)| {
        let function = elf.strtab.get_at(symbol.st_name);
        let function = function.with_context(|| format!("symbol {number} has no name"))?;
        let section = section_of(number, symbol.st_shndx);
        Ok(FunctionPlace { function: function.to_owned(), section })
    });
    placed.collect()
}

/// Checks that readelf, if installed, lists the same number of functions and sections as goblin.
///
/// # Errors
/// When the numbers differ, or one of them cannot read the file.
pub fn agree(image: &[u8]) -> Result<()> {
    let elf = Elf::parse(image).context("goblin")?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), image)?;
    if Command::new("readelf").arg("--version").output().is_err() {
        return Ok(());
    }
    let text = readelf(&["-hSsW"], file.path())?;
    let listed = text.lines().filter(|line| line.contains(" FUNC ")).count();
    let functions = elf.syms.iter().filter(|symbol| symbol.is_function()).count();
    ensure!(listed == functions, "readelf: {listed} functions of {functions}");
    // With the escape in the header, the null section has the number.
    let sections = elf.section_headers.len();
    let number = format!("({sections})");
    let mut lines = text.lines().filter(|line| line.contains("section headers"));
    let counted = sections <= MOST_SECTIONS || lines.any(|line| line.ends_with(&number));
    ensure!(counted, "readelf: not {sections} sections");
    Ok(())
}

/// The exports of a shared library, sorted: type, binding, name with version.
///
/// # Errors
/// When readelf, which comes with gcc, cannot be run or cannot read the file.
pub fn exports(library: &Path) -> Result<Vec<String>> {
    let symbols = readelf(&["-W", "--dyn-syms"], library)?;
    let rows = symbols.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found: Vec<String> = rows
        .filter(|row| row.len() >= 8 && row[6] != "UND" && row[0] != "Num:")
        .map(|row| format!("{} {} {}", row[3], row[4], row[7]))
        .collect();
    found.sort();
    Ok(found)
}

/// The name by which programs load a shared library.
///
/// # Errors
/// As [`exports`], or when it has none.
pub fn soname(library: &Path) -> Result<String> {
    let dynamic = readelf(&["-dW"], library)?;
    let name = dynamic.split_once("Library soname: [").and_then(|(_, rest)| rest.split_once(']'));
    Ok(name.with_context(|| format!("{} has no name", library.display()))?.0.to_owned())
}

/// A section of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct SectionSize {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// The sections of a file, without the null section.
///
/// # Errors
/// As [`exports`].
pub fn sections(file: &Path) -> Result<Vec<SectionSize>> {
    let text = readelf(&["-SW"], file)?;
    let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix('['));
    let mut found = Vec::new();
    for row in rows.filter_map(|row| row.split_once(']')) {
        let (Ok(number), words) = (row.0.trim().parse::<u32>(), row.1) else { continue };
        if number == 0 {
            continue;
        }
        // Types that readelf does not know are several words; the first word after them is the
        // address.
        let words: Vec<&str> = words.split_whitespace().collect();
        let address = words.iter().position(|word| word.len() == 16 && word.starts_with("0000"));
        let size = address.and_then(|at| words.get(at + 2)).context("a section without size")?;
        let name = words.first().context("a section without name")?;
        let size = u64::from_str_radix(size, 16)?;
        found.push(SectionSize { name: (*name).to_owned(), size });
    }
    Ok(found)
}

/// The dynamic loader and the libraries of a program; none if it is static.
///
/// # Errors
/// As [`exports`].
pub fn needed(program: &Path) -> Result<Vec<String>> {
    let text = readelf(&["-dlW"], program)?;
    let marks = ["program interpreter: ", "Shared library: ["];
    let name = |line: &str| {
        let name = marks.iter().find_map(|mark| line.split_once(mark))?.1;
        Some(name.trim_end_matches(']').to_owned())
    };
    Ok(text.lines().filter_map(name).collect())
}

fn readelf(options: &[&str], file: &Path) -> Result<String> {
    let output = Command::new("readelf").args(options).arg(file).output().context("readelf")?;
    ensure!(output.status.success(), "readelf {}: {}", file.display(), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
