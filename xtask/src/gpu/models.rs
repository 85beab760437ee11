//! The expected results of kernels of the corpus.
//!
//! In: nothing. Out: for each case, the launches and the contents of memory after them. Guaranteed:
//! the numbers follow from the sources by the arithmetic written here, without a linker.

use culd_gpu::plan::{BEFORE, GpuVariable, Launch, PlannedArgument};

/// A case of the corpus, its files in link order, and its results.
pub(super) struct Model {
    /// `topic/case`.
    pub(super) case: &'static str,
    /// Launches in one module, one after the other.
    pub(super) launches: Vec<Launch>,
}

fn launch(kernel: &str, argument: Vec<PlannedArgument>) -> Launch {
    Launch { kernel: kernel.to_owned(), blocks: 1, threads: 1, argument, ..Launch::default() }
}

/// A kernel with one parameter, the address of these words.
fn writes(kernel: &str, words: &[u32]) -> Launch {
    launch(kernel, vec![PlannedArgument::memory(words.iter().copied())])
}

fn variable(name: &str, words: &[u32]) -> GpuVariable {
    GpuVariable { name: name.to_owned(), words: words.to_vec() }
}

/// A kernel without parameters after which variables have these words.
fn leaves(kernel: &str, expect: &[(&str, &[u32])]) -> Launch {
    let expect = expect.iter().map(|(name, words)| variable(name, words)).collect();
    Launch { expect, ..launch(kernel, Vec::new()) }
}

