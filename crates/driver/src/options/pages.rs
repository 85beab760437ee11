//! Pages made from the table: help, manual page, completions.
//!
//! In: the table. Out: text.

use std::fmt::Write;

use culd_link::Dialect;

use super::notes::support;
use super::table::{COMMANDS, OptionArity, OptionRow, Origin, TABLE};
use super::{Target, VERSION};

/// The first lines of help and manual page.
const WHAT: &str = "Links NVIDIA device code: relocatable cubins, alone or in fat binaries, host objects and archives, \
     and PTX. Takes the place of nvlink.";

/// Titles of the groups of options.
const GROUPS: &[(Origin, &str)] = &[
    (Origin::Nvlink, "Options of nvlink"),
    (Origin::Later, "Options of nvlink 13.5"),
    (Origin::Hidden, "Options that nvlink takes and does not list"),
    (Origin::Culd, "Options of culd"),
];

/// Example command lines, and their effect.
const EXAMPLES: &[(&str, &str)] = &[
    ("culd -arch=sm_90 a.o libb.a -o program.cubin", "Link an object and an archive"),
    ("culd install-shadow ~/toolkit", "Make a toolkit in which nvcc links with culd"),
    (
        "culd -arch=sm_90 a.o -o program.cubin --report=link.html",
        "Show what is in the output, and why, on a page",
    ),
    ("culd -arch=sm_90 a.o -o program.cubin --why-live=f", "Say what keeps a function"),
    (
        "culd -arch=sm_90 a.o -o program.cubin --reproduce=link.tar",
        "Pack the link for a bug report",
    ),
    ("culd size libnccl.so", "Show the device code in a library"),
    ("culd report diff before.json after.json --max registers=0", "Fail where a kernel needs more"),
];

/// Environment variables, and their effect.
const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "CUDA_HOME, CUDA_PATH",
        "Toolkits in which ptxas and NVIDIA's libraries are looked for, behind culd's own folder",
    ),
    ("CULD_NVJITLINK", "The library of NVIDIA's that compiles LTO-IR (culd-lto)"),
    ("PATH", "Where ptxas or an nvcc beside it is looked for, last"),
    ("NO_COLOR", "If it is set, no message is coloured, unless --color=always asks for it"),
    ("TERM", "A terminal that is 'dumb' gets no colours"),
];

/// Files, and what they are.
const FILES: &[(&str, &str)] = &[
    ("lib<name>.a", "What -l<name> links, in the folders of -L"),
    (
        "<folder>/version.json",
        "Of a toolkit: which release's rules are followed in a folder of install-shadow",
    ),
    (
        ".culd-*",
        "An output in the making, beside where it will be; it takes its place when it is whole",
    ),
];

/// A shell that completions are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

impl Shell {
    /// The shell called `name`.
    pub fn by_name(name: &str) -> Option<Shell> {
        match name {
            "bash" => Some(Shell::Bash),
            "zsh" => Some(Shell::Zsh),
            "fish" => Some(Shell::Fish),
            _ => None,
        }
    }
}

/// The text of `--version`. The `V` line is for programs that look for nvlink's.
pub fn version(release: &Dialect) -> String {
    format!(
        "culd {}: an open linker for NVIDIA cubins\n\
         Follows the rules of nvlink\nCuda compilation tools, release {release}, V{}\n",
        VERSION, release.build
    )
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = format!("\nUsage  : culd [options] <objects>\n\n{}\n", wrapped(WHAT, ""));
    for (origin, title) in GROUPS {
        let _ = write!(text, "\n{title}\n{}\n", "=".repeat(title.len()));
        for row in TABLE.iter().filter(|row| row.origin == *origin) {
            let names = format!("--{} {}", row.long, row.value_name());
            let short =
                if row.short.is_empty() { String::new() } else { format!("(-{})", row.short) };
            let line = format!("{names:<51} {short}");
            let _ =
                write!(text, "\n{}\n{}\n", line.trim_end(), wrapped(&help_text(row), "        "));
            if row.takes == OptionArity::Target {
                let names = format!("Targets: {}.", Target::all_names().join(", "));
                let _ = writeln!(text, "{}", wrapped(&names, "        "));
            }
        }
    }
    text.push_str("\nExamples\n========\n\n");
    for (line, what) in EXAMPLES {
        let _ = write!(text, "{line}\n{}\n", wrapped(what, "        "));
    }
    text.push_str("\nCommands\n========\n\n");
    for (command, what) in COMMANDS {
        let _ = write!(text, "culd {command}\n{}\n", wrapped(what, "        "));
    }
    text
}

