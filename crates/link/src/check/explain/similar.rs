//! Notes about undefined names: a similar name that some file defines, different in one of the ways
//! that programs most often get wrong.
//!
//! In: undefined names and all definitions of the program. Out: notes. Guaranteed: the work and the
//! notes for each name are bounded.

use culd_cubin::elf::stb;
use culd_cubin::text_of;
use hashbrown::HashMap;

use super::display_name;
use crate::base::id::SymbolId;
use crate::base::names::Names;
use crate::diag::demangle::declared_name;
use crate::diag::note::{NameLikeness, Note};
use crate::objects::InputObjects;
use crate::objects::roles::is_internal;
use crate::symbols::{SymbolInfo, Symbols};

/// The most similar names in notes.
const MAX_SIMILAR: usize = 3;

/// The most pairs of names for which spelling is compared; larger programs skip it.
const MAX_PAIRS: usize = 1 << 20;

/// The most definitions of one plain name that are considered for an undefined name.
const MAX_NAMESAKES: usize = 256;

/// The longest name whose spelling is compared, bytes.
const MAX_LENGTH: usize = 128;

/// A namespace without name, in a demangled name.
const UNNAMED: &str = "(anonymous namespace)::";

/// A function or variable of the program.
struct NamedEntity {
    /// As in the symbol table.
    name: String,
    function: bool,
    mangled: bool,
    /// The name with scope, without parameters: `ns::f`.
    scoped: String,
}

/// An entity that some file defines.
struct Candidate<'d> {
    entity: NamedEntity,
    file: &'d str,
    /// It is local to its file.
    local: bool,
}

impl NamedEntity {
    fn new(name: &[u8], function: bool) -> Self {
        let name = text_of(name);
        let declared = declared_name(&name);
        let mangled = declared.is_some();
        NamedEntity { function, mangled, scoped: declared.unwrap_or_else(|| name.clone()), name }
    }

    /// The name without its scope.
    fn plain(&self) -> &str {
        let plain = self.scoped.rsplit("::").next().filter(|_| self.mangled);
        plain.unwrap_or(&self.scoped)
    }

    /// How two entities of one plain name differ.
    fn likeness(&self, other: &NamedEntity) -> NameLikeness {
        match (self.mangled, other.mangled) {
            (true, true) if self.scoped == other.scoped => NameLikeness::Parameters,
            (true, true) => NameLikeness::Scope,
            _ => NameLikeness::Linkage,
        }
    }

    /// Number of different letters, if they are few enough for a typing error.
    fn distance(&self, other: &NamedEntity) -> Option<usize> {
        let longest = self.scoped.len().max(other.scoped.len());
        let most = (longest / 6).max(1);
        let comparable = longest <= MAX_LENGTH && longest > 2;
        if !comparable || self.scoped.len().abs_diff(other.scoped.len()) > most {
            return None;
        }
        Some(strsim::osa_distance(&self.scoped, &other.scoped)).filter(|&distance| distance <= most)
    }
}

/// Notes for each of the undefined symbols in `missing`.
pub(super) fn notes(
    objects: &InputObjects<'_>,
    symbols: &Symbols,
    names: &Names<'_>,
    missing: &[SymbolId],
) -> Vec<Vec<Note>> {
    let candidates = candidates(objects, symbols);
    let mut by_plain: HashMap<&str, Vec<&Candidate<'_>>> = HashMap::new();
    for candidate in &candidates {
        by_plain.entry(candidate.entity.plain()).or_default().push(candidate);
    }
    let spell = missing.len().saturating_mul(candidates.len()) <= MAX_PAIRS;
    let of = |&id: &SymbolId| {
        let info = &symbols.all[id];
        let first = objects[info.first.object].symbol(info.first.index);
        let wanted = NamedEntity::new(names.get(info.name), first.is_function());
        let namesakes = by_plain.get(wanted.plain()).map_or(&[][..], Vec::as_slice);
        let namesakes = &namesakes[..namesakes.len().min(MAX_NAMESAKES)];
        let mut notes = like(&wanted, namesakes);
        if notes.is_empty() && spell {
            notes = misspelt(&wanted, &candidates);
        }
        notes
    };
    missing.iter().map(of).collect()
}

fn candidates<'d>(objects: &InputObjects<'d>, symbols: &Symbols) -> Vec<Candidate<'d>> {
    let candidate = |info: &SymbolInfo| {
        let site = info.definition?;
        let object = &objects[site.object];
        let symbol = object.symbol(site.index);
        let entity = NamedEntity::new(symbol.name, symbol.is_function());
        let local = symbol.binding() == stb::LOCAL;
        (!is_internal(symbol)).then_some(Candidate { entity, file: object.name, local })
    };
    symbols.all.values().filter_map(candidate).collect()
}

