//! `-v`: sizes of the program and of every entry.

use std::cmp::Reverse;
use std::fmt;

use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use culd_cubin::elf::shf;

use crate::base::half::RESERVED_SHARED;
use crate::base::id::{NameId, NodeId};
use crate::data::textures::TextureSlots;
use crate::draft::kind::SectionKind;
use crate::program::LinkedProgram;

/// Resources of one entry. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryReport {
    /// Mangled name.
    pub name: String,
    /// Registers per thread of the whole call tree.
    pub registers: u32,
    /// Barriers per block.
    pub barriers: u32,
    /// Stack per thread; without callees if recursion makes these unknown, 0 with `-r`.
    pub stack: u32,
    /// Shared memory per block, with the system's part; without it on sm_100 and later.
    pub shared: u64,
    /// Parameters; `None` on sm_100 and later.
    pub constant0: Option<u64>,
    /// Literals, if there are any.
    pub constant2: Option<u64>,
    /// Legacy textures that the entry can use.
    pub textures: usize,
    /// Legacy surfaces that the entry can use.
    pub surfaces: usize,
    /// Legacy samplers that the entry can use.
    pub samplers: usize,
    /// The line of `-v` has the barriers.
    prints_barriers: bool,
}

/// Resources of a linked program. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceReport {
    /// Global variables.
    pub global: u64,
    /// Constant variables, if there are any.
    pub constant3: Option<u64>,
    /// Addresses that position-independent code uses, if there are any.
    pub constant4: Option<u64>,
    /// Entries in the reverse order of creation of their code.
    pub entries: Vec<EntryReport>,
}

impl fmt::Display for EntryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "used {} registers, ", self.registers)?;
        if self.prints_barriers {
            write!(f, "used {} barriers, ", self.barriers)?;
        }
        write!(f, "{} stack, {} bytes smem", self.stack, self.shared)?;
        for (bank, size) in [(0, self.constant0), (2, self.constant2)] {
            if let Some(size) = size {
                write!(f, ", {size} bytes cmem[{bank}]")?;
            }
        }
        write!(f, ", 0 bytes lmem")?;
        let kinds =
            [(self.textures, "textures"), (self.surfaces, "surfaces"), (self.samplers, "samplers")];
        for (count, what) in kinds {
            if count != 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl ResourceReport {
    /// The lines of `-v`, as nvlink words them.
    pub fn lines(&self) -> Vec<String> {
        let mut first = format!("{} bytes gmem", self.global);
        for (bank, size) in [(3, self.constant3), (4, self.constant4)] {
            if let Some(size) = size {
                first.push_str(&format!(", {size} bytes cmem[{bank}]"));
            }
        }
        let mut lines = vec![first];
        for entry in &self.entries {
            lines.push(format!("Function properties for '{}':", entry.name));
            lines.push(entry.to_string());
        }
        lines
    }

    pub(crate) fn build(program: &LinkedProgram<'_, '_>) -> Self {
        let draft = &program.merged.draft;
        let size_of = |kind: SectionKind| -> u64 {
            let sections = draft.category_of(kind).iter().map(|&id| &draft.sections[id]);
            sections.filter(|section| section.kind == kind).map(|section| section.size).sum()
        };
        // nvlink does not report constant banks and slots under Mercury's names.
        let classic = draft.flavour == Flavour::Classic;
        let common_bank = |number| {
            let listed = draft.common_bank(number);
            let listed = listed.filter(|&bank| classic && !draft.sections[bank].dropped);
            listed.map(|bank| draft.sections[bank].size)
        };
        ResourceReport {
            global: size_of(SectionKind::Global) + size_of(SectionKind::GlobalInit),
            constant3: common_bank(3),
            constant4: common_bank(4),
            entries: entry_reports(program).into_iter().map(|(_, report)| report).collect(),
        }
    }
}

/// The resources of every entry, in the reverse order of creation of their code.
pub(crate) fn entry_reports(program: &LinkedProgram<'_, '_>) -> Vec<(NodeId, EntryReport)> {
    let draft = &program.merged.draft;
    let classic = draft.flavour == Flavour::Classic;
    let reserved = if classic || draft.relocatable { 0 } else { RESERVED_SHARED };
    let shared = shared_by_name(program);
    // By code: a file may refer to a kernel before another file defines it.
    let mut kernels = program.graph.kernels().to_vec();
    kernels.retain(|&kernel| {
        let function = program.merged.function(&program.graph, kernel);
        !program.merged.is_jump_slot(function) && !program.graph.is_driver_function(kernel)
    });
    kernels.sort_by_key(|&kernel| Reverse(program.merged.code(&program.graph, kernel)));
    let entries = kernels.into_iter().map(|entry| {
        let facts = program.attributes.kernel_facts(&program.graph, entry);
        let function = program.merged.function(&program.graph, entry);
        let symbol = &draft.symbols[function];
        let bank = |number: u8| {
            let section = program.merged.entry_bank(&program.graph, entry, number)?;
            let section = &draft.sections[section];
            (classic && !section.dropped).then_some(section.size)
        };
        // An object has no stack sizes yet (case verbose/recursion).
        let own_stack = match draft.relocatable {
            true => 0,
            false => program.attributes.frames[entry],
        };
        let [textures, surfaces, samplers] =
            if classic { slots_of(&program.data.slots, entry) } else { [0; 3] };
        let shared = shared_name(program, symbol.name).and_then(|name| shared.get(&name));
        let report = EntryReport {
            name: program.merged.draft.names.text(symbol.name),
            registers: facts.registers,
            barriers: barriers(program, entry),
            prints_barriers: draft.dialect.prints_barriers,
            stack: facts.stack.unwrap_or(own_stack),
            shared: shared.map_or(0, |size| size.saturating_sub(reserved)),
            constant0: classic.then(|| bank(0).unwrap_or(0)),
            constant2: bank(2),
            textures,
            surfaces,
            samplers,
        };
        (entry, report)
    });
    entries.collect()
}

/// The barriers of an entry, from an attribute or the flags of its code.
fn barriers(program: &LinkedProgram<'_, '_>, entry: NodeId) -> u32 {
    if program.merged.fixed.notes.is_some() {
        return program.attributes.number(entry, code::NUM_BARRIERS).unwrap_or(0);
    }
    let raised = program.attributes.barriers_in_flags.iter().find(|(node, _)| *node == entry);
    let code = program.merged.code(&program.graph, entry);
    let own = code.map_or(0, |code| shf::barriers_of(program.merged.draft.sections[code].flags));
    raised.map_or(own, |raised| raised.1)
}

/// Sizes of shared sections by name; local entries of one name share a section.
fn shared_by_name(program: &LinkedProgram<'_, '_>) -> hashbrown::HashMap<NameId, u64> {
    let draft = &program.merged.draft;
    let sections = draft.category_of(SectionKind::Shared).iter().map(|&id| &draft.sections[id]);
    let shared = sections.filter(|section| section.kind == SectionKind::Shared && !section.dropped);
    shared.map(|section| (section.name, section.size)).collect()
}

/// The name of the shared section of an entry, if any entry of that name has one.
fn shared_name(program: &LinkedProgram<'_, '_>, entry: NameId) -> Option<NameId> {
    let names = &program.merged.draft.names;
    names.lookup(&[b".nv.shared.", names.get(entry)].concat())
}

fn slots_of(slots: &TextureSlots, entry: NodeId) -> [usize; 3] {
    // Sorted by node.
    match slots.users.binary_search_by_key(&entry, |user| user.entry) {
        Ok(at) => slots.counts(&slots.users[at]),
        Err(_) => [0; 3],
    }
}
