//! The options in the tool note of an output.
//!
//! In: options. Out: text in nvlink's words and order.

use super::table::{OptionArity, OptionId, OptionRow};
use super::{CommandOptions, base_name};

/// Options in the order of the note. Options that are missing here are not in the note; the option
/// line of `-g` follows the second (`testdata/cli/notes.toml`).
const ORDER: &[OptionId] = &[
    OptionId::SuppressStackSizeWarning,
    OptionId::SuppressArchWarning,
    OptionId::Debug,
    OptionId::Arch,
    OptionId::Machine,
    OptionId::Library,
    OptionId::LibraryPath,
    OptionId::RegisterFile,
    OptionId::Verbose,
    OptionId::PreserveRelocs,
    OptionId::DisableWarnings,
    OptionId::WarningsAreErrors,
    OptionId::DisableInfos,
    OptionId::KeepSystemLibraries,
    OptionId::KernelsUsed,
    OptionId::VariablesUsed,
    OptionId::CpuArch,
    OptionId::ReportArch,
    OptionId::Time,
    OptionId::EmitPtx,
    OptionId::ExtraWarnings,
    OptionId::Lto,
    OptionId::Dlto,
    OptionId::NvvmLatest,
    OptionId::NvvmPath,
    OptionId::SplitCompile,
    OptionId::SplitCompileExtended,
    OptionId::FastCompile,
    OptionId::SuppressDebugInfo,
    OptionId::Xptxas,
    OptionId::Xnvvm,
    OptionId::MaxRegisters,
    OptionId::DumpCallgraph,
    OptionId::DumpCallgraphMangled,
    OptionId::UseHostInfo,
    OptionId::IgnoreHostInfo,
    OptionId::Relocatable,
    OptionId::Uidx,
    OptionId::StackProtector,
    OptionId::OptionsFile,
];

/// Options that only the note of a link with `-g` has, by the last part of their file's name.
const WITH_DEBUG: &[OptionId] = &[OptionId::RegisterFile, OptionId::Time, OptionId::OptionsFile];

impl CommandOptions {
    /// The options as the tool note has them: nvlink's words and order.
    pub fn normalised(&self) -> String {
        let mut line = String::new();
        if self.flag(OptionId::Debug) {
            let names = self.inputs.iter().map(|path| culd_text::bytes(base_name(path)));
            line.push_str(&format!("{} ", names.collect::<Vec<_>>().join(",")));
        }
        for &id in ORDER {
            let Some(values) = self.values(id) else { continue };
            let is_file = WITH_DEBUG.contains(&id);
            if is_file && !self.flag(OptionId::Debug) {
                continue;
            }
            if id == OptionId::Debug {
                line.push_str(&format!("-o {} ", self.object_name()));
            }
            let OptionRow { short, takes, .. } = OptionRow::of(id);
            line.push_str(&match takes {
                // A flag has an empty value.
                OptionArity::Nothing => format!("-{short}  "),
                // Even one without a short name.
                _ if is_file => {
                    let file = values.first().map(|path| culd_text::bytes(base_name(path)));
                    format!("-{short} {} ", file.unwrap_or_default())
                }
                _ => {
                    let values: Vec<String> = values.iter().map(culd_text::name).collect();
                    format!("-{short} {} ", values.join(","))
                }
            });
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Request, parse};

    fn note(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words).request {
            Ok(Request::Link(options)) => options.normalised(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_come_in_a_fixed_order_and_in_their_short_names() {
        assert_eq!(
            note("-v --machine=64 -L. -lfoo -arch=sm_75 -L .. -suppress-stack-size-warning a -o x"),
            "-suppress-stack-size-warning  -arch sm_75 -m 64 -l foo -L .,.. -v  "
        );
    }

    #[test]
    fn with_debugging_files_are_listed_by_their_last_name() {
        assert_eq!(note("-arch=sm_75 -g in/a.o b.o -o out/x"), "a.o,b.o -o x -g  -arch sm_75 ");
    }

    #[test]
    fn with_debugging_other_files_are_listed_too() {
        let line = "-arch=sm_80 -g -r -Werror -disable-infos -w a.o -o x -time out/t.csv";
        assert_eq!(
            note(&format!("{line} --register-link-binaries=out/r.c -cpu-arch=X86_64 -L. -v")),
            "a.o -o x -g  -arch sm_80 -L . - r.c -v  -w  -Werror  -disable-infos  -cpu-arch X86_64 \
             -time t.csv -r  "
        );
        let empty = note("-arch=sm_80 -g -optf /dev/null -device-stack-protector true a.o -o x");
        assert_eq!(empty, "a.o -o x -g  -arch sm_80 -device-stack-protector true -optf  ");
    }

    #[test]
    fn options_of_link_time_optimization_stand_before_and_behind_the_folder_of_nvvm() {
        let line = "-arch=sm_80 -Ofc=min -split-compile=2 -nvvmpath=/n -nvvm-latest -dlto -lto";
        assert_eq!(
            note(&format!("{line} -extrawarn -maxrregcount=64 -ignore-host-info a.o -o x")),
            "-arch sm_80 -extrawarn  -lto  -dlto  -nvvm-latest  -nvvmpath /n -split-compile 2 \
             -Ofc min -maxrregcount 64 -ignore-host-info  "
        );
    }

    #[test]
    fn the_output_and_what_is_not_recorded_stay_out() {
        let line = "-arch=sm_75 --host-ccbin=gcc --shared -o x a -threads=2 --strict -time -";
        assert_eq!(note(line), "-arch sm_75 ");
    }
}
