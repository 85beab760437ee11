//! Prints the body of a generated function.
//!
//! In: a [`GeneratedFunction`] of a unit. Out: PTX statements. Guaranteed: every statement is a
//! block with its own registers that reads and writes only the accumulator `%acc`, so each can be
//! removed alone. Memory accesses are volatile and results are used, so ptxas keeps them.

use super::model::{
    ArrayShape, DebugLevel, GeneratedFunction, GeneratedProgram, GeneratedSpace, GeneratedSymbolId,
    GeneratedType, ModelSymbolKind, OpaqueReference, Signature, SlowPath, SpecialInstruction, Stmt,
    Syscall, Unit,
};
use super::ptx::{believed_kind, line, parameter, prototype};
use super::recent;
use super::textures;

/// Writes one function body.
pub(super) struct BodyPrinter<'p> {
    program: &'p GeneratedProgram,
    unit: &'p Unit,
    out: &'p mut String,
    /// Source line for `.loc`; grows with every statement.
    source_line: u32,
}

impl<'p> BodyPrinter<'p> {
    pub(super) fn new(program: &'p GeneratedProgram, unit: &'p Unit, out: &'p mut String) -> Self {
        Self { program, unit, out, source_line: 10 }
    }

    pub(super) fn function(mut self, function: &GeneratedFunction, kind: &ModelSymbolKind) {
        let name = &self.program.symbol(function.symbol).name;
        line!(self.out, ".reg .b32 %acc;");
        self.location();
        if self.unit.debug == DebugLevel::Full {
            line!(self.out, "$begin_{name}:");
        }
        line!(self.out, "mov.u32 %acc, %tid.x;");
        let (params, prefix) = match kind {
            ModelSymbolKind::Function(signature) => (signature.params.as_slice(), "p".to_owned()),
            ModelSymbolKind::Entry(params) => (params.as_slice(), format!("{name}_")),
            _ => (&[][..], String::new()),
        };
        for (i, &ty) in params.iter().enumerate() {
            self.load_value(ty, "ld.param", &format!("{prefix}{i}"));
        }
        for stmt in &function.body {
            self.stmt(stmt);
        }
        self.location();
        match kind {
            ModelSymbolKind::Entry(_) => {
                line!(
                    self.out,
                    "{{ .reg .b64 %out; ld.param.u64 %out, [{name}_out]; st.global.u32 [%out], %acc; }}"
                );
                line!(self.out, "ret;");
            }
            ModelSymbolKind::Function(Signature { noreturn: true, .. }) => {
                line!(self.out, "trap; exit;")
            }
            ModelSymbolKind::Function(Signature { result, .. }) => {
                if let Some(ty) = result {
                    self.store_value(*ty, "result");
                }
                line!(self.out, "ret;");
            }
            _ => line!(self.out, "ret;"),
        }
        if self.unit.debug == DebugLevel::Full {
            line!(self.out, "$end_{name}:");
        }
    }

    fn location(&mut self) {
        if self.unit.debug != DebugLevel::Off {
            line!(self.out, ".loc 1 {} 3", self.source_line);
            self.source_line += 1;
        }
    }

    /// Mixes a parameter or a result into the accumulator.
    fn load_value(&mut self, ty: GeneratedType, load: &str, name: &str) {
        match ty {
            GeneratedType::B32 => line!(
                self.out,
                "{{ .reg .b32 %v; {load}.b32 %v, [{name}]; xor.b32 %acc, %acc, %v; }}"
            ),
            GeneratedType::F32 => line!(
                self.out,
                "{{ .reg .f32 %v; .reg .b32 %w; {load}.f32 %v, [{name}]; mov.b32 %w, %v; xor.b32 %acc, %acc, %w; }}"
            ),
            GeneratedType::B64 => line!(
                self.out,
                "{{ .reg .b64 %v; .reg .b32 %w; {load}.b64 %v, [{name}]; cvt.u32.u64 %w, %v; add.u32 %acc, %acc, %w; }}"
            ),
            GeneratedType::F64 => line!(
                self.out,
                "{{ .reg .f64 %v; .reg .b64 %u; .reg .b32 %w; {load}.f64 %v, [{name}]; mov.b64 %u, %v; cvt.u32.u64 %w, %u; add.u32 %acc, %acc, %w; }}"
            ),
            GeneratedType::Bytes { size, .. } => line!(
                self.out,
                "{{ .reg .b32 %v, %w; {load}.b32 %v, [{name}]; {load}.b32 %w, [{name}+{}]; xor.b32 %acc, %acc, %v; add.u32 %acc, %acc, %w; }}",
                size - 4
            ),
        }
    }

