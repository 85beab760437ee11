//! Finds the cubins in the files of a link.
//!
//! In: the arguments of a link and its folder. Out: the cubins that it may link, for the
//! comparison. Guaranteed: unreadable and damaged files have none; the linkers report them.

use culd_fatbin::archive::{self, MemberContents};
use culd_fatbin::container::{ImageKind, containers};
use culd_fatbin::host::HostObject;
use culd_fatbin::{Error, Format, sniff};
use std::fs;
use std::path::{Path, PathBuf};

/// The largest image that is decompressed.
const LIMIT: u64 = 1 << 28;

/// The cubins that `arguments` name in `dir`: cubin files, and images for the target in host
/// objects and libraries.
pub(super) fn objects(arguments: &[String], dir: &Path) -> Vec<Vec<u8>> {
    let target = arguments.iter().find_map(|word| word.strip_prefix("-arch=sm_"));
    let digits = target.map_or("", |target| target.trim_end_matches(['a', 'f']));
    let mut found = Vec::new();
    for path in files(arguments, dir) {
        let Ok(data) = fs::read(path) else { continue };
        // Cubins in front of the damage count.
        _ = collect(&data, digits.parse().unwrap_or(0), &mut found);
    }
    found
}

/// The inputs that `arguments` name in `dir`.
fn files(arguments: &[String], dir: &Path) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = arguments
        .iter()
        .filter_map(|word| word.strip_prefix("-L").map(|folder| dir.join(folder)))
        .collect();
    let library = |name: &str| {
        let name = format!("lib{name}.a");
        folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file())
    };
    let file = |word: &String| match word.strip_prefix("-l") {
        Some(name) => library(name),
        None => (!word.starts_with('-')).then(|| dir.join(word)),
    };
    arguments.iter().filter_map(file).collect()
}

fn collect(data: &[u8], sm: u32, found: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    match sniff(data) {
        Format::RelocatableCubin | Format::ExecutableCubin => found.push(data.to_vec()),
        Format::Archive => {
            for member in archive::members(data)? {
                if let MemberContents::Here { data, .. } = member?.contents {
                    collect(data, sm, found)?;
                }
            }
        }
        Format::HostElf { .. } => {
            let Some(object) = HostObject::parse(data)? else { return Ok(()) };
            for section in &object.fatbins {
                images(section.data, sm, found)?;
            }
        }
        Format::Fatbin => images(data, sm, found)?,
        _ => {}
    }
    Ok(())
}

fn images(data: &[u8], sm: u32, found: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    for container in containers(data) {
        for entry in container?.entries() {
            let entry = entry?;
            if entry.kind() == ImageKind::Elf && entry.sm() == sm {
                found.push(entry.data(LIMIT)?.into_owned());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `-L` counts from the folder of the link, not from that of this program.
    #[test]
    fn libraries_are_found_in_the_folder_of_the_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/libf.a"), "!<arch>\n").unwrap();
        let arguments = ["-arch=sm_90", "-Lsub", "-lf", "-lnone", "a.cubin"].map(str::to_owned);
        let found = ["sub/libf.a", "a.cubin"].map(|name| dir.path().join(name));
        assert_eq!(files(&arguments, dir.path()), found);
    }
}
