//! For which architectures a line asks, and in which order nvcc links for them.
//!
//! In: `-arch`, `-code` and `-gencode`. Out: [`TargetCodes`]. The order is nvcc's: virtual
//! architectures as they are met, `-arch` first; below each its codes, where those of a later
//! specification come first. What stands twice counts once. Seen by `nvcc -dryrun -dlink`.

use std::ffi::{OsStr, OsString};

use culd_cubin::arch::{Arch, Variant};
use culd_link::Dialect;

use super::NvccError;
use crate::options::Target;

/// The architecture of nvcc without `-arch`.
const USUAL: &str = "sm_75";

/// The targets of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TargetCodes {
    /// Targets in the order in which nvcc links for them. A target that is not real is among them
    /// only if none is real.
    pub(crate) targets: Vec<TargetCode>,
    /// True if messages name their targets.
    pub(crate) reports: bool,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetCode {
    pub(crate) target: Target,
    /// The part of the cubin's name that nvcc adds: `.compute_90.sm_90`.
    pub(crate) suffix: String,
}

/// A virtual architecture and the codes that are made from it.
struct Group {
    arch: Target,
    codes: Vec<Target>,
}

/// The architectures of a line, grouped while the line is read.
struct Groups {
    groups: Vec<Group>,
    release: &'static Dialect,
    /// The number of real codes named; a code named twice counts twice.
    named: usize,
}

/// The targets for `arch`, `code` and the specifications of `generate`.
pub(crate) fn codes(
    arch: Option<&OsStr>,
    code: &[OsString],
    generate: &[OsString],
    release: &'static Dialect,
) -> Result<TargetCodes, NvccError> {
    let mut all = Groups { groups: Vec::new(), release, named: 0 };
    let text = |word: &OsStr| culd_text::name(word);
    let mut spelt_out = false;
    match arch.map(text) {
        None if !code.is_empty() => return Err(NvccError::NoArch),
        None if generate.is_empty() => all.shorthand(USUAL)?,
        None => {}
        Some(arch) if !code.is_empty() => {
            for code in code {
                all.add(&arch, &[&text(code)])?;
            }
        }
        Some(arch) => {
            spelt_out = all.groups.is_empty() && arch.ends_with(['a', 'f']);
            all.shorthand(&arch)?;
        }
    }
    for specification in generate {
        let text = text(specification);
        let Specification { arch, codes } = Specification::read(&text)?;
        all.add(arch, &codes)?;
    }
    Ok(all.finish(spelt_out))
}

impl Groups {
    /// `-arch` without `-code`.
    fn shorthand(&mut self, arch: &str) -> Result<(), NvccError> {
        if let "all" | "all-major" = arch {
            let known = culd_cubin::arch::ARCHS
                .iter()
                .filter(|arch| arch.variant == Variant::Plain && self.release.knows(arch));
            let wanted: Vec<u32> = match arch {
                "all" => known.map(|arch| arch.sm).collect(),
                _ => {
                    let known: Vec<u32> = known.map(|arch| arch.sm).collect();
                    let oldest = known.first().copied();
                    known.into_iter().filter(|&sm| sm % 10 == 0 || Some(sm) == oldest).collect()
                }
            };
            let last = wanted.iter().rev().find(|&sm| sm % 10 == 0).copied();
            for sm in wanted {
                let (arch, code) = (format!("compute_{sm}"), format!("sm_{sm}"));
                match last == Some(sm) {
                    true => self.add(&arch, &[&code, &arch])?,
                    false => self.add(&arch, &[&code])?,
                }
            }
            return Ok(());
        }
        if arch == "native" {
            return Err(NvccError::Native);
        }
        match self.target(arch)? {
            Target::Real(real) => {
                let arch = Target::Virtual(real).name();
                self.add(&arch, &[real.name, &arch])
            }
            _ => self.add(arch, &[arch]),
        }
    }

