//! Phase `objects`: every input parsed and checked.
//!
//! In: the inputs' bytes. Out: [`Objects`]: tables of sections, symbols, attribute records and
//! call-graph records in which every index is valid. Guaranteed: later phases meet no malformed
//! record, so they cannot fail on one.

mod checks;
mod lookups;
mod outline;
mod records;
mod roles;
mod target;

use culd_cubin::arch::Flavour;
use culd_cubin::compat;
use culd_cubin::elf::{self, shf, sht, sto, stt};
use culd_cubin::note::CuInfo;
use culd_cubin::raw::SymbolEntry;
use culd_cubin::{Cubin, Malformed, Section, SectionIndex, Symbol, SymbolIndex};

use crate::capsule::twins::{self, Twins};
use crate::diag::{Diagnostics, Failed, Message};
use crate::id::{IdVec, ObjectId};
use crate::names::Hasher;
use crate::unified::{self, Entries};
use crate::{Input, LinkOptions, Session};

use self::lookups::Lookups;
use self::outline::Outline;
pub(crate) use self::outline::{Function, Info, Open, Patch};
use self::records::RecordTables;
pub(crate) use self::roles::Role;

/// One input file.
pub(crate) struct Object<'d> {
    pub(crate) name: &'d str,
    pub(crate) cubin: Cubin<'d>,
    /// Role by section index.
    pub(crate) roles: Vec<Role>,
    /// Pairs of sections; none in an object without Mercury.
    pub(crate) twins: Twins,
    pub(crate) records: RecordTables<'d>,
    lookups: Lookups,
    /// Ids of unified functions and variables.
    pub(crate) unified: Vec<Entries>,
    /// Functions that relocations of descriptors name: their address is taken.
    pub(crate) described: Vec<(SectionIndex, SymbolIndex)>,
    /// Functions whose code names shared variables, and these, in the order of the records.
    pub(crate) shared_uses: Vec<(SymbolIndex, SymbolIndex)>,
    pub(crate) outline: Outline<'d>,
    pub(crate) cuinfo: CuInfo,
    /// All tool records.
    pub(crate) tkinfo: &'d [u8],
}

impl<'d> Object<'d> {
    pub(crate) fn symbol(&self, index: SymbolIndex) -> &Symbol<'d> {
        &self.cubin.symbols[index.0 as usize]
    }

    /// The same symbol in Mercury's table.
    pub(crate) fn mercury_symbol(&self, index: SymbolIndex) -> Option<SymbolEntry> {
        let table = self.section(self.twins.symbols()?).data;
        SymbolEntry::read(table, SymbolEntry::SIZE * index.0 as usize)
    }

    /// Bytes of machine code of a function that the code is named after.
    pub(crate) fn code_size(&self, function: SymbolIndex) -> Option<u64> {
        let symbol = self.symbol(function);
        let code = symbol.defined_in().filter(|&code| self.names_code(code, symbol))?;
        Some(self.section(code).size)
    }

    pub(crate) fn section(&self, index: SectionIndex) -> &Section<'d> {
        &self.cubin.sections[index.0 as usize]
    }

    /// The bytes of a section's twin; none where there is no other half.
    pub(crate) fn twin_data(&self, index: SectionIndex) -> &'d [u8] {
        self.twins.of(index).map_or(&[][..], |twin| self.section(twin).data)
    }

    /// Which section of Mercury alone `index` is: that half has no `.symtab` and no parameters, and of what is in both halves only its
    /// own, but code at the place of machine code (case unified/relocatable by CUDA 13.5).
    pub(crate) fn mercury_number(&self, index: SectionIndex) -> u32 {
        let sections = self.cubin.section_indices().take_while(|(other, _)| *other < index);
        let counts = sections.filter(|(other, section)| match section.sh_type {
            sht::SYMTAB | sht::MERCURY_CODE => false,
            _ if section.flags & shf::MERCURY != 0 => true,
            _ => match self.role(*other) {
                Role::Text | Role::JumpSlot => true,
                Role::Parameters => false,
                _ => self.twins.of(*other).is_none(),
            },
        });
        counts.count() as u32
    }

    /// What the object says of the devices that its machine code is good for.
    pub(crate) fn fast_targets(&self) -> Option<u64> {
        let records = self.records.compat.as_deref().unwrap_or_default();
        let record = records.iter().find(|record| record.code == compat::code::FINALIZER)?;
        record.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// True for an object that has a Mercury half.
    pub(crate) fn has_twins(&self) -> bool {
        self.twins.symbols().is_some()
    }

    /// True when the file has any code.
    pub(crate) fn has_code(&self) -> bool {
        self.roles.contains(&Role::Text)
    }

    pub(crate) fn role(&self, index: SectionIndex) -> Role {
        self.roles[index.0 as usize]
    }

    /// The string of a call-graph or prototype record; phase `objects` has checked it.
    pub(crate) fn prototype(&self, offset: u32) -> &'d [u8] {
        self.cubin.string(offset).unwrap_or_default()
    }

    /// True when code section `text` is named after `function`, which then is no alias.
    pub(crate) fn names_code(&self, text: SectionIndex, function: &Symbol<'_>) -> bool {
        roles::names_code(self.role(text), self.section(text), function)
    }

    /// True when the file defines unified functions.
    pub(crate) fn has_unified_functions(&self) -> bool {
        self.roles.contains(&Role::FunctionIds)
    }

    /// The sections of unified functions and variables: ids and jump slots.
    pub(crate) fn unified_sections(&self) -> impl Iterator<Item = (SectionIndex, Role)> {
        self.lookups.unified.iter().map(|&index| (index, self.role(index)))
    }

    /// The sections of jump slots.
    pub(crate) fn jump_slots(&self) -> impl Iterator<Item = SectionIndex> {
        let slots = self.unified_sections().filter(|(_, role)| *role == Role::JumpSlot);
        slots.map(|(index, _)| index)
    }

    /// Relocation sections of code that is named after a function, with the function.
    pub(crate) fn code_relocations(&self) -> impl Iterator<Item = (SymbolIndex, &Section<'d>)> {
        self.reloc_sections()
            .filter_map(|(_, section, text)| Some((self.code_function(text)?, section)))
    }

    /// Relocation sections in section order, with the section they patch.
    pub(crate) fn reloc_sections(
        &self,
    ) -> impl Iterator<Item = (SectionIndex, &Section<'d>, SectionIndex)> {
        roles::reloc_sections(&self.cubin, &self.roles)
    }
}

