//! Finds the definitions at addresses in constant and shared memory.

use super::content;
use super::objects::{Extent, Objects, VariableKey};
use anyhow::{Context, Result, bail, ensure};
use culd_cubin::attr::{Records, code};
use culd_cubin::callgraph::{self, Edge};
use culd_cubin::elf::{sht, sto, stt};
use culd_cubin::{Section, SectionIndex, SymbolIndex};
use culd_inspect::view::View;
use culd_reloc::RelocValue;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The symbol that stands for the size of the bank of constant variables.
const SIZE_SYMBOL: &[u8] = b".nv.ptx.const0.size";

/// The bank of constant variables.
const CONSTANT_VARIABLES: u8 = 3;

/// Shared memory of the system in front of a kernel's, sm_90(a).
const RESERVED: u64 = 0x400;

/// A kernel.
struct EntryMemory {
    symbol: u32,
    text: SectionIndex,
    /// Symbols of the functions that it reaches, with its own.
    reached: HashSet<u32>,
}

/// The program's memory, and the users of shared variables.
pub(super) struct ProgramMemory<'a> {
    view: &'a View<'a>,
    objects: &'a Objects<'a>,
    entries: Vec<EntryMemory>,
    shared: BTreeMap<u32, BTreeSet<(VariableKey, u64)>>,
}

impl<'a> ProgramMemory<'a> {
    pub(super) fn new(view: &'a View<'a>, objects: &'a Objects<'a>) -> Self {
        let calls = CallMap::of(view);
        let launched = launched(view);
        let entries = view.cubin.symbol_indices().filter(|(_, symbol)| symbol.is_entry());
        let entries = entries.filter(|(index, _)| launched.contains(&index.0));
        let entries = entries.filter_map(|(index, symbol)| {
            let reached = calls.reached(index.0);
            Some(EntryMemory { symbol: index.0, text: symbol.defined_in()?, reached })
        });
        ProgramMemory { view, objects, entries: entries.collect(), shared: BTreeMap::new() }
    }

    fn reaching(&self, function: u32) -> impl Iterator<Item = &EntryMemory> {
        self.entries.iter().filter(move |entry| entry.reached.contains(&function))
    }

    /// The meaning of `value` in the code of `function`, where its object names a symbol. Shared
    /// variables are resolved at the end.
    pub(super) fn resolve(
        &mut self,
        function: u32,
        (object, index): (usize, SymbolIndex),
        value: RelocValue,
    ) -> Result<String> {
        let symbol = self.objects.symbol(object, index).context("a relocation of no symbol")?;
        let variable = self.objects.variable(object, index).context("a relocation of no symbol")?;
        if matches!(symbol.kind(), stt::CUDA_TEXTURE | stt::CUDA_SAMPLER | stt::CUDA_SURFACE) {
            return self.slot(function, value.address);
        }
        if symbol.is_shared() {
            let uses = self.shared.entry(function).or_default();
            uses.insert((variable, value.address));
            return Ok("shared".to_owned());
        }
        if symbol.name == SIZE_SYMBOL {
            return self.bank_size(value.address);
        }
        if symbol.defined_in().is_none() && symbol.other & sto::SPACE != sto::SPACE_CONSTANT {
            return Ok(format!("number {:#x}", value.address));
        }
        // Variables of other files are in the bank of constant variables. Many types have no field
        // for the bank.
        let bank = symbol.defined_in().and_then(|at| self.objects.object(object).section(at));
        let bank = bank.and_then(Section::constant_bank).unwrap_or(CONSTANT_VARIABLES);
        let size = self.objects.extent(&variable).size;
        let range = value.address..value.address.wrapping_add(size);
        let addresses = self.objects.addresses(symbol.name);
        let banks = self.banks(function, bank);
        let mut found: Vec<String> = banks
            .into_iter()
            .map(|(at, _)| content(self.view, at, range.clone(), &addresses).join(" "))
            .collect();
        found.dedup();
        match found.as_slice() {
            [] => Ok("no kernel".to_owned()),
            [one] => {
                let place =
                    if self.is_elsewhere(&variable, value.address) { ", not its" } else { "" };
                Ok(format!("bank {bank}{place} {one}"))
            }
            _ => bail!("its kernels have different constants"),
        }
    }

