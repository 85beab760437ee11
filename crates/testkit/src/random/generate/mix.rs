//! The families of generated programs, as tables of numbers.
//!
//! In: nothing. Out: [`FAMILIES`], one row for each family. A row has only the numbers that differ
//! from [`PLAIN`]. A new family is a new row.

/// The probability of each ingredient. Fields `…_pc` are percentages, `w_…` are relative weights of
/// statements, pairs are inclusive ranges.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it, and the builder is the only reader")]
pub struct Mix {
    pub units: (usize, usize),
    pub functions: (usize, usize),
    pub entries: (usize, usize),
    pub statements: (usize, usize),
    pub shape: CallShape,
    pub globals: (usize, usize),
    pub constants: (usize, usize),
    pub shared: (usize, usize),
    pub tables: (usize, usize),
    pub textures: (usize, usize),
    pub commons: (usize, usize),
    pub aliases: (usize, usize),
    pub dynamic_shared_pc: u32,
    pub initialised_pc: u32,
    pub pointer_pc: u32,
    pub managed_pc: u32,
    pub local_pc: u32,
    pub same_name_pc: u32,
    pub weak_function_pc: u32,
    pub weak_entry_pc: u32,
    pub weak_variable_pc: u32,
    pub strong_winner_pc: u32,
    pub dead_pc: u32,
    pub recursion_pc: u32,
    pub signature_variety: usize,
    pub noreturn_pc: u32,
    pub launch_bounds_pc: u32,
    pub options_pc: u32,
    pub lines_pc: u32,
    pub debug_pc: u32,
    pub cross_arch_pc: u32,
    pub mistakes: usize,
    pub unified_pc: u32,
    pub rounds: usize,
    pub edits: (usize, usize),
    pub link_options: &'static [&'static str],
    pub select_pc: u32,
    pub unsized_pc: u32,
    pub large_align_pc: u32,
    pub reference_copies_pc: u32,
    pub sampler_pc: u32,
    pub parameter_pc: u32,
    pub reference_pointer_pc: u32,
    pub independent_pc: u32,
    pub compiler_pc: u32,
    pub recent_pc: u32,
    pub cuda: bool,
    pub features_pc: u32,
    pub whole_pc: u32,
    pub names_pc: u32,
    pub w_slow_path: u32,
    pub w_kernel_address: u32,
    pub w_arith: u32,
    pub w_pressure: u32,
    pub w_call: u32,
    pub w_call_address: u32,
    pub w_call_table: u32,
    pub w_address: u32,
    pub w_global: u32,
    pub w_const: u32,
    pub w_shared: u32,
    pub w_function_shared: u32,
    pub w_frame: u32,
    pub w_alloca: u32,
    pub w_doubles: u32,
    pub w_switch: u32,
    pub w_barrier: u32,
    pub w_syscall: u32,
    pub w_fetch: u32,
    pub w_query: u32,
    pub w_query_parameter: u32,
    pub w_object: u32,
    pub w_special: u32,
    pub w_nested: u32,
}

/// Shape of the calls that make every function reachable; more calls are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallShape {
    /// Each function is called by one or two earlier ones.
    Random,
    /// Each function is called by the one before it.
    Chain,
    /// Layers of a few functions, each called by several functions of the layer before.
    Layers,
}

