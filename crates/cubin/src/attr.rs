//! Attribute records: the contents of `.nv.info` and `.nv.info.<function>`.
//!
//! In: the bytes of such a section. Out: [`Record`]s. Layout of one record:
//!
//! ```text
//! offset  size  field
//!   0      1    format: 1 no value, 2 byte, 3 half word, 4 sized
//!   1      1    code (EIATTR_*)
//!   2      2    value (formats 1-3) or number of payload bytes (format 4)
//!   4      n    payload (format 4)
//! ```

use crate::error::Malformed;
use crate::read;

/// Formats of a record.
pub mod format {
    /// No value; the value field is 0.
    pub const NONE: u8 = 1;
    /// One byte.
    pub const BYTE: u8 = 2;
    /// Two bytes.
    pub const HALF: u8 = 3;
    /// A payload of up to 65,535 bytes.
    pub const SIZED: u8 = 4;
}

macro_rules! attributes {
    ($($code:literal $name:ident $shape:ident;)*) => {
        /// Codes of attributes that the linker or the dump names (`EIATTR_*`).
        #[allow(missing_docs, reason = "the names are the format's own and say all that is known")]
        pub mod code {
            $(pub const $name: u8 = $code;)*
        }
        /// Every known attribute: code, name, shape of the payload.
        pub const ATTRIBUTES: &[(u8, &str, Shape)] = &[$(($code, stringify!($name), Shape::$shape),)*];
    };
}

/// The meaning of the 32-bit words of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Numbers.
    Plain,
    /// A symbol index, then numbers.
    Symbol,
    /// Symbol indices only.
    Symbols,
    /// A symbol index where the parameter is a texture, sampler or surface reference, else 0; then
    /// numbers.
    Parameter,
}

