//! Fat binaries: one image of each container.

use culd_fatbin::container::{Container, Entry, Kind, containers};
use culd_fatbin::header::flag;
use culd_link::DIALECTS;

use super::ready::Code;
use super::select::{Form, Offer, choose};
use super::walk::Source;
use super::{Gather, InputError, MAX_UNPACKED, Stopped};
use crate::hints::{self, Elsewhere, Unlinked};
use crate::lto::Part;
use crate::options::Id;

impl<'a> Gather<'a, '_> {
    /// One image of each container in `bytes`; false when none of them has one.
    pub(super) fn fatbins(
        &mut self,
        source: &Source,
        bytes: &'a [u8],
        stop: InputError,
    ) -> Result<bool, Stopped> {
        let mut taken = false;
        let mut any = false;
        for container in containers(bytes) {
            any = true;
            let parts = container.and_then(|container| {
                let entries = container.entries().collect::<Result<Vec<Entry<'a>>, _>>()?;
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
            taken |= self.container(source, container, entries)?;
        }
        if !any {
            self.fatal(InputError::NoFatbin(source.name.clone()), Vec::new());
            return Err(self.fatal(stop, Vec::new()));
        }
        Ok(taken)
    }

    /// Takes the best of `entries`.
    fn container(
        &mut self,
        source: &Source,
        bytes: &'a [u8],
        entries: Vec<Entry<'a>>,
    ) -> Result<bool, Stopped> {
        let usable: Vec<(Entry<'a>, Offer)> =
            entries.into_iter().filter_map(|entry| Some((entry, offer(&entry)?))).collect();
        let offers: Vec<Offer> = usable.iter().map(|(_, offer)| *offer).collect();
        let rules = self.rules;
        let suits = |offer: &&Offer| offer.suits(self.target, rules);
        let lto = offers.iter().filter(suits).any(|offer| offer.form == Form::Lto);
        if lto && self.options.lto() {
            self.lto(source, bytes, true);
            return Ok(true);
        }
        let chosen = choose(self.target, rules, &offers);
        self.found.depends_on_release |=
            DIALECTS.iter().any(|other| choose(self.target, other, &offers) != chosen);
        match chosen.and_then(|place| usable.get(place)) {
            Some((entry, offer)) => {
                let code = match offer.form {
                    Form::Ptx => Code::PackedPtx(*entry),
                    _ => Code::Packed(*entry),
                };
                self.piece(source.clone(), code, false);
                Ok(true)
            }
            None if lto => {
                Err(self.fatal(InputError::LtoFound, vec![format!("in '{}'", source.name)]))
            }
            None => {
                self.arch_not_found(source, &usable);
                Ok(false)
            }
        }
    }

    /// Takes LTO-IR, in a fat binary or bare.
    pub(super) fn lto(&mut self, source: &Source, bytes: &'a [u8], fatbin: bool) {
        self.found.lto.push(Part { fatbin, name: source.name.clone(), bytes });
    }

    fn arch_not_found(&mut self, source: &Source, usable: &[(Entry<'a>, Offer)]) {
        self.found.without_code += 1;
        let archs: Vec<String> = usable.iter().map(|(entry, _)| describe(entry)).collect();
        for ((entry, _), arch) in usable.iter().zip(&archs) {
            let why = match entry.kind() {
                Kind::LtoIr => Unlinked::LtoIr,
                _ => Unlinked::OtherArch(arch.clone()),
            };
            self.unlinked(&source.name, why, *entry);
        }
        if source.member || !self.tells_missing_code() {
            return;
        }
        let hint = hints::holds(&source.name, archs.iter().map(String::as_str));
        let (arch, file) = (self.target.name(), source.name.clone());
        let notes = hint.iter().map(ToString::to_string).collect();
        self.warning(InputError::ArchNotFound { arch, file }, notes);
    }

    /// Warnings about inputs without code for the target are wanted.
    pub(super) fn tells_missing_code(&self) -> bool {
        !self.options.flag(Id::SuppressArchWarning) && !self.options.flag(Id::DisableInfos)
    }

    /// Remembers code that is not linked.
    pub(super) fn unlinked(&mut self, file: &str, why: Unlinked, entry: Entry<'a>) {
        let read = move || Some(entry.data(MAX_UNPACKED).ok()?.into_owned());
        let cubin = (entry.kind() == Kind::Elf).then(|| Box::new(read) as Box<_>);
        self.found.elsewhere.push(Elsewhere { file: file.to_owned(), why, cubin });
    }
}

/// True for an image that is for nothing: 0, or a number of more than three digits (transcript fat-binaries, no-arch).
fn has_no_name(entry: &Entry<'_>) -> bool {
    form(entry).is_some() && !(1..1000).contains(&entry.sm())
}

/// What an entry is; `None` for what nvlink passes over.
fn form(entry: &Entry<'_>) -> Option<Form> {
    match entry.kind() {
        Kind::Elf => Some(Form::Elf),
        Kind::Ptx => Some(Form::Ptx),
        Kind::LtoIr => Some(Form::Lto),
        Kind::Other(_) => None,
    }
}

/// What an entry offers; `None` for those of 32-bit hosts, too.
fn offer(entry: &Entry<'_>) -> Option<Offer> {
    let form = form(entry)?;
    entry.has(flag::BITS_64).then(|| Offer { form, sm: entry.sm(), variant: entry.variant() })
}

/// `sm_90a`, `compute_80 (PTX)`.
fn describe(entry: &Entry<'_>) -> String {
    let (sm, letter) = (entry.sm(), entry.variant().suffix());
    match entry.kind() {
        Kind::Ptx => format!("compute_{sm}{letter} (PTX)"),
        Kind::LtoIr => format!("lto_{sm}{letter} (LTO-IR)"),
        _ => format!("sm_{sm}{letter}"),
    }
}

/// All entries of the fat binaries in a section, as far as they can be read.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    containers(bytes)
        .map_while(Result::ok)
        .flat_map(|container: Container<'_>| container.entries().map_while(Result::ok))
}