/// The usage and the meaning of a command; `None` if it is none.
pub(crate) fn command_help(command: &str) -> Option<String> {
    let is_it = |row: &&(&str, &str)| row.0.split(' ').next() == Some(command);
    let (usage, what) = COMMANDS.iter().find(is_it)?;
    Some(format!("usage: culd {usage}\n{}\n", wrapped(what, "")))
}

/// The help of `row`, with a remark if culd does not support it.
fn help_text(row: &OptionRow) -> String {
    format!("{}{}", row.help, support(row))
}

/// `text` in lines of at most 90 columns, each behind `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.len() + word.len() >= 90 {
            lines.push(format!("{indent}{word}"));
        } else {
            let gap = if line.len() == indent.len() { "" } else { " " };
            line.push_str(gap);
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// The manual page `culd.1`, in roff.
pub fn man_page() -> String {
    let mut text = format!(
        ".TH CULD 1 \"\" \"culd {}\" \"User Commands\"\n\
         .SH NAME\nculd \\- linker for NVIDIA device code\n\
         .SH SYNOPSIS\n.B culd\n[\\fIoptions\\fR] \\fB\\-arch\\fR=\\fIsm_XY\\fR \\fB\\-o\\fR \\fIoutput objects\\fR...\n\
         .SH DESCRIPTION\n{}\n\
         Values follow an option after a blank or '='. Words can come from a file: \\fB@\\fR\\fIfile\\fR.\n",
        VERSION,
        roff(WHAT)
    );
    for (origin, title) in GROUPS {
        let _ = writeln!(text, ".SH {}", roff(title).to_uppercase());
        for row in TABLE.iter().filter(|row| row.origin == *origin) {
            let short = match row.short {
                "" => String::new(),
                short => format!(", \\fB\\-{}\\fR", roff(short)),
            };
            let value = match row.value_name() {
                name if name.is_empty() => name,
                name => format!(" \\fI{}\\fR", roff(&name)),
            };
            let _ = writeln!(
                text,
                ".TP\n\\fB\\-\\-{}\\fR{short}{value}\n{}",
                roff(row.long),
                roff(&help_text(row))
            );
        }
    }
    text.push_str(".SH COMMANDS\n");
    for (command, what) in COMMANDS {
        let _ = writeln!(text, ".TP\n\\fBculd {}\\fR\n{}", roff(command), roff(what));
    }
    let sections = [("EXAMPLES", EXAMPLES), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)];
    for (title, rows) in sections {
        let _ = writeln!(text, ".SH {title}");
        for (what, meaning) in rows {
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", roff(what), roff(meaning));
        }
    }
    text.push_str(
        ".SH EXIT STATUS\n.TP\n0\nThe output was written; there may be warnings.\n\
         .TP\n1\nThe link ended early: bad options, unreadable or contradicting inputs.\n\
         .TP\n255\nThe program is wrong as a whole, for instance undefined references.\n\
         .TP\n3\nculd report diff: a threshold is exceeded.\n",
    );
    text
}

/// `text` as roff takes it literally.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.strip_prefix(['.', '\'']) {
        Some(_) => format!("\\&{text}"),
        None => text,
    }
}

/// Completions of all options for `shell`.
pub fn completions(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
    }
}

/// The words that may follow `row`; empty for free texts.
fn choices(row: &OptionRow) -> Vec<String> {
    match row.takes {
        OptionArity::Choice(names) => names.iter().map(|&name| name.to_owned()).collect(),
        OptionArity::Bool => vec!["true".to_owned(), "false".to_owned()],
        OptionArity::Target => Target::all_names(),
        _ => Vec::new(),
    }
}

/// The names of all commands.
fn commands() -> Vec<&'static str> {
    COMMANDS.iter().filter_map(|(usage, _)| usage.split(' ').next()).collect()
}

/// The shells that completions are made for.
const SHELLS: &str = "bash zsh fish";