attributes! {
    0x01 PAD Plain;
    0x02 IMAGE_SLOT Symbol;
    0x03 JUMPTABLE_RELOCS Plain;
    0x04 CTAIDZ_USED Plain;
    0x05 MAX_THREADS Plain;
    0x06 IMAGE_OFFSET Symbol;
    0x07 IMAGE_SIZE Symbol;
    0x08 TEXTURE_NORMALIZED Symbol;
    0x09 SAMPLER_INIT Symbol;
    0x0a PARAM_CBANK Symbol;
    0x0b SMEM_PARAM_OFFSETS Plain;
    0x0c CBANK_PARAM_OFFSETS Plain;
    0x0d SYNC_STACK Plain;
    0x0e TEXID_SAMPID_MAP Plain;
    0x0f EXTERNS Symbols;
    0x10 REQNTID Plain;
    0x11 FRAME_SIZE Symbol;
    0x12 MIN_STACK_SIZE Symbol;
    0x13 SAMPLER_FORCE_UNNORMALIZED Symbol;
    0x14 BINDLESS_IMAGE_OFFSETS Symbol;
    0x15 BINDLESS_TEXTURE_BANK Plain;
    0x16 BINDLESS_SURFACE_BANK Plain;
    0x17 KPARAM_INFO Parameter;
    0x18 SMEM_PARAM_SIZE Plain;
    0x19 CBANK_PARAM_SIZE Plain;
    0x1a QUERY_NUMATTRIB Plain;
    0x1b MAXREG_COUNT Plain;
    0x1c EXIT_INSTR_OFFSETS Plain;
    0x1d S2RCTAID_INSTR_OFFSETS Plain;
    0x1e CRS_STACK_SIZE Plain;
    0x1f NEED_CNP_WRAPPER Plain;
    0x20 NEED_CNP_PATCH Plain;
    0x21 EXPLICIT_CACHING Plain;
    0x22 ISTYPEP_USED Plain;
    0x23 MAX_STACK_SIZE Symbol;
    0x24 SUQ_USED Plain;
    0x25 LD_CACHEMOD_INSTR_OFFSETS Plain;
    0x26 LOAD_CACHE_REQUEST Plain;
    0x27 ATOM_SYS_INSTR_OFFSETS Plain;
    0x28 COOP_GROUP_INSTR_OFFSETS Plain;
    0x29 COOP_GROUP_MASK_REGIDS Plain;
    0x2a SW1850030_WAR Plain;
    0x2b WMMA_USED Plain;
    0x2c HAS_PRE_V10_OBJECT Plain;
    0x2d ATOMF16_EMUL_INSTR_OFFSETS Plain;
    0x2e ATOM16_EMUL_INSTR_REG_MAP Plain;
    0x2f REGCOUNT Symbol;
    0x30 SW2393858_WAR Plain;
    0x31 INT_WARP_WIDE_INSTR_OFFSETS Plain;
    0x32 SHARED_SCRATCH Plain;
    0x33 STATISTICS Plain;
    0x34 INDIRECT_BRANCH_TARGETS Plain;
    0x35 SW2861232_WAR Plain;
    0x36 SW_WAR Plain;
    0x37 CUDA_API_VERSION Plain;
    0x38 NUM_MBARRIERS Plain;
    0x39 MBARRIER_INSTR_OFFSETS Plain;
    0x3a COROUTINE_RESUME_ID_OFFSETS Plain;
    0x3b SAM_REGION_STACK_SIZE Symbol;
    0x3c PER_REG_TARGET_PERF_STATS Plain;
    0x3d CTA_PER_CLUSTER Plain;
    0x3e EXPLICIT_CLUSTER Plain;
    0x3f MAX_CLUSTER_RANK Plain;
    0x40 INSTR_REG_MAP Plain;
    0x41 RESERVED_SMEM_USED Plain;
    0x42 RESERVED_SMEM_0_SIZE Plain;
    0x43 UCODE_SECTION_DATA Plain;
    0x44 UNUSED_LOAD_BYTE_OFFSET Plain;
    0x45 KPARAM_INFO_V2 Parameter;
    0x46 SYSCALL_OFFSETS Plain;
    0x47 SW_WAR_MEMBAR_SYS_INSTR_OFFSETS Plain;
    0x48 GRAPHICS_GLOBAL_CBANK Plain;
    0x49 SHADER_TYPE Plain;
    0x4a VRC_CTA_INIT_COUNT Plain;
    0x4b TOOLS_PATCH_FUNC Plain;
    0x4c NUM_BARRIERS Plain;
    0x4d TEXMODE_INDEPENDENT Plain;
    0x4e PERF_STATISTICS Plain;
    0x4f AT_ENTRY_FRAGMENTS Plain;
    0x50 SPARSE_MMA_MASK Plain;
    0x51 TCGEN05_1CTA_USED Plain;
    0x52 TCGEN05_2CTA_USED Plain;
    0x53 GEN_ERRBAR_AT_EXIT Plain;
    0x54 REG_RECONFIG Plain;
    0x55 ANNOTATIONS Plain;
    0x56 SANITIZE Plain;
    0x57 STACK_CANARY_TRAP_OFFSETS Plain;
    0x58 STUB_FUNCTION_KIND Plain;
    0x59 LOCAL_CTA_ASYNC_STORE_OFFSETS Plain;
    0x5a MERCURY_FINALIZER_OPTIONS Plain;
    0x5b BLOCKS_ARE_CLUSTERS Plain;
    0x5c SANITIZE2 Plain;
    0x5e SYSCALLS_FALLBACK Plain;
    0x5f CUDA_REQ Plain;
    0x60 MERCURY_ISA_VERSION Plain;
    0x62 ATTRIBUTE_62 Plain;
    0x64 ATTRIBUTE_64 Plain;
    0x66 ATTRIBUTE_66 Plain;
    0x67 ATTRIBUTE_67 Plain;
    0x68 ATTRIBUTE_68 Plain;
    0x6b ATTRIBUTE_6B Plain;
    0x6d ATTRIBUTE_6D Plain;
}

/// For each code, its index in [`ATTRIBUTES`]; the length of the table for unknown codes.
#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which would say so")]
const PLACES: [u8; 256] = {
    let mut places = [ATTRIBUTES.len() as u8; 256];
    let mut place = 0;
    while place < ATTRIBUTES.len() {
        places[ATTRIBUTES[place].0 as usize] = place as u8;
        place += 1;
    }
    places
};

/// The row of attribute `code`: its name without `EIATTR_`, and the shape of its payload.
pub fn known(code: u8) -> Option<(&'static str, Shape)> {
    let place = *PLACES.get(usize::from(code))?;
    ATTRIBUTES.get(usize::from(place)).map(|row| (row.1, row.2))
}

/// For each code, the meaning of the payload's words.
#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which would say so")]
const SHAPES: [Shape; 256] = {
    let mut shapes = [Shape::Plain; 256];
    let mut place = 0;
    while place < ATTRIBUTES.len() {
        let (code, _, shape) = ATTRIBUTES[place];
        shapes[code as usize] = shape;
        place += 1;
    }
    shapes
};

/// The meaning of the payload of attribute `code`; numbers for unknown codes.
#[inline]
pub fn shape(code: u8) -> Shape {
    SHAPES.get(usize::from(code)).copied().unwrap_or(Shape::Plain)
}

/// One attribute record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'d> {
    /// See [`mod@format`].
    pub format: u8,
    /// See [`code`].
    pub code: u8,
    /// The value of formats 1 to 3; the payload's length in bytes for format 4.
    pub value: u16,
    /// The payload of format 4, else empty.
    pub payload: &'d [u8],
}