    /// Stores a value made from the accumulator into a parameter or a result.
    fn store_value(&mut self, ty: GeneratedType, name: &str) {
        match ty {
            GeneratedType::B32 => line!(self.out, "st.param.b32 [{name}], %acc;"),
            GeneratedType::F32 => {
                line!(self.out, "{{ .reg .f32 %v; mov.b32 %v, %acc; st.param.f32 [{name}], %v; }}")
            }
            GeneratedType::B64 => line!(
                self.out,
                "{{ .reg .b64 %v; cvt.u64.u32 %v, %acc; st.param.b64 [{name}], %v; }}"
            ),
            GeneratedType::F64 => {
                line!(
                    self.out,
                    "{{ .reg .f64 %v; mov.b64 %v, {{%acc, %acc}}; st.param.f64 [{name}], %v; }}"
                );
            }
            GeneratedType::Bytes { size, .. } => {
                line!(
                    self.out,
                    "st.param.b32 [{name}], %acc; st.param.b32 [{name}+{}], %acc;",
                    size - 4
                );
            }
        }
    }

    fn name(&self, symbol: GeneratedSymbolId) -> &'p str {
        &self.program.symbol(symbol).name
    }

    fn kind(&self, symbol: GeneratedSymbolId) -> &'p ModelSymbolKind {
        believed_kind(self.program, self.unit, symbol)
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.location();
        line!(self.out, "{{");
        match stmt {
            Stmt::Arith(steps) => self.arith(*steps),
            Stmt::Pressure(values) => self.pressure(*values),
            Stmt::Call(callee) => {
                if let ModelSymbolKind::Function(signature) = self.kind(*callee) {
                    self.call(self.name(*callee), None, signature);
                }
            }
            Stmt::CallAddress(callee) => {
                if let ModelSymbolKind::Function(signature) = self.kind(*callee) {
                    line!(self.out, ".reg .b64 %fn; mov.u64 %fn, {};", self.name(*callee));
                    self.call("%fn", Some(signature), signature);
                }
            }
            Stmt::CallTable { table, index, signature } => self.call_table(*table, *index, signature),
            Stmt::Address { symbol, addend, generic } => self.address(*symbol, *addend, *generic),
            Stmt::Access { symbol, offset, store, indexed } => {
                self.access(*symbol, *offset, *store, *indexed);
            }
            Stmt::FunctionShared { shape, used } => self.function_shared(*shape, *used),
            Stmt::Frame(bytes) => self.frame(*bytes),
            Stmt::Alloca => line!(
                self.out,
                ".reg .b64 %n, %a; .reg .b32 %v; and.b32 %v, %acc, 255; add.u32 %v, %v, 16; cvt.u64.u32 %n, %v; alloca.u64 %a, %n;
cvta.local.u64 %a, %a; st.volatile.b32 [%a], %acc; ld.volatile.b32 %v, [%a+4]; add.u32 %acc, %acc, %v;"
            ),
            Stmt::Doubles(count) => self.doubles(*count),
            Stmt::Switch(cases) => self.switch(*cases),
            Stmt::Barrier(number) => line!(self.out, "bar.sync {number};"),
            Stmt::SlowPath(path) => self.slow_path(*path),
            Stmt::Syscall(syscall) => self.syscall(*syscall),
            Stmt::Fetch { symbol, sampler } => self.fetch(*symbol, *sampler),
            Stmt::Query { symbol, how } => {
                if let ModelSymbolKind::Reference(kind) = *self.kind(*symbol) {
                    let name = self.name(*symbol).to_owned();
                    textures::print_query(self.out, kind, &name, *how);
                }
            }
            Stmt::QueryParameter { parameter, how } => {
                let name = textures::parameter_name(*parameter);
                textures::print_query(self.out, parameter.kind, &name, *how);
            }
            Stmt::Object { surface } => {
                textures::print_object(self.out, *surface, self.unit.independent_textures);
            }
            Stmt::Special(special) => self.special(*special),
            Stmt::Loop(body) => {
                line!(self.out, ".reg .b32 %i; .reg .pred %p; and.b32 %i, %acc, 7;\nagain:");
                self.block(body);
                line!(self.out, "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9;\n@%p bra again;");
            }
            Stmt::If(body) => {
                line!(self.out, ".reg .pred %p; setp.gt.u32 %p, %acc, 5;\n@!%p bra over;");
                self.block(body);
                line!(self.out, "over:\nadd.u32 %acc, %acc, 1;");
            }
        }
        line!(self.out, "}}");
    }

    fn arith(&mut self, steps: u32) {
        line!(self.out, ".reg .f32 %f; mov.b32 %f, %acc;");
        for step in 0..steps {
            line!(self.out, "fma.rn.f32 %f, %f, %f, 0f{:08X};", 0x3f00_0000 + step * 104_729);
        }
        line!(self.out, "mov.b32 %acc, %f;");
    }

    /// Loads all values before the first is used; the loads are volatile, so that none is repeated.
    fn pressure(&mut self, values: u32) {
        line!(self.out, ".reg .b32 %v<{values}>; .reg .b64 %a; cvt.u64.u32 %a, %acc;");
        for i in 0..values {
            line!(self.out, "ld.volatile.b32 %v{i}, [%a+{}];", 4 * i);
        }
        for i in 0..values {
            line!(self.out, "mad.lo.u32 %acc, %acc, %v{i}, %v{};", (i * 7 + 3) % values);
        }
    }

    fn call(&mut self, target: &str, through: Option<&Signature>, signature: &Signature) {
        if let Some(signature) = through {
            line!(self.out, "{}", prototype("proto", signature));
        }
        for (i, &ty) in signature.params.iter().enumerate() {
            line!(self.out, "{};", parameter(ty, &format!("a{i}")));
            self.store_value(ty, &format!("a{i}"));
        }
        let arguments: Vec<String> = (0..signature.params.len()).map(|i| format!("a{i}")).collect();
        let arguments = arguments.join(", ");
        let label = if through.is_some() { ", proto" } else { "" };
        match signature.result {
            Some(ty) => {
                line!(self.out, "{};", parameter(ty, "res"));
                line!(self.out, "call (res), {target}, ({arguments}){label};");
                self.load_value(ty, "ld.param", "res");
            }
            None => line!(self.out, "call {target}, ({arguments}){label};"),
        }
    }

    fn call_table(&mut self, table: GeneratedSymbolId, index: u32, signature: &Signature) {
        let space = self.space(table);
        let volatile = if space == GeneratedSpace::Const { "" } else { ".volatile" };
        let name = self.name(table);
        line!(
            self.out,
            ".reg .b64 %fn; ld{volatile}.{}.u64 %fn, [{name}+{}];",
            space.name(),
            8 * index
        );
        self.call("%fn", Some(signature), signature);
    }

    fn space(&self, symbol: GeneratedSymbolId) -> GeneratedSpace {
        match self.kind(symbol) {
            ModelSymbolKind::Variable(space, _) => *space,
            ModelSymbolKind::DynamicShared(_) => GeneratedSpace::Shared,
            _ => GeneratedSpace::Global,
        }
    }

    fn address(&mut self, symbol: GeneratedSymbolId, addend: u32, generic: bool) {
        let name = self.name(symbol);
        let plus = if addend > 0 { format!("+{addend}") } else { String::new() };
        line!(self.out, ".reg .b64 %a; .reg .b32 %l, %h; mov.u64 %a, {name}{plus};");
        let data = matches!(
            self.kind(symbol),
            ModelSymbolKind::Variable(..) | ModelSymbolKind::DynamicShared(_)
        );
        if generic && data {
            line!(self.out, "cvta.{}.u64 %a, %a;", self.space(symbol).name());
        }
        line!(self.out, "mov.b64 {{%l, %h}}, %a; xor.b32 %acc, %acc, %l; add.u32 %acc, %acc, %h;");
    }

    fn access(&mut self, symbol: GeneratedSymbolId, offset: u32, store: bool, indexed: bool) {
        let (ModelSymbolKind::Variable(_, shape) | ModelSymbolKind::DynamicShared(shape)) =
            self.kind(symbol)
        else {
            return;
        };
        let space = self.space(symbol);
        let volatile = if space == GeneratedSpace::Const { "" } else { ".volatile" };
        let (space, name) = (space.name(), self.name(symbol));
        let register = if shape.width == 8 { "b64" } else { "b32" };
        line!(self.out, ".reg .b64 %a, %x; .reg .{register} %v; .reg .b32 %w;");
        let place = if indexed {
            line!(
                self.out,
                "mov.u64 %a, {name}; and.b32 %w, %acc, 1; mul.wide.u32 %x, %w, {}; add.u64 %a, %a, %x;",
                shape.width
            );
            format!("%a+{offset}")
        } else {
            format!("{name}+{offset}")
        };
        let bits = 8 * shape.width;
        if store {
            let value =
                if shape.width == 8 { "cvt.u64.u32 %v, %acc;" } else { "mov.b32 %v, %acc;" };
            line!(self.out, "{value} st{volatile}.{space}.u{bits} [{place}], %v;");
        } else {
            // Half of the loads of unified variables say `.unified`, which gives another
            // relocation.
            let unified = self.program.symbol(symbol).unified.is_some() && !indexed;
            let unified = if unified && offset.is_multiple_of(8) { ".unified" } else { "" };
            let narrow = if shape.width == 8 { "cvt.u32.u64 %w, %v;" } else { "mov.b32 %w, %v;" };
            line!(
                self.out,
                "ld{volatile}.{space}.u{bits} %v, [{place}]{unified}; {narrow} xor.b32 %acc, %acc, %w;"
            );
        }
    }

    fn function_shared(&mut self, shape: ArrayShape, used: bool) {
        let ArrayShape { width, count, align } = shape;
        line!(self.out, ".shared .align {align} .b{} buf[{count}];", 8 * width);
        if used {
            let last = width * (count - 1);
            line!(
                self.out,
                ".reg .b32 %v; st.volatile.shared.u8 [buf+{last}], %acc; ld.volatile.shared.u8 %v, [buf]; xor.b32 %acc, %acc, %v;"
            );
        }
    }

    fn frame(&mut self, bytes: u32) {
        line!(
            self.out,
            ".local .align 8 .b8 buf[{bytes}]; .reg .b64 %a, %x; .reg .b32 %i, %v; mov.u64 %a, buf; cvta.local.u64 %a, %a; and.b32 %i, %acc, 3;
mul.wide.u32 %x, %i, 4; add.u64 %a, %a, %x; st.volatile.b32 [%a], %acc; ld.volatile.b32 %v, [%a+4]; add.u32 %acc, %acc, %v;"
        );
    }

    fn doubles(&mut self, count: u32) {
        line!(self.out, ".reg .f64 %d; cvt.rn.f64.u32 %d, %acc;");
        for i in 0..count {
            let literal = 0x3ff1_2345_6789_abcd_u64 + u64::from(i) * 0x0001_1111_2222_3333;
            line!(self.out, "fma.rn.f64 %d, %d, %d, 0d{literal:016X};");
        }
        line!(self.out, "cvt.rzi.u32.f64 %acc, %d;");
    }

    fn switch(&mut self, cases: u32) {
        let labels: Vec<String> = (0..cases).map(|i| format!("case{i}")).collect();
        line!(
            self.out,
            ".reg .b32 %i; rem.u32 %i, %acc, {cases};\ntargets: .branchtargets {};",
            labels.join(", ")
        );
        line!(self.out, "brx.idx %i, targets;");
        for (i, label) in labels.iter().enumerate() {
            let op = ["add.u32", "xor.b32", "mul.lo.u32"][i % 3];
            line!(self.out, "{label}: {op} %acc, %acc, {}; bra done;", 2 * i + 3);
        }
        line!(self.out, "done:\nadd.u32 %acc, %acc, 1;");
    }

    fn slow_path(&mut self, path: SlowPath) {
        let (register, operation) = match path {
            SlowPath::DivideF32 => ("f32", "div.rn.f32 %x, %y, %x;"),
            SlowPath::RootF32 => ("f32", "sqrt.rn.f32 %x, %y;"),
            SlowPath::DivideF64 => ("f64", "div.rn.f64 %x, %y, %x;"),
            SlowPath::RootF64 => ("f64", "sqrt.rn.f64 %x, %y;"),
            SlowPath::ReciprocalF64 => ("f64", "rcp.rn.f64 %x, %y;"),
            SlowPath::DivideU64 => ("b64", "div.u64 %x, %y, %x;"),
            SlowPath::RemainderS64 => ("b64", "rem.s64 %x, %y, %x;"),
        };
        let (into, back) = if register == "f32" {
            ("mov.b32 %x, %acc; mov.b32 %y, %acc;", "mov.b32 %w, %x;")
        } else {
            ("mov.b64 %x, {%acc, %acc}; mov.b64 %y, {%acc, %acc};", "mov.b64 {%w, %v}, %x;")
        };
        line!(
            self.out,
            ".reg .{register} %x, %y; .reg .b32 %v, %w; {into} {operation} {back} xor.b32 %acc, %acc, %w;"
        );
    }

    fn syscall(&mut self, syscall: Syscall) {
        let text = match syscall {
            Syscall::Vprintf => {
                ".reg .b64 %a; .param .b64 a0; .param .b64 a1; .param .b32 res; .reg .b32 %v; cvt.u64.u32 %a, %acc;
st.param.b64 [a0], %a; st.param.b64 [a1], %a; call (res), vprintf, (a0, a1); ld.param.b32 %v, [res]; add.u32 %acc, %acc, %v;"
            }
            Syscall::Malloc => {
                ".reg .b64 %a; .param .b64 a0; .param .b64 res; .reg .b32 %v; cvt.u64.u32 %a, %acc;
st.param.b64 [a0], %a; call (res), malloc, (a0); ld.param.b64 %a, [res]; cvt.u32.u64 %v, %a; xor.b32 %acc, %acc, %v;"
            }
            Syscall::Free => {
                ".reg .b64 %a; .param .b64 a0; cvt.u64.u32 %a, %acc; st.param.b64 [a0], %a; call free, (a0);"
            }
            Syscall::AssertFail => {
                ".reg .b64 %a; .param .b64 a0; .param .b64 a1; .param .b32 a2; .param .b64 a3; .param .b64 a4; cvt.u64.u32 %a, %acc;
st.param.b64 [a0], %a; st.param.b64 [a1], %a; st.param.b32 [a2], %acc; st.param.b64 [a3], %a; st.param.b64 [a4], %a;
call __assertfail, (a0, a1, a2, a3, a4);"
            }
            Syscall::Other => {
                ".param .b32 a0; .param .b32 res; .reg .b32 %v; st.param.b32 [a0], %acc;
call (res), __cuda_syscall_generated, (a0); ld.param.b32 %v, [res]; add.u32 %acc, %acc, %v;"
            }
        };
        line!(self.out, "{text}");
    }

    fn fetch(&mut self, symbol: GeneratedSymbolId, sampler: Option<GeneratedSymbolId>) {
        let name = self.name(symbol);
        if *self.kind(symbol) == ModelSymbolKind::Reference(OpaqueReference::Surface) {
            line!(
                self.out,
                ".reg .b32 %v; suld.b.1d.b32.trap {{%v}}, [{name}, {{%acc}}]; add.u32 %acc, %acc, %v;"
            );
        } else {
            let sampler = sampler.map_or(String::new(), |id| format!("{}, ", self.name(id)));
            line!(
                self.out,
                ".reg .f32 %f<4>; .reg .b32 %v; tex.1d.v4.f32.s32 {{%f0, %f1, %f2, %f3}}, [{name}, {sampler}{{%acc}}];
mov.b32 %v, %f1; add.u32 %acc, %acc, %v;"
            );
        }
    }

    fn special(&mut self, special: SpecialInstruction) {
        if let Some(text) = recent::text(special) {
            line!(self.out, "{text}");
            return;
        }
        let text = match special {
            SpecialInstruction::CtaidZ => ".reg .b32 %v; mov.u32 %v, %ctaid.z; add.u32 %acc, %acc, %v;",
            SpecialInstruction::Mbarrier => {
                ".reg .b64 %s; .reg .b32 %t, %v; .shared .align 8 .b64 bar[1]; mov.u32 %t, bar; mbarrier.init.shared.b64 [%t], 5;
mbarrier.arrive.shared.b64 %s, [%t]; cvt.u32.u64 %v, %s; add.u32 %acc, %acc, %v;"
            }
            SpecialInstruction::Warp => {
                ".reg .b32 %v<3>; .reg .pred %p; setp.gt.u32 %p, %acc, 3; vote.sync.ballot.b32 %v0, %p, 0xffffffff;
shfl.sync.idx.b32 %v1, %acc, 1, 31, 0xffffffff; match.any.sync.b32 %v2, %acc, 0xffffffff;
xor.b32 %acc, %v0, %v1; xor.b32 %acc, %acc, %v2;"
            }
            SpecialInstruction::Exit => ".reg .pred %p; setp.eq.u32 %p, %acc, 77; @%p exit;",
            SpecialInstruction::SparseMma => {
                ".reg .f32 %f<4>; .reg .b32 %v; mov.b32 %f0, %acc; mov.b32 %f1, %acc; mov.b32 %f2, %acc; mov.b32 %f3, %acc;
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%acc, %acc}, {%acc, %acc}, {%f0, %f1, %f2, %f3}, %acc, 0x0;
mov.b32 %v, %f0; xor.b32 %acc, %acc, %v;"
            }
            SpecialInstruction::Cluster => {
                ".reg .b32 %v; mov.u32 %v, %cluster_ctaid.x; add.u32 %acc, %acc, %v; barrier.cluster.arrive; barrier.cluster.wait;"
            }
            SpecialInstruction::GridDependency => "griddepcontrol.wait; griddepcontrol.launch_dependents;",
            SpecialInstruction::SetMaxRegisters => "setmaxnreg.inc.sync.aligned.u32 120;",
            SpecialInstruction::ReservedShared => {
                ".reg .b32 %v; mov.u32 %v, %reserved_smem_offset_begin; add.u32 %acc, %acc, %v;"
            }
            SpecialInstruction::Trap => ".reg .pred %p; setp.eq.u32 %p, %acc, 99; @%p trap;",
            SpecialInstruction::Atomic => {
                ".reg .b64 %a; .reg .b32 %v; .shared .align 4 .b32 word; cvt.u64.u32 %a, %acc; atom.global.add.u32 %v, [%a], 3;
atom.shared.cas.b32 %v, [word], %v, 5; red.global.add.u32 [%a], %v; add.u32 %acc, %acc, %v;"
            }
            SpecialInstruction::BarrierRegister => "bar.sync %acc;",
            SpecialInstruction::BulkCopy => {
                ".reg .b64 %a; .reg .b32 %v, %w; .shared .align 16 .b8 buf[64]; .shared .align 8 .b64 bar; cvt.u64.u32 %a, %acc;
mov.u32 %v, buf; mov.u32 %w, bar; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%v], [%a], 64, [%w];"
            }
            SpecialInstruction::Wgmma => {
                ".reg .f32 %f<4>; .reg .b64 %d; .reg .b32 %v; cvt.u64.u32 %d, %acc;
mov.b32 %f0, %acc; mov.b32 %f1, %acc; mov.b32 %f2, %acc; mov.b32 %f3, %acc; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d, %d, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.b32 %v, %f1; add.u32 %acc, %acc, %v;"
            }
            _ => "",
        };
        line!(self.out, "{text}");
    }
}
