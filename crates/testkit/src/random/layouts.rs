//! Random records of C++ and the offsets of their members.
//!
//! In: a seed, or an object file that a compiler made of a [`measurement`]. Out: a [`Sample`] (the
//! record as `culd_abi` describes it, and as source), and a line with its layout. Guaranteed: the
//! same seed gives the same record everywhere. Our line and that of a compiler are equal if the
//! layouts are.

use std::collections::HashMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use culd_abi::layout::{Aggregate, AggregateKind, Field, Type, bit_field_range};
use culd_abi::types::{AddressSize, Fundamental};
use culd_cubin::attr::{Records, code};
use culd_cubin::callgraph::{Edge, edges};
use culd_cubin::elf::sht;
use culd_cubin::parameter::KernelParameter;
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::random::generate::rng::Rng;

/// A record and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its seed.
    pub seed: u64,
    /// As the ABI crate has it.
    pub record: Aggregate,
    /// `struct NAME { ... }`: what stands behind the name.
    pub body: String,
}

/// Scalars and their names in C++.
const SCALARS: &[(Fundamental, &str)] = &[
    (Fundamental::S8, "signed char"),
    (Fundamental::U8, "unsigned char"),
    (Fundamental::S16, "short"),
    (Fundamental::U16, "unsigned short"),
    (Fundamental::S32, "int"),
    (Fundamental::U32, "unsigned"),
    (Fundamental::S64, "long long"),
    (Fundamental::U64, "unsigned long long"),
    (Fundamental::F32, "float"),
    (Fundamental::F64, "double"),
];

/// Stems of CUDA's vector types.
const VECTORS: &[(Fundamental, &str)] = &[
    (Fundamental::S8, "char"),
    (Fundamental::U8, "uchar"),
    (Fundamental::S16, "short"),
    (Fundamental::U16, "ushort"),
    (Fundamental::S32, "int"),
    (Fundamental::U32, "uint"),
    (Fundamental::F32, "float"),
    (Fundamental::S64, "longlong"),
    (Fundamental::U64, "ulonglong"),
    (Fundamental::F64, "double"),
];

/// Vectors of 64-bit elements: the end of the name, the number of elements, the alignment.
const LONG_VECTORS: &[(&str, u8, u64)] = &[("3", 3, 8), ("4_16a", 4, 16), ("4_32a", 4, 32)];

/// Names of the types of bit-fields.
const BIT_FIELDS: &[(Fundamental, &[&str])] = &[
    (Fundamental::S8, &["signed char", "char"]),
    (Fundamental::U8, &["unsigned char"]),
    (Fundamental::S16, &["signed short", "short"]),
    (Fundamental::U16, &["unsigned short"]),
    (Fundamental::S32, &["signed int", "int", "signed"]),
    (Fundamental::U32, &["unsigned int", "unsigned"]),
    (Fundamental::S64, &["signed long long", "long long"]),
    (Fundamental::U64, &["unsigned long long"]),
];

/// The record of a seed.
pub fn sample(seed: u64) -> Sample {
    let mut rng = Rng::new(seed);
    let Declared { item: record, source: body } = record(&mut rng, 0, true);
    Sample { seed, record, body }
}

/// An item of the ABI crate, and its declaration in C++.
struct Declared<T> {
    item: T,
    source: String,
}

fn record(rng: &mut Rng, depth: usize, alone: bool) -> Declared<Aggregate> {
    let kind = if rng.chance(25) { AggregateKind::Union } else { AggregateKind::Struct };
    let count = rng.range(1, if depth == 0 { 8 } else { 3 });
    let mut fields = Vec::new();
    let mut text = String::from("{ ");
    for number in 0..count {
        let field = field(rng, number, depth);
        fields.push(field.item);
        let _ = write!(text, "{}; ", field.source);
    }
    text.push('}');
    // Without a named member, it would be an empty class.
    if fields.iter().all(|field| field.name.is_empty()) {
        fields.push(Field::new("z", Type::Fundamental(Fundamental::S8)));
        text.insert_str(text.len() - 1, "signed char z; ");
    }
    let align = rng.chance(8).then(|| rng.pick(&[1u64, 2, 4, 8, 16, 32, 64, 128]));
    // An alignment below the natural one is an error in C++.
    let natural = Aggregate { kind, fields, align: None };
    let least = natural.layout().map_or(1, |layout| layout.align);
    let align = align.filter(|align| *align >= least);
    let word = if kind == AggregateKind::Union { "union" } else { "struct" };
    let asked = align.map(|align| format!("alignas({align}) ")).unwrap_or_default();
    let name = if alone { "NAME " } else { "" };
    let source = format!("{word} {asked}{name}{text}");
    Declared { item: Aggregate { align, ..natural }, source }
}

