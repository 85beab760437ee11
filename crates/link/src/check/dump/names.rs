//! Names of functions in the style of nvlink's call graph.
//!
//! In: a mangled name (Itanium C++ ABI, 5.1). Out: its declaration. Template parameters are shown
//! by their numbers and not replaced by their arguments, and qualifiers stand in front: `const T1
//! &f<int>(T1 *)` (docs/rules/diagnostics.md, section 13). cpp_demangle, which notes use, has
//! another style. Guaranteed: bounded work and depth, whatever the name.

mod expressions;
mod types;

use self::types::TypeText;
use crate::diag::demangle::without_file_id;

/// Names above this many bytes are shown as they are.
const LONGEST: usize = 64 << 10;

/// Text that is made for each byte of a name. Substitutions and nesting copy text.
const TEXT_PER_BYTE: usize = 512;

/// The most types, names and expressions that may be nested.
const DEEPEST: usize = 128;

/// The declaration that `name` stands for; `None` for names that are not mangled or not read here.
/// Functions inside the code of others (`-ewp`) are clones, before 12.0 without brackets.
pub(super) fn declaration(name: &str, brackets: bool) -> Option<String> {
    let name = without_file_id(name);
    if let Some(names) = name.strip_prefix('$') {
        return clone(names, brackets);
    }
    let mut reader = Demangler::of(name.strip_prefix("_Z")?)?;
    let text = reader.encoding(true)?;
    reader.rest.is_empty().then_some(text)
}

/// `[clone kernel(int *)] inner(int)`. Substitutions of the second name count the parts of the
/// first (case whole-program/clones).
fn clone(names: &str, brackets: bool) -> Option<String> {
    let (outer, inner) = names.strip_prefix("_Z")?.split_once('$')?;
    let mut reader = Demangler::of(names)?;
    reader.rest = outer;
    let outer = reader.encoding(true)?;
    reader.rest.is_empty().then_some(())?;
    let inner = match inner.strip_prefix("_Z") {
        Some(mangled) => {
            reader.rest = mangled;
            let inner = reader.encoding(true)?;
            reader.rest.is_empty().then_some(inner)?
        }
        None if brackets => inner.to_owned(),
        None => return None,
    };
    Some(match brackets {
        true => format!("[clone {outer}] {inner}"),
        false => format!("{outer}::{inner}"),
    })
}

/// The rest of a name, and the names in it so far.
struct Demangler<'n> {
    rest: &'n str,
    substitutions: Vec<TypeText>,
    depth: usize,
    /// Bytes of text that may still be written.
    text: usize,
    /// Reads the type of a conversion function, whose template arguments are the function's own.
    conversion: bool,
}

/// The name of a function or variable.
struct Name {
    text: String,
    /// Its last part has template arguments, so its function names a return type.
    template: bool,
    /// The qualifiers behind the parameters of its function, ` const`.
    qualifiers: String,
    /// Which variant of a constructor or destructor it is, ` [subobject]`.
    variant: &'static str,
}

impl Name {
    fn plain(text: String) -> Self {
        Self { text, template: false, qualifiers: String::new(), variant: "" }
    }
}

/// One part of a name.
struct NamePart {
    text: String,
    /// A constructor, destructor or conversion: it never has a return type.
    no_return: bool,
    variant: &'static str,
}

impl<'n> Demangler<'n> {
    /// Nothing read of `mangled`; `None` if it is too long.
    fn of(mangled: &'n str) -> Option<Self> {
        (mangled.len() <= LONGEST).then(|| Demangler {
            rest: mangled,
            substitutions: Vec::new(),
            depth: 0,
            text: mangled.len() * TEXT_PER_BYTE,
            conversion: false,
        })
    }

    /// Takes `prefix` if it comes next.
    fn eat(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn peek(&self) -> Option<u8> {
        self.rest.bytes().next()
    }

    fn at(&self, prefix: &str) -> bool {
        self.rest.starts_with(prefix)
    }

    fn take(&mut self, length: usize) -> Option<&'n str> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        self.take(digits)?.parse().ok()
    }

    /// `_`, `0_`, `1_`: 0, 1, 2.
    fn sequence(&mut self) -> Option<usize> {
        if self.eat("_") {
            return Some(0);
        }
        let number = self.number()?.checked_add(1)?;
        self.eat("_").then_some(number)
    }

    /// Runs `read` one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Accounts for text that was made.
    fn made(&mut self, length: usize) -> Option<()> {
        self.text = self.text.checked_sub(length)?;
        Some(())
    }

