//! What a misspelt name was meant to be.

/// How many edits two names may be apart to be taken for a slip.
const NEAR: usize = 3;

/// The known name that `name` most resembles, if it is near enough to be a slip.
pub fn nearest<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let measured = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&candidate.to_lowercase(), &lower), candidate));
    let (distance, best) = measured.min_by_key(|(distance, _)| *distance)?;
    (distance <= NEAR.min(name.len() / 2)).then_some(best)
}
