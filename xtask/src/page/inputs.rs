//! Makes the objects of the links whose pages are tested.
//!
//! In: nothing. Out: cubins. Guaranteed: the same on every machine; no reference tool is needed.

use anyhow::{Context, Result};
use culd_cubin::arch::Arch;
use culd_cubin::build::{Builder, Code, Kernel, Linkage, Space, Variable};

/// Objects of the large link, and functions of each.
pub(super) const OBJECTS: usize = 200;
pub(super) const FUNCTIONS: usize = 50;

/// Names that would have an effect if a page interpreted them.
pub(super) const HOSTILE: [&str; 6] = [
    "</script><script>document.title='obeyed'</script>",
    "<img src=x onerror=document.title='obeyed'>",
    "\u{1b}[31m\u{202e}gnp.exe",
    "\"onmouseover=\"document.title='obeyed'",
    "=cmd|'/c calc'!A1",
    "javascript:document.title='obeyed'//",
];

fn builder() -> Result<Builder> {
    Ok(Builder::new(Arch::by_name("sm_90").context("sm_90")?))
}

fn code(bytes: usize, registers: u8) -> Code {
    Code::new(vec![0; bytes]).registers(registers)
}

/// A C++ name: `void ns<a>::part<b>::f<n><7>(float*)`.
pub(super) fn name(object: usize, function: usize) -> String {
    let part = |text: String| format!("{}{text}", text.len());
    let (space, inner) = (part(format!("ns{}", object % 9)), part(format!("part{}", function % 5)));
    let own = part(format!("f{object}x{function}"));
    format!("_ZN{space}{inner}{own}ILi7EEEvPf")
}

/// The objects of a link with 10,000 functions, every fifth of which is a kernel; all objects
/// define one template.
pub(super) fn large() -> Result<Vec<(String, Vec<u8>)>> {
    let object = |object: usize| {
        let mut builder = builder()?;
        let shared = builder.function("_Z8templateIiEvT_", Linkage::Weak);
        builder.define(shared, code(512, 40));
        let own: Vec<_> = (0..FUNCTIONS)
            .map(|function| builder.function(name(object, function), Linkage::Global))
            .collect();
        for (function, &id) in own.iter().enumerate() {
            let bytes = 128 * (1 + (object * 7 + function * 3) % 40);
            let registers = 16 + ((object + 5 * function) % 90) as u8;
            let mut code = code(bytes, registers).frame(16 * (function as u32 % 4));
            // Calls go forward, so there is a deepest chain.
            let next = (function + 1) % 5;
            if next != 0 && function + 1 < FUNCTIONS {
                code = code.call(own[function + 1]);
            }
            if function % 5 == 0 {
                code = code.call(shared).kernel(Kernel::new([(8, 8), (4, 4)]));
            }
            builder.define(id, code);
        }
        builder.variable(Variable::zero(format!("table{object}"), Space::Global, 4096));
        Ok((format!("lib{}/object{object}.cubin", object % 6), builder.finish()?))
    };
    (0..OBJECTS).map(object).collect()
}

/// An object whose names are hostile, one of them a million letters long.
pub(super) fn hostile() -> Result<Vec<(String, Vec<u8>)>> {
    let mut builder = builder()?;
    let long = "l".repeat(1 << 20);
    for name in HOSTILE.into_iter().chain([long.as_str()]) {
        let kernel = builder.function(name, Linkage::Global);
        builder.define(kernel, code(128, 8).kernel(Kernel::new([])));
    }
    Ok(vec![(
        "<b>'\" a file whose name is wider than its column.cubin".to_owned(),
        builder.finish()?,
    )])
}
