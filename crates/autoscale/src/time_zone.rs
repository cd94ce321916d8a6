//! Time zones of `cron` triggers.

/// The areas of time zones. The list of zones is long, and grows.
const AREAS: [&str; 16] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
];

/// Whether a text may be the name of a time zone.
pub(crate) fn may_be_zone(text: &str) -> bool {
    match text.split_once('/') {
        Some((area, city)) => AREAS.contains(&area) && !city.is_empty() && !city.contains(' '),
        // Short names, such as UTC or Japan. Offsets are no names.
        None => text.starts_with(|c: char| c.is_ascii_uppercase()) && !text.contains([' ', ':']),
    }
}
