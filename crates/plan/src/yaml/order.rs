//! The order of keys.

use std::cmp::Ordering;

/// Compares two keys. Runs of digits compare as numbers, and letters come after everything else.
pub(super) fn natural_order(a: &str, b: &str) -> Ordering {
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
