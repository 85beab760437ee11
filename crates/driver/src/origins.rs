//! The origin of each input of a link and the reason why it is linked, for reports.
//!
//! In: the gathered inputs. Out: [`ReportInput`]s of a report, linked ones first. Guaranteed: the
//! order of the inputs; contents are read only if a member of a system library is linked.

use std::collections::HashMap;

use culd_cubin::elf::stb;
use culd_cubin::{Cubin, Symbol, SymbolSection};
use culd_report::{ReportInput, ReportInputKind, ReportReason};

use crate::hints::UnlinkedReason;
use crate::input::{CubinOrigin, Inputs, LinkCubin};

/// The inputs as a report lists them, and for each object of the link its place in that list.
/// LTO-IR, which a compiler takes, stands behind the linked ones.
/// `unused` are the places of inputs that the linker has left out.
pub(crate) fn inputs(gathered: &Inputs<'_>, unused: &[usize]) -> (Vec<ReportInput>, Vec<usize>) {
    let mut inputs: Vec<ReportInput> =
        gathered.inputs.iter().map(|ready| input(gathered, ready)).collect();
    let is_linked = |place: &usize| unused.binary_search(place).is_err();
    let objects: Vec<usize> = (0..inputs.len()).filter(is_linked).collect();
    for &place in unused {
        if let Some(input) = inputs.get_mut(place) {
            input.ignored = "nothing needs it".to_owned();
        }
    }
    for (place, needed) in needed(&gathered.inputs, &objects) {
        let input = &mut inputs[place];
        (input.why, input.cause) = (ReportReason::Undefined, needed.symbol);
        input.caused_by = Some(needed.by);
    }
    for piece in &gathered.lto {
        let mut input = ReportInput::new(piece.name.clone(), piece.bytes.len() as u64);
        (input.file, input.member) = file_and_member(gathered, &piece.name);
        input.kind = ReportInputKind::LtoIr;
        set_library(&mut input, gathered);
        inputs.push(input);
    }
    for part in &gathered.elsewhere {
        let mut input = ReportInput::new(part.file.clone(), 0);
        (input.file, input.member) = file_and_member(gathered, &part.file);
        (input.kind, input.ignored) = match &part.why {
            UnlinkedReason::OtherArch(arch) => {
                (ReportInputKind::Other, format!("it is for {arch}"))
            }
            UnlinkedReason::LtoIr => {
                (ReportInputKind::LtoIr, "it is LTO-IR, which needs -lto".to_owned())
            }
            UnlinkedReason::WholeProgram => {
                (ReportInputKind::Other, "it was compiled without -rdc=true".to_owned())
            }
            UnlinkedReason::LinkedBefore(by) => {
                (ReportInputKind::Other, format!("a device link has linked it before, into '{by}'"))
            }
        };
        inputs.push(input);
    }
    (inputs, objects)
}

fn input(gathered: &Inputs<'_>, ready: &LinkCubin<'_>) -> ReportInput {
    let mut input = ReportInput::new(ready.name.clone(), ready.bytes.len() as u64);
    (input.file, input.member) = file_and_member(gathered, &ready.name);
    input.kind = match ready.kind {
        CubinOrigin::Cubin => ReportInputKind::Cubin,
        CubinOrigin::OfPtx => ReportInputKind::Ptx,
        CubinOrigin::OfLtoIr => ReportInputKind::LtoIr,
    };
    set_library(&mut input, gathered);
    input
}

/// Notes the `-l` that brings an input.
fn set_library(input: &mut ReportInput, gathered: &Inputs<'_>) {
    let library = gathered.libraries.iter().find(|(file, _)| *file == input.file);
    if let Some((_, name)) = library {
        (input.why, input.cause) = (ReportReason::Library, name.clone());
    }
}

/// The file of an input, and the member of the archive that it is.
fn file_and_member(gathered: &Inputs<'_>, name: &str) -> (String, String) {
    let inside = |archive: &&String| {
        name.strip_prefix(archive.as_str()).is_some_and(|rest| rest.starts_with(':'))
    };
    // Archives may lie in archives: the outermost is the file.
    match gathered.archives.iter().filter(inside).min_by_key(|archive| archive.len()) {
        Some(archive) => (archive.clone(), name[archive.len() + 1..].to_owned()),
        None => (name.to_owned(), String::new()),
    }
}

/// The reason why an input of a system library is linked: an undefined function, and the input that
/// has it.
struct Needed {
    symbol: String,
    by: usize,
}

/// The linked inputs of system libraries, each with a function that it defines and that an earlier
/// input leaves undefined.
fn needed(inputs: &[LinkCubin<'_>], objects: &[usize]) -> Vec<(usize, Needed)> {
    let mut all = Vec::new();
    if !objects.iter().any(|&place| inputs[place].system) {
        return all;
    }
    let mut undefined: HashMap<Vec<u8>, usize> = HashMap::new();
    for &place in objects {
        let Ok(cubin) = Cubin::parse(inputs[place].bytes) else { continue };
        let global = |symbol: &&Symbol<'_>| symbol.is_function() && symbol.binding() != stb::LOCAL;
        let (missing, defined): (Vec<&Symbol<'_>>, Vec<&Symbol<'_>>) = cubin
            .symbols
            .iter()
            .filter(global)
            .partition(|symbol| symbol.section == SymbolSection::Undefined);
        if inputs[place].system {
            let found = defined.iter().find_map(|symbol| {
                let by = *undefined.get(symbol.name)?;
                Some(Needed { symbol: culd_text::bytes(symbol.name), by })
            });
            all.extend(found.map(|needed| (place, needed)));
        }
        defined.iter().for_each(|symbol| _ = undefined.remove(symbol.name));
        for symbol in missing {
            undefined.entry(symbol.name.to_vec()).or_insert(place);
        }
    }
    all
}
