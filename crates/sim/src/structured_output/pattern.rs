//! Generates text that matches a regular expression.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::limits::MAX_LENGTH;

/// The most additional repetitions, if a pattern has no upper limit.
const MAX_EXTRA_REPETITIONS: u32 = 3;

/// Generates text that the pattern matches as a whole.
pub(super) fn make(pattern: &str, random: &mut StdRng) -> Result<String, String> {
    generate(pattern, &format!("^(?:{pattern})$"), random)
}

/// Generates text in which the pattern matches somewhere, as in JSON schemas.
pub(super) fn make_containing(pattern: &str, random: &mut StdRng) -> Result<String, String> {
    generate(pattern, pattern, random)
}

fn generate(pattern: &str, judge: &str, random: &mut StdRng) -> Result<String, String> {
    let shown: String = pattern.chars().take(80).collect();
    let unknown = || format!("the regular expression `{shown}` is invalid or too large");
    let judge = Regex::new(judge).map_err(|_| unknown())?;
    let hir = regex_syntax::parse(pattern).map_err(|_| unknown())?;
    let mut text = String::new();
    write(&hir, &mut text, random).map_err(|why| format!("the regular expression `{shown}` {why}"))?;
    // Anchors add nothing to the text, so only now it shows whether they match.
    if judge.is_match(&text) {
        Ok(text)
    } else {
        Err(format!("the regular expression `{shown}` is too complex to be simulated"))
    }
}

/// Appends text for a part of the pattern. The recursion is bounded, because the parser limits the nesting.
fn write(hir: &Hir, text: &mut String, random: &mut StdRng) -> Result<(), &'static str> {
    if text.len() > MAX_LENGTH {
        return Err("requires a text that is too long to be simulated");
    }
    match hir.kind() {
        HirKind::Empty
        | HirKind::Look(
            Look::Start | Look::End | Look::StartLF | Look::EndLF | Look::StartCRLF | Look::EndCRLF,
        ) => {}
        HirKind::Look(_) => return Err("has word boundaries, which are not simulated"),
        HirKind::Literal(literal) => {
            text.push_str(std::str::from_utf8(&literal.0).map_err(|_| "is not about text")?);
        }
        HirKind::Class(class) => text.push(character(class, random).ok_or("has an empty character class")?),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(MAX_EXTRA_REPETITIONS));
            let most = most.min(repetition.min.saturating_add(MAX_EXTRA_REPETITIONS));
            // An optional part is generated at least once if possible, to show more of the pattern.
            let least = repetition.min.max(most.min(1));
            for _ in 0..random.random_range(least..=most) {
                write(&repetition.sub, text, random)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, text, random)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, text, random))?,
        HirKind::Alternation(parts) => {
            if let Some(part) = parts.choose(random) {
                write(part, text, random)?;
            }
        }
    }
    Ok(())
}

/// Returns a character of a class: a letter or digit if the class has one, or else a visible character, or else its first
/// one.
fn character(class: &Class, random: &mut StdRng) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.ranges().iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |c: &char| ranges.iter().any(|(start, end)| start <= c && c <= end);
    let visible: Vec<char> = ('!'..='~').filter(has).collect();
    let plain: Vec<char> = visible.iter().copied().filter(char::is_ascii_alphanumeric).collect();
    let first = || ranges.first().map(|(start, _)| *start);
    plain.choose(random).or_else(|| visible.choose(random)).copied().or_else(first)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn text_matches_its_pattern_as_a_whole() {
        for (seed, pattern) in [
            r"\d{3}-\d{4}",
            r"(yes|no|maybe)",
            r"[A-Z][a-z]+( [A-Z][a-z]+)*",
            r"\w+@\w+\.com\n?",
            r"^v?(0|[1-9]\d*)\.\d+$",
            r"[^a-z]{2,5}",
            r"(?i)hello",
            ".*",
        ]
        .into_iter()
        .enumerate()
        {
            let mut random = StdRng::seed_from_u64(seed as u64);
            let text = make(pattern, &mut random).unwrap();
            assert!(Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(&text), "{pattern}: {text}");
        }
    }

    #[test]
    fn patterns_that_are_broken_or_endless_are_refused() {
        let mut random = StdRng::seed_from_u64(1);
        for pattern in ["(", "a{1000}{1000}{1000}", r"(?=x)y", r"\bx", "[a&&b]", r"(a{9999})"] {
            assert!(make(pattern, &mut random).is_err(), "{pattern}");
        }
    }
}
