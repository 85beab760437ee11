//! Reads programs of macOS with goblin, as `otool -hlL` prints them.

use anyhow::{Context, Result, bail};
use goblin::mach::MachO;
use goblin::mach::constants::cputype::{CPU_TYPE_ARM64, CPU_TYPE_X86_64};
use goblin::mach::header::MH_EXECUTE;
use goblin::mach::load_command::{CommandVariant, LoadCommand, PLATFORM_MACOS};

/// What the headers of a program say.
#[derive(Debug, PartialEq, Eq)]
pub struct MachProgram {
    /// The architecture, as Rust names it.
    pub arch: &'static str,
    /// The oldest macOS that the loader starts it on.
    pub oldest: (u32, u32),
    /// The libraries that the loader loads, as paths.
    pub libraries: Vec<String>,
    /// More folders that the loader looks into.
    pub search: Vec<String>,
    /// True if there is a signature, without which AArch64 starts nothing.
    pub signed: bool,
}

/// Reads the headers of a program for one architecture.
///
/// # Errors
/// When goblin cannot read it, or it is a library, of another architecture or of another system.
pub fn program(bytes: &[u8]) -> Result<MachProgram> {
    let file = MachO::parse(bytes, 0).context("goblin")?;
    let arch = match file.header.cputype() {
        CPU_TYPE_ARM64 => "aarch64",
        CPU_TYPE_X86_64 => "x86_64",
        other => bail!("the machine {other:#x}"),
    };
    if file.header.filetype != MH_EXECUTE {
        bail!("a file of type {}, which is no program", file.header.filetype);
    }
    let oldest = file.load_commands.iter().find_map(oldest).context("no oldest macOS")?;
    let signed =
        |command: &LoadCommand| matches!(command.command, CommandVariant::CodeSignature(_));
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    // goblin's first library is the file itself.
    let libraries = texts(file.libs.get(1..).unwrap_or_default());
    let signed = file.load_commands.iter().any(signed);
    Ok(MachProgram { arch, oldest, libraries, search: texts(&file.rpaths), signed })
}

/// The oldest macOS in a load command that has it.
fn oldest(command: &LoadCommand) -> Option<(u32, u32)> {
    let version = match command.command {
        CommandVariant::BuildVersion(build) if build.platform == PLATFORM_MACOS => build.minos,
        CommandVariant::VersionMinMacosx(least) => least.version,
        _ => return None,
    };
    Some((version >> 16, version >> 8 & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A program of headers: `kind` is its file type, `commands` follow the header.
    fn file(kind: u32, commands: &[Vec<u8>]) -> Vec<u8> {
        let body = commands.concat();
        let count = u32::try_from(commands.len()).expect("few");
        let size = u32::try_from(body.len()).expect("short");
        let header = words(&[0xfeed_facf, 0x0100_000c, 0, kind, count, size, 0, 0]);
        [header, body].concat()
    }

    /// A load command of a number, words, and a text that fills 32 bytes.
    fn with_text(number: u32, fields: &[u32], text: &str) -> Vec<u8> {
        let mut name = text.as_bytes().to_vec();
        name.resize(32, 0);
        let size = u32::try_from(8 + 4 * fields.len() + 32).expect("short");
        [words(&[number, size]), words(fields), name].concat()
    }

    #[test]
    fn headers_say_what_a_program_needs() {
        let system = words(&[0x32, 24, 1, 11 << 16 | 3 << 8, 0, 0]);
        let library = with_text(0xc, &[24, 0, 0, 0], "/usr/lib/libSystem.B.dylib");
        let folder = with_text(0x8000_001c, &[12], "/opt/builder");
        let program = file(2, &[system.clone(), library.clone(), folder]);
        let found = super::program(&program).expect("a program");
        let expected = MachProgram {
            arch: "aarch64",
            oldest: (11, 3),
            libraries: vec!["/usr/lib/libSystem.B.dylib".to_owned()],
            search: vec!["/opt/builder".to_owned()],
            signed: false,
        };
        assert_eq!(found, expected);
        // A library, one without a system, one for iOS, and half a file.
        let phone = words(&[0x32, 24, 2, 11 << 16, 0, 0]);
        let others =
            [file(6, std::slice::from_ref(&system)), file(2, &[library]), file(2, &[phone])];
        for other in others.iter().map(Vec::as_slice).chain([&program[..60]]) {
            assert!(super::program(other).is_err());
        }
    }
}
