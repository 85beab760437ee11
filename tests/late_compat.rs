//! Files by CUDA 11.8, and for sm_100 and later by 12.8 and 12.9 (docs/DIALECTS.md), in the command
//! and in the library.
//!
//! In: two programs of testdata/cuda12 as the release's ptxas compiled them. Out: for both orders,
//! everything in the release's own output but `.note.nv.tkinfo`, whose first record names
//! libnvJitLink. The library stood in for nvlink 12.8 and 12.9, of which no wheel exists
//! (`testdata/jitlink/nvlink.c`).

use culd::Arch;
use culd::cubin::build::{Builder, Code, Linkage, Space, Variable};
use culd_cubin::Cubin;
use culd_driver::{Request, parse};
use culd_inspect::text::{DumpOptions, dump};
use culd_inspect::view::View;
use culd_link::Dialect;
use culd_testkit::fixtures::case;
use culd_tests::crafted::with_older_header;
use culd_tests::{link, link_options, root};
use std::fs;
use std::path::PathBuf;

/// Releases and targets with a folder in testdata/cuda12, and the option of the links.
const LINKS: [(&str, &str, Option<&str>); 4] = [
    ("11.8", "sm_60", None),
    ("11.8", "sm_80", Some("-g")),
    ("12.8", "sm_100", None),
    ("12.9", "sm_120a", None),
];

fn folder(release: &str, target: &str) -> PathBuf {
    root().join("testdata/cuda12").join(format!("{release}-{target}"))
}

fn object(release: &str, target: &str, name: char) -> (String, Vec<u8>) {
    let path = folder(release, target).join(format!("{name}.cubin.txt"));
    (format!("{name}.cubin"), case::assemble(&path).expect("a recorded object"))
}

/// The text form without the section of the tools' records.
fn without_tools(image: &[u8]) -> String {
    let view = View::parse(image).expect("a cubin");
    let text = dump(&view, &DumpOptions::default());
    let mut in_tools = false;
    let kept = text.lines().filter(|line| {
        if line.starts_with("section ") {
            in_tools = line.starts_with("section .note.nv.tkinfo ");
        }
        !in_tools
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn both_orders_have_everything_that_the_release_writes() {
    for (release, target, option) in LINKS {
        for order in [['a', 'b'], ['b', 'a']] {
            let words = [format!("-arch={target}"), format!("--dialect={release}")];
            let words: Vec<String> = words.into_iter().chain(option.map(str::to_owned)).collect();
            let options = link_options(&words).expect("options");
            let inputs = order.map(|name| object(release, target, name));
            let image = link(&options, &inputs, 1).expect("threads").image.expect("a program");
            let name = format!("expect-{}{}.txt", order[0], order[1]);
            let expected =
                fs::read_to_string(folder(release, target).join(name)).expect("recorded");
            assert_eq!(without_tools(&image), expected, "{release} {target} {order:?}");
        }
    }
}

#[test]
fn the_release_follows_from_the_objects() {
    for (release, target, _) in LINKS {
        let (_, bytes) = object(release, target, 'a');
        let target = target.parse().expect("a target");
        assert_eq!(Dialect::for_cubins(target, [bytes.as_slice()]).to_string(), release);
    }
}

#[test]
fn a_release_knows_its_targets_only() {
    let known = |release: &str, target: &str| {
        let words = ["a.cubin", "-o", "x"].map(str::to_owned);
        let words = [&[format!("-arch={target}"), format!("--dialect={release}")], &words[..]];
        matches!(parse(&words.concat()).request, Ok(Request::Link(_)))
    };
    for (target, releases) in [
        ("sm_100", "12.8 12.9 13.0"),
        ("sm_101a", "12.8 12.9"),
        ("sm_103", "12.9 13.0"),
        ("sm_100f", "12.9 13.0"),
        ("sm_110", "13.0"),
        ("sm_121", "12.9 13.0"),
    ] {
        for release in ["12.6", "12.8", "12.9", "13.0"] {
            let expected = releases.split(' ').any(|known| known == release);
            assert_eq!(known(release, target), expected, "{target} by {release}");
        }
    }
}

/// By 12.5 to 12.8 the size of the system's part of shared memory goes to the symbol of its begin,
/// and to symbol 0 where no file names that.
#[test]
fn the_size_of_reserved_shared_memory_is_in_symbol_0_without_a_begin() {
    let case = root().join("testdata/cases/dialects/reserved-shared-12-6");
    let files = ["a", "b"].map(|name| {
        let object = case::assemble(&case.join(format!("{name}.cubin.txt")));
        (format!("{name}.cubin"), object.expect("a recorded object"))
    });
    let mut builder = Builder::new(Arch::by_name("sm_90").unwrap());
    builder.variable(Variable::external(".nv.reservedSmem.offset0", Space::Global, 4));
    let function = builder.function("unused", Linkage::Global);
    builder.define(function, Code::new([0; 16]));
    let begin = builder.finish().expect("an object");
    let begin = with_older_header(begin, 126, 0x005a_055a);
    let options = link_options(&["-arch=sm_90", "--dialect=12.6"].map(str::to_owned)).unwrap();
    let value = |inputs: &[(String, Vec<u8>)]| {
        let image = link(&options, inputs, 1).expect("threads").image.expect("a program");
        let cubin = Cubin::parse(&image).expect("a cubin");
        let table = cubin.section_by_name(b".symtab").expect("symbols");
        let bytes: &[u8] = table.data;
        u64::from_le_bytes(bytes[8..16].try_into().unwrap())
    };
    assert_eq!(value(&files), 0x400);
    let [a, b] = files;
    assert_eq!(value(&[a, b, ("begin.cubin".to_owned(), begin)]), 0);
}