    fn target(&self, name: &str) -> Result<Target, NvccError> {
        let target = Target::by_name(name).filter(|target| self.release.knows(target.arch()));
        target.ok_or_else(|| NvccError::UnknownArch(name.to_owned()))
    }

    /// Adds the codes of one specification.
    fn add(&mut self, arch: &str, codes: &[&str]) -> Result<(), NvccError> {
        let group = self.target(arch)?;
        if let Target::Real(_) = group {
            return Err(NvccError::RealArch(arch.to_owned()));
        }
        let compatible = |&code: &&str| {
            let target = self.target(code)?;
            made_for(group, target).ok_or_else(|| NvccError::Incompatible {
                arch: arch.to_owned(),
                code: code.to_owned(),
            })
        };
        let codes = codes.iter().map(compatible).collect::<Result<Vec<Target>, _>>()?;
        self.named += codes.iter().filter(|code| matches!(code, Target::Real(_))).count();
        // `lto_90` compiles as `compute_90` does.
        let same = |other: &&mut Group| other.arch.arch().name == group.arch().name;
        let place = match self.groups.iter_mut().find(same) {
            Some(place) => place,
            None => {
                self.groups.push(Group { arch: group, codes: Vec::new() });
                let last = self.groups.len() - 1;
                &mut self.groups[last]
            }
        };
        for code in codes.into_iter().rev() {
            if !place.codes.contains(&code) {
                place.codes.insert(0, code);
            }
        }
        Ok(())
    }

    fn finish(self, spelt_out: bool) -> TargetCodes {
        let several = self.groups.len() > 1 || spelt_out;
        let suffix = |group: &Group, code: Target| {
            let arch = Target::Virtual(group.arch.arch()).name();
            let arch = if several { format!(".{arch}") } else { String::new() };
            match group.codes.len() > 1 {
                true => format!("{arch}.{}", code.name()),
                false => arch,
            }
        };
        let all = || {
            self.groups.iter().flat_map(|group| {
                let code = |&target: &Target| TargetCode { target, suffix: suffix(group, target) };
                group.codes.iter().map(code)
            })
        };
        let real: Vec<TargetCode> =
            all().filter(|code| matches!(code.target, Target::Real(_))).collect();
        let targets = if real.is_empty() { all().take(1).collect() } else { real };
        TargetCodes { targets, reports: self.named > 1 }
    }
}

/// The target of `code` if it is made from `arch`; `None` if nvcc refuses the pair.
fn made_for(arch: Target, code: Target) -> Option<Target> {
    use Variant::{Accelerated, Family, Plain};
    let (from, to) = (arch.arch(), code.arch());
    if let Target::Virtual(_) = code {
        return (from.name == to.name).then_some(code);
    }
    let later = to.sm >= from.sm;
    let same_family = to.sm >= 100 && to.takes(from.sm);
    let real = matches!(code, Target::Real(_));
    match (from.variant, to.variant) {
        (Plain, Plain | Accelerated) | (Accelerated, Accelerated) => later.then_some(code),
        (Plain | Family, Family) => (later && same_family).then_some(code),
        (Family, Accelerated) => (later && real).then_some(code),
        // Code for a family, by any name.
        (Family, Plain) if real && later && same_family => {
            Arch::by_name(&format!("sm_{}f", to.sm)).map(Target::Real)
        }
        _ => None,
    }
}

/// A value of `-gencode`.
pub(crate) struct Specification<'t> {
    arch: &'t str,
    pub(crate) codes: Vec<&'t str>,
}

impl<'t> Specification<'t> {
    pub(crate) fn read(text: &'t str) -> Result<Self, NvccError> {
        let (mut arch, mut codes) = (None, None);
        for part in parts(text)? {
            let not_keyed = || NvccError::NotKeyed(part.to_owned());
            let (keyword, value) = part.split_once('=').ok_or_else(not_keyed)?;
            let again = || NvccError::Redefined(keyword.to_owned());
            match keyword {
                "arch" if arch.replace(value).is_some() => return Err(again()),
                "code" if codes.replace(list(value)).is_some() => return Err(again()),
                "arch" | "code" => {}
                other => return Err(NvccError::UnknownKeyword(other.to_owned())),
            }
        }
        let missing = |what| NvccError::Missing { specification: text.to_owned(), what };
        Ok(Specification {
            arch: arch.ok_or_else(|| missing("architecture"))?,
            codes: codes.ok_or_else(|| missing("code"))?,
        })
    }
}

