//! The kind of a file.
//!
//! In: the first bytes of a file, better all. Out: a [`Format`]. Guaranteed: by content alone,
//! names do not count; a file may still turn out to be damaged.

use crate::header;
use crate::read;
use object::elf;
use object::pe;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// A cubin to be linked, or of a type that no ELF file has: nvlink goes by the types of linked
    /// ones only.
    RelocatableCubin,
    /// A linked cubin.
    ExecutableCubin,
    /// An ELF object for a processor, relocatable (`.o`) or not.
    HostElf {
        /// `e_type` is `ET_REL`.
        relocatable: bool,
    },
    /// A COFF object for a processor.
    Coff,
    /// An archive that holds its members.
    Archive,
    /// An archive that names its members.
    ThinArchive,
    /// A fat binary.
    Fatbin,
    /// PTX text.
    Ptx,
    /// LTO-IR, not in a fat binary.
    LtoIr,
    /// LLVM bitcode.
    Bitcode,
    /// Nothing of these.
    Unknown,
}

/// First bytes of formats that have some.
const MAGIC: &[(&[u8], Format)] = &[
    (&object::archive::MAGIC, Format::Archive),
    (&object::archive::THIN_MAGIC, Format::ThinArchive),
    (&header::MAGIC.to_le_bytes(), Format::Fatbin),
    (b"\xed\x43\x4e\x7f", Format::LtoIr),
    (b"BC\xc0\xde", Format::Bitcode),
    (b"\xde\xc0\x17\x0b", Format::Bitcode),
];

impl Format {
    /// True for archives of either kind.
    pub fn is_archive(self) -> bool {
        matches!(self, Format::Archive | Format::ThinArchive)
    }
}

/// The kind of file that `data` is.
///
/// ```
/// use culd_fatbin::{Format, sniff};
/// assert_eq!(sniff(b"!<arch>\n"), Format::Archive);
/// assert_eq!(sniff(b"// made by hand\n.version 9.0\n"), Format::Ptx);
/// assert_eq!(sniff(b"INPUT(-lfoo)"), Format::Unknown);
/// ```
pub fn sniff(data: &[u8]) -> Format {
    if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| data.starts_with(magic)) {
        return *format;
    }
    if data.starts_with(&elf::ELFMAG) {
        let relocatable = read::u16_at(data, 16) == Some(elf::ET_REL.0);
        let linked = [elf::ET_EXEC, elf::ET_DYN].map(|kind| Some(kind.0));
        return match read::u16_at(data, 18) {
            Some(machine) if machine != elf::EM_CUDA.0 => Format::HostElf { relocatable },
            None => Format::HostElf { relocatable },
            Some(_) if linked.contains(&read::u16_at(data, 16)) => Format::ExecutableCubin,
            Some(_) => Format::RelocatableCubin,
        };
    }
    if is_coff(data) {
        return Format::Coff;
    }
    if is_ptx(data) { Format::Ptx } else { Format::Unknown }
}

/// Processors that CUDA has been there for. A COFF file has no magic number but these.
const COFF_MACHINES: [pe::Machine; 2] =
    [pe::IMAGE_FILE_MACHINE_AMD64, pe::IMAGE_FILE_MACHINE_ARM64];

fn is_coff(data: &[u8]) -> bool {
    let machine = |at| read::u16_at(data, at).map(pe::Machine);
    let known = |at| machine(at).is_some_and(|machine| COFF_MACHINES.contains(&machine));
    // An object has no optional header, an image of a program has one.
    let plain = known(0) && read::u16_at(data, 16) == Some(0) && data.len() >= 20;
    plain || (is_bigobj(data) && known(6))
}

/// True for COFF with 32-bit section numbers, `cl /bigobj`.
pub(crate) fn is_bigobj(data: &[u8]) -> bool {
    let start = (read::u16_at(data, 0), read::u16_at(data, 2));
    let class = read::array(data, 12).map(pe::ClsId);
    start == (Some(0), Some(0xffff)) && class == Some(pe::ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID)
}

/// True if the text starts with a directive `.version`, white space and comments aside.
fn is_ptx(data: &[u8]) -> bool {
    let mut rest = data;
    loop {
        rest = rest.trim_ascii_start();
        let end: &[u8] = match rest {
            [b'/', b'/', ..] => b"\n",
            [b'/', b'*', ..] => b"*/",
            _ => return rest.starts_with(b".version"),
        };
        let after = rest.get(2..).unwrap_or_default();
        let Some(at) = after.windows(end.len()).position(|window| window == end) else {
            return false;
        };
        rest = after.get(at + end.len()..).unwrap_or_default();
    }
}
