//! What passed and what failed, in the words of cargo's tests.

use std::process::ExitCode;

/// Counts of checks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    /// Tells of a check and what is wrong, if something is.
    pub(crate) fn add(&mut self, line: &str, problem: Option<&str>) {
        match problem {
            None => {
                self.passed += 1;
                println!("ok     {line}");
            }
            Some(problem) => {
                self.failed += 1;
                println!("FAILED {line}: {problem}");
            }
        }
    }

    /// Tells the sums. Failure if a check failed.
    pub(crate) fn end(self) -> ExitCode {
        println!("\ntest result: {} passed; {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