/// The parts of a specification, which commas separate; commas in brackets and quotes do not.
fn parts(text: &str) -> Result<Vec<&str>, NvccError> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, None);
    for (at, byte) in text.bytes().enumerate() {
        match (open, byte) {
            (None, b'[' | b'"') => open = Some(byte),
            (Some(b'['), b']') | (Some(b'"'), b'"') => open = None,
            (None, b',') => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    match open {
        Some(b'[') => return Err(crate::options::UsageError::Stray("[").into()),
        Some(_) => return Err(crate::options::UsageError::Stray("\"").into()),
        None => parts.push(&text[start..]),
    }
    let parts = parts.into_iter().map(|part| part.trim_matches([' ', '\t']));
    Ok(parts.filter(|part| !part.is_empty()).collect())
}

/// The codes of a list: one, or several in brackets or quotes.
fn list(value: &str) -> Vec<&str> {
    let inner = |open, close| value.strip_prefix(open)?.strip_suffix(close);
    let several: Option<&str> = inner('[', ']').or_else(|| inner('"', '"'));
    several.map_or(vec![value], |several| several.split(',').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<TargetCodes, NvccError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let values = |name: &str| -> Vec<OsString> {
            let values = words.iter().filter_map(|word| word.strip_prefix(name));
            values.map(OsString::from).collect()
        };
        let arch = values("-arch=").pop();
        let split = |value: OsString| -> Vec<OsString> {
            value.to_str().unwrap().split(',').map(OsString::from).collect()
        };
        let code: Vec<OsString> = values("-code=").into_iter().flat_map(split).collect();
        codes(arch.as_deref(), &code, &values("-gencode="), Dialect::usual())
    }

    /// The words that `nvcc -dryrun -dlink` of 13.0.88 gives to nvlink: targets, `R` for
    /// `-report-arch`, and the part that it adds to the names of cubins.
    #[test]
    fn targets_come_in_the_order_of_nvcc() {
        #[rustfmt::skip]
        let cases = [
            ("", "sm_75.sm_75"),
            ("-arch=sm_90", "sm_90.sm_90"),
            ("-arch=sm_100a", "sm_100a.compute_100a.sm_100a"),
            ("-arch=compute_90", "compute_90"),
            ("-arch=lto_90", "lto_90"),
            ("-arch=all-major", "sm_75.compute_75 sm_80.compute_80 sm_90.compute_90 sm_100.compute_100 sm_110.compute_110 sm_120.compute_120.sm_120 R"),
            ("-arch=compute_90 -code=sm_90", "sm_90"),
            ("-arch=compute_80 -code=sm_80,sm_86,compute_80", "sm_86.sm_86 sm_80.sm_80 R"),
            ("-arch=compute_75 -code=sm_80 -code=sm_75 -code=sm_86,sm_90", "sm_90.sm_90 sm_86.sm_86 sm_75.sm_75 sm_80.sm_80 R"),
            ("-arch=compute_75 -code=sm_80,sm_80", "sm_80 R"),
            ("-gencode=arch=compute_80,code=[compute_80,sm_80]", "sm_80.sm_80"),
            ("-gencode=arch=compute_80,code=[sm_80,sm_86]", "sm_80.sm_80 sm_86.sm_86 R"),
            ("-gencode=arch=compute_80,code=\"sm_80,sm_86\"", "sm_80.sm_80 sm_86.sm_86 R"),
            ("-gencode=code=sm_80,arch=compute_80", "sm_80"),
            ("-gencode=arch=compute_80,,code=sm_80,", "sm_80"),
            ("-gencode=arch=compute_80,code=[lto_80,sm_80]", "sm_80.sm_80"),
            ("-gencode=arch=lto_75,code=sm_80", "sm_80"),
            ("-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=sm_80", "sm_80 R"),
            ("-gencode=arch=compute_80,code=sm_86 -gencode=arch=compute_75,code=sm_86", "sm_86.compute_80 sm_86.compute_75 R"),
            ("-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_80,code=sm_80", "sm_90.compute_90 sm_80.compute_80 R"),
            ("-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=compute_90", "sm_80.compute_80"),
            ("-gencode=arch=compute_80,code=compute_80 -gencode=arch=compute_90,code=compute_90", "compute_80.compute_80"),
            ("-gencode=arch=compute_100f,code=[sm_100,sm_103,sm_100a]", "sm_100f.sm_100f sm_103f.sm_103f sm_100a.sm_100a R"),
            ("-gencode=arch=compute_80,code=[sm_80,sm_86] -gencode=arch=compute_80,code=[sm_89,sm_87]", "sm_89.sm_89 sm_87.sm_87 sm_80.sm_80 sm_86.sm_86 R"),
            ("-gencode=arch=compute_80,code=[sm_80,sm_86] -gencode=arch=compute_80,code=[sm_86,sm_87]", "sm_87.sm_87 sm_80.sm_80 sm_86.sm_86 R"),
            ("-gencode=arch=compute_80,code=[sm_80,sm_86,sm_80]", "sm_86.sm_86 sm_80.sm_80 R"),
            ("-gencode=arch=compute_90,code=sm_90 -arch=sm_80", "sm_80.compute_80.sm_80 sm_90.compute_90 R"),
            ("-arch=sm_90 -gencode=arch=compute_90,code=sm_90", "sm_90.sm_90 R"),
            ("-arch=sm_86 -gencode=arch=compute_80,code=sm_86", "sm_86.compute_86.sm_86 sm_86.compute_80 R"),
            ("-arch=compute_75 -code=sm_75,sm_80 -gencode=arch=compute_80,code=[sm_80,sm_86] -gencode=arch=compute_90,code=sm_90",
             "sm_80.compute_75.sm_80 sm_75.compute_75.sm_75 sm_80.compute_80.sm_80 sm_86.compute_80.sm_86 sm_90.compute_90 R"),
            ("-arch=all-major -gencode=arch=compute_80,code=sm_86", "sm_75.compute_75 sm_86.compute_80.sm_86 sm_80.compute_80.sm_80 sm_90.compute_90 sm_100.compute_100 sm_110.compute_110 sm_120.compute_120.sm_120 R"),
            ("-arch=lto_80 -gencode=arch=compute_90,code=sm_90", "sm_90.compute_90"),
        ];
        for (line, expected) in cases {
            let TargetCodes { targets, reports } = asked(line).unwrap();
            let name = |code: &TargetCode| format!("{}{}", code.target.name(), code.suffix);
            let mut shown: Vec<String> = targets.iter().map(name).collect();
            shown.extend(reports.then(|| "R".to_owned()));
            assert_eq!(shown.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn errors_are_reported_as_nvcc_does() {
        #[rustfmt::skip]
        let cases = [
            ("-arch=sm_90 -code=sm_90", "Value of -arch option ('sm_90') must be a virtual code architecture"),
            ("-code=sm_80", "-arch option not specified"),
            ("-arch=compute_90 -code=sm_80", "Incompatible code generation requested: arch='compute_90', code='sm_80'"),
            ("-arch=sm90", "Unsupported gpu architecture 'sm90'"),
            ("-arch=", "Unsupported gpu architecture ''"),
            ("-gencode=arch=compute_80", "Option '--generate-code arch=compute_80', missing code"),
            ("-gencode=code=sm_80", "Option '--generate-code code=sm_80', missing architecture"),
            ("-gencode=arch=sm_80,code=sm_80", "Value of -arch option ('sm_80') must be a virtual code architecture"),
            ("-gencode=arch=compute_80,code=sm_80,sm_86", "'sm_86' is not in 'keyword=value' format"),
            ("-gencode=arch=compute_80,code=sm_80,arch=compute_90", "redefinition of keyword 'arch' "),
            ("-gencode=arch=compute_80,code=", "Unsupported gpu architecture ''"),
            ("-gencode=arch=compute_80,code=[]", "Unsupported gpu architecture ''"),
            ("-gencode=arch=compute_80,code=[sm_80", "Stray '[' character"),
            ("-gencode=arch=compute_80,code=sm_80]", "Unsupported gpu architecture 'sm_80]'"),
            ("-gencode=foo=1", "Keyword 'foo' is not defined for option 'generate-code'"),
        ];
        for (line, text) in cases {
            assert_eq!(asked(line).unwrap_err().to_string(), text, "{line}");
        }
    }

    /// For each virtual architecture, the values of `sm_*` and `lto_*` that nvcc 13.0.88 accepts;
    /// of `compute_*` it accepts only the architecture itself.
    #[test]
    fn codes_fit_their_architectures_as_in_nvcc() {
        const LATER: &str = "110 110a 120 120a 121 121a";
        let classic = ["75", "80", "86", "87", "88", "89", "90"];
        let mut rows: Vec<(String, String, String)> = Vec::new();
        for (at, arch) in classic.iter().enumerate() {
            let codes = format!("{} 90a 100 100a 103 103a {}", classic[at..].join(" "), LATER);
            rows.push(((*arch).to_owned(), codes.clone(), codes));
        }
        #[rustfmt::skip]
        let mercury = [
            ("90a", "90a 100a 103a 110a 120a 121a", ""),
            ("100", "100 100a 100f 103 103a 103f 110 110a 120 120a 121 121a", ""),
            ("100a", "100a 103a 110a 120a 121a", ""),
            ("100f", "100 100a 100f 103 103a 103f 110a 120a 121a", "100f 103f"),
            ("103", "103 103a 103f 110 110a 120 120a 121 121a", ""),
            ("103a", "103a 110a 120a 121a", ""),
            ("103f", "103 103a 103f 110a 120a 121a", "103f"),
            ("110", "110 110a 110f 120 120a 121 121a", ""),
            ("110a", "110a 120a 121a", ""),
            ("110f", "110 110a 110f 120a 121a", "110f"),
            ("120", "120 120a 120f 121 121a 121f", ""),
            ("120a", "120a 121a", ""),
            ("120f", "120 120a 120f 121 121a 121f", "120f 121f"),
            ("121", "121 121a 121f", ""),
            ("121a", "121a", ""),
            ("121f", "121 121a 121f", "121f"),
        ];
        rows.extend(mercury.map(|(arch, real, lto)| {
            let lto = if lto.is_empty() { real } else { lto };
            (arch.to_owned(), real.to_owned(), lto.to_owned())
        }));
        let known = || {
            let all = culd_cubin::arch::ARCHS.iter();
            all.filter(|arch| Dialect::usual().knows(arch)).map(|arch| &arch.name[3..])
        };
        assert_eq!(rows.len(), known().count());
        for (arch, real, lto) in rows {
            let taken = |kind: &str| {
                let fits = |code: &&str| {
                    asked(&format!("-gencode=arch=compute_{arch},code={kind}_{code}")).is_ok()
                };
                let mut taken: Vec<&str> = known().filter(fits).collect();
                taken.sort_by_key(|code| {
                    (code.trim_end_matches(['a', 'f']).parse::<u32>().unwrap(), code.len())
                });
                taken.join(" ")
            };
            assert_eq!((taken("sm"), taken("lto")), (real, lto), "compute_{arch}");
            assert_eq!(taken("compute"), arch);
        }
    }
}
