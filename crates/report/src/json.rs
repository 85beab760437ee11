//! The JSON form of a report.
//!
//! In: a [`Report`], or JSON. Out: the other. Guaranteed: one line without blanks, with all
//! characters of names that end a line or a script escaped; JSON of another schema is an error.

use thiserror::Error;

use crate::data::{Report, SCHEMA};

/// Error: the text is not a report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadReport {
    /// The text is not JSON, or not of this form.
    #[error("it is no report: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another schema.
    #[error("its schema is '{0}', not '{SCHEMA}'")]
    Schema(String),
}

impl Report {
    /// The JSON form, docs/REPORT.md.
    pub fn to_json(&self) -> Vec<u8> {
        // A report is lists, numbers and strings: nothing in it has no JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a report from its JSON form.
    ///
    /// # Errors
    /// The text is not a report, or one of another schema.
    pub fn from_json(json: &[u8]) -> Result<Self, BadReport> {
        let report: Report = serde_json::from_slice(json)?;
        if report.schema != SCHEMA {
            return Err(BadReport::Schema(report.schema));
        }
        Ok(report)
    }
}
