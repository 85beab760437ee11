//! Checks that dumping and assembling files gives the same files: `roundtrip FILE...`
//!
//! Prints a line per file that does not come back, and a summary. Exit status 1 if there is one.

use std::process::ExitCode;

use culd_inspect::text::{self, DumpOptions};
use culd_inspect::view::View;

/// Lines that show that a file has something the rules do not know.
const UNUSUAL: [&str; 8] = [
    " raw",
    " offset=",
    " gap=",
    "name_offset=",
    "patch ",
    "flags=0x",
    "section_table=",
    " size=#",
];

fn check(path: &str) -> Result<String, String> {
    let data = std::fs::read(path).map_err(|error| error.to_string())?;
    let view = View::parse(&data).map_err(|error| error.to_string())?;
    let text = text::dump(&view, &DumpOptions::default());
    let again = culd_testkit::fixtures::asm::assemble(&text).map_err(|error| error.to_string())?;
    if again == data {
        return Ok(text);
    }
    let at = again.iter().zip(&data).position(|(a, b)| a != b);
    let at = at.unwrap_or(again.len().min(data.len()));
    Err(format!("differs at {at:#x}; sizes {:#x} and {:#x}", data.len(), again.len()))
}

fn main() -> ExitCode {
    let (mut good, mut bad) = (0, 0);
    for path in std::env::args().skip(1) {
        match check(&path) {
            Ok(text) => {
                good += 1;
                for line in
                    text.lines().filter(|line| UNUSUAL.iter().any(|mark| line.contains(mark)))
                {
                    println!("{path}: unusual: {line}");
                }
            }
            Err(error) => {
                bad += 1;
                println!("{path}: {error}");
            }
        }
    }
    println!("{good} files came back, {bad} did not");
    ExitCode::from(u8::from(bad != 0))
}
