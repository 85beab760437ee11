//! The interface check on small programs, one for each fault and one for what is none.
#![allow(clippy::unwrap_used)]

use culd_abi::check::{NamedModule, check};
use culd_abi::ptx::Module;

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// What is found in `texts`, which are called a, b, ... and begin behind line 3.
fn found(texts: &[&str]) -> Vec<String> {
    let texts: Vec<String> = texts.iter().map(|text| format!("{HEAD}{text}")).collect();
    found_in(&texts)
}

fn found_in(texts: &[String]) -> Vec<String> {
    let modules: Vec<(String, Module)> = texts
        .iter()
        .zip('a'..)
        .map(|(text, name)| {
            let module = Module::parse(text);
            assert_eq!(module.unread, [], "{text}");
            (name.to_string(), module)
        })
        .collect();
    let named: Vec<NamedModule<'_>> =
        modules.iter().map(|(name, module)| NamedModule { name, module }).collect();
    let show = |finding: &culd_abi::check::Finding| match &finding.other {
        Some((place, says)) => format!("{finding} ({place}: {says})"),
        None => finding.to_string(),
    };
    check(&named).iter().map(show).collect()
}

const F: &str =
    ".visible .func (.param .b32 r) f(.param .b64 x, .param .align 8 .b8 y[16]) { ret; }";

#[test]
fn what_agrees_is_not_reported() {
    for other in [
        ".extern .func (.param .b32 r) f(.param .b64 x, .param .align 8 .b8 y[16]);",
        ".extern .func (.param .u32 r) f(.param .s64 x, .param .b8 .align 8 y[16]);",
        ".extern .func (.param .f32 r) f(.reg .u64 x, .param .align 8 .b8 y[16]);",
        ".weak .func (.param .s32 r) f(.param .b64 x, .param .align 8 .b8 y[16]) { ret; }",
        // Another module's own function.
        ".func f(.param .b16 x); .func f(.param .b16 x) { ret; }",
        ".extern .shared .align 16 .b8 dynamic[];",
    ] {
        assert_eq!(found(&[F, other]), [""; 0], "{other}");
        assert_eq!(found(&[other, F]), [""; 0], "{other}");
    }
    let data = [
        ".visible .global .align 8 .b8 a[16]; .common .global .b32 c; .extern .shared .b32 s[];",
        ".extern .global .align 4 .u32 a[]; .common .global .b32 c[2]; .extern .shared .b8 s[];",
        ".extern .global .b64 a[2]; .weak .const .b32 w = 1;",
        ".weak .const .b32 w = 2;",
    ];
    assert_eq!(found(&data), [""; 0]);
}

#[test]
fn interfaces_of_functions_are_compared() {
    for (other, messages) in [
        (
            ".extern .func f(.param .b64 x, .param .align 8 .b8 y[16]);",
            "b, line 4: 'f' has another number of return values: 0 (a, line 4: 1)",
        ),
        (
            ".extern .func (.param .b32 r) f(.param .b64 x);",
            "b, line 4: 'f' has another number of parameters: 1 (a, line 4: 2)",
        ),
        (
            ".extern .func (.param .b32 r) f(.param .b32 x, .param .align 8 .b8 y[16]);",
            "b, line 4: parameter 1 of 'f' has another size: .param .b32 (a, line 4: .param .b64)",
        ),
        (
            ".extern .func (.param .b64 r) f(.param .b64 x, .param .align 8 .b8 y[16]);",
            "b, line 4: return value 1 of 'f' has another size: .param .b64 (a, line 4: .param .b32)",
        ),
        (
            ".extern .func (.param .b32 r) f(.param .b64 x, .param .align 4 .b8 y[16]);",
            "b, line 4: parameter 2 of 'f' has another alignment: .param .align 4 .b8[16] (a, line 4: .param .align 8 .b8[16])",
        ),
        (
            ".extern .func (.param .align 4 .b8 r[4]) f(.param .b64 x, .param .align 8 .b8 y[16]);",
            "b, line 4: return value 1 of 'f' has another type: .param .align 4 .b8[4] (a, line 4: .param .b32)",
        ),
        (".extern .global .b32 f;", "b, line 4: 'f' is a variable here (a, line 4: a function)"),
        (
            ".visible .entry f() { ret; }",
            "b, line 4: 'f' is defined twice (a, line 4: defined)\nb, line 4: 'f' is a kernel here (a, line 4: a function)",
        ),
        (
            ".weak .func f() { ret; }",
            "b, line 4: 'f' has another number of return values: 0 (a, line 4: 1)\nb, line 4: 'f' has another number of parameters: 0 (a, line 4: 2)",
        ),
    ] {
        assert_eq!(found(&[F, other]).join("\n"), messages);
        // The definition is right, wherever it stands.
        let turned = found(&[other, F]).join("\n");
        let swap = messages
            .replace("b, line", "?, line")
            .replace("(a,", "(b,")
            .replace("?, line", "a, line");
        if !messages.contains("twice") {
            assert_eq!(turned, swap);
        }
    }
    let floats = found(&[
        ".visible .func f(.param .f32 x) { ret; }",
        ".extern .func f(.param .u32 x);",
        "// a comment\n\n.extern .func f(\n.param .b32 x\n);",
    ]);
    assert_eq!(
        floats,
        ["b, line 4: parameter 1 of 'f' has another type: .param .u32 (a, line 4: .param .f32)"]
    );
}

