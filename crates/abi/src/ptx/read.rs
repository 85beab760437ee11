//! From tokens to declarations.
//!
//! In: tokens. Out: a module. Guaranteed: every step takes a token, and there is no recursion.

use super::lex::{Token, Tokens};
use super::{
    ArrayExtent, Declaration, DeclarationKind, Module, PtxFunction, PtxLinkage, PtxVariable,
    Scalar, Unread,
};
use crate::space::StateSpace;
use crate::types::AddressSize;

/// The most statements that are listed as not understood.
const MOST_UNREAD: usize = 20;

/// Reads a module.
pub(super) fn module(text: &str) -> Module {
    let mut reader = PtxReader { tokens: Tokens::new(text), module: Module::default() };
    while let Some(token) = reader.tokens.next() {
        reader.statement(token);
    }
    reader.module
}

struct PtxReader<'t> {
    tokens: Tokens<'t>,
    module: Module,
}

/// The text is no declaration; it is quoted.
struct NotADeclaration;

impl<'t> PtxReader<'t> {
    /// One statement of the module, whose first token is `first`.
    fn statement(&mut self, first: Token<'t>) {
        let known = match first {
            Token::Mark(';') => Ok(()),
            Token::Directive(directive) => self.directive(directive),
            _ => Err(NotADeclaration),
        };
        if known.is_err() {
            self.unread(first);
            self.skip_statement();
        }
    }

    fn unread(&mut self, first: Token<'_>) {
        if self.module.unread.len() < MOST_UNREAD {
            let found = match first {
                Token::Directive(text) | Token::Word(text) => text.chars().take(60).collect(),
                Token::Text => "\"".to_owned(),
                Token::Mark(mark) => mark.to_string(),
            };
            self.module.unread.push(Unread { line: self.tokens.last_line, found });
        }
    }

    fn directive(&mut self, directive: &'t str) -> Result<(), NotADeclaration> {
        match directive {
            ".version" => {
                self.module.version = self.word().and_then(version);
                self.module.version.map(drop).ok_or(NotADeclaration)
            }
            ".target" => {
                self.target();
                Ok(())
            }
            ".address_size" => {
                self.module.address = self.number().and_then(AddressSize::of_bits);
                self.module.address.map(drop).ok_or(NotADeclaration)
            }
            ".file" => {
                self.file();
                Ok(())
            }
            ".section" => {
                self.skip_to('{');
                self.skip_braces();
                Ok(())
            }
            // Lines of the source, and words for the compiler.
            ".pragma" | ".loc" => {
                self.skip_to(';');
                Ok(())
            }
            ".alias" => self.alias(),
            _ => self.declaration(directive),
        }
    }