/// A family without anything special: some calls, some data.
pub const PLAIN: Mix = Mix {
    units: (2, 5),
    functions: (1, 3),
    entries: (1, 3),
    statements: (1, 3),
    shape: CallShape::Random,
    globals: (0, 2),
    constants: (0, 0),
    shared: (0, 0),
    tables: (0, 0),
    textures: (0, 0),
    commons: (0, 0),
    aliases: (0, 0),
    dynamic_shared_pc: 0,
    initialised_pc: 50,
    pointer_pc: 0,
    managed_pc: 0,
    local_pc: 15,
    same_name_pc: 5,
    weak_function_pc: 0,
    weak_entry_pc: 0,
    weak_variable_pc: 0,
    strong_winner_pc: 40,
    dead_pc: 10,
    recursion_pc: 0,
    signature_variety: 2,
    noreturn_pc: 0,
    launch_bounds_pc: 5,
    options_pc: 5,
    lines_pc: 3,
    debug_pc: 2,
    cross_arch_pc: 10,
    mistakes: 0,
    unified_pc: 0,
    rounds: 0,
    edits: (0, 0),
    link_options: &[],
    select_pc: 0,
    unsized_pc: 0,
    large_align_pc: 0,
    reference_copies_pc: 0,
    sampler_pc: 0,
    parameter_pc: 0,
    reference_pointer_pc: 0,
    independent_pc: 15,
    compiler_pc: 0,
    recent_pc: 0,
    cuda: false,
    features_pc: 0,
    whole_pc: 0,
    names_pc: 0,
    w_slow_path: 0,
    w_kernel_address: 0,
    w_arith: 6,
    w_pressure: 2,
    w_call: 6,
    w_call_address: 0,
    w_call_table: 0,
    w_address: 1,
    w_global: 6,
    w_const: 0,
    w_shared: 0,
    w_function_shared: 0,
    w_frame: 1,
    w_alloca: 0,
    w_doubles: 0,
    w_switch: 0,
    w_barrier: 0,
    w_syscall: 0,
    w_fetch: 0,
    w_query: 0,
    w_query_parameter: 0,
    w_object: 0,
    w_special: 0,
    w_nested: 1,
};

/// A named row of [`FAMILIES`].
#[derive(Clone, Copy, Debug)]
pub struct ProgramFamily {
    /// Name in reports.
    pub name: &'static str,
    /// Its weight; 0 for families that run only if named.
    pub weight: u32,
    /// Its ingredients.
    pub mix: &'static Mix,
}

