//! The rows of an image that the text form of a report shows.
//!
//! In: functions. Out: the places of those that may stand in a list, and how many there are of
//! each kind. Guaranteed: with these rows alone and the counts the text is the same.

use std::cmp::Reverse;

use crate::data::{Report, ReportFunction, ReportImage};

/// Lines of a list.
pub(crate) const LINES: usize = 10;

/// The number of rows of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RowCounts {
    /// Kernels.
    pub kernels: usize,
    /// Functions that are no kernels.
    pub functions: usize,
    /// Variables.
    pub variables: usize,
}

impl RowCounts {
    /// The numbers of an image that has all its rows.
    pub fn of(image: &ReportImage) -> Self {
        let kernels = image.kernels().count();
        let functions = image.functions.len() - kernels;
        RowCounts { kernels, functions, variables: image.variables.len() }
    }

    pub(crate) fn of_all(report: &Report) -> Vec<Self> {
        report.images.iter().map(RowCounts::of).collect()
    }
}

/// The order of the list of kernels.
pub(crate) fn kernel_key(function: &ReportFunction) -> Reverse<Option<u32>> {
    Reverse(function.registers.total)
}

/// The order of the list of other functions.
pub(crate) fn function_key(function: &ReportFunction) -> Reverse<u64> {
    Reverse(function.code)
}

/// The places of the functions of an image that may stand in the text, in order.
pub(crate) fn shown_functions(functions: &[ReportFunction]) -> Vec<usize> {
    let rows = |are_kernels: bool| -> Vec<(usize, &ReportFunction)> {
        let all = functions.iter().enumerate();
        all.filter(|(_, function)| function.kernel.is_some() == are_kernels).collect()
    };
    let kernels = first_by(rows(true), |(_, function)| kernel_key(function));
    let others = first_by(rows(false), |(_, function)| function_key(function));
    let mut places: Vec<usize> = kernels.iter().chain(&others).map(|(place, _)| *place).collect();
    places.sort_unstable();
    places
}

/// The rows of a list, in the order of `key` and for equal keys in their own: a library has tens of
/// thousands, so the others are not sorted.
pub(crate) fn first_by<T, K: Ord>(rows: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut rows: Vec<(K, usize, T)> =
        rows.into_iter().enumerate().map(|(place, row)| (key(&row), place, row)).collect();
    fn order<K: Ord, T>(a: &(K, usize, T), b: &(K, usize, T)) -> std::cmp::Ordering {
        (&a.0, a.1).cmp(&(&b.0, b.1))
    }
    if rows.len() > LINES {
        rows.select_nth_unstable_by(LINES, order);
        rows.truncate(LINES);
    }
    rows.sort_unstable_by(order);
    rows.into_iter().map(|row| row.2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_those_of_a_whole_sort() {
        for count in [0, 1, LINES, LINES + 1, 1000] {
            // Many keys are equal.
            let rows: Vec<(usize, usize)> = (0..count).map(|at| (at * 7919 % 13, at)).collect();
            let mut sorted = rows.clone();
            sorted.sort_by_key(|row| row.0);
            sorted.truncate(LINES);
            assert_eq!(first_by(rows, |row| row.0), sorted);
        }
    }

    #[test]
    fn the_text_of_shown_rows_is_that_of_all() {
        // Many keys are equal, within an image and between images.
        let function = |at: usize| {
            let mut function = ReportFunction {
                name: format!("f{at}"),
                code: (at * 7919 % 23) as u64,
                kernel: (!at.is_multiple_of(3)).then(Box::default),
                ..ReportFunction::default()
            };
            function.registers.total = Some((at * 31 % 7) as u32).filter(|&number| number != 3);
            function
        };
        let image = |count: usize| ReportImage {
            target: format!("sm_{count}"),
            functions: (0..count).map(function).collect(),
            ..ReportImage::default()
        };
        let all = Report { images: [0, 1, 40, 70, 9].map(image).into(), ..Report::default() };
        let counts = RowCounts::of_all(&all);
        let mut shown = all.clone();
        for image in &mut shown.images {
            let places = shown_functions(&image.functions);
            let mut place = 0..;
            image.functions.retain(|_| place.next().is_some_and(|place| places.contains(&place)));
        }
        assert!(shown.images.iter().all(|image| image.functions.len() <= 2 * LINES));
        assert!(shown.images[3].functions.len() < all.images[3].functions.len());
        assert_eq!(shown.to_text_of(&counts), all.to_text());
        assert_ne!(shown.to_text(), all.to_text());
    }
}
