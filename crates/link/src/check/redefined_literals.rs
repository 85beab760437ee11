//! Literals of functions that are defined twice.
//!
//! nvlink adds the literals of the second definition to the bank of the first. Those that disagree
//! end the link before the other variables of the file are looked at (case
//! errors-merge/redefined-literals).

use std::collections::BTreeMap;

use culd_cubin::elf::stt;
use culd_cubin::{SectionIndex, Symbol};
use hashbrown::HashMap;

use crate::base::id::ObjectId;
use crate::objects::InputObjects;
use crate::objects::object::InputObject;
use crate::objects::roles::{SectionRole, is_internal};
use crate::symbols::SymbolSite;

/// nvlink's words for a literal with other bytes than those at its place.
const OTHER_BYTES: &str = "overlapping non-identical data";

/// Its words for a literal that reaches behind the one at its start.
const TOO_LONG: &str = "overlapping data spans too much";

/// The literals of a function by bank.
type LiteralsByBank<'d> = BTreeMap<u8, BankLiterals<'d>>;

/// The functions of a file that earlier files define, too. A file may have a hundred thousand of
/// them, so each symbol is looked at once.
#[derive(Default)]
pub(super) struct RedefinedFunctions<'d> {
    /// By their code in the file.
    functions: HashMap<SectionIndex, LiteralsByBank<'d>>,
    /// The literals of the files with the first definitions, by their code there.
    earlier: HashMap<ObjectId, HashMap<SectionIndex, LiteralsByBank<'d>>>,
}

impl<'d> RedefinedFunctions<'d> {
    /// Adds the function at `site`, which `first` defines as well.
    pub(super) fn add(&mut self, objects: &InputObjects<'d>, first: SymbolSite, site: SymbolSite) {
        let code = |at: SymbolSite| objects[at.object].symbol(at.index).defined_in();
        let (Some(earlier), Some(code)) = (code(first), code(site)) else { return };
        let object = &objects[first.object];
        // The banks of Mercury are put together in another way.
        if object.has_mercury() {
            return;
        }
        let literals = self.earlier.entry(first.object).or_insert_with(|| literals_of(object));
        let banks = literals.get(&earlier).cloned().unwrap_or_default();
        self.functions.entry(code).or_insert(banks);
    }

    /// Adds a symbol of the file; the error of nvlink if it is a literal that does not fit.
    pub(super) fn symbol(
        &mut self,
        object: &InputObject<'d>,
        symbol: &Symbol<'d>,
    ) -> Result<(), &'static str> {
        if self.functions.is_empty() {
            return Ok(());
        }
        let Some(literal) = Literal::of(object, symbol) else { return Ok(()) };
        match self.functions.get_mut(&literal.code) {
            Some(banks) => banks.entry(literal.bank).or_default().add(literal),
            None => Ok(()),
        }
    }
}

/// The literals of all functions in `object`, by their code.
fn literals_of<'d>(object: &InputObject<'d>) -> HashMap<SectionIndex, LiteralsByBank<'d>> {
    let mut all = HashMap::<SectionIndex, LiteralsByBank<'d>>::new();
    let literals = object.cubin.symbol_indices();
    for literal in literals.filter_map(|(_, symbol)| Literal::of(object, symbol)) {
        let banks = all.entry(literal.code).or_default();
        // What disagrees within one file does not count here.
        let _ = banks.entry(literal.bank).or_default().add(literal);
    }
    all
}

/// A literal of a function.
struct Literal<'d> {
    code: SectionIndex,
    bank: u8,
    start: u64,
    bytes: &'d [u8],
}

impl<'d> Literal<'d> {
    fn of(object: &InputObject<'d>, symbol: &Symbol<'d>) -> Option<Self> {
        let is_literal = is_internal(symbol) && symbol.kind() != stt::NOTYPE;
        let index = symbol.defined_in().filter(|_| is_literal)?;
        let SectionRole::Constant(bank @ 1..) = object.role(index) else { return None };
        let section = object.section(index);
        let (start, size) =
            (usize::try_from(symbol.value).ok()?, usize::try_from(symbol.size).ok()?);
        let bytes = section.data.get(start..start.checked_add(size)?)?;
        Some(Literal { code: section.info_section()?, bank, start: symbol.value, bytes })
            .filter(|literal| !literal.bytes.is_empty())
    }
}

/// The literals in a bank, by their starts.
#[derive(Clone, Default)]
struct BankLiterals<'d> {
    by_start: BTreeMap<u64, &'d [u8]>,
}

impl<'d> BankLiterals<'d> {
    /// Adds a literal. nvlink looks at the literal in which it starts and at the one behind that,
    /// else at the one in which it ends.
    fn add(&mut self, literal: Literal<'d>) -> Result<(), &'static str> {
        let Literal { start, bytes, .. } = literal;
        let end = start + bytes.len() as u64;
        if let Some((&at, &known)) = self.by_start.range(..=start).next_back()
            && start < at + known.len() as u64
        {
            let behind = at + known.len() as u64;
            if at < start && end > behind {
                return Err(TOO_LONG);
            }
            let known = &known[(start - at) as usize..];
            if known.iter().zip(bytes).any(|(known, new)| known != new) {
                return Err(OTHER_BYTES);
            }
            if end <= behind {
                return Ok(());
            }
            if self.by_start.range(behind..end).next().is_some() {
                return Err(TOO_LONG);
            }
        } else if let Some((&at, &known)) = self.by_start.range(start..end).next_back()
            && end <= at + known.len() as u64
            && !known.starts_with(&bytes[(at - start) as usize..])
        {
            return Err(OTHER_BYTES);
        }
        self.by_start.insert(start, bytes);
        Ok(())
    }
}