macro_rules! families {
    ($($name:literal x $weight:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        /// All families.
        pub const FAMILIES: &[ProgramFamily] = &[$(
            ProgramFamily { name: $name, weight: $weight, mix: &Mix { $($field: $value,)* ..PLAIN } },
        )*];
    };
}

families! {
    "calls" x 8 { units: (2, 8), functions: (1, 4), w_call: 12, signature_variety: 4 }
    "chain" x 4 { units: (2, 8), functions: (2, 8), shape: CallShape::Chain, w_frame: 4, w_barrier: 1, statements: (0, 2), dead_pc: 0 }
    "layers" x 4 { units: (2, 6), functions: (2, 4), shape: CallShape::Layers, w_barrier: 1, w_frame: 2, dead_pc: 0 }
    "recursion" x 4 { recursion_pc: 25, w_frame: 3, w_barrier: 1, w_syscall: 1 }
    "indirect" x 7 { tables: (0, 2), w_call_address: 5, w_call_table: 6, w_address: 5, w_syscall: 1, signature_variety: 3, recursion_pc: 4, dead_pc: 20, w_frame: 2, w_barrier: 1 }
    "slowpath" x 4 { w_slow_path: 10, weak_function_pc: 15, dead_pc: 25, w_doubles: 2, options_pc: 15 }
    "launch" x 2 { link_options: &["-v", "-w"], w_kernel_address: 10, entries: (2, 4), w_syscall: 2 }
    "weak" x 8 { weak_function_pc: 50, weak_entry_pc: 10, weak_variable_pc: 30, w_pressure: 6, w_address: 2, options_pc: 20, lines_pc: 15, debug_pc: 4 }
    "common" x 5 { unsized_pc: 15, commons: (1, 4), weak_variable_pc: 30, w_global: 14, w_address: 3, globals: (1, 4) }
    "shared" x 9 { shared: (1, 4), dynamic_shared_pc: 35, w_shared: 14, w_function_shared: 5, entries: (1, 5), units: (2, 6), dead_pc: 20, w_address: 2 }
    "const" x 6 { unsized_pc: 10, constants: (1, 4), w_const: 10, w_address: 5, pointer_pc: 50, globals: (1, 4), initialised_pc: 70, weak_variable_pc: 10 }
    "bank2" x 7 { w_doubles: 8, w_switch: 6, entries: (1, 4), w_call_address: 1, constants: (0, 1), w_const: 2, weak_function_pc: 10 }
    "alias" x 3 { aliases: (0, 2), w_call: 10, w_address: 2, w_call_address: 2, dead_pc: 20 }
    "syscall" x 5 { w_syscall: 8, w_call_address: 1, dead_pc: 30, w_frame: 2, entries: (1, 4) }
    "attributes" x 6 { w_special: 10, w_barrier: 4, w_frame: 2, launch_bounds_pc: 60, entries: (1, 4), options_pc: 30 }
    "entries" x 4 { entries: (2, 6), launch_bounds_pc: 70, weak_entry_pc: 15, w_barrier: 2, options_pc: 20, functions: (0, 2) }
    "managed" x 2 { managed_pc: 40, globals: (1, 4), w_global: 10, w_address: 4 }
    "textures" x 5 {
        textures: (0, 4), units: (2, 5), functions: (0, 3), entries: (0, 4), globals: (0, 2), constants: (0, 1), initialised_pc: 70, same_name_pc: 0, w_call: 4, w_global: 2, w_call_address: 1,
        w_fetch: 6, w_query: 8, w_query_parameter: 6, w_object: 1, reference_copies_pc: 40, sampler_pc: 50, parameter_pc: 20, reference_pointer_pc: 30, independent_pc: 50,
        dead_pc: 30, weak_function_pc: 8, weak_entry_pc: 8, lines_pc: 8, debug_pc: 5, select_pc: 10, link_options: &["-v", "-w", "-v", "-g"],
    }
    "dead" x 4 { dead_pc: 60, functions: (2, 5), shared: (0, 2), w_shared: 2, w_syscall: 1, w_doubles: 2, w_address: 2, constants: (0, 1), w_const: 1, w_call_address: 1, tables: (0, 1) }
    "local" x 3 { local_pc: 60, same_name_pc: 60, globals: (1, 3), w_global: 8, w_switch: 1, w_doubles: 1, shared: (0, 1), w_shared: 2, w_function_shared: 1 }
    "lines" x 4 { lines_pc: 85, weak_function_pc: 10, dead_pc: 25 }
    "debug" x 4 { debug_pc: 85, lines_pc: 10, weak_function_pc: 10, dead_pc: 25, shared: (0, 1), w_shared: 2, constants: (0, 1), w_const: 1 }
    "crossarch" x 3 { cross_arch_pc: 100, w_special: 2, w_doubles: 1, w_switch: 1 }
    "mixed" x 12 {
        units: (2, 8), functions: (1, 4), entries: (1, 4), statements: (1, 5), globals: (0, 3), constants: (0, 2), shared: (0, 2), tables: (0, 1),
        commons: (0, 1), aliases: (0, 1), dynamic_shared_pc: 15, pointer_pc: 25, managed_pc: 3, weak_function_pc: 15, weak_entry_pc: 4,
        weak_variable_pc: 10, dead_pc: 20, recursion_pc: 3, signature_variety: 3, noreturn_pc: 4, launch_bounds_pc: 20, options_pc: 15,
        lines_pc: 8, debug_pc: 4, w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 2, w_shared: 3, w_function_shared: 2, w_frame: 2,
        w_alloca: 1, w_doubles: 2, w_switch: 1, w_barrier: 1, w_syscall: 2, w_special: 2, w_nested: 2, w_slow_path: 1, w_kernel_address: 1, unsized_pc: 3,
    }
    "select" x 8 {
        select_pc: 100, link_options: &["-v", "-w"], initialised_pc: 100, units: (2, 5), functions: (0, 3), entries: (1, 4), globals: (0, 2), constants: (0, 2), shared: (0, 3), tables: (0, 1), textures: (0, 0),
        commons: (0, 1), dynamic_shared_pc: 20, pointer_pc: 25, weak_function_pc: 10, weak_entry_pc: 10, weak_variable_pc: 10, dead_pc: 20, recursion_pc: 3,
        signature_variety: 3, launch_bounds_pc: 20, options_pc: 15, lines_pc: 10, debug_pc: 5, w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 3,
        w_shared: 6, w_function_shared: 4, w_frame: 2, w_doubles: 2, w_switch: 1, w_barrier: 1, w_syscall: 2, w_special: 2, w_slow_path: 1, w_kernel_address: 1,
    }
    "many" x 2 { units: (12, 24), functions: (1, 2), entries: (0, 1), shape: CallShape::Random, shared: (0, 1), w_shared: 2, weak_function_pc: 10, constants: (0, 1), w_const: 1 }
    "errors" x 5 { mistakes: 2, units: (2, 4), globals: (1, 3), weak_function_pc: 10, commons: (0, 1), shared: (0, 1), constants: (0, 1), w_const: 1, w_shared: 1 }
    "edited" x 5 {
        rounds: 8, edits: (1, 3), units: (2, 4), functions: (1, 2), entries: (1, 2), globals: (0, 2), constants: (0, 2), shared: (0, 2), tables: (0, 1), textures: (0, 1),
        commons: (0, 1), dynamic_shared_pc: 15, pointer_pc: 25, managed_pc: 3, weak_function_pc: 15, weak_entry_pc: 4, weak_variable_pc: 10, dead_pc: 15, cross_arch_pc: 3,
        lines_pc: 8, debug_pc: 4, w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 2, w_shared: 3, w_function_shared: 1, w_frame: 1, w_doubles: 2,
        w_barrier: 1, w_syscall: 1, w_fetch: 1, w_special: 1, w_slow_path: 1, w_kernel_address: 1, unsized_pc: 3,
    }
    // No shared variables and no barriers: docs/DIFFERENCES.md, unified-shared and
    // unified-attributes.
    "unified" x 5 {
        unified_pc: 60, link_options: &["-v", "-w"], units: (2, 4), functions: (1, 3), entries: (0, 2), globals: (1, 3), constants: (0, 1), tables: (0, 1), pointer_pc: 40,
        local_pc: 10, weak_function_pc: 5, dead_pc: 25, cross_arch_pc: 0, lines_pc: 8, debug_pc: 4, w_call: 8, w_call_address: 2, w_call_table: 2, w_address: 4, w_global: 8,
        w_const: 1, w_frame: 2, w_doubles: 1, w_syscall: 1, w_slow_path: 1,
    }
    "aligned" x 0 {
        large_align_pc: 30, link_options: &["-v", "-w", "-g"], units: (2, 5), functions: (0, 3), entries: (1, 4), globals: (1, 4), constants: (0, 2), shared: (0, 3), commons: (0, 2),
        dynamic_shared_pc: 50, managed_pc: 5, weak_variable_pc: 25, weak_function_pc: 10, dead_pc: 20, local_pc: 20, pointer_pc: 20, w_global: 8, w_const: 2, w_shared: 8, w_function_shared: 4,
        w_address: 3, w_syscall: 1, w_frame: 1,
    }
    "compiler" x 0 {
        compiler_pc: 60, link_options: &["-v", "-w", "-v", "-g"], units: (2, 4), functions: (1, 3), entries: (0, 2), globals: (0, 2), constants: (0, 1), shared: (0, 1), tables: (0, 1),
        pointer_pc: 30, local_pc: 20, weak_function_pc: 15, weak_variable_pc: 10, dead_pc: 20, lines_pc: 10, debug_pc: 8, w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 2,
        w_shared: 2, w_function_shared: 1, w_frame: 3, w_doubles: 2, w_switch: 2, w_barrier: 1, w_syscall: 2, w_special: 2, w_slow_path: 2,
    }
    "recent" x 0 {
        recent_pc: 80, link_options: &["-v", "-w", "-v", "-g"], units: (2, 4), functions: (1, 3), entries: (1, 3), globals: (0, 1), shared: (0, 1), dynamic_shared_pc: 20,
        local_pc: 10, weak_function_pc: 20, weak_entry_pc: 10, dead_pc: 20, recursion_pc: 2, launch_bounds_pc: 60, lines_pc: 5, debug_pc: 4, signature_variety: 3, w_special: 14, w_call_address: 2,
        w_shared: 1, w_function_shared: 1, w_frame: 1, w_barrier: 2, w_syscall: 1, w_slow_path: 1, w_alloca: 1,
    }
    "cplusplus" x 0 {
        cuda: true, link_options: &["-v", "-w", "-v", "-g"], units: (2, 4), lines_pc: 30, debug_pc: 12, options_pc: 25,
    }
    // Features of current programs that no other family has: features.rs in `cuda`, and objects of
    // `-ewp`.
    "features" x 0 {
        cuda: true, features_pc: 75, whole_pc: 20, link_options: &["-v", "-w", "-v", "-g"], units: (1, 3), lines_pc: 25, debug_pc: 8, options_pc: 20,
    }
    // A little of everything that can be combined.
    "everything" x 0 {
        recent_pc: 30, compiler_pc: 20, names_pc: 5, large_align_pc: 5, link_options: &["-v", "-w", "-v", "-g"], units: (2, 6), functions: (1, 4), entries: (1, 3), statements: (1, 4),
        globals: (0, 2), constants: (0, 2), shared: (0, 2), tables: (0, 1), textures: (0, 2), commons: (0, 2), aliases: (0, 1), dynamic_shared_pc: 30, pointer_pc: 25, managed_pc: 5,
        weak_function_pc: 20, weak_entry_pc: 12, weak_variable_pc: 12, dead_pc: 20, recursion_pc: 3, signature_variety: 3, noreturn_pc: 3, launch_bounds_pc: 30, options_pc: 15, lines_pc: 12, debug_pc: 8,
        select_pc: 10, unsized_pc: 4, reference_copies_pc: 30, sampler_pc: 40, parameter_pc: 15, reference_pointer_pc: 20, independent_pc: 30, local_pc: 20, same_name_pc: 20,
        w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 2, w_shared: 3, w_function_shared: 2, w_frame: 2, w_alloca: 1, w_doubles: 3, w_switch: 3, w_barrier: 1, w_syscall: 2, w_special: 3,
        w_nested: 2, w_slow_path: 2, w_kernel_address: 1, w_fetch: 2, w_query: 2, w_query_parameter: 1, w_object: 1,
    }
    "names" x 0 {
        names_pc: 70, link_options: &["-v", "-w", "-g"], units: (2, 5), functions: (1, 4), entries: (1, 3), globals: (0, 3), constants: (0, 2), shared: (0, 2), tables: (0, 1),
        commons: (0, 1), textures: (0, 1), local_pc: 30, same_name_pc: 30, weak_function_pc: 20, weak_entry_pc: 10, weak_variable_pc: 20, dead_pc: 25, select_pc: 15, lines_pc: 15, debug_pc: 10,
        w_call_address: 2, w_call_table: 2, w_address: 3, w_const: 2, w_shared: 3, w_function_shared: 2, w_doubles: 2, w_switch: 1, w_fetch: 1, w_syscall: 1, w_slow_path: 1,
    }
    "options" x 0 {
        link_options: &["-v", "-w", "-g", "-suppress-stack-size-warning", "-disable-infos", "-report-arch", "-dump-callgraph"],
        recursion_pc: 5, weak_function_pc: 10, constants: (0, 1), w_const: 1, shared: (0, 1), w_shared: 1, textures: (0, 1), w_fetch: 1, w_frame: 2, w_syscall: 1, dead_pc: 25,
        lines_pc: 20, debug_pc: 15,
    }
    "relocatable" x 0 {
        link_options: &["-r"],
        recursion_pc: 3, weak_function_pc: 15, constants: (0, 1), w_const: 1, w_frame: 1, w_doubles: 1, w_syscall: 1, dead_pc: 25, commons: (0, 1), tables: (0, 1), w_call_table: 1,
    }
    "preserve" x 0 {
        link_options: &["--preserve-relocs"],
        weak_function_pc: 10, constants: (0, 1), w_const: 1, w_doubles: 1, w_syscall: 1, dead_pc: 25, tables: (0, 1), w_call_table: 1, w_address: 2,
    }
}
