//! The image of a fat binary that is linked.
//!
//! In: the targets of the images. Out: the image that nvlink of the given release takes, or none.
//! Guaranteed: pure. The rules are those of docs/rules/inputs.md, section 3.

use culd_cubin::arch::{Flavour, Variant};
use culd_link::Dialect;

use crate::options::Target;

/// The form of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageForm {
    /// A cubin.
    Elf,
    /// PTX text.
    Ptx,
    /// LTO-IR.
    Lto,
}

/// The form and target of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageOffer {
    pub(crate) form: ImageForm,
    /// SM number.
    pub(crate) sm: u32,
    pub(crate) variant: Variant,
    /// It comes with a copy of its `.nv.compat`.
    pub(crate) has_compat: bool,
}

impl ImageOffer {
    /// True if the image can become code for `target`. For a virtual target, everything except
    /// machine code can. `lto`: the link has link-time optimization.
    pub(crate) fn suits(&self, target: Target, rules: &Dialect, lto: bool) -> bool {
        let read = self.form == ImageForm::Ptx || lto && self.form == ImageForm::Lto;
        if !matches!(target, Target::Real(_)) && !read {
            return false;
        }
        let target = target.arch();
        match (self.form, self.variant) {
            (ImageForm::Elf, variant) if self.is_for_its_number() => {
                let accelerated = target.variant == Variant::Accelerated;
                let letter = match variant {
                    Variant::Plain => true,
                    Variant::Family => !accelerated,
                    Variant::Accelerated => accelerated,
                };
                self.sm == target.sm && letter
            }
            (ImageForm::Elf, Variant::Accelerated) => {
                // An sm_90a image is not taken for sm_90 then, those of later targets are.
                let mixes = rules.mixes_accelerated && !(lto && target.flavour == Flavour::Classic);
                self.sm == target.sm && (mixes || target.variant == Variant::Accelerated)
            }
            (ImageForm::Elf, _) => rules.takes(target, self.sm),
            (ImageForm::Lto, Variant::Plain) | (ImageForm::Ptx, Variant::Plain) => {
                self.sm <= target.sm
            }
            (_, Variant::Family) => rules.takes(target, self.sm),
            (_, Variant::Accelerated) => {
                let letter = target.variant == Variant::Accelerated || !rules.binds_accelerated_ptx;
                self.sm == target.sm && letter
            }
        }
    }

    /// True for a cubin that does not record which devices of its family it suits.
    fn is_for_its_number(&self) -> bool {
        let mercury = Flavour::of_sm(self.sm) == Flavour::Mercury;
        self.form == ImageForm::Elf && mercury && !self.has_compat
    }

    /// The better image has the larger rank: a higher number; then a cubin before PTX; then the
    /// more special variant, even when the target is plain; then a plain one that is for its number
    /// only.
    fn rank(&self) -> (u32, bool, Variant, bool) {
        let exact = self.variant == Variant::Plain && self.is_for_its_number();
        (self.sm, self.form == ImageForm::Elf, self.variant, exact)
    }
}

