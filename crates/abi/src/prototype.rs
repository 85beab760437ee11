//! The prototypes of functions in cubins (`.nv.prototype`, `.nv.callgraph`), decoded.
//!
//! In: a string such as `#ib16l`. Out: the types of result and parameters. Guaranteed: a string of
//! another form gives `None`.
//!
//! Observed with ptxas 13.0.88, every type and many sizes (`cargo xtask abi` compares it with
//! ptxas). Behind `#` stand the result, `v` for none, and the parameters. A letter is a type by its
//! size, `f` and `d` are floating point; a number behind it is the count of an array's elements.
//! Alignment is not recorded. The text behind `|` names the registers that the call keeps.

use std::fmt;

/// A decoded prototype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prototype<'p> {
    /// The result; `None` for `void`.
    pub result: Option<PrototypeValue>,
    /// The parameters in order.
    pub parameters: Vec<PrototypeValue>,
    /// The text behind `|`: the registers that a call keeps.
    pub registers: Option<&'p str>,
}

/// A parameter or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrototypeValue {
    /// The type of an element.
    pub element: Element,
    /// The number of elements of an array; 0 if it is not known.
    pub count: Option<u64>,
}

/// An element type. Integers and untyped bits have the same letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum Element {
    B8,
    B16,
    B32,
    B64,
    B128,
    F32,
    F64,
}

impl Element {
    const LETTERS: [(char, Element); 7] = [
        ('b', Element::B8),
        ('h', Element::B16),
        ('i', Element::B32),
        ('l', Element::B64),
        ('x', Element::B128),
        ('f', Element::F32),
        ('d', Element::F64),
    ];

    /// The name in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Element::B8 => ".b8",
            Element::B16 => ".b16",
            Element::B32 => ".b32",
            Element::B64 => ".b64",
            Element::B128 => ".b128",
            Element::F32 => ".f32",
            Element::F64 => ".f64",
        }
    }
}

impl<'p> Prototype<'p> {
    /// Decodes `text`.
    pub fn parse(text: &'p str) -> Option<Self> {
        let types = text.strip_prefix('#')?;
        let (types, registers) = match types.split_once('|') {
            Some((types, registers)) => (types, Some(registers)),
            None => (types, None),
        };
        let mut values = Values(types);
        let result = match types.strip_prefix('v') {
            Some(rest) => {
                values = Values(rest);
                None
            }
            None => Some(values.next()??),
        };
        let parameters = values.collect::<Option<Vec<PrototypeValue>>>()?;
        Some(Prototype { result, parameters, registers })
    }
}

/// Values one by one; the last is `None` when something else stands there.
struct Values<'p>(&'p str);

impl Iterator for Values<'_> {
    type Item = Option<PrototypeValue>;

    fn next(&mut self) -> Option<Option<PrototypeValue>> {
        let letter = self.0.chars().next()?;
        let rest = &self.0[letter.len_utf8()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = rest.split_at(digits);
        self.0 = rest;
        let element = Element::LETTERS.iter().find(|row| row.0 == letter).map(|row| row.1);
        let count = match number {
            "" => Some(None),
            digits => digits.parse().ok().map(Some),
        };
        let value = element.zip(count).map(|(element, count)| PrototypeValue { element, count });
        if value.is_none() {
            self.0 = "";
        }
        Some(value)
    }
}

impl fmt::Display for PrototypeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            None => f.write_str(self.element.name()),
            Some(0) => write!(f, "{}[]", self.element.name()),
            Some(count) => write!(f, "{}[{count}]", self.element.name()),
        }
    }
}

/// As in PTX: `(.b32) (.b8[16], .b64)`.
impl fmt::Display for Prototype<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(result) = self.result {
            write!(f, "({result}) ")?;
        }
        let parameters: Vec<String> =
            self.parameters.iter().map(PrototypeValue::to_string).collect();
        write!(f, "({})", parameters.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_of_ptxas_are_decoded() {
        for (text, decoded) in [
            ("#v", "()"),
            ("#vi", "(.b32)"),
            ("#ib16l", "(.b32) (.b8[16], .b64)"),
            ("#b32b12b16", "(.b8[32]) (.b8[12], .b8[16])"),
            ("#vb0", "(.b8[])"),
            ("#vi4", "(.b32[4])"),
            ("#ffdhbx", "(.f32) (.f32, .f64, .b16, .b8, .b128)"),
            ("#ll|12p4r20sRx0fff9", "(.b64) (.b64)"),
        ] {
            assert_eq!(Prototype::parse(text).unwrap().to_string(), decoded, "{text}");
        }
        let kept = Prototype::parse("#vi|1p4r").unwrap();
        assert_eq!(kept.registers, Some("1p4r"));
    }

    #[test]
    fn other_strings_are_none() {
        for text in ["", "v", "#", "#z", "#vq", "#v4", "#vi99999999999999999999", "#v\u{e9}", "#iv"]
        {
            assert_eq!(Prototype::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "#?[vbhilxfd0-9|é]*") {
            let _ = Prototype::parse(&text);
        }
    }
}
