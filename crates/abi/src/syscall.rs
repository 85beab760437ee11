//! System calls: functions that the driver defines. The guide, chapter 3.
//!
//! In: a name. Out: the prototype that PTX has to declare. Guaranteed: types follow the address
//! size.

use crate::types::{AddressSize, Fundamental};

/// The type of a parameter or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordType {
    /// Always this type.
    Fixed(Fundamental),
    /// An address: `.b32` or `.b64`.
    Pointer,
    /// A `size_t`: `.b32` or `.b64`.
    Size,
}

impl WordType {
    /// The type for addresses of this size.
    pub const fn resolve(self, address: AddressSize) -> Fundamental {
        match self {
            WordType::Fixed(one) => one,
            WordType::Pointer | WordType::Size => address.untyped(),
        }
    }
}

/// A parameter or result with its name in the guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the guide.
    pub name: &'static str,
    /// Its type.
    pub word: WordType,
    /// Its meaning.
    pub meaning: &'static str,
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCall {
    /// Its name.
    pub name: &'static str,
    /// Its result.
    pub result: Option<Argument>,
    /// Its parameters.
    pub parameters: &'static [Argument],
    /// Which function or macro of which header is made of it.
    pub emitted_by: (&'static str, &'static str),
}

const fn argument(name: &'static str, word: WordType, meaning: &'static str) -> Argument {
    Argument { name, word, meaning }
}

/// All that the guide names.
pub const SYSTEM_CALLS: [SystemCall; 4] = [
    SystemCall {
        name: "vprintf",
        result: Some(argument("status", WordType::Fixed(Fundamental::S32), "the status value")),
        parameters: &[
            argument("format", WordType::Pointer, "the format specifier input"),
            argument("valist", WordType::Pointer, "the valist input"),
        ],
        emitted_by: ("printf", "stdio.h"),
    },
    SystemCall {
        name: "malloc",
        result: Some(argument("ptr", WordType::Pointer, "the memory that was allocated")),
        parameters: &[argument("size", WordType::Size, "the size of memory needed")],
        emitted_by: ("malloc", "malloc.h"),
    },
    SystemCall {
        name: "free",
        result: None,
        parameters: &[argument("ptr", WordType::Pointer, "the memory that should be freed")],
        emitted_by: ("free", "malloc.h"),
    },
    SystemCall {
        name: "__assertfail",
        result: None,
        parameters: &[
            argument("message", WordType::Pointer, "the string that should be output"),
            argument("file", WordType::Pointer, "the file name string associated with the assert"),
            argument("line", WordType::Fixed(Fundamental::B32), "the line number of the assert"),
            argument("function", WordType::Pointer, "the function name string of the assert"),
            argument("charSize", WordType::Size, "the size in bytes of the characters; 1 only"),
        ],
        emitted_by: ("assert", "assert.h"),
    },
];

impl SystemCall {
    /// The system call of this name.
    pub fn by_name(name: &str) -> Option<&'static SystemCall> {
        SYSTEM_CALLS.iter().find(|call| call.name == name)
    }

    /// The declaration that PTX has to have.
    ///
    /// ```
    /// use culd_abi::{syscall::SystemCall, types::AddressSize};
    /// let malloc = SystemCall::by_name("malloc").unwrap();
    /// assert_eq!(
    ///     malloc.prototype(AddressSize::Bits64),
    ///     ".extern .func (.param .b64 ptr) malloc (.param .b64 size)"
    /// );
    /// ```
    pub fn prototype(&self, address: AddressSize) -> String {
        let declare = |argument: &Argument| {
            format!(".param {} {}", argument.word.resolve(address), argument.name)
        };
        let result = self.result.iter().map(|result| format!("({}) ", declare(result)));
        let parameters = self.parameters.iter().map(declare).collect::<Vec<_>>().join(", ");
        format!(".extern .func {}{} ({parameters})", result.collect::<String>(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_those_of_the_guide() {
        let text = |name, address| SystemCall::by_name(name).unwrap().prototype(address);
        let (short, long) = (AddressSize::Bits32, AddressSize::Bits64);
        assert_eq!(
            text("vprintf", long),
            ".extern .func (.param .s32 status) vprintf (.param .b64 format, .param .b64 valist)"
        );
        assert_eq!(
            text("malloc", short),
            ".extern .func (.param .b32 ptr) malloc (.param .b32 size)"
        );
        assert_eq!(text("free", long), ".extern .func free (.param .b64 ptr)");
        assert_eq!(
            text("__assertfail", long),
            ".extern .func __assertfail (.param .b64 message, .param .b64 file, .param .b32 line, \
             .param .b64 function, .param .b64 charSize)"
        );
        assert!(SystemCall::by_name("printf").is_none());
    }
}