fn field(rng: &mut Rng, number: usize, depth: usize) -> Declared<Field> {
    let name = char::from(b'a' + (number % 26) as u8).to_string();
    if rng.chance(45) {
        return bit_field(rng, name);
    }
    let Declared { item: ty, source } = plain(rng, depth);
    let (ty, array) = match rng.chance(20) {
        true => {
            let count = rng.range(1, 5) as u64;
            (Type::array(ty, count), format!("[{count}]"))
        }
        false => (ty, String::new()),
    };
    let least = ty.measure().map_or(1, |measure| measure.align);
    let align = rng.chance(6).then(|| rng.pick(&[2u64, 4, 8, 16, 32]));
    let align = align.filter(|align| *align >= least);
    let asked = align.map(|align| format!("alignas({align}) ")).unwrap_or_default();
    let source = format!("{asked}{source} {name}{array}");
    Declared { item: Field { align, ..Field::new(name, ty) }, source }
}

fn bit_field(rng: &mut Rng, name: String) -> Declared<Field> {
    let (ty, words) = rng.pick(BIT_FIELDS);
    let word = rng.pick(words);
    let most = ty.size() as usize * 8;
    let unnamed = rng.chance(15);
    let bits = match unnamed && rng.chance(50) {
        true => 0,
        // Small bit-fields share units, large ones cross them.
        false if rng.chance(70) => rng.range(1, most.min(9)),
        false => rng.range(1, most),
    };
    let name = if unnamed { String::new() } else { name };
    let source = format!("{word} {name}: {bits}");
    Declared { item: Field::bits(name, ty, bits as u32), source }
}

fn plain(rng: &mut Rng, depth: usize) -> Declared<Type> {
    let (item, source) = match rng.below(10) {
        0 => (Type::Pointer(AddressSize::Bits64), "void *".to_owned()),
        1 | 2 => {
            let (element, stem) = rng.pick(VECTORS);
            if element.size() == 8 && rng.chance(40) {
                let (end, count, align) = rng.pick(LONG_VECTORS);
                (Type::LanguageVector(element, count, align), format!("{stem}{end}"))
            } else {
                let most = if element.size() == 8 { 2 } else { 4 };
                let count = rng.range(1, most);
                (Type::Vector(element, count as u8), format!("{stem}{count}"))
            }
        }
        3 if depth < 2 => {
            let record = record(rng, depth + 1, false);
            (Type::Record(record.item), record.source)
        }
        _ => {
            let (ty, name) = rng.pick(SCALARS);
            (Type::Fundamental(ty), name.to_owned())
        }
    };
    Declared { item, source }
}

impl Sample {
    /// The definition of the record under `name`.
    pub fn source(&self, name: &str) -> String {
        format!("{};", self.body.replacen("NAME", name, 1))
    }

    /// The layout by our rules: `size=16 align=8 a@0 b@4.3:5`. Bit-fields have bit and width. Those
    /// of records with a union are listed only if `unions`: nvcc cannot initialise them on the
    /// device.
    ///
    /// # Errors
    /// The record cannot be.
    pub fn ours(&self, unions: bool) -> Result<String> {
        let layout = self.record.layout()?;
        let mut line = format!("size={} align={}", layout.size, layout.align);
        for (field, place) in self.record.fields.iter().zip(&layout.fields) {
            match field.bits {
                Some(_) if !self.is_listed(field, unions) => {}
                Some(bits) => {
                    write!(line, " {}@{}.{}:{bits}", field.name, place.offset, place.bit)?;
                }
                None => write!(line, " {}@{}", field.name, place.offset)?,
            }
        }
        Ok(line)
    }

