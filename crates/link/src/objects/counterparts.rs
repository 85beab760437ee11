//! Phase `objects` for objects with Mercury: which section is the counterpart of which.
//!
//! In: a parsed cubin. Out: [`Counterparts`], and the cubin's sections changed so that they read
//! like those of an older object. Machine code, data and debug information are those of the SASS
//! half under their Mercury names. Relocations and attributes are those of the Mercury half under
//! names without `.nv.merc`. All other sections of either half are reached through their
//! counterpart only. Guaranteed: every linked section has the counterpart it needs, and both symbol
//! tables agree.

use culd_cubin::capmerc::{self, Capsule};
use culd_cubin::elf::{shf, sht, stt};
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolSection, text_of};
use hashbrown::HashMap;

use super::roles::SectionRole;
use crate::diag::Message;

/// The pairs of sections of one object.
#[derive(Debug, Default)]
pub(crate) struct Counterparts {
    /// By section: the counterpart in the other half; [`NONE`] if there is none.
    of: Vec<SectionIndex>,
    /// Mercury's symbol table.
    symbols: Option<SectionIndex>,
}

impl Counterparts {
    /// Mercury's symbol table, if there is a second half.
    pub(crate) fn symbols(&self) -> Option<SectionIndex> {
        self.symbols
    }

    /// The counterpart of section `index` in the other half.
    pub(crate) fn of(&self, index: SectionIndex) -> Option<SectionIndex> {
        self.of.get(index.0 as usize).copied().filter(|&counterpart| counterpart != NONE)
    }

    fn join(&mut self, a: usize, b: usize) {
        self.of[a] = SectionIndex(b as u32);
        self.of[b] = SectionIndex(a as u32);
    }
}

/// No section has this index.
const NONE: SectionIndex = SectionIndex(u32::MAX);

/// A key that is equal for the names of two counterparts: prefix, kind of name, and rest of the
/// name.
type PairKey<'d> = (&'static [u8], BaseName, &'d [u8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BaseName {
    /// Names that are the same in both halves.
    Same,
    /// `.nv.constant3`, in Mercury `.nv.constant.user`.
    User,
    /// `.nv.constant4`, in Mercury `.nv.constant.pic`.
    Addresses,
    /// `.nv.constant2.<function>`, in Mercury `.nv.constant.optimizer.<function>`.
    Optimizer,
}

/// Mercury's names of sections that SASS names after a constant bank.
pub(crate) const USER: &[u8] = b".nv.constant.user";
pub(crate) const ADDRESSES: &[u8] = b".nv.constant.pic";
pub(crate) const OPTIMIZER: &[u8] = b".nv.constant.optimizer.";

fn pair_key(name: &[u8]) -> PairKey<'_> {
    let (front, rest): (&[u8], _) = match name.strip_prefix(b".rela") {
        Some(rest) if rest.starts_with(b".") => (b".rela", rest),
        _ => (b"", name),
    };
    if rest == b".nv.constant3" || rest == USER {
        return (front, BaseName::User, b"");
    }
    if rest == b".nv.constant4" || rest == ADDRESSES {
        return (front, BaseName::Addresses, b"");
    }
    let optimizer = [&b".nv.constant2."[..], OPTIMIZER];
    match optimizer.iter().find_map(|prefix| rest.strip_prefix(*prefix)) {
        Some(function) => (front, BaseName::Optimizer, function),
        None => (front, BaseName::Same, rest),
    }
}

/// The name of a Mercury section, without the prefix that its counterpart in the SASS half lacks.
fn common_name<'d>(section: &Section<'d>) -> Option<&'d [u8]> {
    let code = section.name.strip_prefix(b".nv.capmerc");
    code.or_else(|| section.name.strip_prefix(b".nv.merc"))
}

