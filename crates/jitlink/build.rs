//! Names the shared library and its version node as NVIDIA's are: programs that were linked against
//! one find the other.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // GNU ld makes one version node of the name of the library and puts all functions into it.
        // A version script would say the same, but rustc passes one of its own, and there can be
        // only one without a name.
        let major = if std::env::var_os("CARGO_FEATURE_CUDA12").is_some() { 12 } else { 13 };
        let name = format!("-Wl,-soname,libnvJitLink.so.{major}");
        for argument in ["-fuse-ld=bfd", &name, "-Wl,--default-symver"] {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
}
