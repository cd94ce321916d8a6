//! What a misspelt name was meant to be.

/// The most edits that a slip may consist of.
const NEAR: usize = 3;

/// The known name that `name` resembles most, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    // Distances grow with the product of the lengths, and no name of ours is this long.
    if name.len() > 128 {
        return None;
    }
    let lower = name.to_lowercase();
    let measured = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&candidate.to_lowercase(), &lower), candidate));
    let (distance, best) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= NEAR.min(name.len() / 2)).then_some(best)
}

/// `; did you mean "…"?`, or nothing.
pub(crate) fn hint<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> String {
    nearest(known, name).map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"))
}
