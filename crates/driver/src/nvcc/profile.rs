//! The profile of a toolkit: the file `nvcc.profile` in nvcc's folder.
//!
//! In: a folder of programs, the environment. Out: the words that nvcc adds to every device link,
//! folders of libraries, and the place of libnvvm. The grammar is that of NVIDIA's documentation of
//! nvcc: `name = text`, `?=` (if unset), `+=` (prepend), `=+` (append), `$(name)`.

use culd_text::os::{OsStrExt, OsStringExt};
use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::parse::words_of;

/// The most bytes of a profile.
const MAX_SIZE: usize = 1 << 20;
/// The most bytes of a variable: each line can double one.
const MAX_VALUE: usize = 1 << 16;

/// The folder of this host's files in `targets`. That of x86-64 was seen; that of AArch64 is the
/// one of NVIDIA's packages for servers.
const TARGET: &[u8] =
    if cfg!(target_arch = "aarch64") { b"targets/sbsa-linux" } else { b"targets/x86_64-linux" };

/// The part of a profile that concerns a device link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Options, folders of libraries mostly.
    pub(crate) libraries: Vec<OsString>,
    /// The folder of libnvvm.
    pub(crate) nvvm: PathBuf,
}

/// The variables of a profile, and of the environment below them.
struct Variables<'e> {
    own: HashMap<Vec<u8>, Vec<u8>>,
    environment: &'e dyn Fn(&OsStr) -> Option<OsString>,
}

impl Profile {
    /// The profile of the nvcc in the folder `bin`; its text names the folder as nvcc names its
    /// own. `None`: the file is missing, or has a line that this reader does not understand.
    pub(crate) fn of(bin: &Path) -> Option<Self> {
        let text = fs::read(bin.join("nvcc.profile")).ok()?;
        // Where the toolkit has a folder `targets`, nvcc takes headers and libraries from there: a
        // file of that name or a link to nowhere is not enough, an empty folder is.
        let has_targets = bin.join("../targets").is_dir();
        Profile::read(&text, bin, has_targets, &|name| env::var_os(name))
    }

    fn read(
        text: &[u8],
        bin: &Path,
        has_targets: bool,
        environment: &dyn Fn(&OsStr) -> Option<OsString>,
    ) -> Option<Self> {
        if text.len() > MAX_SIZE {
            return None;
        }
        let (target, size): (&[u8], &[u8]) = if has_targets { (TARGET, b"") } else { (b"", b"64") };
        let own = [
            (&b"_HERE_"[..], bin.as_os_str().as_bytes()),
            (b"_THERE_", bin.as_os_str().as_bytes()),
            (b"_SPACE_", b" "),
            (b"_TARGET_SIZE_", size),
            (b"_TARGET_DIR_", target),
            (b"_NVVM_BRANCH_", b"nvvm"),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let mut variables = Variables { own, environment };
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                variables.assign(line)?;
            }
        }
        let libraries = words_of(&OsString::from_vec(variables.value(b"LIBRARIES"))).ok()?;
        let top = variables.value(b"TOP");
        let nvvm = PathBuf::from(OsString::from_vec(top)).join("nvvm");
        Some(Profile { libraries, nvvm })
    }
}