/// The place of the image to link for `target` among `offers`. LTO-IR is never taken.
pub(crate) fn choose(
    target: Target,
    rules: &Dialect,
    offers: &[ImageOffer],
    lto: bool,
) -> Option<usize> {
    let sm = target.arch().sm;
    let mut best: Option<(usize, &ImageOffer)> = None;
    for (place, offer) in offers.iter().enumerate() {
        if offer.form == ImageForm::Lto || !offer.suits(target, rules, lto) {
            continue;
        }
        let better = best.is_none_or(|(_, best)| {
            // Of equal images the first is taken, except PTX for just this number.
            let last_wins =
                offer.form == ImageForm::Ptx && offer.variant == Variant::Plain && offer.sm == sm;
            offer.rank() > best.rank() || (last_wins && offer.rank() == best.rank())
        });
        if better {
            best = Some((place, offer));
        }
    }
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culd_cubin::arch::Arch;

    /// `e90a`, `p80`, `l90`: form, number, variant; `n100`: a cubin without `.nv.compat`.
    fn offer(text: &str) -> ImageOffer {
        let form = match &text[..1] {
            "e" | "n" => ImageForm::Elf,
            "p" => ImageForm::Ptx,
            _ => ImageForm::Lto,
        };
        let number = text[1..].trim_end_matches(['a', 'f']);
        let variant = match &text[1 + number.len()..] {
            "a" => Variant::Accelerated,
            "f" => Variant::Family,
            _ => Variant::Plain,
        };
        ImageOffer {
            form,
            sm: number.parse().unwrap(),
            variant,
            has_compat: !text.starts_with('n'),
        }
    }

    #[test]
    fn images_are_chosen_as_nvlink_does() {
        let cases = [
            ("sm_86", "e80 p86", Some(1)),
            ("sm_86", "p86 e86", Some(1)),
            ("sm_86", "e87 e89 e90 e75", None),
            ("sm_89", "e80 e86 p75", Some(1)),
            ("sm_90", "e90 e90a", Some(1)),
            ("sm_90a", "e90 p90a", Some(0)),
            ("sm_90", "p90a", None),
            ("sm_90a", "p90a p90", Some(0)),
            ("sm_100", "e100 e100f e100a", Some(2)),
            ("sm_103", "e100a", None),
            ("sm_103", "e100a e100f", Some(1)),
            ("sm_103", "p100f", Some(0)),
            ("sm_110", "p100f", None),
            ("sm_90", "e90 e90", Some(0)),
            ("sm_90", "p90 p90", Some(1)),
            ("sm_90", "p80 p80", Some(0)),
            ("sm_90a", "p90a p90a", Some(0)),
            ("sm_90", "l90", None),
            ("compute_90", "e90 p80", Some(1)),
            ("compute_90", "e90 l90 p90a", None),
            ("sm_90", "", None),
            ("sm_90", "e90 n90", Some(0)),
            ("sm_100", "e100 n100", Some(1)),
            ("sm_100", "n100 e100", Some(0)),
            ("sm_100", "n100 n100", Some(0)),
            ("sm_100", "n100 e100f", Some(1)),
            ("sm_100", "e100 n100f", Some(1)),
            ("sm_100", "e100f n100f", Some(0)),
            ("sm_100", "n100a e100", Some(1)),
            ("sm_100a", "n100 n100f", Some(0)),
            ("sm_100a", "e100 n100a", Some(1)),
            ("sm_100a", "e100a n100a", Some(0)),
            ("sm_100f", "n100a", None),
            ("sm_100f", "n100f", Some(0)),
            ("sm_103", "n100", None),
            ("sm_103", "n100f e100", Some(1)),
        ];
        for (target, images, expected) in cases {
            let arch = Arch::by_name(&target.replace("compute", "sm")).unwrap();
            let real = target.starts_with("sm");
            let target = if real { Target::Real(arch) } else { Target::Virtual(arch) };
            let offers: Vec<ImageOffer> = images.split_whitespace().map(offer).collect();
            let chosen = choose(target, Dialect::usual(), &offers, false);
            assert_eq!(chosen, expected, "{}: {images}", target.name());
        }
    }

    #[test]
    fn with_lto_an_accelerated_cubin_is_for_its_own_target_before_sm_100() {
        let cases =
            [("sm_90", "e90a", None), ("sm_90a", "e90a", Some(0)), ("sm_100", "e100a", Some(0))];
        for (target, images, expected) in cases {
            let target = Target::Real(Arch::by_name(target).unwrap());
            let offers: Vec<ImageOffer> = images.split_whitespace().map(offer).collect();
            let chosen = choose(target, Dialect::usual(), &offers, true);
            assert_eq!(chosen, expected, "{}: {images}", target.name());
        }
    }

    #[test]
    fn before_13_0_accelerated_ptx_and_lto_ir_suit_their_number() {
        for (images, expected) in [
            ("p90a", [Some(0), None]),
            ("l90a", [Some(0), None]),
            ("e90 p90a", [Some(0); 2]),
            ("p80 p90a", [Some(1), Some(0)]),
            ("p100a", [None; 2]),
        ] {
            let target = Target::Real(Arch::by_name("sm_90").unwrap());
            let offers: Vec<ImageOffer> = images.split_whitespace().map(offer).collect();
            let first = |toolkit| {
                let rules = Dialect::for_toolkit(toolkit);
                match choose(target, rules, &offers, false) {
                    None => offers.iter().position(|offer| offer.suits(target, rules, true)),
                    chosen => chosen,
                }
            };
            assert_eq!([124, 130].map(first), expected, "{images}");
        }
    }

    #[test]
    fn later_releases_choose_what_they_accept() {
        // docs/DIALECTS.md, the table: target, images, the place by 13.0, 13.1 and 13.2.
        let cases = [
            ("sm_100", "e100 e100a e100f", [Some(1), Some(2), Some(2)]),
            ("sm_90", "e90 e90a", [Some(1), Some(0), Some(0)]),
            ("sm_90", "e90a", [Some(0), None, None]),
            ("sm_100", "e100a p90", [Some(0), Some(1), Some(1)]),
            ("sm_100a", "e100 e100a e100f", [Some(1), Some(1), Some(1)]),
            ("sm_88", "e80 e86 e87", [None, None, Some(2)]),
            ("sm_89", "e80 e86 e87 e88", [Some(1), Some(1), Some(3)]),
            ("sm_87", "e88", [None, None, None]),
        ];
        for (target, images, expected) in cases {
            let target = Target::Real(Arch::by_name(target).unwrap());
            let offers: Vec<ImageOffer> = images.split_whitespace().map(offer).collect();
            let chosen = [130, 131, 132]
                .map(|toolkit| choose(target, Dialect::for_toolkit(toolkit), &offers, false));
            assert_eq!(chosen, expected, "{}: {images}", target.name());
        }
    }
}
