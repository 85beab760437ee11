//! Expressions in mangled names, printed without parentheses for precedence, like nvlink's.

use super::{Demangler, within};

/// Operators by code, with how many operands they take.
const OPERATORS: [(&str, &str, usize); 40] = [
    ("pl", "+", 2),
    ("mi", "-", 2),
    ("ml", "*", 2),
    ("dv", "/", 2),
    ("rm", "%", 2),
    ("an", "&", 2),
    ("or", "|", 2),
    ("eo", "^", 2),
    ("aS", "=", 2),
    ("pL", "+=", 2),
    ("mI", "-=", 2),
    ("mL", "*=", 2),
    ("dV", "/=", 2),
    ("rM", "%=", 2),
    ("aN", "&=", 2),
    ("oR", "|=", 2),
    ("eO", "^=", 2),
    ("ls", "<<", 2),
    ("rs", ">>", 2),
    ("lS", "<<=", 2),
    ("rS", ">>=", 2),
    ("eq", "==", 2),
    ("ne", "!=", 2),
    ("lt", "<", 2),
    ("gt", ">", 2),
    ("le", "<=", 2),
    ("ge", ">=", 2),
    ("ss", "<=>", 2),
    ("aa", "&&", 2),
    ("oo", "||", 2),
    ("cm", ",", 2),
    ("pm", "->*", 2),
    ("ps", "+", 1),
    ("ng", "-", 1),
    ("ad", "&", 1),
    ("de", "*", 1),
    ("co", "~", 1),
    ("nt", "!", 1),
    ("pp", "++", 1),
    ("mm", "--", 1),
];

/// The sign of the operator with `code`.
pub(super) fn sign(code: &str) -> Option<&'static str> {
    let named = OPERATORS.iter().find(|named| named.0 == code);
    named.map(|&(_, sign, _)| sign)
}

