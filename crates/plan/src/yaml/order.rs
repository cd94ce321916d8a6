//! The order of keys.

use std::cmp::Ordering;

/// Returns the members of a mapping in the order of their keys.
///
/// This is a merge sort, because [`natural_order`] has circles: `2` comes before `12`, this before `1b`, and this before `2`. The sort
/// of the standard library may panic when it notices one.
pub(super) fn sorted<'a, T: Copy>(members: &[(&'a str, T)]) -> Vec<(&'a str, T)> {
    // One member is sorted, too, so this ends. Most mappings need no more.
    if members.is_sorted_by(|(a, _), (b, _)| natural_order(a, b).is_le()) {
        return members.to_vec();
    }
    let (left, right) = members.split_at(members.len() / 2);
    let (mut left, mut right) = (sorted(left).into_iter().peekable(), sorted(right).into_iter().peekable());
    let next = || match (left.peek(), right.peek()) {
        (Some((l, _)), Some((r, _))) if natural_order(r, l).is_lt() => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    };
    std::iter::from_fn(next).collect()
}

/// Compares two keys. Runs of digits compare as numbers, and letters come after everything else.
fn natural_order(a: &str, b: &str) -> Ordering {
    let shared: usize =
        a.chars().zip(b.chars()).take_while(|(left, right)| left == right).map(|(c, _)| c.len_utf8()).sum();
    let (left, right) = (&a[shared..], &b[shared..]);
    let (Some(l), Some(r)) = (left.chars().next(), right.chars().next()) else {
        return left.len().cmp(&right.len());
    };
    match (l.is_alphabetic(), r.is_alphabetic()) {
        (true, true) => return l.cmp(&r),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // The keys differ within a number: both numbers share the digits before that position.
    let shared_nonzero = (l == '0' || r == '0')
        && a[..shared].bytes().rev().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
    let number = |text: &str| {
        let run = text.bytes().take_while(u8::is_ascii_digit);
        run.fold((u128::from(shared_nonzero), 0_usize), |(value, length), digit| {
            (value.saturating_mul(10).saturating_add(u128::from(digit - b'0')), length + 1)
        })
    };
    number(left).cmp(&number(right)).then(l.cmp(&r))
}
