//! The report of a link.
//!
//! In: the account of the link, its inputs and messages. Out: a [`Report`].

use culd_link::Severity;
use culd_report::{LinkedCode, Report, ReportMessage, ReportedLink};

use crate::diagnostic::Diagnostic;
use crate::linker::Linked;

impl Linked {
    /// The contents of the image with the reasons, and the definitions that were left out: the
    /// report of `culd --report`, without the times of the phases. Each call makes it again.
    pub fn report(&self) -> Report {
        Report::of_link(ReportedLink {
            output: String::new(),
            target: self.target,
            dialect: self.dialect,
            options: Vec::new(),
            phases: Vec::new(),
            inputs: self.inputs.clone(),
            objects: self.objects.clone(),
            code: match &self.account {
                Some(account) => LinkedCode::Account(account),
                None => LinkedCode::Cubin(self.image()),
            },
            messages: self.diagnostics().iter().map(message).collect(),
        })
    }
}

fn message(diagnostic: &Diagnostic) -> ReportMessage {
    let severity = match diagnostic.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    };
    ReportMessage::new(severity, diagnostic.text.clone(), diagnostic.notes.clone())
}