/// All inputs, in command order.
pub(crate) struct Objects<'d> {
    pub(crate) all: IdVec<ObjectId, Object<'d>>,
    /// Hashes their names.
    pub(crate) hasher: Hasher,
}

impl<'d> std::ops::Index<ObjectId> for Objects<'d> {
    type Output = Object<'d>;

    fn index(&self, id: ObjectId) -> &Object<'d> {
        &self.all[id]
    }
}

impl<'d> Objects<'d> {
    /// Bytes of the relocation records of all files, a measure of work.
    pub(crate) fn reloc_bytes(&self) -> usize {
        self.iter().map(|(_, object)| object.outline.reloc_bytes).sum()
    }

    /// Parses all inputs; reports the first that cannot be linked, in command order.
    pub(crate) fn parse(
        session: &Session,
        inputs: &[Input<'d>],
        options: &LinkOptions,
        diags: &mut Diagnostics,
    ) -> Result<Self, Failed> {
        let total: usize = inputs.iter().map(|input| input.bytes.len()).sum();
        let hasher = Hasher::default();
        let parse = |place: usize| Object::parse(inputs[place], &hasher);
        let parsed: Vec<_> = session.map(inputs.len(), total, parse);
        // In place: objects are large.
        let all: Result<Vec<_>, _> = parsed
            .into_iter()
            .zip(inputs)
            .enumerate()
            .map(|(place, (parsed, input))| {
                let object = parsed.map_err(|message| diags.fatal(message))?;
                target::check_target((place, input.name), &object, options, diags)?;
                Ok(object)
            })
            .collect();
        Ok(Objects { all: all?.into(), hasher })
    }

    /// Removes the files at `places`, which ascend.
    pub(crate) fn remove(&mut self, places: &[usize]) {
        let all = std::mem::take(&mut self.all);
        let stays = |(place, _): &(usize, Object<'d>)| places.binary_search(place).is_err();
        let rest = all.into_values().enumerate().filter(stays);
        self.all = rest.map(|(_, object)| object).collect();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (ObjectId, &Object<'d>)> {
        self.all.iter()
    }

    pub(crate) fn file(&self, id: ObjectId) -> String {
        self.all[id].name.to_owned()
    }
}

impl<'d> Object<'d> {
    fn parse(input: Input<'d>, hasher: &Hasher) -> Result<Self, Message> {
        Object::read(input, hasher).map_err(|failure| failure.told_of(input.name))
    }

    fn read(input: Input<'d>, hasher: &Hasher) -> Result<Self, Failure> {
        let mut cubin = Cubin::parse(input.bytes)?;
        check_abi(&cubin)?;
        let flavour = Flavour::of_sm(cubin.header.sm());
        let mut roles = roles::all(&cubin, flavour)?;
        let twins = match flavour {
            Flavour::Classic => Twins::default(),
            Flavour::Mercury => twins::pair(&mut cubin, &mut roles)?,
        };
        roles::check_reloc_names(&cubin, &roles)?;
        let cuinfo = driver_info(&cubin)?;
        let tkinfo = cubin.section_by_name(b".note.nv.tkinfo").map_or(&[][..], |note| note.data);
        let records = RecordTables::read(&cubin, &roles)?;
        let lookups = Lookups::build(&cubin, &roles);
        let mut object = Object {
            name: input.name,
            cubin,
            roles,
            twins,
            records,
            lookups,
            unified: Vec::new(),
            described: Vec::new(),
            shared_uses: Vec::new(),
            outline: Outline::default(),
            cuinfo,
            tkinfo,
        };
        object.unified = unified::read(&object)?;
        object.check_symbols()?;
        object.check_sections()?;
        object.check_relocations()?;
        object.outline = Outline::of(&object, hasher);
        Ok(object)
    }
}

/// What the object tells the driver of itself. CUDA 12.9 has another note for sm_100 and later, and none before.
fn driver_info(cubin: &Cubin<'_>) -> Result<CuInfo, Failure> {
    const CUDA_12_9: u16 = 129;
    if let Some(info) = cubin.header.info_of_cuda_12() {
        return Ok(info);
    }
    if let Some(note) = cubin.section_by_name(b".note.nv.cuinfo") {
        return Ok(CuInfo::parse(note.name, note.data)?);
    }
    let note = cubin
        .section_by_name(b".note.nv.cuver")
        .ok_or_else(|| Failure::Unsupported("it has no section '.note.nv.cuinfo'".to_owned()))?;
    Ok(CuInfo { toolkit: CUDA_12_9, ..CuInfo::parse(note.name, note.data)? })
}

/// Is it an object of a release that is known?
fn check_abi(cubin: &Cubin<'_>) -> Result<(), Failure> {
    let header = &cubin.header;
    let reason = if header.e_type != 1 {
        "it is no relocatable object (ELF type 1)"
    } else if header.is_of_cuda_12() && header.abi_version == elf::ABI_VERSION_12 {
        return Ok(());
    } else if header.is_of_cuda_12() {
        "it was made by CUDA 11 or older (ELF ABI 0x33)"
    } else if header.os_abi != elf::OSABI_CUDA || header.abi_version != elf::ABI_VERSION {
        "its ELF ABI is unknown"
    } else {
        return Ok(());
    };
    Err(Failure::Unsupported(reason.to_owned()))
}

/// Why an input cannot be linked.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Malformed(Malformed),
    Unsupported(String),
}

impl Failure {
    /// What is said of the file with that name.
    pub(crate) fn told_of(self, file: &str) -> Message {
        let file = file.to_owned();
        match self {
            Failure::Malformed(defect) => Message::Malformed { file, defect },
            Failure::Unsupported(reason) => Message::Unsupported { file, reason },
        }
    }
}

impl From<Malformed> for Failure {
    fn from(defect: Malformed) -> Self {
        Failure::Malformed(defect)
    }
}

/// True for functions, variables and references to textures and the like; to nvlink symbols of other types, sections
/// aside, are as good as the null symbol.
pub(crate) fn takes_part(symbol: &Symbol<'_>) -> bool {
    matches!(
        symbol.kind(),
        stt::FUNC
            | stt::OBJECT
            | stt::CUDA_OBJECT
            | stt::CUDA_TEXTURE
            | stt::CUDA_SAMPLER
            | stt::CUDA_SURFACE
    )
}

/// True for a symbol that ptxas made for itself: parameters and literals.
pub(crate) fn is_internal(symbol: &Symbol<'_>) -> bool {
    symbol.binding() == elf::stb::LOCAL && symbol.other & sto::INTERNAL != 0
}
