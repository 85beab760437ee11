//! Phase `objects` for objects with Mercury: which section is the twin of which.
//!
//! In: a parsed cubin. Out: [`Twins`], and the cubin's sections changed so that they read like
//! those of an older object: machine code, data and debug information of the SASS half under their
//! Mercury names, relocations and attributes of the Mercury half under names without `.nv.merc`.
//! What is left of either half is only reached through its twin. Guaranteed: every section that is
//! linked has the twin it needs, and both symbol tables say the same.

use culd_cubin::capmerc::{self, Capsule};
use culd_cubin::elf::{shf, sht, stt};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolSection};
use hashbrown::HashMap;

use super::slots;
use crate::objects::{Failure, Role};

/// The pairs of one object.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// By section: the twin in the other half; [`NONE`] where there is none.
    of: Vec<SectionIndex>,
    /// Mercury's symbol table.
    symbols: Option<SectionIndex>,
    /// Why the jump slots cannot go into the table of a program.
    odd_slots: Option<Box<Failure>>,
}

impl Twins {
    /// Mercury's symbol table, if there is a second half.
    pub(crate) fn symbols(&self) -> Option<SectionIndex> {
        self.symbols
    }

    /// Why jump slots of the object cannot go into the table of a program. Objects (`-r`) keep them as they are.
    pub(crate) fn odd_slots(&self) -> Option<&Failure> {
        self.odd_slots.as_deref()
    }

    /// The section of the other half that stands for the same.
    pub(crate) fn of(&self, index: SectionIndex) -> Option<SectionIndex> {
        self.of.get(index.0 as usize).copied().filter(|&twin| twin != NONE)
    }

    fn join(&mut self, a: usize, b: usize) {
        self.of[a] = SectionIndex(b as u32);
        self.of[b] = SectionIndex(a as u32);
    }
}

/// No section has this index.
const NONE: SectionIndex = SectionIndex(u32::MAX);

/// A section name that is the same for both halves: what is in front, what it is, and whose.
type Key<'d> = (&'static [u8], Base, &'d [u8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    /// Names that do not differ.
    Same,
    /// `.nv.constant3`, in Mercury `.nv.constant.user`.
    User,
    /// `.nv.constant4`, in Mercury `.nv.constant.pic`.
    Addresses,
    /// `.nv.constant2.<function>`, in Mercury `.nv.constant.optimizer.<function>`.
    Optimizer,
}

/// Mercury's names of what is called after a constant bank in SASS.
pub(crate) const USER: &[u8] = b".nv.constant.user";
pub(crate) const ADDRESSES: &[u8] = b".nv.constant.pic";
pub(crate) const OPTIMIZER: &[u8] = b".nv.constant.optimizer.";

fn key(name: &[u8]) -> Key<'_> {
    let (front, rest): (&[u8], _) = match name.strip_prefix(b".rela") {
        Some(rest) if rest.starts_with(b".") => (b".rela", rest),
        _ => (b"", name),
    };
    if rest == b".nv.constant3" || rest == USER {
        return (front, Base::User, b"");
    }
    if rest == b".nv.constant4" || rest == ADDRESSES {
        return (front, Base::Addresses, b"");
    }
    let optimizer = [&b".nv.constant2."[..], OPTIMIZER];
    match optimizer.iter().find_map(|prefix| rest.strip_prefix(*prefix)) {
        Some(function) => (front, Base::Optimizer, function),
        None => (front, Base::Same, rest),
    }
}

/// Mercury's name without what tells it from the SASS half's.
fn logical<'d>(section: &Section<'d>) -> Option<&'d [u8]> {
    let code = section.name.strip_prefix(b".nv.capmerc");
    code.or_else(|| section.name.strip_prefix(b".nv.merc"))
}

/// Pairs the sections of `cubin` and changes them and their `roles`, which are those of the SASS
/// half, as the module's head says.
pub(crate) fn pair(cubin: &mut Cubin<'_>, roles: &mut [Role]) -> Result<Twins, Failure> {
    let symbols = cubin.sections.iter().position(|section| section.sh_type == sht::MERCURY_SYMTAB);
    let Some(symbols) = symbols.filter(|_| !cubin.mercury_symbols.is_empty()) else {
        return Err(Failure::Unsupported("it has no Mercury symbol table".to_owned()));
    };
    let symbols = Some(SectionIndex(symbols as u32));
    let of = vec![NONE; cubin.sections.len()];
    let mut twins = Twins { of, symbols, odd_slots: None };
    join(cubin, roles, &mut twins)?;
    check_all_paired(cubin, roles, &twins).map_err(Failure::Malformed)?;
    check_symbols(cubin, &twins).map_err(Failure::Malformed)?;
    twins.odd_slots = slots::odd(cubin, roles, &twins).map_err(Failure::Malformed)?.map(Box::new);
    show(cubin, roles, &twins).map_err(Failure::Malformed)?;
    // They say what the others say, sizes aside: those are read from the table.
    cubin.mercury_symbols = Vec::new();
    Ok(twins)
}

