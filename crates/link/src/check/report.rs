//! `-v`: sizes of the program and of every entry.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::fmt;

use culd_cubin::arch::Flavour;
use culd_cubin::attr::code;
use culd_cubin::elf::shf;
use hashbrown::HashMap;

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
            entries: entry_reports(program),
        }
    }
}

/// The resources of every entry, in the reverse order of creation of their code.
fn entry_reports(program: &LinkedProgram<'_, '_>) -> Vec<EntryReport> {
    let draft = &program.merged.draft;
    let sizes = EntrySizes::of(program);
    // By code: a file may refer to a kernel before another file defines it.
    let mut kernels = program.graph.kernels().to_vec();
    kernels.retain(|&kernel| sizes.has(kernel));
    kernels.sort_by_key(|&kernel| Reverse(program.merged.code(&program.graph, kernel)));
    let entries = kernels.into_iter().map(|entry| {
        let facts = program.attributes.kernel_facts(&program.graph, entry);
        // An object has no stack sizes yet (case verbose/recursion).
        let own_stack = match draft.relocatable {
            true => 0,
            false => program.attributes.frames[entry],
        };
        let [textures, surfaces, samplers] = sizes.slots(entry);
        EntryReport {
            name: program.function_name(entry),
            registers: facts.registers,
            barriers: barriers(program, entry),
            prints_barriers: draft.dialect.prints_barriers,
            stack: facts.stack.unwrap_or(own_stack),
            shared: sizes.shared(entry),
            constant0: sizes.constant0(entry),
            constant2: sizes.constant2(entry),
            textures,
            surfaces,
            samplers,
        }
    });
    entries.collect()
}

/// The sizes of the memory of entries, and the numbers of their textures.
pub(crate) struct EntrySizes<'p, 'o, 'd> {
    program: &'p LinkedProgram<'o, 'd>,
    classic: bool,
    /// Sizes of shared sections by name; local entries of one name share a section.
    shared: OnceCell<HashMap<NameId, u64>>,
}

impl<'p, 'o, 'd> EntrySizes<'p, 'o, 'd> {
    pub(crate) fn of(program: &'p LinkedProgram<'o, 'd>) -> Self {
        let classic = program.merged.draft.flavour == Flavour::Classic;
        EntrySizes { program, classic, shared: OnceCell::new() }
    }

    /// True for a kernel that is an entry of the program itself.
    pub(crate) fn has(&self, kernel: NodeId) -> bool {
        let program = self.program;
        let function = program.merged.function(&program.graph, kernel);
        !program.merged.is_jump_slot(function) && !program.graph.is_driver_function(kernel)
    }

    /// Shared memory as `-v` has it: without the part of the system on sm_100 and later.
    pub(crate) fn shared(&self, entry: NodeId) -> u64 {
        let draft = &self.program.merged.draft;
        let reserved = if self.classic || draft.relocatable { 0 } else { RESERVED_SHARED };
        let shared = self.shared.get_or_init(|| {
            let sections = draft.category_of(SectionKind::Shared).iter();
            let sections = sections.map(|&id| &draft.sections[id]);
            let shared =
                sections.filter(|section| section.kind == SectionKind::Shared && !section.dropped);
            shared.map(|section| (section.name, section.size)).collect()
        });
        let function = self.program.merged.function(&self.program.graph, entry);
        let name = draft.names.get(draft.symbols[function].name);
        let name = draft.names.lookup(&[b".nv.shared.", name].concat());
        let size = name.and_then(|name| shared.get(&name));
        size.map_or(0, |size| size.saturating_sub(reserved))
    }

    /// Parameters; `None` on sm_100 and later.
    pub(crate) fn constant0(&self, entry: NodeId) -> Option<u64> {
        self.classic.then(|| self.bank(entry, 0).unwrap_or(0))
    }

    /// Literals, if there are any.
    pub(crate) fn constant2(&self, entry: NodeId) -> Option<u64> {
        self.bank(entry, 2)
    }

    fn bank(&self, entry: NodeId, number: u8) -> Option<u64> {
        let program = self.program;
        let section = program.merged.entry_bank(&program.graph, entry, number)?;
        let section = &program.merged.draft.sections[section];
        (self.classic && !section.dropped).then_some(section.size)
    }

    /// The numbers of legacy textures, surfaces and samplers that an entry can use.
    pub(crate) fn slots(&self, entry: NodeId) -> [usize; 3] {
        match self.classic {
            true => slots_of(&self.program.data.slots, entry),
            false => [0; 3],
        }
    }
}

/// The barriers of an entry, from an attribute or the flags of its code: an object (`-r`) by 13.0
/// keeps the flags of code of CUDA 12.
fn barriers(program: &LinkedProgram<'_, '_>, entry: NodeId) -> u32 {
    if program.merged.fixed.notes.is_some()
        && let Some(number) = program.attributes.number(entry, code::NUM_BARRIERS)
    {
        return number;
    }
    let raised = program.attributes.flag_barriers.changed.iter().find(|(node, _)| *node == entry);
    let code = program.merged.code(&program.graph, entry);
    let own = code.map_or(0, |code| shf::barriers_of(program.merged.draft.sections[code].flags));
    raised.map_or(own, |raised| raised.1)
}

fn slots_of(slots: &TextureSlots, entry: NodeId) -> [usize; 3] {
    // Sorted by node.
    match slots.users.binary_search_by_key(&entry, |user| user.entry) {
        Ok(at) => slots.counts(&slots.users[at]),
        Err(_) => [0; 3],
    }
}