#[test]
fn declarations_without_a_definition_are_compared_too() {
    let messages = found(&[".extern .func f(.param .b32 x);", ".extern .func f(.param .b64 x);"]);
    assert_eq!(
        messages,
        ["b, line 4: parameter 1 of 'f' has another size: .param .b64 (a, line 4: .param .b32)"]
    );
    let within = found(&[".func f(.param .b32 x);\n.func f(.param .b64 x) { ret; }"]);
    assert_eq!(
        within,
        ["a, line 4: parameter 1 of 'f' has another size: .param .b32 (a, line 5: .param .b64)"]
    );
}

#[test]
fn variables_are_compared() {
    for (other, messages) in [
        (
            ".extern .const .align 8 .b8 g[16];",
            "b, line 4: 'g' is in .const here (a, line 4: .global)",
        ),
        (
            ".extern .global .align 8 .b8 g[12];",
            "b, line 4: 'g' has 12 bytes here (a, line 4: 16 bytes)",
        ),
        (
            ".extern .global .align 16 .b8 g[16];",
            "b, line 4: 'g' is expected to be aligned to 16 bytes (a, line 4: aligned to 8)",
        ),
        (
            ".visible .global .align 8 .b8 g[16];",
            "b, line 4: 'g' is defined twice (a, line 4: defined)",
        ),
        (".extern .func g();", "b, line 4: 'g' is a function here (a, line 4: a variable)"),
    ] {
        assert_eq!(found(&[".visible .global .align 8 .b8 g[16];", other]).join("\n"), messages);
    }
}

#[test]
fn documented_limits_hold() {
    for (text, messages) in [
        (
            ".extern .func f(.param .align 3 .b8 x[3]);",
            "a, line 4: parameter 1 of 'f' is aligned to 3 bytes, which is none of 1, 2, 4, 8, 16, 32, 64 and 128",
        ),
        (
            ".extern .func f(.param .align 256 .b8 x[256]);",
            "a, line 4: parameter 1 of 'f' is aligned to 256 bytes, which is none of 1, 2, 4, 8, 16, 32, 64 and 128",
        ),
        (
            ".extern .func (.reg .b16 r) f();",
            "a, line 4: return value 1 of 'f' is a register of 16 bits: the ABI wants 32 at least",
        ),
        (
            ".extern .func f(.reg .b32 a, .reg .pred p);",
            "a, line 4: parameter 2 of 'f' is a register of 1 bits: the ABI wants 32 at least",
        ),
        (".reg .b32 r;", "a, line 4: 'r' is in .reg, which with the ABI is for functions only"),
        (".local .b32 l;", "a, line 4: 'l' is in .local, which with the ABI is for functions only"),
        (".extern .func f(.param .b8 a, .param .b16 b, .param .align 128 .b8 c[1]);", ""),
        (
            ".const .b8 c[65536]; .const .b8 d;",
            "a, line 4: with 'd' constants take 65537 bytes of the 65536 that there are",
        ),
        (".const .b8 c[65536]; .extern .const .b8 d;", ""),
    ] {
        assert_eq!(found(&[text]).join("\n"), messages, "{text}");
    }
    // Together, and weak ones once.
    let all = found(&[
        ".visible .const .b8 a[40000];",
        ".weak .const .b8 b[20000];",
        ".weak .const .b8 b[20000];",
    ]);
    assert_eq!(all, [""; 0]);
    let all =
        found(&[".visible .const .b8 a[40000];", ".const .b8 b[20000];", ".const .b8 b[20000];"]);
    assert_eq!(all, ["c, line 4: with 'b' constants take 80000 bytes of the 65536 that there are"]);
}

#[test]
fn modules_are_for_one_host_and_have_the_abi() {
    let short = ".version 8.0\n.target sm_90\n.address_size 32\n".to_owned();
    let messages = found_in(&[HEAD.to_owned(), short]);
    assert_eq!(messages, ["b, line 1: addresses have 32 bits here (a, line 1: 64 bits)"]);
    let old = ".version 1.4\n.target sm_13\n.extern .func f();\n.reg .b32 r;".to_owned();
    let messages = found_in(&[old]);
    assert_eq!(
        messages,
        ["a, line 1: PTX 1.4 has no ABI: functions of other modules can be called from 2.0 on"]
    );
}

#[test]
fn system_calls_are_those_of_the_driver() {
    let right = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n\
                 .extern .func (.param .u64 r) malloc(.param .u64 s);\n.extern .func free(.param .b64 p);\n\
                 .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);";
    assert_eq!(found(&[right]), [""; 0]);
    assert_eq!(
        found(&[".extern .func (.param .b64 p) malloc(.param .b32 size);"]),
        ["a, line 4: system call 'malloc' is declared otherwise than the driver defines it: \
          .extern .func (.param .b64 ptr) malloc (.param .b64 size)"]
    );
    // A module's own function of that name is no system call.
    assert_eq!(found(&[".visible .func malloc(.param .b32 size) { ret; }"]), [""; 0]);
}