impl Variables<'_> {
    fn assign(&mut self, line: &[u8]) -> Option<()> {
        let equals = line.iter().position(|&byte| byte == b'=')?;
        let (head, text) = (&line[..equals], &line[equals + 1..]);
        let (name, operator, text) = match (head.split_last(), text.split_first()) {
            (Some((b'+' | b'?', name)), _) => (name, head[equals - 1], text),
            (_, Some((b'+', text))) => (head, b'>', text),
            _ => (head, b'=', text),
        };
        let name = name.trim_ascii();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || !name.iter().all(is_name) {
            return None;
        }
        let text = self.expanded(text.trim_ascii())?;
        let before = || self.value(name);
        let value = match operator {
            b'=' => text,
            b'?' if before().is_empty() => text,
            b'?' => return Some(()),
            b'+' => [text, before()].concat(),
            _ => [before(), text].concat(),
        };
        if value.len() > MAX_VALUE {
            return None;
        }
        self.own.insert(name.to_vec(), value);
        Some(())
    }

    fn value(&self, name: &[u8]) -> Vec<u8> {
        let environment = || (self.environment)(OsStr::from_bytes(name)).map(OsString::into_vec);
        self.own.get(name).cloned().or_else(environment).unwrap_or_default()
    }

    /// `text` with values in the places of names.
    fn expanded(&self, mut text: &[u8]) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(at) = text.iter().position(|&byte| byte == b'$') {
            whole.extend_from_slice(&text[..at]);
            let rest = text[at + 1..].strip_prefix(b"(")?;
            let end = rest.iter().position(|&byte| byte == b')')?;
            whole.extend(self.value(&rest[..end]));
            if whole.len() > MAX_VALUE {
                return None;
            }
            text = &rest[end + 1..];
        }
        whole.extend_from_slice(text);
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, libraries: &str) -> Option<Profile> {
        let environment =
            |name: &OsStr| (name == "LIBRARIES" && !libraries.is_empty()).then(|| libraries.into());
        Profile::read(text.as_bytes(), Path::new("tk/bin"), false, &environment)
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn libraries_lie_in_the_folder_of_targets() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("nvcc.profile"), USUAL).unwrap();
        let libraries = |folder: &str| {
            let own = format!("-L{}/../{folder}", bin.display());
            let libraries = Profile::of(&bin).unwrap().libraries;
            libraries.contains(&OsString::from(own))
        };
        assert!(libraries("/lib64"));
        let targets = dir.path().join("targets");
        fs::write(&targets, "").unwrap();
        assert!(libraries("/lib64"));
        fs::remove_file(&targets).unwrap();
        fs::create_dir(&targets).unwrap();
        assert!(libraries("targets/x86_64-linux/lib") && !libraries("/lib64"));
    }

    /// The lines that concern a device link, as the toolkits of 13.0 to 13.5 have them.
    const USUAL: &str = "\n\
        TOP              = $(_HERE_)/..\n\n\
        PATH            += $(TOP)/nvvm/bin:$(_HERE_):\n\
        LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs\" \
        \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)\"\n\nPTXAS_FLAGS     +=\n";

    #[test]
    fn libraries_are_those_of_the_toolkit() {
        let folders = ["-Ltk/bin/..//lib64/stubs", "-Ltk/bin/..//lib64"];
        let profile = read(USUAL, "").unwrap();
        assert_eq!(profile.libraries, folders);
        assert_eq!(profile.nvvm, Path::new("tk/bin/../nvvm"));
        // Words of the environment come first.
        let more = read(USUAL, "-L/own -lown").unwrap().libraries;
        assert_eq!(more, [&["-L/own", "-lown"][..], &folders].concat());
    }

    #[test]
    fn operators_are_those_of_the_documentation() {
        let libraries = |text: &str| read(text, "").map(|profile| profile.libraries);
        assert_eq!(
            libraries("LIBRARIES = -La\nLIBRARIES += -Lb $(_SPACE_)").unwrap(),
            ["-Lb", "-La"]
        );
        assert_eq!(libraries("LIBRARIES=-La\nLIBRARIES =+ $(_SPACE_)-Lb").unwrap(), ["-La", "-Lb"]);
        assert_eq!(libraries("LIBRARIES ?= -La\nLIBRARIES ?= -Lb").unwrap(), ["-La"]);
        assert_eq!(libraries("# LIBRARIES = -La\nX = $(NONE)").unwrap(), [""; 0]);
        for text in ["include other", "LIBRARIES = $X", "LIBRARIES = $(X", "A B = c", "= x"] {
            assert_eq!(libraries(text), None, "{text}");
        }
        let doubled = format!("X = {}\n{}", "x".repeat(64), "X = $(X)$(X)\n".repeat(64));
        assert_eq!(libraries(&doubled), None);
    }
}