    /// Its layout in a compiler's object file, as record `number` of a [`measurement`].
    ///
    /// # Errors
    /// When the file does not have the data that the source defines.
    pub fn measured(
        &self,
        number: usize,
        object: &MeasuredObject<'_>,
        unions: bool,
    ) -> Result<String> {
        let words = object.words(&format!("m{number}"))?;
        let mut words = words.into_iter();
        let mut next = || words.next().context("too few numbers");
        let (size, align) = (next()?, next()?);
        let mut line = format!("size={size} align={align}");
        for (place, field) in self.record.fields.iter().enumerate() {
            match field.bits {
                Some(_) if !self.is_listed(field, unions) => {}
                Some(_) => {
                    let bytes = object.bytes(&format!("r{number}_{place}"))?;
                    ensure!(bytes.len() as u64 == size, "r{number}_{place}: {} bytes", bytes.len());
                    let BitRun { first, count } = run_of_ones(bytes)?;
                    let sign = u64::from(is_signed(field));
                    write!(line, " {}@{}.{}:{}", field.name, first / 8, first % 8, count + sign)?;
                }
                None => write!(line, " {}@{}", field.name, next()?)?,
            }
        }
        Ok(line)
    }

    fn is_listed(&self, field: &Field, unions: bool) -> bool {
        !field.name.is_empty() && (unions || !holds_union(&self.record))
    }
}

/// True when there is a union in a record, at any depth.
fn holds_union(record: &Aggregate) -> bool {
    let inner = |ty: &Type| {
        let mut ty = ty;
        while let Type::Array(element, _) = ty {
            ty = element;
        }
        matches!(ty, Type::Record(record) if holds_union(record))
    };
    record.kind == AggregateKind::Union || record.fields.iter().any(|field| inner(&field.ty))
}

/// True when a bit-field holds its greatest value without its highest bit.
fn is_signed(field: &Field) -> bool {
    let Type::Fundamental(ty) = field.ty else { return false };
    ty.name().starts_with(".s") && field.bits != Some(1)
}

/// Consecutive bits.
struct BitRun {
    first: u64,
    count: u64,
}

/// The bits of `bytes` that are 1, which are consecutive.
fn run_of_ones(bytes: &[u8]) -> Result<BitRun> {
    let is_set = |bit: &u64| bytes[(bit / 8) as usize] >> (bit % 8) & 1 == 1;
    let set: Vec<u64> = (0..bytes.len() as u64 * 8).filter(is_set).collect();
    let (Some(&first), Some(&last)) = (set.first(), set.last()) else {
        anyhow::bail!("a bit-field with all ones has none");
    };
    ensure!(last - first + 1 == set.len() as u64, "a bit-field in pieces");
    Ok(BitRun { first, count: set.len() as u64 })
}

/// A source whose object file has the offsets of the members of `samples`: numbers in `m0`, `m1`,
/// ..., and for each bit-field a record `rN_M` in which it alone is not zero.
pub fn measurement(samples: &[Sample]) -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <vector_types.h>\n#ifdef __CUDACC__\n#define DEVICE __device__\n\
         #else\n#define DEVICE\n#endif\n",
    );
    for (number, sample) in samples.iter().enumerate() {
        let name = format!("R{number}");
        let _ = writeln!(text, "{}", sample.source(&name));
        let mut words = vec![format!("sizeof({name})"), format!("alignof({name})")];
        for (place, field) in sample.record.fields.iter().enumerate() {
            match (field.bits, &field.ty) {
                (None, _) => words.push(format!("offsetof({name}, {})", field.name)),
                (Some(bits), Type::Fundamental(ty)) if !field.name.is_empty() => {
                    let value = ones(*ty, bits);
                    let member = &field.name;
                    let line =
                        format!("DEVICE {name} r{number}_{place} = {{ .{member} = {value} }};");
                    let _ = match holds_union(&sample.record) {
                        false => writeln!(text, "{line}"),
                        true => writeln!(text, "#ifndef __CUDACC__\n{line}\n#endif"),
                    };
                }
                _ => {}
            }
        }
        let _ =
            writeln!(text, "DEVICE unsigned long long m{number}[] = {{ {} }};", words.join(", "));
    }
    text
}

