//! A folder with room for the files of a program that is started.
//!
//! In: the files, and the output of the link. Out: a folder with them. Guaranteed: folders are
//! tried in a fixed order; the next one is tried if a folder is read-only or full. The last is the
//! folder of the output, in which a link must write anyway.

use std::path::{Path, PathBuf};
use std::{env, fmt, io};

use super::host;
use super::scratch::Scratch;

/// No folder has room.
#[derive(Debug)]
pub(crate) struct NoPlace(Vec<(PathBuf, io::Error)>);

impl std::error::Error for NoPlace {}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write a temporary file; TMPDIR names a folder for them")?;
        for (folder, error) in &self.0 {
            write!(f, "; '{}': {error}", culd_text::name(folder))?;
        }
        Ok(())
    }
}

/// A folder whose name begins with `prefix`, for files of these names; `fill` makes the first of
/// them. `output` is the output of the link.
pub(crate) fn scratch(
    prefix: &str,
    files: &[&str],
    output: Option<&Path>,
    fill: impl Fn(&Path) -> io::Result<()>,
) -> Result<Scratch, NoPlace> {
    let mut refused = Vec::new();
    for folder in folders(output) {
        let made = Scratch::new(&folder, prefix, files);
        match made.and_then(|scratch| fill(&scratch).map(|()| scratch)) {
            Ok(scratch) => return Ok(scratch),
            Err(error) => refused.push((folder, error)),
        }
    }
    Err(NoPlace(refused))
}

fn folders(output: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = vec![env::temp_dir()];
    folders.extend(host::TEMPORARY_FOLDERS.iter().map(PathBuf::from));
    folders.extend(output.map(|output| match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }));
    // It runs in there, and its files may be named from elsewhere.
    folders.iter().map(|folder| std::path::absolute(folder).unwrap_or(folder.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_folder_of_the_output_comes_last() {
        let last = |output: &str| folders(Some(Path::new(output))).pop().unwrap();
        assert_eq!(last("/a/b/out"), Path::new("/a/b"));
        assert_eq!(last("out"), env::current_dir().unwrap());
        assert_eq!(folders(None).len(), 1 + host::TEMPORARY_FOLDERS.len());
    }

    #[test]
    fn a_folder_where_the_files_do_not_fit_is_left_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let fill = |place: &Path| match place.starts_with(folder.path()) {
            true => fs::write(place.join("in"), "x"),
            false => Err(io::ErrorKind::StorageFull.into()),
        };
        let made = scratch("culd-test-", &["in"], Some(&output), fill).unwrap();
        assert!(made.starts_with(folder.path()) && made.join("in").is_file());
        drop(made);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let message = scratch("culd-test-", &[], None, fill).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("; '/dev/shm': "), "{message}");
    }
}
