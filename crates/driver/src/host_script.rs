//! `-gen-host-linker-script`: a linker script that keeps device code of host objects together.

use std::path::Path;
use std::process::{Command, Stdio};

use culd_cubin::text_of;

use crate::messages::{FileError, RunOutcome};
use crate::options::{CommandOptions, OptionId};
use crate::os::output;
use crate::toolkit::programs;

/// The rules of a host linker script for device code. nvlink's text, blanks included.
const SECTIONS: &str = "SECTIONS\n{\n\t.nvFatBinSegment : { *(.nvFatBinSegment) }\n\
                        \t__nv_relfatbin : { *(__nv_relfatbin) } \n\
                        \t.nv_fatbin : { *(.nv_fatbin) }\n}\n";

/// Writes the script to the output file; without one the text is for standard output.
pub(crate) fn make(options: &CommandOptions) -> (String, RunOutcome) {
    let mut text = String::new();
    if options.text(OptionId::HostScript) == Some("lcs-abs") {
        let compiler = options.path(OptionId::HostCompiler).unwrap_or(Path::new("gcc"));
        // Of both options this one counts.
        let kind = match () {
            () if options.flag(OptionId::Shared) => Some("-shared"),
            () if options.flag(OptionId::Relocatable) => Some("-r"),
            () => None,
        };
        if let Some(script) = default_script(compiler, kind) {
            text = format!("{script}\n");
        }
    }
    text.push_str(SECTIONS);
    let Some(path) = options.output() else { return (text, RunOutcome::success()) };
    match output::write(path, text.as_bytes()) {
        Ok(()) => (String::new(), RunOutcome::success()),
        Err(error) => (String::new(), RunOutcome::fatal_line(FileError::output(path, &error))),
    }
}

/// The script that the host's linker uses by itself for this `kind` of link: what
/// `compiler -Wl,--verbose` prints between two lines of `=`. `None` if the compiler cannot be run,
/// as in nvlink.
fn default_script(compiler: &Path, kind: Option<&str>) -> Option<String> {
    let output = Command::new(programs::named(compiler)?)
        .args(kind)
        .arg("-Wl,--verbose")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    between_rules(&text_of(&output.stdout))
}

fn between_rules(text: &str) -> Option<String> {
    let is_rule = |line: &&str| line.len() >= 10 && line.chars().all(|char| char == '=');
    let mut lines = text.lines().skip_while(|line| !is_rule(line)).skip(1);
    let script: Vec<&str> = lines.by_ref().take_while(|line| !is_rule(line)).collect();
    (!script.is_empty()).then(|| script.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_stands_between_two_rules() {
        let rule = "==================================================";
        let text = format!("GNU ld\n{rule}\nENTRY(_start)\nSECTIONS {{}}\n{rule}\nmode elf\n");
        assert_eq!(between_rules(&text).as_deref(), Some("ENTRY(_start)\nSECTIONS {}"));
        assert_eq!(between_rules("ld: unknown option"), None);
    }
}