/// Pairs the sections of `cubin`; `roles` are those of the SASS half.
pub(crate) fn pair(
    file: &str,
    cubin: &Cubin<'_>,
    roles: &[SectionRole],
) -> Result<Counterparts, Message> {
    let symbols = cubin.sections.iter().position(|section| section.sh_type == sht::MERCURY_SYMTAB);
    let Some(symbols) = symbols.filter(|_| !cubin.mercury_symbols.is_empty()) else {
        return Err(Message::unsupported(file, "it has no Mercury symbol table"));
    };
    let symbols = Some(SectionIndex(symbols as u32));
    let of = vec![NONE; cubin.sections.len()];
    let mut counterparts = Counterparts { of, symbols };
    let malformed = |defect| Message::malformed(file, defect);
    join(file, cubin, roles, &mut counterparts)?;
    check_all_paired(cubin, roles, &counterparts).map_err(malformed)?;
    check_symbols(cubin, &counterparts).map_err(malformed)?;
    Ok(counterparts)
}

/// Why a whole program with such a table is refused (docs/DIFFERENCES.md, whole-program-images).
const IMAGE_TABLE: &str =
    "it is a whole program (-ewp) with texture or surface references, of which Mercury has a table";

/// True for the table of the references of a kernel, and its relocations. Only whole programs have
/// one, and only in Mercury.
fn is_image_table(name: &[u8]) -> bool {
    const TABLE: &[u8] = b".nv.constant.entry_image_header_indices.";
    name.strip_prefix(b".rela").unwrap_or(name).starts_with(TABLE)
}

/// Finds the pairs: code by the section index in Mercury code, all others by name, and sections of
/// one name in order.
fn join(
    file: &str,
    cubin: &Cubin<'_>,
    roles: &[SectionRole],
    counterparts: &mut Counterparts,
) -> Result<(), Message> {
    let malformed = |defect| Message::malformed(file, defect);
    let mut unpaired = UnpairedSections { cubin, roles, next: 0, by_name: None };
    for (index, section) in cubin.sections.iter().enumerate() {
        if !section.is_mercury() {
            continue;
        }
        // Records of relocations applied in an earlier link are ignored, as in machine code.
        if let sht::MERCURY_SYMTAB | sht::MERCURY_RESOLVED_RELA | sht::SYMTAB_SHNDX =
            section.sh_type
        {
            continue;
        }
        let unknown = || {
            let name = text_of(section.name);
            let reason = format!("Mercury section '{name}' is of an unknown kind");
            Message::unsupported(file, reason)
        };
        let name = common_name(section).ok_or_else(unknown)?;
        if is_image_table(name) {
            return Err(Message::unsupported(file, IMAGE_TABLE));
        }
        let counterpart = if section.sh_type == sht::MERCURY_CODE {
            Some(code_of(cubin, roles, section, name).map_err(malformed)?)
        } else {
            unpaired.take_named(name, counterparts)
        };
        let Some(counterpart) = counterpart else {
            let what = "the section has no twin in the machine code's half";
            return Err(malformed(Malformed::section(section.name, 0, what)));
        };
        if counterparts.of[counterpart] != NONE {
            let what = "two sections of Mercury code are for the same machine code";
            return Err(malformed(Malformed::section(section.name, 0, what)));
        }
        if roles[counterpart] == SectionRole::UnifiedData
            && cubin.sections[counterpart].size != section.size
        {
            let what = "the section is not as long as its twin in the machine code's half";
            return Err(malformed(Malformed::section(section.name, 0, what)));
        }
        counterparts.join(index, counterpart);
    }
    Ok(())
}

/// Sections of the SASS half that have no counterpart yet.
struct UnpairedSections<'c, 'd> {
    cubin: &'c Cubin<'d>,
    roles: &'c [SectionRole],
    /// All sections before this one have a counterpart or need none.
    next: usize,
    /// All unpaired sections by name, the first of a name last. Made once the order of the halves
    /// turns out to differ.
    by_name: Option<HashMap<PairKey<'d>, Vec<usize>>>,
}

