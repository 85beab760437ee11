//! PTX text as words.
//!
//! In: text. Out: tokens with the lines they stand in. Guaranteed: every byte is looked at once;
//! what is no token of PTX is a mark of its own, so nothing is lost and nothing fails.

/// A word of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// `.global`, `.shared::cta`: with its dot.
    Directive(&'t str),
    /// A name or a number; numbers begin with a digit.
    Word(&'t str),
    /// Between quotes, without them.
    Text,
    /// Anything else.
    Mark(char),
}

/// Tokens of a text.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'t> {
    rest: &'t str,
    line: u32,
    /// The line of the token that was taken last.
    pub(crate) last_line: u32,
    peeked: Option<(Token<'t>, u32)>,
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%') || !c.is_ascii()
}

impl<'t> Tokens<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Tokens { rest: text, line: 1, last_line: 1, peeked: None }
    }

    /// The next token, which stays the next.
    pub(crate) fn peek(&mut self) -> Option<Token<'t>> {
        if self.peeked.is_none() {
            self.peeked = self.scan();
        }
        self.peeked.map(|(token, _)| token)
    }

    pub(crate) fn next(&mut self) -> Option<Token<'t>> {
        let (token, line) = self.peeked.take().or_else(|| self.scan())?;
        self.last_line = line;
        Some(token)
    }

    /// Takes the next token if it is this mark.
    pub(crate) fn take(&mut self, mark: char) -> bool {
        let is = self.peek() == Some(Token::Mark(mark));
        if is {
            self.next();
        }
        is
    }

    fn scan(&mut self) -> Option<(Token<'t>, u32)> {
        self.skip_blank();
        let line = self.line;
        let first = self.rest.chars().next()?;
        let after = self.rest.get(first.len_utf8()..).unwrap_or_default();
        let token = match first {
            '"' => {
                self.skip_text(after);
                return Some((Token::Text, line));
            }
            '.' if after.starts_with(in_name) => Token::Directive(self.cut(1 + name_end(after))),
            c if c.is_ascii_digit() => Token::Word(self.cut(number_end(self.rest))),
            c if in_name(c) => Token::Word(self.cut(name_end(self.rest))),
            c => {
                self.cut(c.len_utf8());
                Token::Mark(c)
            }
        };
        Some((token, line))
    }

    /// Takes `end` bytes.
    fn cut(&mut self, end: usize) -> &'t str {
        let (head, tail) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.line = self.line.saturating_add(lines(head));
        self.rest = tail;
        head
    }

    /// Passes over blanks and comments.
    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_ascii_start().len();
            self.cut(blank);
            let marker = || self.rest.starts_with('#').then(|| line_len(self.rest));
            let Some(end) = comment_len(self.rest).or_else(marker) else { return };
            self.cut(end);
        }
    }

    /// Passes over a text whose first quote stands before `after`.
    fn skip_text(&mut self, after: &str) {
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.cut(end.map_or(self.rest.len(), |end| end + 2));
    }
}

/// The length in bytes of the comment at the start of the PTX `text`, without the end of its line;
/// `None` if there is none.
pub fn comment_len(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(line_len(text));
    }
    let comment = text.strip_prefix("/*")?;
    Some(comment.find("*/").map_or(text.len(), |at| at + "/**/".len()))
}

/// The length of the first line of `text`, without its end.
fn line_len(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|&byte| byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// The end of a name, sub-qualifiers (`::cta`) included.
fn name_end(text: &str) -> usize {
    let mut end = text.find(|c| !in_name(c)).unwrap_or(text.len());
    while let Some(more) = text.get(end..).and_then(|rest| rest.strip_prefix("::")) {
        if !more.starts_with(in_name) {
            break;
        }
        end += 2 + more.find(|c| !in_name(c)).unwrap_or(more.len());
    }
    end
}

/// The end of a number: `8.5`, `0f3F800000`, `0x10U`.
fn number_end(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let fraction = text.get(end..).and_then(|rest| rest.strip_prefix('.'));
    match fraction.filter(|fraction| fraction.starts_with(|c: char| c.is_ascii_digit())) {
        Some(more) => {
            end + 1 + more.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(more.len())
        }
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(Token<'_>, u32)> {
        let mut tokens = Tokens::new(text);
        std::iter::from_fn(|| tokens.next().map(|token| (token, tokens.last_line))).collect()
    }

    #[test]
    fn words_directives_and_lines() {
        let text = ".version 8.5 // c\n.ptr.global.align 16 /* a\nb */ %r1 $x_0;\n\"a\\\"b\n\" .shared::cta é";
        use Token::{Directive, Mark, Text, Word};
        assert_eq!(
            all(text),
            [
                (Directive(".version"), 1),
                (Word("8.5"), 1),
                (Directive(".ptr"), 2),
                (Directive(".global"), 2),
                (Directive(".align"), 2),
                (Word("16"), 2),
                (Word("%r1"), 3),
                (Word("$x_0"), 3),
                (Mark(';'), 3),
                (Text, 4),
                (Directive(".shared::cta"), 5),
                (Word("é"), 5),
            ]
        );
    }

    #[test]
    fn what_does_not_end_ends_with_the_text() {
        assert_eq!(all("/* x"), []);
        assert_eq!(all("\"x").len(), 1);
        assert_eq!(all("\"x\\").len(), 1);
        assert_eq!(all(". ..x::").len(), 5);
        assert_eq!(all("1.").len(), 2);
    }
}
