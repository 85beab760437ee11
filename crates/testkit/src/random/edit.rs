//! Seeded edits of compiled objects. They make objects that no compiler writes, but that a linker
//! has to accept or refuse.
//!
//! In: an [`Edit`], which is a kind of change and a number, and an [`object::EditedObject`]. Out:
//! the changed object, and a line that describes the change. Guaranteed: the choice that a number
//! makes depends on names only, so an edit stays the same while the program around it is reduced.
//! Tables stay readable, but their values need not make sense.

mod attributes;
pub mod object;
mod pick;
mod records;
mod sections;
mod symbols;

use crate::random::generate::rng::Rng;
use anyhow::{Context, Result};
use object::EditedObject;
use std::fmt;

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Stem of the file that is changed.
    pub unit: String,
    /// The kind of the change.
    pub kind: EditKind,
    /// Decides where and with which values.
    pub pick: u64,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {:#x}", self.unit, self.kind, self.pick)
    }
}

/// The function of a kind of edit. Returns a description of the change, or `None` if there was
/// nothing to change.
type EditStep = fn(&mut EditedObject, u64) -> Option<String>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident x $weight:literal: $change:path,)*) => {
        /// Kinds of edits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EditKind { $($(#[$doc])* $name,)* }

        impl EditKind {
            /// The kind of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(EditKind::$name),)* _ => None }
            }

            /// All kinds, each with its weight.
            pub const ALL: &[(EditKind, u32)] = &[$((EditKind::$name, $weight),)*];

            fn change(self) -> EditStep {
                match self { $(EditKind::$name => $change,)* }
            }
        }
    };
}

kinds! {
    /// Another relocation type.
    RecordType x 14: records::kind,
    /// Another symbol in a record.
    RecordSymbol x 10: records::symbol,
    /// Another addend.
    RecordAddend x 8: records::addend,
    /// Another place in the section.
    RecordOffset x 8: records::offset,
    /// A record repeated, the second perhaps with another type, symbol or addend.
    RecordTwice x 7: records::twice,
    /// Records in another order.
    RecordOrder x 4: records::order,
    /// A record less.
    RecordGone x 4: records::gone,
    /// A record in the list of another section.
    RecordMoved x 5: records::moved,
    /// A new record of any type, symbol and section.
    RecordNew x 10: records::new,
    /// RELA becomes REL or the reverse.
    RecordsOther x 6: records::other_form,
    /// `.nv.resolvedrela`, as `--preserve-relocs` makes it.
    Resolved x 2: records::resolved,
    /// Another binding.
    SymbolBinding x 7: symbols::binding,
    /// Another type.
    SymbolType x 2: symbols::kind,
    /// Another `st_other` (memory space, entry, managed, internal).
    SymbolOther x 4: symbols::other,
    /// Another value.
    SymbolValue x 4: symbols::value,
    /// Another size.
    SymbolSize x 4: symbols::size,
    /// Its definition is forgotten.
    SymbolUndefined x 4: symbols::undefined,
    /// A variable becomes a common one.
    SymbolCommon x 3: symbols::common,
    /// A name of another symbol, a system name or a new one.
    SymbolName x 4: symbols::name,
    /// The symbols of the unified tables lose their names and become ordinary undefined symbols.
    UnifiedNames x 1: symbols::unified_names,
    /// A section longer or shorter.
    SectionSize x 4: sections::size,
    /// Another alignment.
    SectionAlign x 4: sections::align,
    /// Other bytes in code or data, under a relocation or not.
    SectionBytes x 3: sections::bytes,
    /// An attribute less.
    AttributeGone x 4: attributes::gone,
    /// An attribute twice.
    AttributeTwice x 3: attributes::twice,
    /// Another value in an attribute.
    AttributeValue x 5: attributes::value,
    /// An attribute in another function's list.
    AttributeMoved x 2: attributes::moved,
    /// Another value in `.nv.compat`, or a record dropped or repeated.
    Compat x 3: attributes::compat,
    /// Call-graph records dropped, repeated, in another order, or about other functions.
    CallGraph x 6: attributes::call_graph,
    /// The same for prototypes.
    Prototypes x 2: attributes::prototypes,
}

impl Edit {
    /// A random edit of one of `units`; of kind `only` if there is one.
    pub fn draw(units: &[String], only: Option<EditKind>, rng: &mut Rng) -> Option<Self> {
        let weights: Vec<u32> = EditKind::ALL.iter().map(|(_, weight)| *weight).collect();
        let (drawn, _) = EditKind::ALL.get(rng.weighted(&weights)?)?;
        let unit = rng.choose(units)?.clone();
        Some(Self { unit, kind: only.unwrap_or(*drawn), pick: rng.bits() })
    }