/// The greatest value of a bit-field; -1 if that is 0.
fn ones(ty: Fundamental, bits: u32) -> String {
    match bit_field_range(ty, bits) {
        Some((_, 0)) | None => "-1".to_owned(),
        Some((_, most)) => format!("{most}{}", if bits == 64 { "ull" } else { "ll" }),
    }
}

/// An object file with a measurement.
pub struct MeasuredObject<'o> {
    symbols: HashMap<String, &'o [u8]>,
}

impl<'o> MeasuredObject<'o> {
    /// Reads an object file of any compiler.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(data: &'o [u8]) -> Result<Self> {
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(data)?;
        let mut symbols = HashMap::new();
        for symbol in file.symbols() {
            let Some(index) = symbol.section_index() else { continue };
            let section = file.section_by_index(index)?.data()?;
            let start = usize::try_from(symbol.address())?;
            let end = start.saturating_add(usize::try_from(symbol.size())?);
            if let (Some(bytes), Ok(name)) = (section.get(start..end), symbol.name()) {
                symbols.insert(name.to_owned(), bytes);
            }
        }
        Ok(MeasuredObject { symbols })
    }

    fn bytes(&self, name: &str) -> Result<&'o [u8]> {
        self.symbols.get(name).copied().with_context(|| format!("no '{name}'"))
    }

    fn words(&self, name: &str) -> Result<Vec<u64>> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        Ok(self.bytes(name)?.chunks_exact(8).map(word).collect())
    }
}

/// The places of the parameters of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelParameters {
    /// Their start in constant bank 0.
    pub base: u64,
    /// Bytes of all together.
    pub size: u64,
    /// Offset and size of each.
    pub places: Vec<(u64, u64)>,
}

/// The parameters of the kernels of a cubin.
///
/// # Errors
/// It is no cubin.
pub fn kernel_parameters(cubin: &[u8]) -> Result<HashMap<String, KernelParameters>> {
    let cubin = culd_cubin::Cubin::parse(cubin)?;
    let mut all = HashMap::new();
    for section in &cubin.sections {
        let Some(kernel) = section.name.strip_prefix(b".nv.info.") else { continue };
        let mut found: Vec<KernelParameter> = Vec::new();
        let mut kernel_parameters = KernelParameters::default();
        for record in Records::new(section.name, section.data) {
            let record = record?;
            if let (code::PARAM_CBANK, Some(word)) = (record.code, record.word(1)) {
                kernel_parameters.base = u64::from(word & 0xffff);
                kernel_parameters.size = u64::from(word >> 16);
            }
            found.extend(KernelParameter::of(&record));
        }
        found.sort_unstable();
        let place = |one: &KernelParameter| (u64::from(one.offset), u64::from(one.size));
        kernel_parameters.places = found.iter().map(place).collect();
        all.insert(String::from_utf8_lossy(kernel).into_owned(), kernel_parameters);
    }
    Ok(all)
}

/// The prototypes in a cubin of functions whose address is taken.
///
/// # Errors
/// It is no cubin.
pub fn prototypes(cubin: &[u8]) -> Result<HashMap<String, String>> {
    let cubin = culd_cubin::Cubin::parse(cubin)?;
    let mut all = HashMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for section in &cubin.sections {
        if section.sh_type != sht::CUDA_CALLGRAPH {
            continue;
        }
        for edge in edges(section) {
            if let (_, Edge::AddressTaken { function, prototype }) = edge? {
                let name = cubin.symbols.get(function.0 as usize).map(|symbol| text(symbol.name));
                let string = cubin.string(prototype).map(text);
                all.extend(name.zip(string));
            }
        }
    }
    Ok(all)
}