impl Record<'_> {
    /// Word number `i` of the payload.
    #[inline]
    pub fn word(&self, i: usize) -> Option<u32> {
        read::u32_at(self.payload, 4 * i)
    }

    /// All whole words of the payload.
    #[inline]
    pub fn words(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let (words, _) = self.payload.as_chunks();
        words.iter().map(|word| u32::from_le_bytes(*word))
    }

    /// The attribute as one number: the first word of a payload, else the value.
    pub fn number(&self) -> u32 {
        match self.format {
            format::SIZED => self.word(0).unwrap_or(0),
            _ => u32::from(self.value),
        }
    }

    /// Appends the record's bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.format, self.code]);
        out.extend_from_slice(&self.value.to_le_bytes());
        out.extend_from_slice(self.payload);
    }
}

/// The records of one attribute section, in file order.
#[derive(Debug, Clone)]
pub struct Records<'d> {
    section: &'d [u8],
    size: usize,
    /// Bytes that have not been read.
    rest: &'d [u8],
}

impl<'d> Records<'d> {
    /// Iterates over `data`, the bytes of the section called `section`.
    pub fn new(section: &'d [u8], data: &'d [u8]) -> Self {
        Records { section, size: data.len(), rest: data }
    }

    /// The next record, if it is whole and of a known format. If there is none, [`Iterator::next`]
    /// says whether the records end there or one is damaged.
    #[inline]
    pub fn next_whole(&mut self) -> Option<Record<'d>> {
        let (record, rest) = first(self.rest)?;
        self.rest = rest;
        Some(record)
    }

    /// The error of the next record; iteration ends there.
    fn defect(&mut self) -> Malformed {
        let at = (self.size - self.rest.len()) as u64;
        let rest = std::mem::take(&mut self.rest);
        let what = match rest.first_chunk() {
            None => "attribute record is cut short".to_owned(),
            Some(&[format::SIZED, code, low, high]) => {
                let len = u16::from_le_bytes([low, high]);
                format!("attribute {code:#04x} of {len} bytes runs past the section's end")
            }
            Some([format, code, ..]) => {
                format!("attribute {code:#04x} has unknown format {format}")
            }
        };
        Malformed::section(self.section, at, what)
    }
}

/// The record at the start of `data`, and the bytes behind it.
#[inline]
fn first(data: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (&[format, code, low, high], rest) = data.split_first_chunk()?;
    let value = u16::from_le_bytes([low, high]);
    let (payload, rest) = match format {
        format::SIZED => rest.split_at_checked(usize::from(value))?,
        format::NONE | format::BYTE | format::HALF => (&[][..], rest),
        _ => return None,
    };
    Some((Record { format, code, value, payload }, rest))
}

impl<'d> Iterator for Records<'d> {
    type Item = Result<Record<'d>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.next_whole().ok_or_else(|| self.defect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_formats_round_trip() {
        let bytes =
            [1, 4, 0, 0, 2, 0x4c, 3, 0, 3, 0x1b, 0xff, 0, 4, 0x2f, 8, 0, 5, 0, 0, 0, 9, 0, 0, 0];
        let records: Vec<_> = Records::new(b".nv.info", &bytes).map(Result::unwrap).collect();
        assert_eq!(records.len(), 4);
        assert_eq!(records[1].number(), 3);
        assert_eq!(records[3].words().collect::<Vec<_>>(), [5, 9]);
        let mut out = Vec::new();
        records.iter().for_each(|record| record.write(&mut out));
        assert_eq!(out, bytes);
    }

    #[test]
    fn damage_is_named_with_its_offset_and_ends_the_iteration() {
        for (bytes, offset) in [
            (&[1u8, 4, 0, 0, 4, 0x2f][..], 4),
            (&[4, 0x2f, 8, 0, 1, 2, 3][..], 0),
            (&[1, 4, 0, 0, 9, 1, 0, 0][..], 4),
        ] {
            let all: Vec<_> = Records::new(b".nv.info", bytes).collect();
            let error = all.last().unwrap().clone().unwrap_err();
            assert_eq!(error.offset, offset);
            assert_eq!(all.iter().filter(|record| record.is_err()).count(), 1);
        }
    }

    #[test]
    fn the_table_has_each_code_once_in_order() {
        assert!(ATTRIBUTES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn codes_are_found() {
        assert!(ATTRIBUTES.iter().all(|row| known(row.0) == Some((row.1, row.2))));
        let unknown = (0..=u8::MAX).filter(|&code| known(code).is_none()).count();
        assert_eq!(unknown, 256 - ATTRIBUTES.len());
    }
}