    /// A word for the size of the constant variables, which depends on the steps; any other value
    /// as a number.
    fn bank_size(&self, number: u64) -> Result<String> {
        let bank = self.view.cubin.sections.iter();
        let mut bank = bank.filter(|section| section.constant_bank() == Some(CONSTANT_VARIABLES));
        let size = bank.next().map_or(u64::MAX, |section| section.size);
        Ok(match number & u64::from(u32::MAX) == size & u64::from(u32::MAX) {
            true => "the size of the bank".to_owned(),
            false => format!("number {number:#x}, the bank has {size:#x}"),
        })
    }

    /// True if `address` is not that of the global constant in the program.
    fn is_elsewhere(&self, variable: &VariableKey, address: u64) -> bool {
        let VariableKey::Global(name) = variable else { return false };
        let cubin = &self.view.cubin;
        let mut same = cubin.symbols.iter().filter(|symbol| symbol.name == name.as_slice());
        let place = same.find_map(|symbol| {
            let section = cubin.section(symbol.defined_in()?)?;
            (section.constant_bank() == Some(CONSTANT_VARIABLES)).then_some(symbol.value)
        });
        place.is_some_and(|place| place != address)
    }

    /// The sections of bank `number` that `function` can read.
    fn banks(&self, function: u32, number: u8) -> Vec<(SectionIndex, &Section<'a>)> {
        let of_number = |(_, s): &(SectionIndex, &Section<'_>)| s.constant_bank() == Some(number);
        let all = || self.view.cubin.section_indices().filter(of_number);
        let common: Vec<_> =
            all().filter(|(_, section)| section.info_section().is_none()).collect();
        if !common.is_empty() {
            return common;
        }
        let own = |entry: &EntryMemory| all().find(|(_, s)| s.info_section() == Some(entry.text));
        self.reaching(function).filter_map(own).collect()
    }

    /// The texture whose slot is at `offset` in the parameters of the kernels.
    fn slot(&self, function: u32, offset: u64) -> Result<String> {
        let mut found = BTreeSet::new();
        for (bank, _) in self.banks(function, 0) {
            for section in super::patches(&self.view.cubin, bank) {
                let slots = section.relocations();
                let at = slots.iter().filter(|record| record.offset == offset);
                found.extend(at.map(|record| self.view.reloc_symbol(section, &record)));
            }
        }
        ensure!(found.len() < 2, "one slot has several textures");
        Ok(found.pop_first().unwrap_or_else(|| "no kernel".to_owned()))
    }

    /// Checks that each shared variable of a kernel has one aligned address inside the kernel's
    /// section and overlaps no other. Returns the kernels whose section ends in front of their
    /// arrays without size.
    pub(super) fn check(&self) -> Result<BTreeSet<String>> {
        let mut short = BTreeSet::new();
        for entry in &self.entries {
            let name = self.view.symbols.get(entry.symbol as usize).cloned().unwrap_or_default();
            let fault = || format!("shared memory of '{name}'");
            if self.is_short(entry).with_context(fault)? {
                short.insert(name);
            }
        }
        Ok(short)
    }

    /// Checks the variables of one kernel; true if its section ends in front of its arrays.
    fn is_short(&self, entry: &EntryMemory) -> Result<bool> {
        let uses = self.shared.iter().filter(|(function, _)| entry.reached.contains(function));
        let uses: BTreeSet<&(VariableKey, u64)> = uses.flat_map(|(_, uses)| uses).collect();
        let mut places = Vec::new();
        let mut dynamic = BTreeSet::new();
        for (variable, address) in uses {
            match self.objects.extent(variable) {
                Extent { size: 0, .. } => {
                    dynamic.insert(*address);
                }
                Extent { size, align } => {
                    ensure!(address % align == 0, "{variable:?} at {address:#x} is not aligned");
                    let end = address.checked_add(size);
                    let end = end.with_context(|| format!("{variable:?} has no place"))?;
                    places.push((*address, end, variable));
                }
            }
        }
        places.sort();
        for pair in places.windows(2) {
            ensure!(pair[0].1 <= pair[1].0, "{:?} and {:?} overlap", pair[0], pair[1]);
        }
        let end = places.last().map_or(0, |place| place.1);
        let size = self.shared_size(entry);
        ensure!(end <= size, "{end:#x} bytes in a section of {size:#x}");
        ensure!(dynamic.len() < 2, "arrays without size at {dynamic:#x?}");
        let apart = dynamic.iter().all(|&start| start >= end && start % 16 == 0);
        ensure!(apart, "arrays without size at {dynamic:#x?}, others up to {end:#x} of {size:#x}");
        Ok(dynamic.iter().any(|&start| start > size))
    }

    /// Bytes of the kernel's section of shared memory. Local kernels of one name share a section.
    fn shared_size(&self, entry: &EntryMemory) -> u64 {
        let code = self.view.cubin.section(entry.text).map_or(&[][..], |section| section.name);
        let name = code.strip_prefix(b".text").unwrap_or_default();
        let mut sections = self.view.cubin.sections.iter();
        let own = sections.find(|s| s.name.strip_prefix(b".nv.shared") == Some(name));
        let reserved = if self.view.cubin.header.sm() >= 90 { RESERVED } else { 0 };
        own.map_or(0, |section| section.size.saturating_sub(reserved))
    }
}

/// Symbols of the kernels that can be launched: only for those nvlink writes certain sections. If
/// another kernel stays only because its address is taken, in a link for one kernel, the functions
/// that it calls are laid out as if nobody called them (*selection/address-taken-one*).
fn launched(view: &View<'_>) -> HashSet<u32> {
    let lists = view.cubin.sections.iter().filter(|section| section.name == b".nv.info");
    let records = lists.flat_map(|list| Records::new(list.name, list.data).map_while(Result::ok));
    let sizes = records.filter(|record| record.code == code::MIN_STACK_SIZE);
    sizes.filter_map(|record| record.word(0)).collect()
}

/// Calls, by symbol.
#[derive(Default)]
struct CallMap {
    direct: HashMap<u32, Vec<u32>>,
    indirect: HashMap<u32, Vec<u32>>,
    taken: HashMap<u32, Vec<u32>>,
}

impl CallMap {
    fn of(view: &View<'_>) -> Self {
        let mut calls = CallMap::default();
        let graphs = view.cubin.sections.iter().filter(|s| s.sh_type == sht::CUDA_CALLGRAPH);
        for (_, edge) in graphs.flat_map(callgraph::edges).map_while(Result::ok) {
            match edge {
                Edge::Call { caller, callee } => {
                    calls.direct.entry(caller.0).or_default().push(callee.0);
                }
                Edge::IndirectCall { function, prototype } => {
                    calls.indirect.entry(function.0).or_default().push(prototype);
                }
                Edge::AddressTaken { function, prototype } => {
                    calls.taken.entry(prototype).or_default().push(function.0);
                }
                Edge::Reference { .. } => {}
            }
        }
        calls
    }

    /// All functions that `function` reaches, and itself.
    fn reached(&self, function: u32) -> HashSet<u32> {
        let mut reached = HashSet::new();
        let mut open = vec![function];
        while let Some(function) = open.pop() {
            if !reached.insert(function) {
                continue;
            }
            open.extend(self.direct.get(&function).into_iter().flatten());
            let prototypes = self.indirect.get(&function).into_iter().flatten();
            open.extend(prototypes.filter_map(|prototype| self.taken.get(prototype)).flatten());
        }
        reached
    }
}