    fn remember(&mut self, named: TypeText) -> Option<()> {
        self.made(named.len())?;
        self.substitutions.push(named);
        Some(())
    }

    /// A function with its parameters, unless only its name is wanted, or a variable.
    fn encoding(&mut self, parameters: bool) -> Option<String> {
        self.deeper(|reader| match reader.peek()? {
            b'T' | b'G' => reader.special(),
            _ => reader.function(parameters),
        })
    }

    fn special(&mut self) -> Option<String> {
        let kinds = [
            ("TV", "Virtual function table for "),
            ("TT", "Virtual table table for "),
            ("TI", "Typeinfo for "),
            ("TS", "Typeinfo name for "),
        ];
        if let Some((_, text)) = kinds.iter().find(|(code, _)| self.eat(code)) {
            return Some(format!("{text}{}", self.typ()?.whole()));
        }
        if self.eat("GV") {
            return Some(format!("Initialization guard variable for {}", self.name()?.text));
        }
        if self.eat("Tc") {
            let (first, second) = (self.offset()?, self.offset()?);
            let function = self.encoding(true)?;
            return Some(format!("Covariant thunk for ({first}) ({second}) {function}"));
        }
        self.eat("T").then_some(())?;
        let offset = self.offset()?;
        Some(format!("Thunk for ({offset}) {}", self.encoding(true)?))
    }

    /// The offset that a thunk adds to the object's address.
    fn offset(&mut self) -> Option<String> {
        if self.eat("h") {
            let offset = self.signed()?;
            return self.eat("_").then(|| format!("offset {offset}"));
        }
        self.eat("v").then_some(())?;
        let offset = self.signed()?;
        self.eat("_").then_some(())?;
        let table = self.signed()?;
        self.eat("_").then(|| format!("offset {offset}, virtual offset {table}"))
    }

    fn signed(&mut self) -> Option<String> {
        let sign = if self.eat("n") { "-" } else { "" };
        Some(format!("{sign}{}", self.number()?))
    }

    fn function(&mut self, parameters: bool) -> Option<String> {
        let name = self.name()?;
        if matches!(self.peek(), None | Some(b'E')) {
            return Some(format!("{}{}{}", name.text, name.qualifiers, name.variant));
        }
        let returned = match name.template {
            true => format!("{} ", self.typ()?.whole()),
            false => String::new(),
        };
        let list = self.parameters()?;
        let text = match parameters {
            true => format!("{returned}{}({list}){}{}", name.text, name.qualifiers, name.variant),
            false => name.text,
        };
        self.made(text.len())?;
        Some(text)
    }

    /// Types up to the end of the parameter list.
    fn parameters(&mut self) -> Option<String> {
        if self.eat("v") {
            return Some(String::new());
        }
        let mut list: Vec<String> = Vec::new();
        let ends = |rest: &str| {
            rest.is_empty() || ["E", "RE", "OE"].iter().any(|end| rest.starts_with(end))
        };
        while !ends(self.rest) {
            list.push(if self.eat("z") { "...".to_owned() } else { self.typ()?.whole() });
        }
        (!list.is_empty()).then(|| list.join(", "))
    }

    fn name(&mut self) -> Option<Name> {
        self.deeper(|reader| match reader.peek()? {
            b'N' => reader.nested(),
            b'Z' => reader.local(),
            _ => reader.unscoped(),
        })
    }

    /// A name without namespace, or of `std`.
    fn unscoped(&mut self) -> Option<Name> {
        let (text, no_return) = if self.at("S") && !self.at("St") {
            let named = self.substitution()?;
            // Alone it is not the name of a function.
            self.at("I").then(|| (named.whole(), false))?
        } else {
            let scope = if self.eat("St") { "std::" } else { "" };
            let part = self.part("")?;
            let text = format!("{scope}{}", part.text);
            if self.at("I") {
                self.remember(TypeText::prefix(text.clone()))?;
            }
            (text, part.no_return)
        };
        if !self.at("I") {
            return Some(Name::plain(text));
        }
        let text = format!("{text}{}", self.arguments()?);
        Some(Name { template: !no_return, ..Name::plain(text) })
    }

