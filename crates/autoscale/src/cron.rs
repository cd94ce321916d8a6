//! Schedules and time zones of `cron` triggers.

/// A field of a schedule: its name, the least and the greatest number, and names for the numbers from the least on.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    Field { name: "day of the week", least: 0, most: 6, names: &DAYS },
];

/// The areas of time zones. The list of zones is long, and grows.
const AREAS: [&str; 15] = [
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
];

/// Returns what is wrong with a schedule.
pub(crate) fn schedule_problem(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        return Some(
            "expected five fields: minute, hour, day of the month, month and day of the week".to_owned(),
        );
    }
    let wrong = FIELDS.iter().zip(words).find(|(field, word)| !word.split(',').all(|part| field.has(part)));
    wrong.map(|(Field { name, least, most, .. }, word)| {
        format!("the {name} is {word:?}, but must be numbers from {least} to {most}, or *")
    })
}

/// Whether a text may be the name of a time zone.
pub(crate) fn may_be_zone(text: &str) -> bool {
    match text.split_once('/') {
        Some((area, city)) => {
            (AREAS.contains(&area) || area == "US") && !city.is_empty() && !city.contains(' ')
        }
        // Short names, such as UTC or Japan. Offsets are no names.
        None => text.starts_with(|c: char| c.is_ascii_uppercase()) && !text.contains([' ', ':']),
    }
}

// === impl Field ===

impl Field {
    /// Whether a part is `*`, a number or a range, with or without a step.
    fn has(&self, part: &str) -> bool {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) {
            return false;
        }
        if matches!(range, "*" | "?") {
            return true;
        }
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        matches!((self.number(from), self.number(to)), (Some(from), Some(to)) if from <= to)
    }

    fn number(&self, text: &str) -> Option<u32> {
        let at = self.names.iter().zip(self.least..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let number = at.map(|(_, number)| number).or_else(|| text.parse().ok())?;
        (self.least..=self.most).contains(&number).then_some(number)
    }
}