/// The words of a double.
fn double(value: f64) -> [u32; 2] {
    let bits = value.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

fn literal(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// All models.
pub(super) fn all() -> Vec<Model> {
    let model = |case, launches| Model { case, launches };
    let constants = [0x0403, BEFORE].into_iter().chain(double(2.0));
    vec![
        model("alias/other-file", vec![writes("k", &[7])]),
        model("calls/params", vec![parameters()]),
        model("common/with-definition", vec![leaves("k", &[("w", &[0x0003_0201])])]),
        model(
            "constant/variables",
            vec![
                // cb[3] is 0, so is cb[0]; the half word at ca+2 has the bytes 3 and 4. An address
                // follows.
                launch(
                    "k",
                    vec![PlannedArgument { room: 2, ..PlannedArgument::memory(constants) }],
                ),
                writes("kc", &[7]),
            ],
        ),
        model(
            "constant/pointers",
            // primes[1] + squares[2] + cell, and cell + squares[0].
            vec![writes("_Z1kPi", &[3 + 9]), writes("_Z2kbPi", &[1])],
        ),
        model("cplusplus/constructors", rings()),
        model("cplusplus/templates", templates()),
        model("cplusplus/virtual", animals()),
        model("deadcode/functions", vec![leaves("k", &[("out", &[18])])]),
        model("indirect/taken-in-data", vec![leaves("k", &[("seen", &[1])])]),
        model("literals/doubles", doubles()),
        model("literals/jump-tables", jump_tables()),
        model(
            "local/functions-and-data",
            vec![writes("ka", &[10]), writes("kb", &[0]), writes("kc", &[90])],
        ),
        model("managed/two-files", vec![bump()]),
        model("recursion/in-table", vec![Launch { threads: 8, ..writes("k", &[9]) }]),
        model("recursion/mutual", vec![writes("recursive", &[0])]),
        // 0! and 1! are 1, so the order of writes does not matter.
        model("recursion/self", vec![Launch { threads: 2, ..writes("k", &[1]) }]),
        model("weak/data", vec![leaves("k", &[("ww", &[21 + 22])])]),
        // The strong copy and its callees, without the weak one.
        model("weak/strong-replaces", vec![leaves("k", &[("out_s", &[4]), ("out_w", &[0])])]),
    ]
}

/// mem: a double, a number, their product, and 0 from `fptr` of two equal pointers.
fn parameters() -> Launch {
    let set = [double(2.5).as_slice(), &[4, 0]].concat();
    let after = [set.as_slice(), &double(10.0), &[0, 0]].concat();
    Launch { set: vec![variable("mem", &set)], ..leaves("k", &[("mem", &after)]) }
}

/// `push` stores and returns the head, and advances it.
fn rings() -> Vec<Launch> {
    let fixed = [1, 2, 3, 4, 5, 6, 7];
    let pushed = |value: u32, head: u32| {
        let out = head + fixed[(value & 3) as usize];
        launch("_Z1kPi", vec![PlannedArgument::memory([out]).with(&[value])])
    };
    let ring = variable("ring", &[2, 5, 2, 0, 0, 0, 0, 0]);
    vec![pushed(5, 0), Launch { expect: vec![ring], ..pushed(2, 1) }]
}

/// `sum` adds the values to a static variable, `next_id` counts from 7, `setting` is 42.
fn templates() -> Vec<Launch> {
    let mut last = 3;
    let mut launches = Vec::new();
    for id in 7..9 {
        let words = [10, 20, 30];
        last += words.iter().sum::<u32>();
        let after = [last + id + 42, 20, 30];
        launches.push(launch("_Z2kaPi", vec![PlannedArgument::memory(after).with(&words)]));
    }
    let fill = launch(
        "_Z4fillIiEvPT_S0_",
        vec![PlannedArgument::memory([77; 32]), PlannedArgument::word(77)],
    );
    launches.push(Launch { threads: 32, ..fill });
    launches
}

/// A cat has four legs and its weight, a snake has no legs and length three.
fn animals() -> Vec<Launch> {
    let animal = |kind: u32, legs: u32, weight: u32| {
        let memory = PlannedArgument::memory([legs, weight, 6]).with(&[BEFORE, BEFORE, 6]);
        launch("_Z1kPii", vec![memory, PlannedArgument::word(kind)])
    };
    vec![animal(0, 4, 6), animal(1, 0, 18)]
}

fn doubles() -> Vec<Launch> {
    let sine = |x: f64| {
        let y = x.mul_add(literal(0x3f81_1111_1111_0bb3), literal(0xbfc5_5555_5555_5555));
        y.mul_add(x, literal(0x3ff0_0000_0000_0123)) * x
    };
    let loga = |x: f64| {
        let y = x.mul_add(literal(0x3fe6_2e42_fefa_39ef), literal(0x3fdb_cb7b_1526_e50e));
        y.mul_add(x, literal(0x3ff7_1547_6524_4112))
    };
    let first = |x: f64| x.mul_add(literal(0x3ff1_2345_6789_abcd), literal(0x3ff3_3333_3333_3333));
    let x = 1.25;
    let kernel = |name: &str, value: f64| {
        launch(name, vec![PlannedArgument::memory(double(value)).with(&double(x))])
    };
    vec![kernel("ka", sine(first(x))), kernel("kb", loga(sine(x))), kernel("kc", loga(x))]
}

/// The kernel jumps by the lower two bits of its number, and so does `pick`, which returns the
/// element of `log` there.
fn jump_tables() -> Vec<Launch> {
    let jump = |number: u32, at: usize, value: u32| {
        let mut words = [BEFORE; 4];
        words[at] = value;
        Launch {
            set: vec![variable("log", &[0, 0, 0, 0, 77])],
            ..launch("k", vec![PlannedArgument::memory(words), PlannedArgument::word(number)])
        }
    };
    vec![jump(0, 0, 1), jump(5, 1, 5), jump(6, 2, 36), jump(7, 3, 77)]
}

/// counter was 5; factor is the number as a float.
fn bump() -> Launch {
    let expect = vec![variable("counter", &[8]), variable("factor", &[3f32.to_bits()])];
    Launch { expect, ..launch("_Z4bumpi", vec![PlannedArgument::word(3)]) }
}