    /// `N`, qualifiers, parts, `E`.
    fn nested(&mut self) -> Option<Name> {
        self.eat("N").then_some(())?;
        let mut qualifiers = self.qualifiers().behind();
        for (code, mark) in [("R", " &"), ("O", " &&")] {
            if self.eat(code) {
                qualifiers.push_str(mark);
            }
        }
        let mut name = Name { qualifiers, ..Name::plain(String::new()) };
        let mut no_return = false;
        while !self.eat("E") {
            let mut substituted = false;
            match self.peek()? {
                b'S' if self.eat("St") => {
                    name.text.push_str("std");
                    substituted = true;
                }
                b'S' => {
                    name.text = self.substitution()?.whole();
                    substituted = true;
                }
                b'T' => name.text = self.parameter()?,
                b'D' if self.at("Dt") || self.at("DT") => name.text = self.decltype()?,
                b'I' => {
                    name.text.push_str(&self.arguments()?);
                    name.template = !no_return;
                }
                b'M' => {
                    self.take(1)?;
                    continue;
                }
                _ => {
                    let part = self.part(&name.text)?;
                    (name.template, name.variant, no_return) =
                        (false, part.variant, part.no_return);
                    name.text = within(&name.text, &part.text);
                }
            }
            if !substituted && !self.at("E") {
                self.remember(TypeText::prefix(name.text.clone()))?;
            }
            self.made(name.text.len())?;
        }
        Some(name)
    }

    /// A declaration in a function.
    fn local(&mut self) -> Option<Name> {
        self.eat("Z").then_some(())?;
        let mut scope = self.encoding(true)?;
        self.eat("E").then_some(())?;
        if self.eat("s") {
            let text = format!("{scope}::string{}", self.discriminator()?);
            return Some(Name::plain(text));
        }
        if self.eat("d") {
            let place = self.sequence()? + 1;
            scope.push_str(&format!("::[default argument {place} (from end)]"));
        }
        let mut name = self.name()?;
        name.text = format!("{scope}::{}{}", name.text, self.discriminator()?);
        self.made(name.text.len())?;
        Some(name)
    }

    /// The number that tells declarations of one name apart.
    fn discriminator(&mut self) -> Option<String> {
        let number = match self.rest.as_bytes() {
            [b'_', b'_', digit, ..] if digit.is_ascii_digit() => {
                self.take(2)?;
                let number = self.number()?;
                self.eat("_").then_some(number)?
            }
            [b'_', digit, ..] if digit.is_ascii_digit() => {
                self.take(1)?;
                self.take(1)?.parse().ok()?
            }
            _ => return Some(String::new()),
        };
        Some(format!(" (instance {})", number.checked_add(2)?))
    }

    /// One part of a name, in the class or namespace `scope`.
    fn part(&mut self, scope: &str) -> Option<NamePart> {
        let mut part = match self.peek()? {
            b'0'..=b'9' => NamePart { text: self.source_name()?, no_return: false, variant: "" },
            b'C' | b'D' => self.structor(scope)?,
            b'U' => NamePart { text: self.unnamed()?, no_return: false, variant: "" },
            _ => self.operator()?,
        };
        while self.eat("B") {
            let tag = self.source_name()?;
            part.text.push_str(&format!("[abi:{tag}]"));
        }
        Some(part)
    }

    /// A name of the source; empty for the namespace that nvcc makes for a file.
    fn source_name(&mut self) -> Option<String> {
        let length = self.number().filter(|&length| length > 0)?;
        let name = self.take(length)?;
        Some(match name {
            _ if name.starts_with("_GLOBAL__N") => "<unnamed>".to_owned(),
            _ if name.starts_with("_INTERNAL_") => String::new(),
            _ => name.to_owned(),
        })
    }

    fn structor(&mut self, scope: &str) -> Option<NamePart> {
        if self.eat("CI") {
            let variant = match self.take(1)? {
                "1" => " [complete inheriting]",
                "2" => " [base inheriting]",
                _ => return None,
            };
            let base = self.typ()?.whole();
            let text = without_arguments(&base).to_owned();
            return Some(NamePart { text, no_return: true, variant });
        }
        let class = class_name(scope);
        let (sign, variant) = match self.take(2)? {
            "C1" => ("", ""),
            "C2" => ("", " [subobject]"),
            "C3" => ("", " [allocating]"),
            "D0" => ("~", " [deleting]"),
            "D1" => ("~", ""),
            "D2" => ("~", " [subobject]"),
            _ => return None,
        };
        Some(NamePart { text: format!("{sign}{class}"), no_return: true, variant })
    }

    /// A lambda or a type without name.
    fn unnamed(&mut self) -> Option<String> {
        if self.eat("Ut") {
            let number = self.sequence()? + 1;
            return Some(format!("[unnamed type (instance {number})]"));
        }
        self.eat("Ul").then_some(())?;
        let list = self.parameters()?;
        self.eat("E").then_some(())?;
        let number = self.sequence()? + 1;
        Some(format!("[lambda({list}) (instance {number})]"))
    }

