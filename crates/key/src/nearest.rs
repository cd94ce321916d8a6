//! The name that a misspelt name probably means.

/// The most edits of a typing error.
const MAX_EDITS: usize = 3;
/// The longest name that is compared, in bytes. The cost of a comparison grows with the product of the lengths, and no known
/// name is this long.
pub const MAX_COMPARED: usize = 128;

/// Returns the known name that is nearest to `name`, in any letter case. Returns `None` if none is near enough to be a typing
/// error.
pub fn nearest<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    let lower = name.to_lowercase();
    let measured = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&candidate.to_lowercase(), &lower), candidate));
    let (distance, best) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= MAX_EDITS.min(name.len() / 2)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_near_and_another_word_is_not() {
        let known = ["stop", "nodegroup"];
        for (name, meant) in [
            ("Stop", Some("stop")),
            ("sotp", Some("stop")),
            ("nodegrup", Some("nodegroup")),
            ("foo", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(known, name), meant, "{name}");
        }
        assert_eq!(nearest(known, &"nodegroup".repeat(20)), None);
    }
}