    fn word(&mut self) -> Option<&'t str> {
        match self.tokens.peek() {
            Some(Token::Word(word)) => {
                self.tokens.next();
                Some(word)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.word().and_then(number)
    }

    fn target(&mut self) {
        while let Some(word) = self.word() {
            self.module.target.push(word.to_owned());
            if !self.tokens.take(',') {
                return;
            }
        }
    }

    /// `.file 1 "name", 2, 3` has no end of its own.
    fn file(&mut self) {
        self.word();
        if self.tokens.peek() == Some(Token::Text) {
            self.tokens.next();
        }
        while self.tokens.take(',') {
            self.word();
        }
    }

    fn alias(&mut self) -> Result<(), NotADeclaration> {
        let name = self.word().ok_or(NotADeclaration)?.to_owned();
        let line = self.tokens.last_line;
        if !self.tokens.take(',') {
            return Err(NotADeclaration);
        }
        let what = DeclarationKind::Alias(self.word().ok_or(NotADeclaration)?.to_owned());
        self.skip_to(';');
        // An alias is seen by whoever sees its declaration, which stands before it.
        self.push(Declaration { name, line, linkage: PtxLinkage::Local, defined: true, what });
        Ok(())
    }

    fn push(&mut self, item: Declaration) {
        self.module.items.push(item);
    }

    /// A function or variables, behind their linkage.
    fn declaration(&mut self, first: &'t str) -> Result<(), NotADeclaration> {
        let mut linkage = PtxLinkage::Local;
        let mut directive = first;
        loop {
            linkage = match directive {
                ".extern" => PtxLinkage::Extern,
                ".visible" => PtxLinkage::Visible,
                ".weak" => PtxLinkage::Weak,
                ".common" => PtxLinkage::Common,
                ".entry" => return self.function(linkage, true),
                ".func" => return self.function(linkage, false),
                _ => {
                    let space = StateSpace::by_name(directive).ok_or(NotADeclaration)?;
                    return self.variables(linkage, space);
                }
            };
            let Some(Token::Directive(next)) = self.tokens.peek() else {
                return Err(NotADeclaration);
            };
            self.tokens.next();
            directive = next;
        }
    }

    fn function(&mut self, linkage: PtxLinkage, entry: bool) -> Result<(), NotADeclaration> {
        self.attributes();
        let results = if self.tokens.take('(') { self.parameters()? } else { Vec::new() };
        let name = self.word().ok_or(NotADeclaration)?.to_owned();
        let line = self.tokens.last_line;
        let parameters = if self.tokens.take('(') { self.parameters()? } else { Vec::new() };
        let what = DeclarationKind::Function(PtxFunction { entry, results, parameters });
        let defined = self.body();
        self.push(Declaration { name, line, linkage, defined, what });
        Ok(())
    }

    /// Passes over what stands behind an interface; true when there is a body.
    fn body(&mut self) -> bool {
        let mut in_pragma = false;
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Directive(".pragma") => in_pragma = true,
                Token::Mark(';') if in_pragma => in_pragma = false,
                Token::Mark(';') => return false,
                Token::Mark('{') => {
                    self.skip_braces();
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Parameters up to the closing parenthesis.
    fn parameters(&mut self) -> Result<Vec<PtxVariable>, NotADeclaration> {
        let mut all = Vec::new();
        loop {
            if self.tokens.take(')') {
                return Ok(all);
            }
            let Some(Token::Directive(directive)) = self.tokens.next() else {
                return Err(NotADeclaration);
            };
            let space = StateSpace::by_name(directive).ok_or(NotADeclaration)?;
            let kind = self.kind(space)?;
            // A parameter of an indirect call's prototype needs no name.
            self.word();
            let extent = self.extent();
            all.push(PtxVariable { extent, ..kind });
            self.tokens.take(',');
        }
    }

    /// Variables up to the semicolon.
    fn variables(&mut self, linkage: PtxLinkage, space: StateSpace) -> Result<(), NotADeclaration> {
        let kind = self.kind(space)?;
        loop {
            let name = self.word().ok_or(NotADeclaration)?.to_owned();
            let line = self.tokens.last_line;
            let extent = self.extent();
            if self.tokens.take('<') {
                // `.reg .b32 %r<5>`
                self.skip_to('>');
            }
            let what = DeclarationKind::Variable(PtxVariable { extent, ..kind.clone() });
            self.push(Declaration {
                name,
                line,
                linkage,
                defined: linkage != PtxLinkage::Extern,
                what,
            });
            if self.tokens.take('=') {
                self.skip_value();
            }
            if !self.tokens.take(',') {
                return if self.tokens.take(';') { Ok(()) } else { Err(NotADeclaration) };
            }
        }
    }

    /// Type, vector and alignment, in any order.
    fn kind(&mut self, space: StateSpace) -> Result<PtxVariable, NotADeclaration> {
        let (mut ty, mut vector, mut align) = (None, 1, None);
        // `.const[2]`
        self.bracket();
        loop {
            self.attributes();
            let Some(Token::Directive(directive)) = self.tokens.peek() else { break };
            self.tokens.next();
            match directive {
                ".align" => align = Some(self.number().ok_or(NotADeclaration)?),
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                ".v8" => vector = 8,
                // What the pointer points to.
                ".ptr" => self.pointee(),
                name => ty = Some(Scalar::by_name(name).ok_or(NotADeclaration)?),
            }
        }
        let ty = ty.ok_or(NotADeclaration)?;
        Ok(PtxVariable { space, ty, vector, align, extent: ArrayExtent::One })
    }

    /// `.ptr .global .align 16`
    fn pointee(&mut self) {
        while let Some(Token::Directive(directive)) = self.tokens.peek() {
            match directive {
                ".align" => {
                    self.tokens.next();
                    self.word();
                }
                name if StateSpace::by_name(name).is_some() => {
                    self.tokens.next();
                }
                _ => return,
            }
        }
    }

    /// `.attribute(.managed, .unified(1, 2))`
    fn attributes(&mut self) {
        while self.tokens.peek() == Some(Token::Directive(".attribute")) {
            self.tokens.next();
            let mut depth = 0usize;
            while let Some(token) = self.tokens.next() {
                match token {
                    Token::Mark('(') => depth += 1,
                    Token::Mark(')') => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
    }

    /// `[2][3]`
    fn extent(&mut self) -> ArrayExtent {
        let mut extent = ArrayExtent::One;
        while let Some(count) = self.bracket() {
            extent = match (extent, count) {
                (ArrayExtent::One, Some(count)) => ArrayExtent::Array(count),
                (ArrayExtent::Array(before), Some(count)) => {
                    before.checked_mul(count).map_or(ArrayExtent::Unknown, ArrayExtent::Array)
                }
                _ => ArrayExtent::Unknown,
            };
        }
        extent
    }

    /// `[4]`: its number, if it is one.
    fn bracket(&mut self) -> Option<Option<u64>> {
        if !self.tokens.take('[') {
            return None;
        }
        let count = self.number();
        let plain = self.tokens.take(']');
        if !plain {
            self.skip_to(']');
        }
        Some(count.filter(|_| plain))
    }

    /// Passes over an initial value.
    fn skip_value(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.tokens.peek() {
            match token {
                Token::Mark('{' | '(') => depth += 1,
                Token::Mark('}' | ')') => depth = depth.saturating_sub(1),
                Token::Mark(',' | ';') if depth == 0 => return,
                _ => {}
            }
            self.tokens.next();
        }
    }

    fn skip_to(&mut self, mark: char) {
        while self.tokens.next().is_some_and(|token| token != Token::Mark(mark)) {}
    }

    /// Behind an opening brace: passes over what it holds.
    fn skip_braces(&mut self) {
        let mut depth = 1usize;
        while depth > 0 {
            match self.tokens.next() {
                Some(Token::Mark('{')) => depth += 1,
                Some(Token::Mark('}')) => depth -= 1,
                None => return,
                _ => {}
            }
        }
    }

    /// Passes over what is not understood: to the next semicolon or behind the next braces.
    fn skip_statement(&mut self) {
        while let Some(token) = self.tokens.peek() {
            match token {
                Token::Mark(';') => {
                    self.tokens.next();
                    return;
                }
                Token::Mark('{') => {
                    self.tokens.next();
                    return self.skip_braces();
                }
                // The next statement.
                Token::Directive(
                    ".visible" | ".extern" | ".weak" | ".common" | ".func" | ".entry" | ".version"
                    | ".target" | ".address_size" | ".section",
                ) => return,
                _ => {
                    self.tokens.next();
                }
            }
        }
    }
}

fn version(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `16`, `0x10`, `020`, `0b10000`, each with an optional `U`.
fn number(word: &str) -> Option<u64> {
    let word = word.strip_suffix(['U', 'u']).unwrap_or(word);
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', ..] => (word.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (word.get(2..)?, 2),
        [b'0', _, ..] => (word.get(1..)?, 8),
        _ => (word, 10),
    };
    // A sign is no digit of PTX.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Module {
        let module = module(text);
        assert_eq!(module.unread, [], "{text}");
        module
    }

    fn interface(item: &Declaration) -> String {
        let list = |all: &[PtxVariable]| {
            all.iter().map(PtxVariable::to_string).collect::<Vec<_>>().join(", ")
        };
        match &item.what {
            DeclarationKind::Function(f) => {
                format!("({}) ({})", list(&f.results), list(&f.parameters))
            }
            DeclarationKind::Variable(variable) => variable.to_string(),
            DeclarationKind::Alias(target) => target.clone(),
        }
    }

    #[test]
    fn what_nvcc_writes_is_read() {
        let module = read(
            "//\n.version 9.0\n.target sm_90, debug\n.address_size 64\n.file 1 \"a.cu\", 1, 2\n\
             .extern .func (.param .align 8 .b8 func_retval0[16]) f\n(\n\t.param .b64 f_0,\n\
             \t.param .align 4 .b8 f_1[12]\n)\n;\n\
             .visible .entry k(.param .u64 .ptr .global .align 8 k_0, .param .u8 k_1)\n\
             .maxntid 32, 1, 1\n{\n .reg .b64 %rd<3>; L: { ret; } \"}\" }\n\
             .visible .global .align 4 .b8 g[8] = {1, 2, generic(x)}, h = 5;\n\
             .section .debug_str { .b8 1\n}\n\
             .weak .func w() .noreturn .pragma \"x;\"; { }\n\
             .global .attribute(.managed) .align 8 .v2.f32 m[2][0x3];\n.alias a, w;",
        );
        assert_eq!(module.version, Some((9, 0)));
        assert_eq!(module.target, ["sm_90", "debug"]);
        assert_eq!(module.address, Some(AddressSize::Bits64));
        let seen: Vec<(&str, u32, bool, String)> = module
            .items
            .iter()
            .map(|item| (item.name.as_str(), item.line, item.defined, interface(item)))
            .collect();
        let seen: Vec<(&str, u32, bool, &str)> = seen
            .iter()
            .map(|(name, line, defined, text)| (*name, *line, *defined, &**text))
            .collect();
        assert_eq!(
            seen,
            [
                ("f", 6, false, "(.param .align 8 .b8[16]) (.param .b64, .param .align 4 .b8[12])"),
                ("k", 12, true, "() (.param .u64, .param .u8)"),
                ("g", 16, true, ".global .align 4 .b8[8]"),
                ("h", 16, true, ".global .align 4 .b8"),
                ("w", 19, true, "() ()"),
                ("m", 20, true, ".global .align 8 .v2 .f32[6]"),
                ("a", 21, true, "w"),
            ]
        );
        assert_eq!(module.items[0].linkage, PtxLinkage::Extern);
        assert_eq!(module.items[5].linkage, PtxLinkage::Local);
        let DeclarationKind::Variable(m) = &module.items[5].what else { panic!() };
        assert_eq!((m.size(), m.alignment()), (Some(48), 8));
    }

    #[test]
    fn older_texts_are_read() {
        let module = read(
            ".version 1.4\n.target sm_13\n.extern .const[2] .b32 c[];\n\
             .func (.reg .s32 out) bar (.reg .s32 x, .param .b8 .align 8 y[12]);\n\
             .tex .u32 t, u;\n.reg .b32 r<4>;\n.extern .shared .align 16 .b8 s[];",
        );
        assert_eq!(module.address_size(), AddressSize::Bits32);
        assert_eq!(interface(&module.items[0]), ".const .b32[]");
        assert_eq!(interface(&module.items[1]), "(.reg .s32) (.reg .s32, .param .align 8 .b8[12])");
        assert!(!module.items[1].defined);
        assert_eq!(module.items.len(), 6);
    }

    #[test]
    fn what_is_not_understood_is_reported_and_the_rest_is_read() {
        let module =
            module(".frobnicate x;\n.visible .func f() { }\nx y; .global .q g; .func h();");
        let unread: Vec<(u32, &str)> =
            module.unread.iter().map(|unread| (unread.line, &*unread.found)).collect();
        assert_eq!(unread, [(1, ".frobnicate"), (3, "x"), (3, ".global")]);
        assert_eq!(module.items.len(), 2);
    }

    #[test]
    fn numbers_are_those_of_ptx() {
        for (word, value) in [
            ("16", Some(16)),
            ("0x10", Some(16)),
            ("020U", Some(16)),
            ("0", Some(0)),
            ("0b11", Some(3)),
        ] {
            assert_eq!(number(word), value, "{word}");
        }
        for word in ["", "x", "0x", "08", "99999999999999999999", "U", "0x+1"] {
            assert_eq!(number(word), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\.(func|entry|visible|extern|global|const|align|b8|v2|ptr|attribute|section|param|pragma|file)| |[a-z(){}\\[\\];,=<>\"/*0-9.:$é\\n])*") {
            let _ = module(&text);
        }
    }
}