impl<'d> UnpairedSections<'_, 'd> {
    /// The first unpaired section that Mercury calls `name`. Fast path: ptxas writes both halves in
    /// one order, so it is the next section that needs a counterpart. Without it: +4.9 %
    /// instructions on many1000 for sm_100.
    fn take_named(&mut self, name: &'d [u8], counterparts: &Counterparts) -> Option<usize> {
        let (cubin, roles) = (self.cubin, self.roles);
        if self.by_name.is_none() {
            // Two roles never share a name, so a later section does not have the name of one passed
            // over here.
            let awaits = |&at: &usize| is_paired_by_name(roles[at]) && !may_be_alone(roles[at]);
            let next = (self.next..roles.len()).find(awaits);
            if let Some(next) = next.filter(|&next| is_called(cubin.sections[next].name, name)) {
                self.next = next + 1;
                return Some(next);
            }
        }
        let by_name =
            self.by_name.get_or_insert_with(|| unpaired_by_name(cubin, roles, counterparts));
        by_name.get_mut(&pair_key(name)).and_then(Vec::pop)
    }
}

fn unpaired_by_name<'d>(
    cubin: &Cubin<'d>,
    roles: &[SectionRole],
    counterparts: &Counterparts,
) -> HashMap<PairKey<'d>, Vec<usize>> {
    let mut unpaired: HashMap<PairKey<'d>, Vec<usize>> =
        HashMap::with_capacity(cubin.sections.len());
    for (index, section) in cubin.sections.iter().enumerate().rev() {
        if !section.is_mercury()
            && is_paired_by_name(roles[index])
            && counterparts.of[index] == NONE
        {
            unpaired.entry(pair_key(section.name)).or_default().push(index);
        }
    }
    unpaired
}

/// False for tables, and for sections that are not paired by name.
fn is_paired_by_name(role: SectionRole) -> bool {
    !matches!(role, SectionRole::Table | SectionRole::Text | SectionRole::JumpSlot)
}

/// True if Mercury calls the section `own` of machine code `name`.
fn is_called(own: &[u8], name: &[u8]) -> bool {
    own == name || pair_key(own) == pair_key(name)
}

/// True for sections that Mercury may lack: memory without bytes, parameters and the call graph.
fn may_be_alone(role: SectionRole) -> bool {
    matches!(
        role,
        SectionRole::Table
            | SectionRole::Counterpart
            | SectionRole::Parameters
            | SectionRole::Global
            | SectionRole::OwnShared
            | SectionRole::PoolShared
            | SectionRole::CallGraph
            | SectionRole::Prototype
    )
}

