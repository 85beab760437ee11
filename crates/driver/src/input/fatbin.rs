//! Fat binaries: one image of each container.

use culd_fatbin::container::{Container, FatbinEntry, ImageKind, containers};
use culd_fatbin::header::flag;
use culd_link::{DIALECTS, Dialect};

use super::Gatherer;
use super::gathered::{DeviceCode, InputEvent, InputStop, LtoPiece};
use super::select::{ImageForm, ImageOffer, choose};
use super::walk::InputSource;
use crate::hints::{self, UnlinkedReason};
use crate::messages::{InputError, InputPlace};
use crate::options::{OptionId, Target, takes_limit};
use crate::registration::ModuleNumber;

impl<'a> Gatherer<'a, '_> {
    /// Takes one image of each container in `bytes`; each container is the next of `modules`.
    /// Returns false if no container has an image.
    pub(super) fn fatbins(
        &mut self,
        source: &InputSource,
        bytes: &'a [u8],
        modules: &mut dyn Iterator<Item = ModuleNumber>,
        stop: InputError,
    ) -> Result<bool, InputStop> {
        let mut taken = false;
        let mut any = false;
        let before = self.found.without_code;
        for container in containers(bytes) {
            any = true;
            let parts = container.and_then(|container| {
                let entries = container.entries().collect::<Result<Vec<FatbinEntry<'a>>, _>>()?;
                Ok((container.bytes(), entries))
            });
            let (container, entries) = parts.map_err(|error: culd_fatbin::Error| {
                self.fatal(InputError::NoFatbin(source.name.clone()), vec![error.to_string()]);
                self.fatal(stop.clone(), Vec::new())
            })?;
            if let Some(entry) = entries.iter().find(|entry| has_no_name(entry)) {
                let what =
                    format!("in '{}', an image is for SM number {}", source.name, entry.sm());
                self.fatal(InputError::NoArch, vec![what]);
                return Err(self.fatal(stop, Vec::new()));
            }
            // There is one module for each container.
            let Some(module) = modules.next() else { break };
            let is_first = self.found.without_code == before;
            taken |= self.container(source, container, entries, module, is_first)?;
        }
        if !any {
            self.fatal(InputError::NoFatbin(source.name.clone()), Vec::new());
            return Err(self.fatal(stop, Vec::new()));
        }
        Ok(taken)
    }

    /// Takes the best of `entries`. The first container of an input that has none is reported,
    /// later ones are not.
    fn container(
        &mut self,
        source: &InputSource,
        bytes: &'a [u8],
        entries: Vec<FatbinEntry<'a>>,
        module: ModuleNumber,
        is_first: bool,
    ) -> Result<bool, InputStop> {
        let usable: Vec<(FatbinEntry<'a>, ImageOffer)> =
            entries.into_iter().filter_map(|entry| Some((entry, offer(&entry)?))).collect();
        let offers: Vec<ImageOffer> = usable.iter().map(|(_, offer)| *offer).collect();
        let rules = self.rules;
        let wanted = self.options.lto();
        let suits = |offer: &&ImageOffer| offer.suits(self.target, rules, wanted);
        let lto = offers.iter().filter(suits).any(|offer| offer.form == ImageForm::Lto);
        if lto && wanted {
            let packed = PackedLto::of(&usable, self.target, rules);
            self.lto(source, bytes, packed, module);
            // It registers no module by itself.
            return Ok(false);
        }
        let chosen = choose(self.target, rules, &offers, wanted);
        self.found.depends_on_release |=
            DIALECTS.iter().any(|other| choose(self.target, other, &offers, wanted) != chosen);
        match chosen.and_then(|place| usable.get(place)) {
            Some((entry, offer)) => {
                self.hands_limit_on()?;
                let code = match offer.form {
                    ImageForm::Ptx => DeviceCode::PackedPtx(*entry),
                    _ => DeviceCode::Packed(*entry),
                };
                self.piece(source.clone(), code, false, module);
                Ok(true)
            }
            None if lto => {
                Err(self.fatal(InputError::LtoFound, vec![format!("in '{}'", source.name)]))
            }
            None => {
                self.note_place(module);
                self.arch_not_found(source, &usable, is_first);
                Ok(false)
            }
        }
    }

    /// Ends the link if its limit of registers is none that nvlink takes. nvlink hands it on with
    /// PTX, and with each image of a fat binary, even a cubin.
    pub(super) fn hands_limit_on(&mut self) -> Result<(), InputStop> {
        match takes_limit(self.options.max_registers(), self.rules) {
            true => Ok(()),
            false => Err(self.fatal(InputError::RegisterLimit, Vec::new())),
        }
    }

    /// Takes LTO-IR: bare, or `packed` in a fat binary.
    pub(super) fn lto(
        &mut self,
        source: &InputSource,
        bytes: &'a [u8],
        packed: Option<PackedLto<'a>>,
        module: ModuleNumber,
    ) {
        let (name, fatbin) = (source.name.clone(), packed.is_some());
        let PackedLto { sibling, options } = packed.unwrap_or_default();
        let place = InputPlace::default();
        let part = LtoPiece { fatbin, name, bytes, module, sibling, options, place };
        self.found.has_lto = true;
        self.found.lto.push(part);
        self.events.push(InputEvent::Lto(module));
    }

    /// Notes that a fat binary of `module` without an image for the target stands here. The code
    /// of LTO-IR in front may get its place.
    fn note_place(&mut self, module: ModuleNumber) {
        let is_noted =
            matches!(self.events.last(), Some(InputEvent::WithoutCode(last)) if *last == module);
        if self.found.has_lto && !is_noted {
            self.events.push(InputEvent::WithoutCode(module));
        }
    }

    fn arch_not_found(
        &mut self,
        source: &InputSource,
        usable: &[(FatbinEntry<'a>, ImageOffer)],
        is_first: bool,
    ) {
        self.found.without_code += 1;
        self.found.asks_for_library |= !source.system;
        let archs: Vec<String> = usable.iter().map(|(entry, _)| describe(entry)).collect();
        for ((entry, _), arch) in usable.iter().zip(&archs) {
            let why = match entry.kind() {
                ImageKind::LtoIr => UnlinkedReason::LtoIr,
                _ => UnlinkedReason::OtherArch(arch.clone()),
            };
            self.unlinked(&source.name, why, entry);
        }
        if source.member || !is_first || !self.warns_of_missing_code() {
            return;
        }
        let hint = hints::holds(&source.name, archs.iter().map(String::as_str));
        let (arch, file) = (self.target.name(), source.name.clone());
        let notes = hint.iter().map(ToString::to_string).collect();
        self.warning(InputError::ArchNotFound { arch, file }, notes);
    }

    /// Warnings about inputs without code for the target are wanted.
    pub(super) fn warns_of_missing_code(&self) -> bool {
        !self.options.flag(OptionId::SuppressArchWarning)
            && !self.options.flag(OptionId::DisableInfos)
    }

    /// Remembers code that is not linked.
    pub(super) fn unlinked(&mut self, file: &str, why: UnlinkedReason, entry: &FatbinEntry<'a>) {
        let code = match entry.kind() {
            ImageKind::Elf => DeviceCode::Packed(*entry),
            _ => DeviceCode::PackedPtx(*entry),
        };
        self.found.elsewhere.push(code.elsewhere(file, why));
    }
}

/// An image and the options that a fat binary has beside its LTO-IR.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PackedLto<'a> {
    /// An image for the same target: PTX, which has more names, before a cubin.
    sibling: Option<FatbinEntry<'a>>,
    /// The options with which it was compiled.
    options: &'a [u8],
}

impl<'a> PackedLto<'a> {
    /// That of the LTO-IR that is compiled for `target`.
    fn of(
        usable: &[(FatbinEntry<'a>, ImageOffer)],
        target: Target,
        rules: &Dialect,
    ) -> Option<Self> {
        let lto = usable
            .iter()
            .filter(|(_, offer)| offer.form == ImageForm::Lto && offer.suits(target, rules, true));
        let (entry, lto) = lto.max_by_key(|(_, offer)| (offer.sm, offer.variant))?;
        let same = |offer: &ImageOffer| (offer.sm, offer.variant) == (lto.sm, lto.variant);
        let of = |form| {
            let found = usable.iter().find(|(_, offer)| offer.form == form && same(offer));
            found.map(|(entry, _)| *entry)
        };
        let sibling = of(ImageForm::Ptx).or_else(|| of(ImageForm::Elf));
        Some(PackedLto { sibling, options: entry.options().unwrap_or_default() })
    }
}

/// True for an image without a valid target: 0, or a number of more than three digits (transcript
/// fat-binaries, no-arch).
fn has_no_name(entry: &FatbinEntry<'_>) -> bool {
    form(entry).is_some() && !(1..1000).contains(&entry.sm())
}

/// The form of an entry; `None` for entries that nvlink skips.
fn form(entry: &FatbinEntry<'_>) -> Option<ImageForm> {
    match entry.kind() {
        ImageKind::Elf => Some(ImageForm::Elf),
        ImageKind::Ptx => Some(ImageForm::Ptx),
        ImageKind::LtoIr => Some(ImageForm::Lto),
        ImageKind::Other(_) => None,
    }
}

/// The image of an entry; `None` also for an entry for 32-bit hosts.
fn offer(entry: &FatbinEntry<'_>) -> Option<ImageOffer> {
    let form = form(entry)?;
    entry.has(flag::BITS_64).then(|| ImageOffer {
        form,
        sm: entry.sm(),
        variant: entry.variant(),
        has_compat: entry.has(flag::COMPAT),
    })
}

/// `sm_90a`, `compute_80 (PTX)`.
fn describe(entry: &FatbinEntry<'_>) -> String {
    let (sm, letter) = (entry.sm(), entry.variant().suffix());
    match entry.kind() {
        ImageKind::Ptx => format!("compute_{sm}{letter} (PTX)"),
        ImageKind::LtoIr => format!("lto_{sm}{letter} (LTO-IR)"),
        _ => format!("sm_{sm}{letter}"),
    }
}

/// All entries of the fat binaries in a section, as far as they can be read.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = FatbinEntry<'_>> {
    containers(bytes)
        .map_while(Result::ok)
        .flat_map(|container: Container<'_>| container.entries().map_while(Result::ok))
}
