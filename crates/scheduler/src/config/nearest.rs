//! Finds the name that a misspelt name probably means.

use longboat_key::{MAX_COMPARED, nearest};

/// Returns the `count` known names that are most similar to `name`, the nearest first.
pub(crate) fn nearest_names<'a>(
    known: impl IntoIterator<Item = &'a str>,
    name: &str,
    count: usize,
) -> Vec<&'a str> {
    let start: String = name.chars().take(MAX_COMPARED).collect::<String>().to_lowercase();
    // In proportion to their lengths, since otherwise short names would be near to everything.
    let likeness =
        |candidate: &str| strsim::normalized_damerau_levenshtein(&candidate.to_lowercase(), &start);
    let mut measured: Vec<_> = known.into_iter().map(|name| (likeness(name), name)).collect();
    measured.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    measured.into_iter().take(count).map(|(_, name)| name).collect()
}

/// The most names that a message lists.
const MAX_LISTED: usize = 12;

/// A hint at a declared name: the nearest one, or else all of them.
pub(crate) fn hint_or_all<'a>(declared: impl IntoIterator<Item = &'a str>, name: &str) -> String {
    let declared: Vec<&str> = declared.into_iter().collect();
    let near = hint(declared.iter().copied(), name);
    if !near.is_empty() {
        return near;
    }
    match declared.len() {
        0 => "; none is declared".to_owned(),
        1 => format!("; only \"{}\" is declared", declared[0]),
        count if count <= MAX_LISTED => format!("; declared are {}", declared.join(", ")),
        count => {
            format!("; declared are {} and {} more", declared[..MAX_LISTED].join(", "), count - MAX_LISTED)
        }
    }
}

/// `; did you mean "…"?`, or nothing.
pub(crate) fn hint<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> String {
    nearest(known, name).map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"))
}