/// Finds the pairs: code by the index that Mercury code carries, the rest by name, several of one
/// name in order.
fn join(cubin: &Cubin<'_>, roles: &[Role], twins: &mut Twins) -> Result<(), Failure> {
    let mut open = Open { cubin, roles, next: 0, by_name: None };
    for (index, section) in cubin.sections.iter().enumerate() {
        if !section.is_mercury() {
            continue;
        }
        // What was applied when an object was made is passed over, as in machine code.
        if let sht::MERCURY_SYMTAB | sht::MERCURY_RESOLVED_RELA | sht::SYMTAB_SHNDX =
            section.sh_type
        {
            continue;
        }
        let unknown = || {
            let name = String::from_utf8_lossy(section.name);
            Failure::Unsupported(format!("Mercury section '{name}' is of an unknown kind"))
        };
        let name = logical(section).ok_or_else(unknown)?;
        let twin = if section.sh_type == sht::MERCURY_CODE {
            Some(code_of(cubin, roles, section, name).map_err(Failure::Malformed)?)
        } else {
            open.take(name, twins)
        };
        let Some(twin) = twin else {
            let what = "the section has no twin in the machine code's half";
            return Err(Failure::Malformed(Malformed::section(section.name, 0, what)));
        };
        if twins.of[twin] != NONE {
            let what = "two sections of Mercury code are for the same machine code";
            return Err(Failure::Malformed(Malformed::section(section.name, 0, what)));
        }
        if roles[twin] == Role::UnifiedData && cubin.sections[twin].size != section.size {
            let what = "the section is not as long as its twin in the machine code's half";
            return Err(Failure::Malformed(Malformed::section(section.name, 0, what)));
        }
        twins.join(index, twin);
    }
    Ok(())
}

/// Sections of machine code's half that have no twin yet.
struct Open<'c, 'd> {
    cubin: &'c Cubin<'d>,
    roles: &'c [Role],
    /// All before this one have a twin or need none.
    next: usize,
    /// All that are open, the first of a name last, once the order of the halves has turned out to differ.
    by_name: Option<HashMap<Key<'d>, Vec<usize>>>,
}

impl<'d> Open<'_, 'd> {
    /// The first open section that is called `name` in Mercury. ptxas writes both halves in one order, so that is the
    /// next one which needs a twin, and nothing has to be looked up.
    fn take(&mut self, name: &'d [u8], twins: &Twins) -> Option<usize> {
        let (cubin, roles) = (self.cubin, self.roles);
        if self.by_name.is_none() {
            // No two roles have a name in common: a section passed over here is not called like a later one.
            let awaits = |&at: &usize| is_open(roles[at]) && !is_single(roles[at]);
            let next = (self.next..roles.len()).find(awaits);
            if let Some(next) = next.filter(|&next| is_called(cubin.sections[next].name, name)) {
                self.next = next + 1;
                return Some(next);
            }
        }
        let by_name = self.by_name.get_or_insert_with(|| all_open(cubin, roles, twins));
        by_name.get_mut(&key(name)).and_then(Vec::pop)
    }
}

fn all_open<'d>(cubin: &Cubin<'d>, roles: &[Role], twins: &Twins) -> HashMap<Key<'d>, Vec<usize>> {
    let mut open: HashMap<Key<'d>, Vec<usize>> = HashMap::with_capacity(cubin.sections.len());
    for (index, section) in cubin.sections.iter().enumerate().rev() {
        if !section.is_mercury() && is_open(roles[index]) && twins.of[index] == NONE {
            open.entry(key(section.name)).or_default().push(index);
        }
    }
    open
}

/// False for what is found otherwise than by name, and for tables.
fn is_open(role: Role) -> bool {
    !matches!(role, Role::Table | Role::Text | Role::JumpSlot)
}

/// True for a section `own` of machine code that Mercury calls `name`.
fn is_called(own: &[u8], name: &[u8]) -> bool {
    own == name || key(own) == key(name)
}

/// True for what Mercury need not have: memory without bytes, parameters and the call graph.
fn is_single(role: Role) -> bool {
    matches!(
        role,
        Role::Table
            | Role::Twin
            | Role::Parameters
            | Role::Global
            | Role::OwnShared
            | Role::PoolShared
            | Role::CallGraph
            | Role::Prototype
    )
}

/// The machine code that `section` is the Mercury form of.
fn code_of(
    cubin: &Cubin<'_>,
    roles: &[Role],
    section: &Section<'_>,
    name: &[u8],
) -> Result<usize, Malformed> {
    let capsule = Capsule::parse(section.name, section.data)?;
    let index = capsule.code().0 as usize;
    let code = cubin.sections.get(index).filter(|code| code.name == name);
    let is_code = |role| matches!(role, Role::Text | Role::JumpSlot);
    let Some(code) = code.filter(|_| is_code(roles[index])) else {
        let what = format!("it is for section {index}, which is not its machine code");
        return Err(Malformed::section(section.name, 0, what));
    };
    let size = capsule.instructions() * capmerc::INSTRUCTION;
    if size != code.size {
        let what = format!("it is for {size:#x} bytes of machine code, there are {:#x}", code.size);
        return Err(Malformed::section(section.name, 0, what));
    }
    Ok(index)
}

