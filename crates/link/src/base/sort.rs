//! nvlink's list sort: a merge sort that is unstable in a fixed way, on which layouts depend.

/// Sorts `list`. When two halves are merged, `take_first` gets the heads of both; the head of the
/// first half is taken if it returns true.
///
/// Elements are dealt to two lists in turn, each to the *front* of its list, and the sorted lists
/// are merged (docs/LINKING.md, shared memory).
pub(crate) fn list_sort<T: Copy>(list: &[T], take_first: &impl Fn(T, T) -> bool) -> Vec<T> {
    if list.len() < 2 {
        return list.to_vec();
    }
    let deal = |offset: usize| -> Vec<T> {
        let mut half: Vec<T> = list.iter().skip(offset).step_by(2).copied().collect();
        half.reverse();
        half
    };
    let first = list_sort(&deal(0), take_first);
    let second = list_sort(&deal(1), take_first);
    let mut merged = Vec::with_capacity(list.len());
    let (mut a, mut b) = (first.as_slice(), second.as_slice());
    while let (&[head_a, ref rest_a @ ..], &[head_b, ref rest_b @ ..]) = (a, b) {
        if take_first(head_a, head_b) {
            merged.push(head_a);
            a = rest_a;
        } else {
            merged.push(head_b);
            b = rest_b;
        }
    }
    merged.extend_from_slice(a);
    merged.extend_from_slice(b);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_out_in_the_known_order() {
        // All equal, ties from the second list, then from the first.
        assert_eq!(list_sort(&[0, 1, 2, 3, 4], &|_, _| false), [1, 3, 2, 4, 0]);
        assert_eq!(list_sort(&[0, 1, 2, 3, 4], &|_, _| true), [0, 4, 2, 3, 1]);
        assert_eq!(list_sort(&[3, 1, 2], &|a, b| a < b), [1, 2, 3]);
    }
}