/// Notes about definitions with the same plain name, the most similar first.
fn like(wanted: &NamedEntity, namesakes: &[&Candidate<'_>]) -> Vec<Note> {
    let (mut local, mut found) = (Vec::new(), Vec::new());
    // nvcc puts what is static into a namespace of the file, which names in the source do not have.
    let in_source =
        |entity: &NamedEntity| display_name(entity.name.as_bytes()).replace(UNNAMED, "");
    for &candidate in namesakes {
        let entity = &candidate.entity;
        if candidate.local && in_source(entity) == in_source(wanted) {
            local.push(candidate);
        } else if !candidate.local && entity.function == wanted.function {
            found.push((wanted.likeness(entity), candidate));
        }
    }
    found.sort_by_key(|&(likeness, _)| likeness);
    let local = local.into_iter().map(|c| Note::LocalElsewhere { file: c.file.to_owned() });
    let found = found.into_iter().map(|(likeness, candidate)| similar(candidate, likeness));
    local.chain(found).take(MAX_SIMILAR).collect()
}

/// Notes about definitions whose name differs in a few letters, the most similar first.
fn misspelt(wanted: &NamedEntity, candidates: &[Candidate<'_>]) -> Vec<Note> {
    let near = |candidate: &&Candidate<'_>| {
        let comparable = !candidate.local && candidate.entity.function == wanted.function;
        comparable.then(|| wanted.distance(&candidate.entity)).flatten()
    };
    let mut found: Vec<(usize, &Candidate<'_>)> =
        candidates.iter().filter_map(|candidate| Some((near(&candidate)?, candidate))).collect();
    found.sort_by_key(|&(distance, _)| distance);
    let found = found.into_iter().take(MAX_SIMILAR);
    found.map(|(_, candidate)| similar(candidate, NameLikeness::Spelling)).collect()
}

fn similar(candidate: &Candidate<'_>, likeness: NameLikeness) -> Note {
    let name = display_name(candidate.entity.name.as_bytes());
    Note::Similar { name, file: candidate.file.to_owned(), likeness }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, local: bool) -> Candidate<'static> {
        Candidate { entity: NamedEntity::new(name.as_bytes(), true), file: "b.o", local }
    }

    fn texts(wanted: &str, defined: &[(&str, bool)]) -> Vec<String> {
        let wanted = NamedEntity::new(wanted.as_bytes(), true);
        let all: Vec<_> = defined.iter().map(|&(name, local)| candidate(name, local)).collect();
        let namesakes: Vec<_> = all.iter().filter(|c| c.entity.plain() == wanted.plain()).collect();
        let found = like(&wanted, &namesakes);
        let found = if found.is_empty() { misspelt(&wanted, &all) } else { found };
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_usual_mistakes_are_distinguished() {
        let cases = [
            ("_Z3fooi", "_Z3fooj", "'b.o' defines 'foo(unsigned int)': other parameters"),
            ("_Z3fooi", "foo", "'b.o' defines 'foo': only one side is extern \"C\""),
            ("foo", "_Z3fooi", "'b.o' defines 'foo(int)': only one side is extern \"C\""),
            ("_Z3fooi", "_ZN2ns3fooEi", "'b.o' defines 'ns::foo(int)': another scope"),
            (
                "_Z3fooIfEvT_",
                "_Z3fooIiEvT_",
                "'b.o' defines 'void foo<int>(int)': other parameters",
            ),
            ("reduce_sum", "reduce_sun", "'b.o' defines 'reduce_sun': a similar name"),
        ];
        for (wanted, defined, text) in cases {
            assert_eq!(texts(wanted, &[(defined, false)]), [text], "{wanted}");
        }
    }

    #[test]
    fn names_of_other_files_are_distinguished() {
        let only = "'b.o' defines it for itself only: static, or in a namespace without name";
        assert_eq!(texts("_Z3fooi", &[("_Z3fooi", true)]), [only]);
        let static_name = "_ZN34_INTERNAL_4c74981b_4_b_cu_c3f29ba63fooEi";
        assert_eq!(texts("_Z3fooi", &[(static_name, true)]), [only]);
        let of_file = "__nv_static_25__90ba2bef_5_u2_cu__Z2k2Pi_";
        let unnamed = "_ZN34_INTERNAL_90ba2bef_5_u2_cu__Z2k2Pi1n\
                       36_GLOBAL__N__90ba2bef_5_u2_cu__Z2k2Pi4deepE";
        assert_eq!(texts("_ZN1n4deepE", &[(&format!("{of_file}{unnamed}"), true)]), [only]);
        assert_eq!(texts("gv", &[(&format!("{of_file}gv"), true)]), [only]);
        assert_eq!(texts("_Z3fooi", &[("_Z3fooj", true)]), [""; 0]);
        assert_eq!(texts("alpha", &[("omega", false), ("beta", false)]), [""; 0]);
    }

    #[test]
    fn the_likest_come_first() {
        let found = texts("_Z3fooi", &[("_ZN2ns3fooEi", false), ("_Z3fooj", false)]);
        assert!(found[0].ends_with("other parameters") && found[1].ends_with("another scope"));
    }
}
