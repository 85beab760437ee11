//! Mangled names, as they are in the source.
//!
//! In: a symbol's name. Out: the C++ declaration that it stands for, if it is mangled. Guaranteed:
//! bounded work and text for any name. Without feature `demangle` no name is read.

/// Bytes of the longest name that is demangled.
#[cfg(feature = "demangle")]
const LONGEST_NAME: usize = 4 << 10;

/// Bytes of the longest text: a few bytes of name can stand for any amount of text.
#[cfg(feature = "demangle")]
const LONGEST_TEXT: usize = 16 << 10;

/// The wanted part of a declaration.
enum NameExtent {
    Declaration,
    /// Neither parameters nor return type.
    Name,
}

/// The C++ declaration that `name` stands for; `None` if it is not mangled, or too long.
pub fn demangle(name: &str) -> Option<String> {
    demangled(name, NameExtent::Declaration)
}

/// What `name` declares, without parameters and template arguments: `ns::f`.
pub(crate) fn declared_name(name: &str) -> Option<String> {
    let text = demangled(name, NameExtent::Name)?;
    let mut depth = 0usize;
    let outside = text.chars().filter(|&letter| {
        depth += usize::from(letter == '<');
        let keep = depth == 0;
        depth -= usize::from(letter == '>' && depth > 0);
        keep
    });
    // In names of operators, angle brackets may not be those of template arguments.
    Some(if text.contains("operator") { text } else { outside.collect() })
}

/// `name` without nvcc's prefix for `static` functions: the id of the file, with its length.
pub(crate) fn without_file_id(name: &str) -> &str {
    let rest = || {
        let (length, rest) = name.strip_prefix("__nv_static_")?.split_once('_')?;
        rest.get(length.parse().ok()?..)?.strip_prefix('_')
    };
    rest().unwrap_or(name)
}

/// The mangled name in that of a variable of a function: `$___ZZ1kvE1s__12`, or
/// `$___ZZ1kvE1s_$_0__12`.
#[cfg(feature = "demangle")]
fn without_number(name: &str) -> &str {
    let numbered = |name: &str, front: &str| {
        let (name, number) = name.rsplit_once(front)?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(name.len())
    };
    let inner = || {
        let rest = name.strip_prefix("$__")?;
        let inner = &rest[..numbered(rest, "__")?];
        let inner = &inner[..numbered(inner, "_$_").unwrap_or(inner.len())];
        inner.starts_with("_Z").then_some(inner)
    };
    inner().unwrap_or(name)
}

/// `name` without the namespace, named after the file, into which nvcc puts members of unnamed
/// namespaces.
#[cfg(feature = "demangle")]
fn without_file_namespace(name: String) -> String {
    let Some((head, rest)) = name.split_once("_INTERNAL_") else { return name };
    match rest.split_once("::") {
        Some((_, rest)) => format!("{head}{rest}"),
        None => name,
    }
}

#[cfg(not(feature = "demangle"))]
fn demangled(_: &str, _: NameExtent) -> Option<String> {
    None
}

#[cfg(feature = "demangle")]
fn demangled(name: &str, extent: NameExtent) -> Option<String> {
    use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};
    use std::fmt;

    /// Text of bounded length.
    struct BoundedText(String);

    impl DemangleWrite for BoundedText {
        fn write_string(&mut self, text: &str) -> fmt::Result {
            if self.0.len() + text.len() > LONGEST_TEXT {
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }

    let whole = name;
    let name = without_number(without_file_id(whole));
    if name.len() > LONGEST_NAME {
        return None;
    }
    if !name.starts_with("_Z") {
        // What is static may have a name that is not mangled.
        return (name.len() < whole.len() && !name.is_empty()).then(|| name.to_owned());
    }
    let symbol = Symbol::new(name).ok()?;
    let mut text = BoundedText(String::new());
    let options = match extent {
        NameExtent::Declaration => DemangleOptions::new(),
        NameExtent::Name => DemangleOptions::new().no_params().no_return_type(),
    };
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(without_file_namespace(text.0))
}

#[cfg(all(test, feature = "demangle"))]
mod tests {
    use super::*;

    #[test]
    fn names_that_nvcc_puts_together_are_taken_apart() {
        let of_file = "__nv_static_25__90ba2bef_5_u2_cu__Z2k2Pi_";
        for (name, source) in [
            ("gv", "gv"),
            ("_Z1fi", "f(int)"),
            ("_ZN34_INTERNAL_90ba2bef_5_u2_cu__Z2k2Pi1n5deep2E", "n::deep2"),
        ] {
            assert_eq!(demangle(&format!("{of_file}{name}")).as_deref(), Some(source), "{name}");
        }
        for name in ["$___ZZ2f5iE3fsh__847", "$___ZZ2f5iE3fsh_$_0__1944"] {
            assert_eq!(demangle(name).as_deref(), Some("f5(int)::fsh"), "{name}");
        }
        for plain in ["$str$1", "$___ZZ2f5iE3fsh__", "$__gv__3", "__nv_static_25__short", of_file] {
            assert_eq!(demangle(plain), None, "{plain}");
        }
    }

    #[test]
    fn only_mangled_names_are_recognised() {
        assert_eq!(demangle("_Z3fooiPKf").as_deref(), Some("foo(int, float const*)"));
        assert_eq!(demangle("_ZN2ns1vE").as_deref(), Some("ns::v"));
        for plain in ["foo", "_Z", "_Zgarbage", "_Z3fo", ""] {
            assert_eq!(demangle(plain), None, "{plain}");
        }
    }

    #[test]
    fn declared_names_have_no_arguments() {
        for (mangled, name) in [
            ("_Z3fooiPKf", "foo"),
            ("_ZN2ns1vE", "ns::v"),
            ("_ZN2ns1CIiE1fIfEEvT_", "ns::C::f"),
            ("_ZlsR1aRKS_", "operator<<"),
        ] {
            assert_eq!(declared_name(mangled).as_deref(), Some(name));
        }
        assert_eq!(declared_name("foo"), None);
    }

    #[test]
    fn a_name_that_grows_without_end_is_not_demangled() {
        // Every argument contains the one before it twice.
        let mut bomb = String::from("_Z1f1aIiiE");
        let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for digit in digits.chars() {
            bomb.push_str(&format!("S_IS{digit}_S{digit}_E"));
            let text = demangle(&bomb);
            assert!(text.is_none_or(|text| text.len() <= LONGEST_TEXT));
        }
        assert_eq!(demangle(&bomb), None);
        assert!(demangle("_Z1f1aIiiES_IS0_S0_E").is_some());
        assert_eq!(demangle(&format!("_Z{}f", "N".repeat(LONGEST_NAME))), None);
    }
}
