//! Objects made with `culd::cubin::build`: links with compiled ones, and refused builds.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use culd::cubin::Cubin;
use culd::cubin::arch::{ARCHS, Flavour};
use culd::cubin::build::{
    BuildError, Builder, Code, Kernel, Linkage, Mercury, Relocation, Space, Variable,
};
use culd::cubin::capmerc;
use culd::{Arch, InputKind, Linker, Options};
use culd_testkit::fixtures::case;
use culd_testkit::fixtures::rebuild::{assemble, rebuild};
use culd_tests::{case_options, link as link_case};

const EXIT: [u64; 2] = [0x0000_0000_0000_794d, 0x000f_ea00_0380_0000];

/// A function that ends, with Mercury code where an architecture needs it: one instruction that is
/// only in the machine code.
fn code_of(arch: &Arch) -> Code {
    match arch.flavour {
        Flavour::Classic => exit(),
        Flavour::Mercury => exit().mercury(Mercury::new(&capmerc::encode(&[None]), 16).unwrap()),
    }
}

fn exit() -> Code {
    Code::new(EXIT.map(u64::to_le_bytes).concat()).registers(4)
}

fn quickstart(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/quickstart/");
    std::fs::read(format!("{folder}{name}.cubin")).unwrap()
}

fn builder(arch: &str) -> Builder {
    Builder::new(Arch::by_name(arch).unwrap())
}

fn link(arch: &str, objects: &[&[u8]]) -> culd::Linked {
    let mut linker = Linker::new(Options::for_arch(arch).unwrap());
    for (object, name) in objects.iter().zip('a'..) {
        linker.add_bytes(name.to_string(), InputKind::Cubin, *object);
    }
    linker.link().unwrap()
}

/// Both objects of the quickstart, taken apart and built again, give the same program.
#[test]
fn what_is_built_again_links_to_the_same_program() {
    let (saxpy, smooth) = (quickstart("saxpy"), quickstart("smooth"));
    let (saxpy_again, smooth_again) = (assemble(&saxpy).unwrap(), assemble(&smooth).unwrap());
    let compiled = link("sm_90", &[&saxpy, &smooth]);
    for objects in [[&saxpy, &smooth_again], [&saxpy_again, &smooth], [&saxpy_again, &smooth_again]]
    {
        let built = link("sm_90", &objects.map(Vec::as_slice));
        let (ours, theirs) = (built.cubin(), compiled.cubin());
        for name in [".text.saxpy", ".text.smooth", ".nv.constant3", ".nv.global.init"] {
            let data = |cubin: &Cubin<'_>| {
                cubin.section_by_name(name.as_bytes()).map(|section| section.data.to_vec())
            };
            assert!(data(&ours).is_some(), "{name}");
            assert_eq!(data(&ours), data(&theirs), "{name}");
        }
        let (ours, theirs) = (built.report(), compiled.report());
        assert_eq!(ours.images[0].functions, theirs.images[0].functions);
    }
}

/// The objects of all recorded cases, taken apart and built again, give the same outputs.
#[test]
fn objects_taken_apart_and_put_together_are_the_same_to_a_linker() {
    let (mut linked, mut archs) = (0, BTreeSet::new());
    for case in case::all().unwrap() {
        let inputs = case.inputs().unwrap();
        let again: Option<Vec<_>> =
            inputs.iter().map(|(name, bytes)| Some((name.clone(), rebuild(bytes).ok()?))).collect();
        // The builder does not accept objects of CUDA 12, and programs.
        let Some(again) = again.filter(|again| !again.is_empty()) else { continue };
        let options = case_options(&case, &case.arguments()).unwrap();
        let [compiled, built] =
            [&inputs, &again].map(|files| link_case(&options, files, 1).unwrap());
        assert!(compiled.image == built.image, "{}", case.name);
        assert_eq!(compiled.diagnostics, built.diagnostics, "{}", case.name);
        linked += 1;
        archs.insert(case.recipe.arch.clone());
    }
    let wanted = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120"];
    assert!(linked > 150 && wanted.iter().all(|&arch| archs.contains(arch)), "{linked} {archs:?}");
}