    /// Changes `object` and returns a description, or `None` if there is nothing of that kind to
    /// change.
    pub fn apply(&self, object: &mut EditedObject) -> Option<String> {
        self.kind.change()(object, self.pick)
    }
}

/// The bytes of a compiled object after all `edits`, and their descriptions.
///
/// # Errors
/// When `bytes` is no ELF file.
pub fn edited<'e>(
    bytes: &[u8],
    edits: impl IntoIterator<Item = &'e Edit>,
) -> Result<(Vec<u8>, Vec<String>)> {
    let mut object = EditedObject::parse(bytes).context("a compiled object")?;
    let done = edits.into_iter().filter_map(|edit| edit.apply(&mut object)).collect();
    Ok((object.write(), done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use culd_cubin::Cubin;

    /// An object with a bit of everything.
    const OBJECT: &str = "\
cubin 1
file type=rel sm=90
section .shstrtab strtab
  rest
section .strtab strtab
  string \"#ii\"
  rest
section .symtab symtab align=8
  local section .text.k
  local object _param_1 in=.nv.constant0.k value=0x210 size=8 other=internal
  globals
  global func k in=.text.k size=0x40 other=entry
  global func f in=.text.f size=0x20
  global 13 data in=.nv.global.init size=4 other=global
  global 13 else size=4 other=global
  global func g
  weak notype __UFT
section .note.nv.cuinfo note align=4 flags=cuinfo
  cuinfo version=2 sm=90 toolkit=130
section .nv.info nv_info align=4
  REGCOUNT words k 24
  REGCOUNT words f 16
section .nv.info.k nv_info flags=info info=.text.k align=4
  EXTERNS words f
section .nv.info.f nv_info flags=info info=.text.f align=4
  NUM_BARRIERS byte 1
section .nv.compat nv_compat align=4
  0x02 byte 1
section .nv.callgraph nv_callgraph align=4
  list calls
  k f
section .nv.prototype nv_prototype align=4
  f \"#ii\"
section .rela.text.k rela flags=info align=8 info=.text.k
  0x10 R_CUDA_ABS32_LO_32 data +0x4
  0x20 R_CUDA_ABS32_HI_32 data +0x4
section .text.k progbits flags=alloc+exec align=128 symbol=k
  0x0000 zero 0x40
section .text.f progbits flags=alloc+exec align=128 symbol=f
  0x0000 zero 0x20
section .nv.constant0.k nv_constant0 flags=alloc+info info=.text.k align=4
  0x0000 zero 0x218
section .nv.global.init nv_global_init flags=write+alloc align=8
  0x0000 0102030405060708
";

    fn object() -> Vec<u8> {
        crate::fixtures::asm::assemble(OBJECT).expect("the text is sound")
    }

    #[test]
    fn no_edit_changes_nothing_but_places_in_the_file() {
        let bytes = object();
        let (written, done) = edited(&bytes, []).expect("an object");
        assert!(done.is_empty());
        let (before, after) = (Cubin::parse(&bytes).unwrap(), Cubin::parse(&written).unwrap());
        let parts = |cubin: &Cubin<'_>| {
            let sections = cubin.sections.iter();
            sections.map(|s| (s.name.to_vec(), s.info, s.data.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(parts(&before), parts(&after));
    }

    #[test]
    fn every_kind_of_edit_changes_something_and_leaves_tables_whole() {
        let bytes = object();
        let (plain, _) = edited(&bytes, []).expect("an object");
        for &(kind, _) in EditKind::ALL {
            let mut changed = 0;
            for pick in 0..64 {
                let edit = Edit { unit: "m0".to_owned(), kind, pick };
                let (one, done) = edited(&bytes, [&edit]).expect("an object");
                let (again, _) = edited(&bytes, [&edit]).expect("an object");
                assert_eq!(one, again, "{edit}");
                assert_eq!(one == plain, done.is_empty(), "{edit}: {done:?}");
                changed += done.len();
                EditedObject::parse(&one).unwrap_or_else(|error| panic!("{edit}: {error}"));
            }
            assert!(changed >= 8, "{kind:?} changed {changed} of 64");
        }
    }

    /// The reducer relies on this.
    #[test]
    fn an_edit_stays_the_same_when_other_things_go() {
        let bytes = object();
        let edit =
            (0..64).map(|pick| Edit { unit: "m0".to_owned(), kind: EditKind::RecordAddend, pick });
        let less = crate::fixtures::asm::assemble(&OBJECT.replacen(
            "  0x20 R_CUDA_ABS32_HI_32 data +0x4\n",
            "",
            1,
        ))
        .expect("the text is sound");
        for edit in edit {
            let (_, before) = edited(&bytes, [&edit]).expect("an object");
            let (_, after) = edited(&less, [&edit]).expect("an object");
            if before.iter().any(|line| line.contains("+0x10")) {
                assert_eq!(before, after);
            }
        }
    }
}
