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

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut class = false;
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped) => escape(&mut out, escaped, class),
                None => out.push('\\'),
            },
            '[' if !class => {
                class = true;
                out.push('[');
                // A bracket at the start of a class is an ordinary character.
                let mut rest = characters.as_str();
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = after;
                }
                characters = rest.chars();
            }
            // Nested classes are an extension of the `regex` crate, except for `[:alpha:]`.
            '[' if !characters.as_str().starts_with(':') => out.push_str("\\["),
            '[' => {
                let rest = characters.as_str();
                let end = rest.find(":]").map_or(rest.len(), |end| end + 2);
                out.push('[');
                out.push_str(&rest[..end]);
                characters = rest[end..].chars();
            }
            ']' => {
                class = false;
                out.push(']');
            }
            // Doubled, they would be operators on classes in the `regex` crate.
            '&' | '~' if class => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
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
}