impl Demangler<'_> {
    pub(super) fn expression(&mut self) -> Option<String> {
        let text = self.deeper(Self::any_expression)?;
        self.made(text.len())?;
        Some(text)
    }

    fn any_expression(&mut self) -> Option<String> {
        match self.peek()? {
            b'L' => return self.literal(),
            b'T' => return self.parameter(),
            b'0'..=b'9' => return self.simple_name(),
            _ => {}
        }
        if self.at("fp") || (self.at("fL") && self.rest[2..].starts_with(digit)) {
            return self.function_parameter();
        }
        if self.at("sr") {
            return self.qualified_name();
        }
        let code = self.take(2)?;
        match OPERATORS.iter().find(|named| named.0 == code) {
            Some(&(_, sign, operands)) => self.operation(code, sign, operands),
            None => self.other_expression(code),
        }
    }

    fn operation(&mut self, code: &str, sign: &str, operands: usize) -> Option<String> {
        if operands == 2 {
            return Some(format!("{}{sign}{}", self.expression()?, self.expression()?));
        }
        if matches!(code, "pp" | "mm") && !self.eat("_") {
            return Some(format!("{}{sign}", self.expression()?));
        }
        Some(format!("{sign}{}", self.expression()?))
    }

    fn other_expression(&mut self, code: &str) -> Option<String> {
        Some(match code {
            "ix" => format!("{}[{}]", self.expression()?, self.expression()?),
            "qu" => {
                let condition = self.expression()?;
                format!("{condition}?{}:{}", self.expression()?, self.expression()?)
            }
            "cl" => format!("{}({})", self.expression()?, self.expressions("E")?),
            "cv" => {
                let to = self.typ()?.whole();
                if self.eat("_") {
                    format!("{to}({})", self.expressions("E")?)
                } else {
                    format!("({to}){}", self.expression()?)
                }
            }
            "tl" => format!("{}{{{}}}", self.typ()?.whole(), self.expressions("E")?),
            "il" => format!("{{{}}}", self.expressions("E")?),
            "dt" => format!("({}.{})", self.expression()?, self.simple_name()?),
            "pt" => format!("({}->{})", self.expression()?, self.simple_name()?),
            "st" => format!("sizeof({})", self.typ()?.whole()),
            "sz" => format!("sizeof({})", self.expression()?),
            "at" => format!("alignof({})", self.typ()?.whole()),
            "az" => format!("alignof({})", self.expression()?),
            "ti" => format!("typeid({})", self.typ()?.whole()),
            "te" => format!("typeid({})", self.expression()?),
            "nx" => format!("noexcept({})", self.expression()?),
            "tw" => format!("throw {}", self.expression()?),
            "sp" => format!("{}...", self.expression()?),
            "sZ" => format!("sizeof...({})", self.expression()?),
            "sc" => self.cast("static_cast")?,
            "dc" => self.cast("dynamic_cast")?,
            "rc" => self.cast("reinterpret_cast")?,
            "cc" => self.cast("const_cast")?,
            "fl" | "fr" | "fL" | "fR" => self.fold(code)?,
            // Not printed are expressions for placement.
            "nw" if self.eat("_") => {
                let of = self.typ()?.whole();
                self.eat("E").then(|| format!("new {of}"))?
            }
            _ => return None,
        })
    }

    fn cast(&mut self, name: &str) -> Option<String> {
        Some(format!("{name}<{}>({})", self.typ()?.whole(), self.expression()?))
    }

    /// `(...+x)`.
    fn fold(&mut self, code: &str) -> Option<String> {
        let operator = self.take(2)?;
        let sign = sign(operator)?;
        let first = self.expression()?;
        Some(match code {
            "fl" => format!("(...{sign}{first})"),
            "fr" => format!("({first}{sign}...)"),
            _ => format!("({first}{sign}...{sign}{})", self.expression()?),
        })
    }

    /// Expressions up to `end`.
    fn expressions(&mut self, end: &str) -> Option<String> {
        let mut list = Vec::new();
        while !self.eat(end) {
            list.push(self.expression()?);
        }
        Some(list.join(", "))
    }

    /// A name, with its template arguments.
    fn simple_name(&mut self) -> Option<String> {
        let name = self.source_name()?;
        let arguments = if self.at("I") { self.arguments()? } else { String::new() };
        Some(format!("{name}{arguments}"))
    }

    /// `T1::value`.
    fn qualified_name(&mut self) -> Option<String> {
        self.take(2)?;
        let mut scope = String::new();
        if self.peek()?.is_ascii_digit() {
            while !self.eat("E") {
                scope = within(&scope, &self.simple_name()?);
                self.made(scope.len())?;
            }
        } else {
            scope = self.typ()?.whole();
        }
        Some(within(&scope, &self.simple_name()?))
    }

    /// `fp_`, `fp0_`: the first parameter, the second. `fL0p_`: that of the function around it.
    fn function_parameter(&mut self) -> Option<String> {
        let mut level = String::new();
        if self.eat("fL") {
            let levels = self.number()? + 1;
            let plural = if levels == 1 { "" } else { "s" };
            level = format!("[up {levels} level{plural}]");
            self.eat("p").then_some(())?;
        } else {
            self.eat("fp").then_some(())?;
            if self.eat("T") {
                return Some("this".to_owned());
            }
        }
        let qualifiers = self.qualifiers().behind();
        let words = qualifiers.trim_start();
        let blank = if words.is_empty() { "" } else { " " };
        Some(format!("{words}{blank}param#{}{level}", self.sequence()? + 1))
    }

    /// A value, or the name of a function or variable.
    pub(super) fn literal(&mut self) -> Option<String> {
        self.eat("L").then_some(())?;
        if self.eat("_Z") {
            let named = self.encoding(false)?;
            return self.eat("E").then_some(named);
        }
        if self.eat("DnE") {
            return Some("nullptr".to_owned());
        }
        let floating = matches!(self.peek()?, b'f' | b'd' | b'e' | b'g');
        let kind = self.typ()?.whole();
        // The bits of a floating-point value are not read.
        let value = if floating { None } else { self.signed() }?;
        self.eat("E").then(|| format!("({kind}){value}"))
    }
}

fn digit(letter: char) -> bool {
    letter.is_ascii_digit()
}