/// All kinds of parts in one object, for every architecture of the builder.
#[test]
fn everything_that_can_be_built_links() {
    // Targets of CUDA 12 only are refused.
    let (new, old): (Vec<_>, Vec<_>) = ARCHS.iter().partition(|arch| arch.releases.1 >= 130);
    assert!(!old.is_empty());
    for arch in old {
        let error = builder(arch.name).finish().unwrap_err();
        assert_eq!(error, BuildError::Target(arch.name.to_owned()));
    }
    for arch in new {
        let mut builder = builder(arch.name);
        let kernel = builder.function("kernel", Linkage::Global);
        let helper = builder.function("helper", Linkage::Weak);
        let own = builder.function("own", Linkage::Local);
        let table =
            Variable::initialised("table", Space::Global, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        let pointer = Relocation { offset: 4, kind: 2, symbol: Some(helper), addend: 0 };
        let table = builder.variable(table.align(8).relocation(pointer));
        // R_MERCURY_G64
        builder.mercury_relocation(table, Relocation { kind: 0x10001, ..pointer });
        builder.prototype(helper, "#vi", true);
        builder.variable(Variable::zero("zero", Space::Global, 24).align(16));
        builder.variable(Variable::initialised("constant", Space::Constant, [7; 6]).align(2));
        builder.variable(Variable::zero("shared", Space::Shared, 100).align(32));
        builder.variable(Variable::common("common", 40).align(16));
        builder.variable(Variable::zero("managed", Space::Global, 8).managed());
        builder.variable(Variable::literal("literal", kernel, [3; 8]).align(8));
        let code = code_of(arch).frame(16).barriers(2).call(own).indirect_call("#vi");
        let place = Relocation { offset: 0, kind: 57, symbol: Some(table), addend: 4 };
        // The patched bytes of Mercury code depend on its compression.
        let classic = arch.flavour == Flavour::Classic;
        let code = if classic { code.relocation(place) } else { code };
        builder.define(kernel, code.kernel(Kernel::new([(1, 1), (64, 32), (8, 8)])));
        builder.define(helper, code_of(arch));
        builder.define(own, code_of(arch));
        let object = builder.finish().unwrap();
        let report = link(arch.name, &[&object]).report();
        let image = &report.images[0];
        let (_, function, kernel) = image.kernels().next().unwrap();
        let needs = (function.registers.total, function.barriers.total);
        assert_eq!((function.name.as_str(), needs), ("kernel", (Some(4), Some(2))));
        // The address of the second is a multiple of 32.
        let second = if (90..100).contains(&arch.sm) { 16 } else { 32 };
        assert_eq!(kernel.parameters, [(0, 1), (second, 64), (second + 64, 8)], "{}", arch.name);
        assert!(image.variables.iter().any(|one| one.name == "zero" && one.bytes == 24));
        let calls = function.calls.iter().map(|&callee| image.functions[callee].name.as_str());
        assert_eq!(calls.collect::<Vec<_>>(), ["own"]);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    type Make = fn(&mut Builder);
    let cases: &[(Make, &str)] = &[
        (
            |b| {
                b.function("", Linkage::Global);
            },
            "'' is no name",
        ),
        (
            |b| {
                b.function("f\0", Linkage::Global);
            },
            "is no name",
        ),
        (
            |b| {
                b.function("f", Linkage::Global);
                b.function("f", Linkage::Global);
            },
            "'f' is defined twice",
        ),
        (
            |b| {
                b.function("f", Linkage::Local);
            },
            "'f' is local and not defined",
        ),
        (
            |b| {
                let f = b.function("f", Linkage::Global);
                b.define(f, exit());
                b.define(f, exit());
            },
            "'f' is defined twice",
        ),
        (
            |b| {
                let f = b.function("f", Linkage::Global);
                b.define(f, Code::new([0; 8]));
            },
            "has 8 bytes",
        ),
        (
            |b| {
                let v = b.variable(Variable::zero("v", Space::Global, 4));
                b.define(v, exit());
            },
            "'v' names a symbol",
        ),
        (
            |b| {
                let v = b.variable(Variable::zero("v", Space::Global, 4));
                b.prototype(v, "#v", false);
            },
            "names a symbol",
        ),
        (
            |b| {
                let v = b.variable(Variable::zero("v", Space::Global, 4));
                let f = b.function("f", Linkage::Global);
                b.define(f, exit().call(v));
            },
            "'f' names a symbol",
        ),
        (
            |b| {
                b.variable(Variable::zero("v", Space::Global, 4).align(3));
            },
            "'v' is aligned to 3 bytes",
        ),
        (
            |b| {
                b.variable(Variable::initialised("v", Space::Shared, [1]));
            },
            "'v' is in shared memory",
        ),
        (
            |b| {
                b.variable(Variable::zero("v", Space::Constant, u64::MAX));
            },
            "too much data",
        ),
        (
            |b| {
                b.variable(Variable::external("v", Space::Global, 4).linkage(Linkage::Local));
            },
            "'v' is local",
        ),
        (
            |b| {
                let f = b.function("f", Linkage::Global);
                let relocation = Relocation { offset: 16, kind: 2, symbol: Some(f), addend: 0 };
                b.define(f, exit().relocation(relocation));
            },
            "a relocation of 'f' at 0x10",
        ),
        (
            |b| {
                let f = b.function("f", Linkage::Global);
                b.define(f, exit().kernel(Kernel::new([(70_000, 4)])));
            },
            "the parameters of 'f'",
        ),
        (
            |b| {
                let f = b.function("f", Linkage::Global);
                b.define(f, exit().kernel(Kernel::new([(u32::MAX, 4); 9])));
            },
            "the parameters of 'f'",
        ),
    ];
    for (make, message) in cases {
        let mut builder = builder("sm_80");
        make(&mut builder);
        let error = builder.finish().unwrap_err().to_string();
        assert!(error.contains(message), "{error}: {message}");
    }
    // Mercury code: missing, superfluous, for other code.
    let mercury = |count| Mercury::new(&capmerc::encode(&vec![None; count]), 16).unwrap();
    for (arch, code) in [
        ("sm_100a", exit()),
        ("sm_90", exit().mercury(mercury(1))),
        ("sm_120", exit().mercury(mercury(2))),
    ] {
        let mut builder = builder(arch);
        let f = builder.function("f", Linkage::Global);
        builder.define(f, code);
        assert_eq!(builder.finish(), Err(BuildError::Mercury("f".to_owned())), "{arch}");
    }
    assert!(Mercury::new(&[0; 16], 16).is_err());
    // A symbol of another builder.
    let mut other = builder("sm_80");
    let ids: Vec<_> = (0..9).map(|n| other.function(format!("f{n}"), Linkage::Global)).collect();
    let mut one = builder("sm_80");
    let f = one.function("f", Linkage::Global);
    one.define(f, exit().call(ids[8]));
    assert!(matches!(one.finish(), Err(BuildError::Symbol(_))));
}