/// The section of the machine code whose Mercury form is `section`.
fn code_of(
    cubin: &Cubin<'_>,
    roles: &[SectionRole],
    section: &Section<'_>,
    name: &[u8],
) -> Result<usize, Malformed> {
    let capsule = Capsule::parse(section.name, section.data)?;
    let index = capsule.code().0 as usize;
    let code = cubin.sections.get(index).filter(|code| code.name == name);
    let is_code = |role| matches!(role, SectionRole::Text | SectionRole::JumpSlot);
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

/// Checks that every section is in both halves, except memory without bytes, parameters and the
/// call graph.
fn check_all_paired(
    cubin: &Cubin<'_>,
    roles: &[SectionRole],
    counterparts: &Counterparts,
) -> Result<(), Malformed> {
    for ((index, section), role) in cubin.section_indices().zip(roles) {
        // If all records are for machine code only, Mercury has no relocation section.
        let optional = *role == SectionRole::Reloc;
        if section.is_mercury() || counterparts.of(index).is_some() {
            continue;
        }
        if !may_be_alone(*role) && !optional {
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

/// Checks that both symbol tables agree. Mercury's may lack section symbols at the end.
fn check_symbols(cubin: &Cubin<'_>, counterparts: &Counterparts) -> Result<(), Malformed> {
    let table = cubin.sections.iter().find(|section| section.sh_type == sht::MERCURY_SYMTAB);
    let name = table.map_or(&b".nv.merc.symtab"[..], |table| table.name);
    let defect =
        |index: usize, what: String| Err(Malformed::section(name, 24 * index as u64, what));
    if cubin.mercury_symbols.len() > cubin.symbols.len() {
        let what = format!("symbol {} is in no other table", cubin.symbols.len());
        return defect(cubin.symbols.len(), what);
    }
    for (index, (sass, mercury)) in cubin.symbols.iter().zip(&cubin.mercury_symbols).enumerate() {
        if !is_same_symbol(counterparts, sass, mercury) {
            let name = text_of(sass.name);
            return defect(index, format!("symbol {index} differs from '{name}' in .symtab"));
        }
    }
    let rest = cubin.symbols.iter().enumerate().skip(cubin.mercury_symbols.len());
    for (index, symbol) in rest {
        if symbol.kind() != stt::SECTION {
            let name = text_of(symbol.name);
            return defect(index, format!("symbol '{name}' of .symtab is missing"));
        }
    }
    Ok(())
}

fn is_same_symbol(counterparts: &Counterparts, sass: &Symbol<'_>, mercury: &Symbol<'_>) -> bool {
    let place = match mercury.section {
        SymbolSection::In(index) => SymbolSection::In(counterparts.of(index).unwrap_or(index)),
        other => other,
    };
    // Both tables take their names from one string table.
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
    // Code of the halves differs in size.
    let size = sass.is_function() || sass.size == mercury.size;
    // Offsets in code differ, too; those of variables are the same.
    let is_variable = matches!(sass.kind(), stt::OBJECT | stt::CUDA_OBJECT);
    let has_place = is_variable && matches!(sass.section, SymbolSection::In(_));
    let value = !has_place || sass.value == mercury.value;
    name && info && size && value && sass.other == mercury.other && sass.section == place
}

/// Gives sections the names, owners and roles that the other phases see, as this module's head
/// says.
pub(crate) fn present(
    cubin: &mut Cubin<'_>,
    roles: &mut [SectionRole],
    counterparts: &Counterparts,
) {
    for (index, (shown_role, &counterpart)) in roles.iter_mut().zip(&counterparts.of).enumerate() {
        if counterpart == NONE {
            continue;
        }
        let section = &cubin.sections[index];
        if !section.is_mercury() {
            *shown_role = match *shown_role {
                SectionRole::FunctionInfo => SectionRole::CounterpartInfo,
                SectionRole::FileInfo | SectionRole::Reloc => SectionRole::Counterpart,
                SectionRole::Constant(bank) => {
                    if let Some(shown) = common_name(&cubin.sections[counterpart.0 as usize]) {
                        cubin.sections[index].name = shown;
                    }
                    SectionRole::Constant(bank)
                }
                role => role,
            };
            continue;
        }
        let (shown, role) = match section.sh_type {
            sht::MERCURY_RELA => (sht::RELA, SectionRole::Reloc),
            sht::MERCURY_INFO => (sht::CUDA_INFO, info_role(section)),
            _ => continue,
        };
        let name = common_name(section).unwrap_or(section.name);
        let out = &mut cubin.sections[index];
        out.name = name;
        out.sh_type = shown;
        // Owners are sections that other phases see.
        if let Some(owner) = out.info_section() {
            out.info = counterparts.of(owner).unwrap_or(owner).0;
        }
        *shown_role = role;
    }
    // They repeat the other table, except for sizes, which are read from the section.
    cubin.mercury_symbols = Vec::new();
}

fn info_role(section: &Section<'_>) -> SectionRole {
    if section.flags & shf::INFO_LINK != 0 {
        SectionRole::FunctionInfo
    } else {
        SectionRole::FileInfo
    }
}
