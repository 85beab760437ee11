//! The images that a command line asks for.

use crate::images::{FileImages, StoredImage};

/// The forms of a choice, for errors.
pub(super) const WHICH: &str = "a number, an architecture or a part of a place";

/// Words that choose images; none choose all.
#[derive(Default)]
pub(super) struct Selection(Vec<String>);

impl Selection {
    pub(super) fn add(&mut self, word: &str) {
        self.0.push(word.to_owned());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The images with their numbers, in the order of the file. Errors: a word that chooses none.
    pub(super) fn of<'f, 'd>(
        &self,
        found: &'f FileImages<'d>,
    ) -> Result<Vec<(usize, &'f StoredImage<'d>)>, String> {
        let all: Vec<(usize, &StoredImage<'_>)> = found.images.iter().enumerate().collect();
        let mut chosen = vec![self.0.is_empty(); all.len()];
        for word in &self.0 {
            let mut any = false;
            for (mark, (number, image)) in chosen.iter_mut().zip(&all) {
                if is(word, *number, image) {
                    (*mark, any) = (true, true);
                }
            }
            if !any {
                return Err(format!("no image '{word}': --list shows all"));
            }
        }
        Ok(all.into_iter().zip(chosen).filter(|one| one.1).map(|one| one.0).collect())
    }
}

/// True if `word` is a way to name the image.
fn is(word: &str, number: usize, image: &StoredImage<'_>) -> bool {
    match word.parse::<usize>() {
        Ok(wanted) => wanted == number,
        Err(_) => image.target() == word || image.kind() == word || image.place.contains(word),
    }
}
