//! Messages of a link as Python objects, and the exceptions that carry them.
//!
//! In: diagnostics of crate `culd`. Out: [`Diagnostic`]s, or an exception with a list of them in
//! its attribute `diagnostics`. Guaranteed: both can be copied to another process (`pickle`).

use culd::Severity;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(culd, CuldError, PyException, "A link that culd refuses.");
create_exception!(
    culd,
    LinkError,
    CuldError,
    "A link that failed. `diagnostics` has all its messages, the last of which is an error."
);
create_exception!(culd, OptionsError, CuldError, "Options that culd does not take.");

/// One message of a link.
#[pyclass(frozen, eq, hash, get_all, module = "culd")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Diagnostic {
    /// `info`, `warning`, `error` or `fatal`.
    severity: String,
    /// The text: nvlink's words for situations that nvlink has a message for.
    text: String,
    /// Lines that explain it, in reading order.
    notes: Vec<String>,
    /// All of it, as the command prints it.
    shown: String,
}

#[pymethods]
impl Diagnostic {
    #[new]
    fn new(severity: String, text: String, notes: Vec<String>, shown: String) -> Self {
        Diagnostic { severity, text, notes, shown }
    }

    fn __getnewargs__(&self) -> (String, String, Vec<String>, String) {
        (self.severity.clone(), self.text.clone(), self.notes.clone(), self.shown.clone())
    }

    fn __str__(&self) -> String {
        self.shown.clone()
    }

    fn __repr__(&self) -> String {
        format!("<culd.Diagnostic {:?}>", self.shown)
    }
}

impl From<&culd::Diagnostic> for Diagnostic {
    fn from(of: &culd::Diagnostic) -> Self {
        let severity = match of.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Fatal => "fatal",
        };
        Diagnostic {
            severity: severity.to_owned(),
            text: of.text.clone(),
            notes: of.notes.clone(),
            shown: of.to_string(),
        }
    }
}

/// The messages as Python objects.
pub(crate) fn list(diagnostics: &[culd::Diagnostic]) -> Vec<Diagnostic> {
    diagnostics.iter().map(Diagnostic::from).collect()
}

/// The exception of a link that failed.
pub(crate) fn link_error(py: Python<'_>, error: &culd::LinkError) -> PyErr {
    let exception = LinkError::new_err(error.to_string());
    match exception.value(py).setattr("diagnostics", list(&error.diagnostics)) {
        Ok(()) => exception,
        Err(other) => other,
    }
}

/// The exception of options that are not taken.
pub(crate) fn options_error(error: impl std::fmt::Display) -> PyErr {
    OptionsError::new_err(error.to_string())
}
