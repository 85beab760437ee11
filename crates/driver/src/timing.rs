//! The table of `-time`: the time of each step, as comma-separated values.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::input::CompileTime;

/// The titles, as nvlink writes them.
const TITLES: &str = "source file name , phase name , phase input files , phase output file , \
                      arch , tool, metric , unit\n";

/// The destination of the table.
enum To {
    StandardOutput,
    File(File),
}

/// A table of times that is being collected.
pub(crate) struct Timing {
    to: To,
    text: String,
    target: String,
}

impl Timing {
    /// Opens the table at `path`; `-` is standard output. Titles are written at once, into an
    /// empty file only.
    pub(crate) fn open(path: &Path, target: &str) -> io::Result<Self> {
        let mut text = String::new();
        let to = if path == Path::new("-") {
            text.push_str(TITLES);
            To::StandardOutput
        } else {
            let mut file = File::options().append(true).create(true).open(path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(TITLES.as_bytes())?;
            }
            To::File(file)
        };
        Ok(Timing { to, text, target: target.to_owned() })
    }

    /// Adds the compilations, as nvlink does.
    pub(crate) fn compilations(&mut self, times: &[CompileTime]) {
        for time in times {
            self.row(&time.names.each_ref().map(String::as_str), "nvlink", time.milliseconds);
        }
    }

    /// Adds one of culd's own phases that made `output`.
    pub(crate) fn phase(&mut self, name: &str, output: &str, time: Duration) {
        self.row(&[output, name, "", output], "culd", time.as_secs_f64() * 1e3);
    }

    fn row(&mut self, files: &[&str; 4], tool: &str, milliseconds: f64) {
        // A name with a line break would start a new row.
        let [source, phase, input, output] = files.map(culd_text::escaped);
        let target = &self.target;
        self.text.push_str(&format!(
            "{source} , {phase} , {input} , {output} , {target} , {tool} , {milliseconds:.4} , ms\n"
        ));
    }

    /// Forgets the rows so far.
    pub(crate) fn forget(&mut self) {
        self.text.truncate(match self.to {
            To::StandardOutput => TITLES.len(),
            To::File(_) => 0,
        });
    }

    /// Writes the rows. Returns the text for standard output.
    pub(crate) fn finish(self) -> io::Result<String> {
        match self.to {
            To::StandardOutput => Ok(self.text),
            To::File(mut file) => file.write_all(self.text.as_bytes()).map(|()| String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_appended_and_titles_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.csv");
        for _ in 0..2 {
            let mut timing = Timing::open(&path, "sm_90").unwrap();
            timing.compilations(&[
                CompileTime::of_ptx("a.ptx", true, 1.5),
                CompileTime::of_ptx("x.a:b.o", false, 2.0),
                CompileTime::new(["lto.nvvm", "cicc", "", "lto.ptx"], 3.0),
            ]);
            assert_eq!(timing.finish().unwrap(), "");
        }
        let rows = "a.ptx , ptxas , a.ptx ,  , sm_90 , nvlink , 1.5000 , ms\n\
                    ptx , ptxas , x.a:b.o , cubin , sm_90 , nvlink , 2.0000 , ms\n\
                    lto.nvvm , cicc ,  , lto.ptx , sm_90 , nvlink , 3.0000 , ms\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{TITLES}{rows}{rows}"));
    }

    #[test]
    fn a_dash_is_standard_output() {
        let text = Timing::open(Path::new("-"), "sm_90").unwrap().finish().unwrap();
        assert_eq!(text, TITLES);
    }
}
