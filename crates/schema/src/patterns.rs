//! Regular expressions with Go's semantics: `\d`, `\s`, `\w` and `\b` match only ASCII.

use regex::{Regex, RegexBuilder};

/// Compiles a pattern with Go's character classes.
///
/// # Errors
/// If it is not a valid regular expression.
pub(crate) fn compile(source: &str) -> Result<Regex, regex::Error> {
    builder(source).build()
}

/// Like [`compile`], for patterns that need other limits.
pub(crate) fn builder(source: &str) -> RegexBuilder {
    RegexBuilder::new(&translate(source))
}

/// What an item of a class may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    /// A set, or the first character of a range.
    First,
    /// What follows a character. A hyphen makes them a range.
    Next,
    /// The last character of a range.
    Last,
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut class = None;
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        let rest = characters.as_str();
        let single = match (character, class) {
            ('\\', _) => {
                let Some(escaped) = characters.next() else {
                    out.push('\\');
                    continue;
                };
                escape(&mut out, escaped, class.is_some());
                if matches!(escaped, 'p' | 'P' | 'x') {
                    let end = braces(characters.as_str());
                    out.push_str(&characters.as_str()[..end]);
                    characters = characters.as_str()[end..].chars();
                }
                !matches!(escaped, 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P')
            }
            ('[', None) => {
                out.push('[');
                class = Some(Item::First);
                // A bracket at the start of a class is an ordinary character.
                let mut rest = rest;
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = after;
                    class = Some(Item::Next);
                }
                characters = rest.chars();
                continue;
            }
            // Without a number of repetitions, a brace is an ordinary character.
            ('{', None) if !is_repetition(rest) => {
                out.push_str("\\{");
                continue;
            }
            (other, None) => {
                out.push(other);
                continue;
            }
            ('[', Some(_)) if rest.starts_with(':') => {
                let end = rest.find(":]").map_or(rest.len(), |end| end + 2);
                out.push('[');
                out.push_str(&rest[..end]);
                characters = rest[end..].chars();
                false
            }
            (']', Some(_)) => {
                class = None;
                out.push(']');
                continue;
            }
            ('-', Some(Item::Next)) if !rest.starts_with(']') => {
                class = Some(Item::Last);
                out.push('-');
                continue;
            }
            // The `regex` crate has nested classes, and operators on classes: `&&`, `~~` and `--`.
            ('[' | '&' | '~' | '-', Some(_)) => {
                out.push('\\');
                out.push(character);
                true
            }
            (other, Some(_)) => {
                out.push(other);
                true
            }
        };
        class = class.map(|item| if single && item != Item::Last { Item::Next } else { Item::First });
    }
    out
}

/// Returns the length of the braces at the start of a text.
fn braces(text: &str) -> usize {
    if text.starts_with('{') { text.find('}').map_or(0, |end| end + 1) } else { 0 }
}

/// Whether the text after a brace makes it a repetition: `2}`, `2,}` or `2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some((counts, _)) = rest.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

fn escape(out: &mut String, escaped: char, class: bool) {
    let (digits, space, word) = ("0-9", r"\t\n\f\r ", "0-9A-Za-z_");
    let (set, negated) = match escaped {
        'd' => (digits, false),
        'D' => (digits, true),
        's' => (space, false),
        'S' => (space, true),
        'w' => (word, false),
        'W' => (word, true),
        'b' | 'B' if !class => {
            out.push_str("(?-u:\\");
            out.push(escaped);
            out.push(')');
            return;
        }
        other => {
            out.push('\\');
            out.push(other);
            return;
        }
    };
    match (class, negated) {
        (true, false) => out.push_str(set),
        (_, true) => {
            out.push_str("[^");
            out.push_str(set);
            out.push(']');
        }
        (false, false) => {
            out.push('[');
            out.push_str(set);
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap().is_match(text)
    }

    #[test]
    fn classes_are_about_ascii() {
        assert!(matches(r"^\d+(\.\d+)?$", "1.5"));
        assert!(!matches(r"^\d$", "\u{663}"));
        assert!(matches(r"^[\w.-]+$", "a_1.b-c"));
        assert!(!matches(r"^[\w.-]+$", "ä"));
        assert!(matches(r"^\W$", "ä"));
        assert!(matches(r"^[\Da]$", "ä"));
        assert!(!matches(r"^\s$", "\u{a0}"));
        assert!(matches(r"a\b", "aä"));
    }

    #[test]
    fn brackets_in_classes_are_characters() {
        assert!(matches(r"^[^]]$", "a"));
        assert!(matches(r"^[]a]+$", "a]"));
        assert!(matches(r"^[[]$", "["));
        assert!(matches(r"^[[:alpha:]&&]+$", "a&"));
        assert!(matches(r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:]|[%][0-9a-fA-F]{2})+$", "a&b~%20"));
    }

    #[test]
    fn braces_without_a_number_are_characters() {
        assert!(matches(r"^{{ .+ }}$", "{{ a }}"));
        assert!(matches(r"^a{,2}$", "a{,2}"));
        assert!(matches(r"^a{x}{2}$", "a{x}}"));
        assert!(matches(r"^a{1,2}b{2}c{2,}$", "aabbcc"));
        assert!(matches(r"^\p{Greek}\x{61}[\p{Greek}{]+$", "αaβ{"));
        assert!(!matches(r"^\p{Greek}$", "a"));
    }

    #[test]
    fn hyphens_in_classes_are_as_in_go() {
        assert!(matches(r"^[+--]+$", "+,-"));
        assert!(matches(r"^[--/]+$", "-./"));
        assert!(compile("[a--]").is_err(), "the range ends before it begins");
        assert!(matches(r"^[\d-z]+$", "1-z") && !matches(r"^[\d-z]+$", "a"));
        assert!(matches(r"^[a-c-e]+$", "b-e") && !matches(r"^[a-c-e]+$", "d"));
        assert!(matches(r"^[-a]+$", "-a") && matches(r"^[a-]+$", "-a") && matches(r"^[^-]+$", "a"));
    }
}
