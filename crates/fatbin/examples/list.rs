//! Lists the images in files: `cargo run -p culd-fatbin --example list -- libfoo.a app.o x.fatbin`.
//!
//! In: names of fat binaries, host objects and archives. Out: a line for each image, with its size
//! when it is decompressed. Guaranteed: nothing beyond what the library promises.

use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container::{Encoding, containers};
use culd_fatbin::host::HostObject;
use culd_fatbin::{Error, Format, sniff};
use std::process::ExitCode;

/// The largest image that is decompressed.
const LIMIT: u64 = 1 << 30;

fn main() -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for name in std::env::args().skip(1) {
        let listed = match std::fs::read(&name) {
            Ok(data) => list(&name, &data).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = listed {
            eprintln!("{name}: {error}");
            status = ExitCode::FAILURE;
        }
    }
    status
}

fn list(name: &str, data: &[u8]) -> Result<(), Error> {
    match sniff(data) {
        Format::Archive | Format::ThinArchive => {
            for member in archive::members(data)? {
                let member = member?;
                let name = format!("{name}:{}", member.name.escape_ascii());
                match member.contents {
                    MemberContents::Here { offset, data } => {
                        list(&name, data).map_err(|error| error.at(offset))?;
                    }
                    MemberContents::Elsewhere { size } => {
                        println!("{name}: a file of {size} bytes")
                    }
                }
            }
        }
        Format::HostElf { .. } | Format::Coff => {
            let Some(object) = HostObject::parse(data)? else { return Ok(()) };
            for id in object.modules() {
                println!("{name}: module {}", id.escape_ascii());
            }
            for section in object.fatbins.iter().chain(&object.whole_programs) {
                images(name, section.data).map_err(|error| error.at(section.offset))?;
            }
        }
        Format::Fatbin => images(name, data)?,
        format => println!("{name}: {format:?}"),
    }
    Ok(())
}

fn images(name: &str, data: &[u8]) -> Result<(), Error> {
    for (part, container) in containers(data).enumerate() {
        for entry in container?.entries() {
            let entry = entry?;
            let size = match entry.encoding() {
                Encoding::Opaque => entry.size(),
                _ => entry.data(LIMIT)?.len() as u64,
            };
            let (kind, sm, letter) = (entry.kind(), entry.sm(), entry.variant());
            let (encoding, stored) = (entry.encoding(), entry.stored().len());
            println!(
                "{name}: part {part}: {kind:?} sm_{sm}{letter} {encoding:?} {stored} -> {size}"
            );
        }
    }
    Ok(())
}
