//! Legacy texture, surface and sampler references beyond plain reads: queries, addresses, objects,
//! parameters of kernels, initialised samplers, references that several files define.
//!
//! In: a [`ProgramBuilder`] whose family has them. Out: statements, parameters and initialisers,
//! and their text.

use super::build::ProgramBuilder;
use super::model::{
    GeneratedItem, GeneratedLinkage, GeneratedSymbolId, GeneratedVariable, Init, ModelSymbolKind,
    OpaqueReference, ReferenceParameter, Stmt,
};
use super::ptx::line;

/// Texts in the braces of a sampler's initialiser.
const SAMPLERS: [&str; 6] = [
    "addr_mode_0 = wrap",
    "addr_mode_0 = clamp_to_edge, filter_mode = nearest",
    "filter_mode = linear, force_unnormalized_coords = 1",
    "force_unnormalized_coords = 1",
    "addr_mode_0 = mirror, addr_mode_1 = clamp_ogl, filter_mode = linear",
    "force_unnormalized_coords = 0",
];

impl ProgramBuilder<'_> {
    /// Defines a reference in a file, and sometimes in other files.
    pub(super) fn define_reference(
        &mut self,
        unit: usize,
        id: GeneratedSymbolId,
        kind: &ModelSymbolKind,
    ) {
        let mut units = vec![unit];
        if self.mix.reference_copies_pc > 0 && self.rng.chance(self.mix.reference_copies_pc) {
            units.extend(self.further_units(unit, id));
        }
        for unit in units {
            let linkage = if self.rng.chance(50) {
                GeneratedLinkage::Local
            } else {
                GeneratedLinkage::Visible
            };
            let sampler = *kind == ModelSymbolKind::Reference(OpaqueReference::Sampler);
            let pc = self.mix.sampler_pc;
            let init = if sampler && pc > 0 && self.rng.chance(pc) {
                vec![Init::Value(self.rng.below(SAMPLERS.len()) as u64)]
            } else {
                Vec::new()
            };
            let variable = GeneratedVariable { symbol: id, linkage, kind: kind.clone(), init };
            // ptxas needs the definition before data that names it.
            self.program.units[unit].items.insert(0, GeneratedItem::Variable(variable));
        }
    }

    /// Parameters of a kernel that are references.
    pub(super) fn parameters(&mut self) -> Vec<ReferenceParameter> {
        let pc = self.mix.parameter_pc;
        if pc == 0 || !self.rng.chance(pc) {
            return Vec::new();
        }
        let independent = self.program.units.iter().all(|unit| unit.independent_textures);
        let kinds = if independent { 3 } else { 2 };
        let mut found = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            let all =
                [OpaqueReference::Texture, OpaqueReference::Surface, OpaqueReference::Sampler];
            let kind = all[self.rng.below(kinds)];
            let parameter = ReferenceParameter { kind, number: self.rng.below(40) as u32 };
            let name = parameter_name(parameter);
            if found.iter().all(|&other| parameter_name(other) != name) {
                found.push(parameter);
            }
        }
        found
    }

    /// A query of a reference, or its address.
    pub(super) fn query(&mut self, unit: usize) -> Option<Stmt> {
        let symbol = self.any(unit, |kind| matches!(kind, ModelSymbolKind::Reference(_)))?;
        Some(Stmt::Query { symbol, how: self.rng.below(5) as u32 })
    }

    /// A query of a parameter of the kernel.
    pub(super) fn parameter_query(&mut self, unit: usize, id: GeneratedSymbolId) -> Option<Stmt> {
        let items = &self.program.units[unit].items;
        let own = items.iter().find_map(|item| match item {
            GeneratedItem::Function(function) if function.symbol == id => {
                Some(function.references.clone())
            }
            _ => None,
        });
        let parameter = *self.rng.choose(&own?)?;
        Some(Stmt::QueryParameter { parameter, how: self.rng.below(5) as u32 })
    }

    /// The address of a reference as an element of data.
    pub(super) fn reference_element(&mut self, unit: usize) -> Option<Init> {
        let symbol = self.any(unit, |kind| matches!(kind, ModelSymbolKind::Reference(_)))?;
        Some(Init::Address { symbol, addend: 0, generic: false, byte: None })
    }
}

/// The name of a parameter. Kernels share names; if the kinds differ, which is rare, the link
/// fails.
pub(super) fn parameter_name(parameter: ReferenceParameter) -> String {
    let ReferenceParameter { kind, number } = parameter;
    match kind {
        _ if number == 0 => "ref".to_owned(),
        OpaqueReference::Texture => format!("ref_t{number}"),
        OpaqueReference::Surface => format!("ref_s{number}"),
        OpaqueReference::Sampler => format!("ref_p{number}"),
    }
}

/// The type of a reference in PTX.
pub(super) fn type_name(kind: OpaqueReference) -> &'static str {
    match kind {
        OpaqueReference::Texture => ".texref",
        OpaqueReference::Surface => ".surfref",
        OpaqueReference::Sampler => ".samplerref",
    }
}

/// The initialiser of a sampler.
pub(super) fn sampler(init: &[Init]) -> Option<&'static str> {
    match init {
        [Init::Value(number)] => SAMPLERS.get(*number as usize).copied(),
        _ => None,
    }
}

/// Writes a query of a reference, or the use of its address.
pub(super) fn print_query(out: &mut String, kind: OpaqueReference, name: &str, how: u32) {
    let query = match (kind, how) {
        (OpaqueReference::Texture, 0) => "txq.width.b32",
        (OpaqueReference::Texture, 1) => "txq.channel_order.b32",
        (OpaqueReference::Texture, 2) => "txq.height.b32",
        (OpaqueReference::Surface, 0) => "suq.width.b32",
        (OpaqueReference::Surface, 1) => "suq.channel_data_type.b32",
        (OpaqueReference::Surface, 2) => {
            line!(out, "sust.b.1d.b32.trap [{name}, {{%acc}}], {{%acc}};");
            return;
        }
        (OpaqueReference::Surface, 3) => {
            line!(out, "sured.b.add.1d.u32.trap [{name}, {{%acc}}], %acc;");
            return;
        }
        (OpaqueReference::Sampler, 0) => "txq.filter_mode.b32",
        _ => {
            line!(
                out,
                ".reg .b64 %a; .reg .b32 %v; mov.u64 %a, {name}; cvt.u32.u64 %v, %a; add.u32 %acc, %acc, %v;"
            );
            return;
        }
    };
    line!(out, ".reg .b32 %v; {query} %v, [{name}]; add.u32 %acc, %acc, %v;");
}

/// Writes a read through a texture or surface object.
pub(super) fn print_object(out: &mut String, surface: bool, independent: bool) {
    line!(out, ".reg .b64 %a; .reg .b32 %v<4>; cvt.u64.u32 %a, %acc;");
    let sampler = if independent { "%a, " } else { "" };
    if surface {
        line!(out, "suld.b.1d.b32.trap {{%v0}}, [%a, {{%acc}}];");
    } else {
        line!(out, "tex.1d.v4.s32.s32 {{%v0, %v1, %v2, %v3}}, [%a, {sampler}{{%acc}}];");
    }
    line!(out, "add.u32 %acc, %acc, %v0;");
}