/// Everything but memory without bytes, parameters and the call graph is in both halves.
fn check_all_paired(cubin: &Cubin<'_>, roles: &[Role], twins: &Twins) -> Result<(), Malformed> {
    for ((index, section), role) in cubin.section_indices().zip(roles) {
        // Where all records are for machine code only, Mercury has no relocation section.
        let optional = *role == Role::Reloc;
        if section.is_mercury() || twins.of(index).is_some() {
            continue;
        }
        if !is_single(*role) && !optional {
            let what = "the section has no twin in Mercury";
            return Err(Malformed::section(section.name, 0, what));
        }
        // nvlink ends with an error of its finalizer.
        if optional && section.sh_type == sht::REL {
            let what = "records without addends have no place beside Mercury code";
            return Err(Malformed::section(section.name, 0, what));
        }
    }
    Ok(())
}

/// The Mercury symbols are those of the machine code, as far as they go.
fn check_symbols(cubin: &Cubin<'_>, twins: &Twins) -> Result<(), Malformed> {
    let table = cubin.sections.iter().find(|section| section.sh_type == sht::MERCURY_SYMTAB);
    let name = table.map_or(&b".nv.merc.symtab"[..], |table| table.name);
    let defect =
        |index: usize, what: String| Err(Malformed::section(name, 24 * index as u64, what));
    if cubin.mercury_symbols.len() > cubin.symbols.len() {
        let what = format!("symbol {} is in no other table", cubin.symbols.len());
        return defect(cubin.symbols.len(), what);
    }
    for (index, (sass, mercury)) in cubin.symbols.iter().zip(&cubin.mercury_symbols).enumerate() {
        if !same(twins, sass, mercury) {
            let name = String::from_utf8_lossy(sass.name);
            return defect(index, format!("symbol {index} differs from '{name}' in .symtab"));
        }
    }
    let rest = cubin.symbols.iter().enumerate().skip(cubin.mercury_symbols.len());
    for (index, symbol) in rest {
        if symbol.kind() != stt::SECTION {
            let name = String::from_utf8_lossy(symbol.name);
            return defect(index, format!("symbol '{name}' of .symtab is missing"));
        }
    }
    Ok(())
}

fn same(twins: &Twins, sass: &Symbol<'_>, mercury: &Symbol<'_>) -> bool {
    let place = match mercury.section {
        SymbolSection::In(index) => SymbolSection::In(twins.of(index).unwrap_or(index)),
        other => other,
    };
    // Both tables have their names from one string table.
    let name = sass.kind() == stt::SECTION
        || std::ptr::eq(sass.name, mercury.name)
        || sass.name == mercury.name;
    // Variables of objects have either of two types.
    let kind = |symbol: &Symbol<'_>| match symbol.kind() {
        stt::CUDA_OBJECT => stt::OBJECT,
        kind => kind,
    };
    let info = sass.info == mercury.info
        || sass.binding() == mercury.binding() && kind(sass) == kind(mercury);
    // Code of the halves is not of one size.
    let size = sass.is_function() || sass.size == mercury.size;
    // So are places in it; those of variables are the same.
    let is_variable = matches!(sass.kind(), stt::OBJECT | stt::CUDA_OBJECT);
    let has_place = is_variable && matches!(sass.section, SymbolSection::In(_));
    let value = !has_place || sass.value == mercury.value;
    name && info && size && value && sass.other == mercury.other && sass.section == place
}

/// Names, owners and roles as the other phases see them.
fn show(cubin: &mut Cubin<'_>, roles: &mut [Role], twins: &Twins) -> Result<(), Malformed> {
    for (index, (shown_role, &twin)) in roles.iter_mut().zip(&twins.of).enumerate() {
        if twin == NONE {
            continue;
        }
        let section = &cubin.sections[index];
        if !section.is_mercury() {
            *shown_role = match *shown_role {
                Role::FunctionInfo => Role::TwinInfo,
                Role::FileInfo | Role::Reloc => Role::Twin,
                Role::Constant(bank) => {
                    if let Some(shown) = logical(&cubin.sections[twin.0 as usize]) {
                        cubin.sections[index].name = shown;
                    }
                    Role::Constant(bank)
                }
                role => role,
            };
            continue;
        }
        let (shown, role) = match section.sh_type {
            sht::MERCURY_RELA => (sht::RELA, Role::Reloc),
            sht::MERCURY_INFO => (sht::CUDA_INFO, info_role(section)),
            _ => continue,
        };
        let name = logical(section).unwrap_or(section.name);
        let out = &mut cubin.sections[index];
        out.name = name;
        out.sh_type = shown;
        // Owners are those of the half that is shown.
        if let Some(owner) = out.info_section() {
            out.info = twins.of(owner).unwrap_or(owner).0;
        }
        *shown_role = role;
    }
    Ok(())
}

fn info_role(section: &Section<'_>) -> Role {
    if section.flags & shf::INFO_LINK != 0 { Role::FunctionInfo } else { Role::FileInfo }
}
