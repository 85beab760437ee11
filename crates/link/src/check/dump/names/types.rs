//! Types in mangled names.
//!
//! A type has a part in front of the declared name and one behind it: `int (*` and `)(float)`.

use super::Demangler;

/// The form of a type, for types that are made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeShape {
    /// Its qualifiers stand in front.
    Plain,
    /// Its qualifiers stand behind the sign.
    Pointer,
    /// Its qualifiers stand behind the parameters.
    Function,
    /// It has no brackets yet.
    Array,
}

/// The text of a type.
#[derive(Debug, Clone)]
pub(super) struct TypeText {
    front: String,
    behind: String,
    /// Text behind `front` has a blank before it.
    blank: bool,
    shape: TypeShape,
}

/// `const`, `volatile` and `restrict`, in nvlink's order.
pub(super) struct Qualifiers(Vec<&'static str>);

impl Qualifiers {
    fn none() -> Self {
        Self(Vec::new())
    }

    /// Behind parameters: ` const volatile`.
    pub(super) fn behind(&self) -> String {
        self.0.iter().map(|word| format!(" {word}")).collect()
    }
}

impl TypeText {
    fn new(front: String) -> Self {
        Self { front, behind: String::new(), blank: true, shape: TypeShape::Plain }
    }

    /// A part of a name, which nvlink puts in front of `*` without a blank when it comes again.
    pub(super) fn prefix(front: String) -> Self {
        Self { blank: false, ..Self::new(front) }
    }

    pub(super) fn len(&self) -> usize {
        self.front.len() + self.behind.len()
    }

    /// The type without a declared name.
    pub(super) fn whole(&self) -> String {
        let blank = if self.blank && !self.behind.is_empty() { " " } else { "" };
        format!("{}{blank}{}", self.front, self.behind)
    }

    /// A pointer or reference to it.
    fn pointer(&self, sign: &str) -> Self {
        let blank = if self.blank { " " } else { "" };
        let wrapped = matches!(self.shape, TypeShape::Function | TypeShape::Array);
        let (open, close) = if wrapped { ("(", ")") } else { ("", "") };
        Self {
            front: format!("{}{blank}{open}{sign}", self.front),
            behind: format!("{close}{}", self.behind),
            blank: false,
            shape: TypeShape::Pointer,
        }
    }

    fn qualified(mut self, qualifiers: &Qualifiers) -> Self {
        let words = qualifiers.0.join(" ");
        match self.shape {
            TypeShape::Plain => self.front = format!("{words} {}", self.front),
            TypeShape::Pointer => {
                let blank = if self.blank { " " } else { "" };
                self.front = format!("{}{blank}{words}", self.front);
                self.blank = true;
            }
            TypeShape::Function => self.behind.push_str(&qualifiers.behind()),
            TypeShape::Array => {}
        }
        self
    }

    /// With a compiler's own qualifier.
    fn marked(self, word: &str) -> Self {
        let blank = if self.blank { " " } else { "" };
        Self { front: format!("{}{blank}{word}", self.front), blank: false, ..self }
    }

    /// `T1 *...`.
    fn expanded(mut self) -> Self {
        self.front.push_str("...");
        self
    }
}

impl Demangler<'_> {
    pub(super) fn typ(&mut self) -> Option<TypeText> {
        let read = self.deeper(Self::any_type)?;
        self.made(read.len())?;
        Some(read)
    }

    pub(super) fn qualifiers(&mut self) -> Qualifiers {
        let restrict = self.eat("r").then_some("restrict");
        let volatile = self.eat("V").then_some("volatile");
        let constant = self.eat("K").then_some("const");
        Qualifiers([constant, volatile, restrict].into_iter().flatten().collect())
    }

    fn any_type(&mut self) -> Option<TypeText> {
        let read = match self.peek()? {
            b'r' | b'V' | b'K' => {
                let qualifiers = self.qualifiers();
                if self.at("F") {
                    self.function_type(&qualifiers, "")?
                } else {
                    self.typ()?.qualified(&qualifiers)
                }
            }
            b'P' => self.pointer("*")?,
            b'R' => self.pointer("&")?,
            b'O' => self.pointer("&&")?,
            b'C' => {
                self.take(1)?;
                let text = format!("_Complex {} ", self.typ()?.whole());
                TypeText { blank: false, ..TypeText::new(text) }
            }
            b'M' => self.member_pointer()?,
            b'F' => self.function_type(&Qualifiers::none(), "")?,
            b'A' => self.array()?,
            b'D' => return self.extended(),
            b'T' => return self.template_parameter(),
            b'S' if !self.at("St") => return self.substituted(),
            b'S' | b'N' | b'Z' | b'0'..=b'9' => TypeText::new(self.name()?.text),
            b'u' => {
                self.take(1)?;
                TypeText::new(self.source_name()?)
            }
            b'U' => {
                self.take(1)?;
                let word = self.source_name()?;
                self.typ()?.marked(&word)
            }
            _ => return self.builtin(),
        };
        self.remember(read.clone())?;
        Some(read)
    }

    fn pointer(&mut self, sign: &str) -> Option<TypeText> {
        self.take(1)?;
        Some(self.typ()?.pointer(sign))
    }

    /// `int  :: S::*`.
    fn member_pointer(&mut self) -> Option<TypeText> {
        self.take(1)?;
        let class = self.typ()?.whole();
        Some(self.typ()?.pointer(&format!(" :: {class}::*")))
    }

    fn function_type(&mut self, qualifiers: &Qualifiers, exception: &str) -> Option<TypeText> {
        self.eat("F").then_some(())?;
        self.eat("Y");
        let returned = self.typ()?;
        let list = self.parameters()?;
        let reference = match self.peek()? {
            b'R' => " &",
            b'O' => " &&",
            _ => "",
        };
        self.take(usize::from(!reference.is_empty()))?;
        self.eat("E").then_some(())?;
        let qualifiers = qualifiers.behind();
        Some(TypeText {
            behind: format!("({list}){qualifiers}{reference}{exception}{}", returned.behind),
            shape: TypeShape::Function,
            ..returned
        })
    }

    fn array(&mut self) -> Option<TypeText> {
        self.take(1)?;
        let size = match self.peek()? {
            b'_' => String::new(),
            b'0'..=b'9' => self.number()?.to_string(),
            _ => self.expression()?,
        };
        self.eat("_").then_some(())?;
        let element = self.typ()?;
        Some(TypeText {
            behind: format!("[{size}]{}", element.behind),
            shape: TypeShape::Array,
            ..element
        })
    }

    /// A template parameter, with arguments if it is a template.
    fn template_parameter(&mut self) -> Option<TypeText> {
        let text = self.parameter()?;
        if self.conversion || !self.at("I") {
            let named = TypeText::new(text);
            self.remember(named.clone())?;
            return Some(named);
        }
        self.remember(TypeText::prefix(text.clone()))?;
        let named = TypeText::new(format!("{text}{}", self.arguments()?));
        self.remember(named.clone())?;
        Some(named)
    }

    fn substituted(&mut self) -> Option<TypeText> {
        let named = self.substitution()?;
        if self.conversion || !self.at("I") {
            return Some(named);
        }
        let named = TypeText::prefix(format!("{}{}", named.whole(), self.arguments()?));
        self.remember(named.clone())?;
        Some(named)
    }

    /// Types whose code begins with `D`.
    fn extended(&mut self) -> Option<TypeText> {
        let builtins = [
            ("Dn", "std::nullptr_t"),
            ("Da", "auto"),
            ("Dc", "decltype(auto)"),
            ("Dh", "__fp16"),
            ("DF16_", "_Float16"),
            ("Du", "char8_t"),
            ("Ds", "char16_t"),
            ("Di", "char32_t"),
        ];
        if let Some((_, text)) = builtins.iter().find(|(code, _)| self.eat(code)) {
            return Some(TypeText::new((*text).to_owned()));
        }
        let read = if self.at("Dt") || self.at("DT") {
            TypeText::new(self.decltype()?)
        } else if self.eat("Dp") {
            self.typ()?.expanded()
        } else if self.eat("Do") {
            self.function_type(&Qualifiers::none(), " noexcept")?
        } else {
            self.eat("Dv").then_some(())?;
            let count = self.number()?;
            self.eat("_").then_some(())?;
            let element = self.typ()?.whole();
            let size = format!("{count}*sizeof({element})");
            TypeText::new(format!("{element} __attribute((vector_size({size}))) "))
        };
        self.remember(read.clone())?;
        Some(read)
    }

    /// The type of an expression. A name in parentheses may have another type than the name alone.
    pub(super) fn decltype(&mut self) -> Option<String> {
        let (open, close) = if self.eat("DT") { ("((", "))") } else { ("(", ")") };
        if open.len() == 1 {
            self.eat("Dt").then_some(())?;
        }
        let of = self.expression()?;
        self.eat("E").then(|| format!("decltype{open}{of}{close}"))
    }

    fn builtin(&mut self) -> Option<TypeText> {
        let text = match self.take(1)? {
            "v" => "void",
            "w" => "wchar_t",
            "b" => "bool",
            "c" => "char",
            "a" => "signed char",
            "h" => "unsigned char",
            "s" => "short",
            "t" => "unsigned short",
            "i" => "int",
            "j" => "unsigned int",
            "l" => "long",
            "m" => "unsigned long",
            "x" => "long long",
            "y" => "unsigned long long",
            "n" => "__int128",
            "o" => "unsigned __int128",
            "f" => "float",
            "d" => "double",
            "e" => "long double",
            "g" => "__float128",
            _ => return None,
        };
        Some(TypeText::new(text.to_owned()))
    }
}
