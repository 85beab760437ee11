//! Phase `relocations`: applies every relocation, or keeps it for the driver.
//!
//! In: the program with every section and symbol in place. Out: [`ResolvedRelocs`]: the kept
//! records of each relocation section, and the patches of each section. Guaranteed: every patch
//! lies inside its section.
//!
//! Applied: relocations against constants, shared variables and sections without addresses. Kept:
//! those against functions, global variables and undefined symbols, and types that only the driver
//! can apply. Kept records are listed in the reverse of reading order, because nvlink prepends
//! them. [`resolution`] decides about a single record.

mod context;
pub(crate) mod debug;
mod fast_path;
pub(crate) mod kept;
mod mercury;
mod patch;
mod place;
pub(crate) mod relocated;
mod resolution;
mod resolver;
mod walk;

use std::sync::Arc;

use culd_cubin::arch::Flavour;
use culd_reloc::{Observed, RelocValue};
use hashbrown::HashMap;

use self::debug::RebuiltDebug;
use self::patch::{FieldPatch, PatchMode};
use self::relocated::{ResolvedRelocs, ResolvedSection};
use self::resolver::RelocResolver;
use crate::base::half::{Half, Halves};
use crate::base::id::{DenseId, IdMap, IdVec, RelocId, SectionId};
use crate::base::session::Session;
use crate::diag::Message;
use crate::draft::kind::SectionKind;
use crate::program::LaidOutProgram;

/// Resolves the relocations of both halves. `work` is the bytes of records in each half.
pub(crate) fn resolve(
    session: &Session,
    program: LaidOutProgram<'_, '_>,
    rebuilt: &RebuiltDebug,
    work: usize,
) -> Result<Halves<ResolvedRelocs>, Box<Message>> {
    let fast_symbols = Arc::default();
    let resolver = RelocResolver::new(program, rebuilt, &fast_symbols);
    let fast_symbols = Arc::new(fast_path::find_symbols(session, &resolver, work));
    let half = |half| {
        resolve_half(
            session,
            &RelocResolver { half, fast_symbols: &fast_symbols, ..resolver },
            work,
        )
    };
    let sass = half(Half::Sass)?;
    let mercury = match program.options.target.flavour {
        Flavour::Classic => None,
        Flavour::Mercury => Some(half(Half::Mercury)?),
    };
    Ok(Halves { sass, mercury })
}

/// Resolves the relocations of one half, which are `work` bytes of records.
fn resolve_half(
    session: &Session,
    resolver: &RelocResolver<'_, '_>,
    work: usize,
) -> Result<ResolvedRelocs, Box<Message>> {
    let draft = &resolver.merged.draft;
    let resolve = |i| resolver.resolve_section(&draft.relocs[RelocId::from_index(i)]);
    let resolved = session.map(draft.relocs.len(), work, resolve);
    let sections: IdVec<RelocId, ResolvedSection> =
        resolved.into_iter().collect::<Result<_, _>>()?;
    let mut by_target: Vec<(SectionId, RelocId)> = draft
        .relocs
        .iter()
        .filter(|(id, _)| !sections[*id].applied().is_empty())
        .map(|(id, reloc)| (reloc.target, id))
        .collect();
    by_target.sort_unstable();
    let mut first_pairs = IdMap::default();
    for (at, &(section, _)) in by_target.iter().enumerate().rev() {
        first_pairs.insert(section, at as u32);
    }
    let dead_places = dead_places(resolver);
    let fast_symbols = Arc::clone(resolver.fast_symbols);
    let mut relocated =
        ResolvedRelocs { sections, by_target, first_pairs, dead_places, fast_symbols };
    // No compiler writes REL in files with a Mercury half.
    if resolver.preserve && draft.flavour == Flavour::Classic {
        relocated.record_addends(draft);
    }
    Ok(relocated)
}

/// Patches that clear references to dead functions. They are those of the leading half; in the
/// other half only those in debug sections that are not rebuilt, of which nvlink writes both
/// halves. A place that runs past its section is left alone.
fn dead_places(resolver: &RelocResolver<'_, '_>) -> HashMap<SectionId, Vec<FieldPatch>> {
    let (merged, half) = (resolver.merged, resolver.half);
    let draft = &merged.draft;
    let mut patches: HashMap<SectionId, Vec<FieldPatch>> = HashMap::new();
    let is_leading = half == Half::leading(draft.flavour);
    for reference in &draft.dead_references {
        let is_copied = draft.sections[reference.section].kind == SectionKind::Debug
            && !resolver.rebuilt.contains(reference.section);
        if !is_leading && !is_copied {
            continue;
        }
        let Some(desc) = culd_reloc::lookup(reference.kind) else { continue };
        let replaced_by = merged.discarded_dead.get(&reference.function);
        let is_discarded = replaced_by.is_some_and(|&by| reference.object < by);
        if is_discarded || desc.observed != Observed::Clears {
            continue;
        }
        let offset = if is_leading { reference.offset } else { reference.sass_offset };
        let end = offset.saturating_add(desc.span_bytes() as u64);
        if end <= resolver.size(reference.section) {
            let (value, mode) = (RelocValue::default(), PatchMode::Clear);
            let patch = FieldPatch { offset, desc, value, mode };
            patches.entry(reference.section).or_default().push(patch);
        }
    }
    patches
}