    fn operator(&mut self) -> Option<NamePart> {
        if self.eat("cv") {
            let outer = std::mem::replace(&mut self.conversion, true);
            let to = self.typ();
            self.conversion = outer;
            let text = format!("operator {}", to?.whole());
            return Some(NamePart { text, no_return: true, variant: "" });
        }
        if self.eat("li") {
            let text = format!("operator \"\"{}", self.source_name()?);
            return Some(NamePart { text, no_return: false, variant: "" });
        }
        let named = [("nw", "new "), ("na", "new[] "), ("dl", "delete "), ("da", "delete[] ")];
        let called = [("cl", "()"), ("ix", "[]"), ("pt", "->")];
        let code = self.take(2)?;
        let known = named.iter().chain(&called).find(|known| known.0 == code);
        let sign = match known {
            Some((_, sign)) => sign,
            None => expressions::sign(code)?,
        };
        Some(NamePart { text: format!("operator {sign}"), no_return: false, variant: "" })
    }

    /// `T_`, `T0_`: T1, T2.
    fn parameter(&mut self) -> Option<String> {
        self.eat("T").then_some(())?;
        Some(format!("T{}", self.sequence()? + 1))
    }

    /// `<int, T1...>`.
    fn arguments(&mut self) -> Option<String> {
        self.eat("I").then_some(())?;
        let outer = std::mem::replace(&mut self.conversion, false);
        let list = self.argument_list();
        self.conversion = outer;
        Some(format!("<{}>", list?))
    }

    fn argument_list(&mut self) -> Option<String> {
        let mut list = Vec::new();
        while !self.eat("E") {
            list.push(self.deeper(Self::argument)?);
        }
        let list = list.join(", ");
        self.made(list.len())?;
        Some(list)
    }

    fn argument(&mut self) -> Option<String> {
        match self.peek()? {
            b'J' => {
                self.take(1)?;
                self.argument_list()
            }
            b'L' => self.literal(),
            b'X' => {
                self.take(1)?;
                let text = self.expression()?;
                self.eat("E").then_some(text)
            }
            _ => Some(self.typ()?.whole()),
        }
    }

    /// An entity that was named before, or that has a short name.
    fn substitution(&mut self) -> Option<TypeText> {
        self.eat("S").then_some(())?;
        let standard = match self.peek()? {
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
            b'i' => "std::basic_istream<char, std::char_traits<char>>",
            b'o' => "std::basic_ostream<char, std::char_traits<char>>",
            b'd' => "std::basic_iostream<char, std::char_traits<char>>",
            _ => {
                let place = self.substitution_number()?;
                let named = self.substitutions.get(place)?.clone();
                self.made(named.len())?;
                return Some(named);
            }
        };
        self.take(1)?;
        Some(TypeText::prefix(standard.to_owned()))
    }

    /// `_`, `0_`, ..., `Z_`, `10_`, in base 36.
    fn substitution_number(&mut self) -> Option<usize> {
        let (digits, rest) = self.rest.split_once('_')?;
        let known = |letter: u8| letter.is_ascii_digit() || letter.is_ascii_uppercase();
        if !digits.bytes().all(known) {
            return None;
        }
        self.rest = rest;
        if digits.is_empty() {
            return Some(0);
        }
        usize::from_str_radix(digits, 36).ok()?.checked_add(1)
    }
}

/// `name` in `scope`; either may be empty.
fn within(scope: &str, name: &str) -> String {
    let dots = if scope.is_empty() || name.is_empty() { "" } else { "::" };
    format!("{scope}{dots}{name}")
}

/// The name of a class without the template arguments of its last part.
fn without_arguments(text: &str) -> &str {
    let mut depth = 0usize;
    for (place, letter) in text.char_indices().rev() {
        match letter {
            '>' => depth += 1,
            '<' if depth == 1 => return text.get(..place).unwrap_or(text),
            '<' => depth = depth.saturating_sub(1),
            _ if depth == 0 => break,
            _ => {}
        }
    }
    text
}

/// The last part of the name of a class, without template arguments.
fn class_name(text: &str) -> &str {
    let (mut depth, mut start, mut end) = (0usize, 0, text.len());
    for (place, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' => {
                if depth == 0 && letter == '<' {
                    end = place;
                }
                depth += 1;
            }
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => (start, end) = (place + 1, text.len()),
            _ => {}
        }
    }
    text.get(start..end).unwrap_or(text)
}

#[cfg(test)]
mod tests;
