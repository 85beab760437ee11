//! Fundamental types of PTX: the guide, 1.1.
//!
//! In: a type. Out: its name, size and alignment in bytes, and its hardware representation.
//! Guaranteed: alignment is size, both powers of two.

use std::fmt;

/// The meaning of a value's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Bits without a meaning (`.b32`).
    Untyped,
    /// Signed integer (`.s32`).
    Signed,
    /// Unsigned integer (`.u32`).
    Unsigned,
    /// IEEE floating point (`.f32`).
    Float,
}

macro_rules! fundamental {
    ($($variant:ident $name:literal $size:literal $class:ident $meaning:literal;)*) => {
        /// A native scalar type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are those of PTX")]
        pub enum Fundamental { $($variant),* }

        impl Fundamental {
            /// All of them, in the order of the guide.
            pub const ALL: &[Fundamental] = &[$(Fundamental::$variant),*];

            /// The name in PTX: `.b8`.
            pub const fn name(self) -> &'static str {
                match self { $(Fundamental::$variant => $name),* }
            }

            /// Bytes.
            pub const fn size(self) -> u64 {
                match self { $(Fundamental::$variant => $size),* }
            }

            /// The meaning of its bits.
            pub const fn class(self) -> Class {
                match self { $(Fundamental::$variant => Class::$class),* }
            }

            /// The guide's words for it.
            pub const fn representation(self) -> &'static str {
                match self { $(Fundamental::$variant => $meaning),* }
            }
        }
    };
}

fundamental! {
    B8 ".b8" 1 Untyped "untyped byte";
    B16 ".b16" 2 Untyped "untyped halfword";
    B32 ".b32" 4 Untyped "untyped word";
    B64 ".b64" 8 Untyped "untyped doubleword";
    S8 ".s8" 1 Signed "signed integral byte";
    S16 ".s16" 2 Signed "signed integral halfword";
    S32 ".s32" 4 Signed "signed integral word";
    S64 ".s64" 8 Signed "signed integral doubleword";
    U8 ".u8" 1 Unsigned "unsigned integral byte";
    U16 ".u16" 2 Unsigned "unsigned integral halfword";
    U32 ".u32" 4 Unsigned "unsigned integral word";
    U64 ".u64" 8 Unsigned "unsigned integral doubleword";
    F16 ".f16" 2 Float "IEEE half precision";
    F32 ".f32" 4 Float "IEEE single precision";
    F64 ".f64" 8 Float "IEEE double precision";
}

impl Fundamental {
    /// The alignment in bytes: the size.
    pub const fn align(self) -> u64 {
        self.size()
    }

    /// The type with this name in PTX.
    pub fn by_name(name: &str) -> Option<Self> {
        Fundamental::ALL.iter().copied().find(|fundamental| fundamental.name() == name)
    }
}

impl fmt::Display for Fundamental {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The width of the host's addresses (`.address_size`). Addresses of local and shared memory have
/// 32 bits in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AddressSize {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    #[default]
    Bits64,
}

impl AddressSize {
    /// The untyped type that holds an address, and a `size_t`.
    pub const fn untyped(self) -> Fundamental {
        match self {
            AddressSize::Bits32 => Fundamental::B32,
            AddressSize::Bits64 => Fundamental::B64,
        }
    }

    /// Bits.
    pub const fn bits(self) -> u32 {
        self.untyped().size() as u32 * 8
    }

    /// The size with that many bits.
    pub const fn of_bits(bits: u64) -> Option<Self> {
        match bits {
            32 => Some(AddressSize::Bits32),
            64 => Some(AddressSize::Bits64),
            _ => None,
        }
    }
}

/// Types of newer releases of PTX that the guide's table does not have: name and size in bytes.
/// Observed: a parameter of theirs is laid out as an untyped one of that size (`cargo xtask abi`).
pub const NEWER: &[(&str, u64)] = &[(".f16x2", 4), (".b128", 16)];

/// Opaque types of references to textures, samplers and surfaces. Functions get a 64-bit handle
/// (the guide, 1.4 and note E of 2.3).
pub const OPAQUE: &[&str] = &[".texref", ".samplerref", ".surfref"];

/// The predicate type, which only registers have.
pub const PREDICATE: &str = ".pred";

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the guide, word by word.
    const GUIDE: &str = "\
.b8 1 1 untyped byte
.b16 2 2 untyped halfword
.b32 4 4 untyped word
.b64 8 8 untyped doubleword
.s8 1 1 signed integral byte
.s16 2 2 signed integral halfword
.s32 4 4 signed integral word
.s64 8 8 signed integral doubleword
.u8 1 1 unsigned integral byte
.u16 2 2 unsigned integral halfword
.u32 4 4 unsigned integral word
.u64 8 8 unsigned integral doubleword
.f16 2 2 IEEE half precision
.f32 4 4 IEEE single precision
.f64 8 8 IEEE double precision";

    #[test]
    fn the_table_is_the_guides() {
        let row =
            |t: &Fundamental| format!("{t} {} {} {}", t.size(), t.align(), t.representation());
        let ours: Vec<String> = Fundamental::ALL.iter().map(row).collect();
        assert_eq!(ours.join("\n"), GUIDE);
    }

    #[test]
    fn names_say_class_and_size() {
        for &one in Fundamental::ALL {
            assert_eq!(Fundamental::by_name(one.name()), Some(one));
            let (class, bits) = one.name().split_at(2);
            assert_eq!(bits.parse(), Ok(one.size() * 8));
            let letter = match one.class() {
                Class::Untyped => ".b",
                Class::Signed => ".s",
                Class::Unsigned => ".u",
                Class::Float => ".f",
            };
            assert_eq!(class, letter);
        }
        assert_eq!(Fundamental::by_name(".pred"), None);
    }

    #[test]
    fn addresses_are_those_of_the_host() {
        assert_eq!(AddressSize::Bits32.untyped(), Fundamental::B32);
        assert_eq!(AddressSize::default().untyped().size(), 8);
        assert_eq!(AddressSize::of_bits(64).map(AddressSize::bits), Some(64));
        assert_eq!(AddressSize::of_bits(16), None);
    }
}
