//! Which release's rules a link follows.
//!
//! In: the option, and the shadow of this program. Out: a [`Dialect`]. An explicit release counts
//! first, then that of the shadow's toolkit. If there is neither, the inputs decide.

use culd_link::Dialect;

use super::{CommandOptions, OptionId};

/// The release that the options name.
pub fn named(options: &CommandOptions) -> Option<&'static Dialect> {
    let release = options.text(OptionId::Dialect).filter(|&release| release != "auto")?;
    // A choice of the table.
    release.parse().ok()
}

/// The release of a command line: the one it names, or that of the toolkit in whose shadow this
/// program is. Only for the command: the program around a library is in no toolkit.
pub(super) fn chosen(options: &CommandOptions) -> Option<&'static Dialect> {
    named(options).or_else(|| options.shadow.as_ref()?.marker.dialect())
}
