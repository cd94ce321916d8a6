//! Suggestions for misspelt names.

/// The most edits between two names for which a typing mistake is assumed.
const MAX_EDITS: usize = 3;

/// Returns the known name that is most similar to `name`, if it is similar enough.
pub fn nearest<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let measured = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&candidate.to_lowercase(), &lower), candidate));
    let (distance, best) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= MAX_EDITS.min(name.len() / 2)).then_some(best)
}