fn bash() -> String {
    let mut cases = format!(
        "        completions) COMPREPLY=($(compgen -W '{SHELLS}' -- \"$word\")); return ;;\n"
    );
    for row in TABLE {
        let words = choices(row);
        if !words.is_empty() {
            let _ = writeln!(
                cases,
                "        {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;",
                row.names().join("|"),
                words.join(" ")
            );
        }
    }
    let all: Vec<String> = TABLE.iter().flat_map(OptionRow::names).collect();
    format!(
        "# bash completion of culd\n_culd() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
         [ \"$word\" = = ] && word=\n    [ \"$previous\" = = ] && previous=${{COMP_WORDS[COMP_CWORD-2]}}\n    \
         case $previous in\n{cases}    esac\n    case $word in\n        -*) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n        \
         *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n    \
         [ \"$COMP_CWORD\" = 1 ] && COMPREPLY+=($(compgen -W '{}' -- \"$word\"))\n}}\n\
         complete -o filenames -F _culd culd\n",
        all.join(" "),
        commands().join(" ")
    )
}

fn zsh() -> String {
    let mut text = String::from("#compdef culd\n_arguments \\\n");
    for row in TABLE {
        let help = help_text(row)
            .replace('\'', "")
            .replace('[', "(")
            .replace(']', ")")
            .replace(':', "\\:");
        let words = choices(row);
        let value = match row.takes {
            OptionArity::Nothing => String::new(),
            _ if words.is_empty() => ":value:_files".to_owned(),
            _ => format!(":value:({})", words.join(" ")),
        };
        for name in row.names() {
            let _ = writeln!(text, "  '*{name}[{help}]{value}' \\");
        }
    }
    let commands = commands().join(" ");
    let _ = writeln!(
        text,
        "  '1:object or command:_alternative \"files:object:_files\" \"commands:command:({commands})\"' \\"
    );
    text.push_str("  '*:object:_files'\n");
    text
}

fn fish() -> String {
    let mut text = String::from("# fish completion of culd\n");
    for (usage, what) in COMMANDS {
        let name = usage.split(' ').next().unwrap_or_default();
        let what = what.replace('\'', "\\'");
        let _ = writeln!(text, "complete -c culd -n __fish_use_subcommand -a {name} -d '{what}'");
    }
    let _ = writeln!(
        text,
        "complete -c culd -n '__fish_seen_subcommand_from completions' -x -a '{SHELLS}'"
    );
    for row in TABLE {
        let help = help_text(row).replace('\\', "").replace('\'', "\\'");
        let short = match row.short {
            "" => String::new(),
            short if short.len() == 1 => format!(" -s {short}"),
            short => format!(" -o {short}"),
        };
        let words = choices(row);
        let value = match row.takes {
            OptionArity::Nothing => String::new(),
            _ if words.is_empty() => " -r".to_owned(),
            _ => format!(" -x -a '{}'", words.join(" ")),
        };
        let _ = writeln!(text, "complete -c culd -l {}{short}{value} -d '{help}'", row.long);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::Support;
    use super::*;

    #[test]
    fn every_option_is_in_every_page() {
        let pages = [
            help(),
            completions(Shell::Bash),
            completions(Shell::Zsh),
            completions(Shell::Fish),
            man_page().replace("\\-", "-"),
        ];
        for row in TABLE {
            for page in &pages {
                assert!(page.contains(row.long) && page.contains(row.short), "{}", row.long);
            }
        }
    }

    #[test]
    fn every_command_is_in_every_page() {
        let pages = [
            help(),
            completions(Shell::Bash),
            completions(Shell::Zsh),
            completions(Shell::Fish),
            man_page().replace("\\-", "-"),
        ];
        for command in ["install-shadow", "check-shadow", "abi-check", "man", "completions"] {
            let word = |page: &String| {
                page.split(|c: char| c.is_whitespace() || "()'\"".contains(c))
                    .any(|word| word.trim_end_matches("\\fR") == command)
            };
            assert!(pages.iter().all(word), "{command}");
        }
    }

    #[test]
    fn the_help_says_what_is_refused() {
        let help = help().split_whitespace().collect::<Vec<_>>().join(" ");
        let refused = TABLE.iter().filter(|row| row.support == Support::Refused);
        assert_eq!(refused.clone().count(), 6);
        for row in refused {
            assert!(help.contains(&format!("{}. Not supported by culd: an error", row.help)));
        }
    }

    #[test]
    fn the_version_has_the_line_that_other_programs_look_for() {
        let is_number = |word: &str| {
            let mut parts = word.strip_prefix('V').unwrap_or("").split('.');
            parts.clone().count() == 3 && parts.all(|part| part.parse::<u32>().is_ok())
        };
        let text = version(Dialect::usual());
        assert!(text.starts_with("culd "));
        assert_eq!(text.split_whitespace().filter(|word| is_number(word)).count(), 1, "{text}");
    }
}
