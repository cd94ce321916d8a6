//! Selects the files of a source by the patterns of `STORAGE_ALLOW_PATTERNS` and `STORAGE_IGNORE_PATTERNS`.

use serde_json::Value;

/// Two lists of shell patterns. An empty list of allowed patterns allows all files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    allow: Vec<String>,
    ignore: Vec<String>,
}

// === impl Filter ===

impl Filter {
    /// Reads both variables: a JSON list, one JSON string, or a comma-separated list.
    pub fn new(allow: Option<&str>, ignore: Option<&str>) -> Self {
        Self { allow: patterns(allow.unwrap_or_default()), ignore: patterns(ignore.unwrap_or_default()) }
    }

    /// Whether a file is wanted. Patterns match the whole relative path, and `*` crosses `/`.
    pub fn wants(&self, path: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.ignore)
    }

    /// Reads patterns like the hub's client: a pattern that ends in `/` matches everything in that folder.
    #[must_use]
    pub(crate) fn with_folders(mut self) -> Self {
        for pattern in self.allow.iter_mut().chain(&mut self.ignore) {
            if pattern.ends_with('/') {
                pattern.push('*');
            }
        }
        self
    }

    /// Returns the patterns for the log: the allowed ones, then the ignored ones. `None` for an empty list.
    pub fn shown(&self) -> [Option<String>; 2] {
        [&self.allow, &self.ignore].map(|list| (!list.is_empty()).then(|| list.join(", ")))
    }

    /// Returns a text that is equal for equal filters.
    pub(crate) fn key(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        serde_json::json!([self.allow, self.ignore]).to_string()
    }
}

fn patterns(text: &str) -> Vec<String> {
    let list = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => items.iter().map(scalar).collect(),
        Ok(Value::Null) => vec![],
        Ok(Value::Object(_)) | Err(_) => text.split(',').map(str::to_owned).collect::<Vec<_>>(),
        Ok(value) => vec![scalar(&value)],
    };
    list.iter().map(|pattern| pattern.trim().to_owned()).filter(|pattern| !pattern.is_empty()).collect()
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Matches shell patterns with `*`, `?`, `[abc]`, `[a-z]` and `[!abc]`. The time is proportional to the product of the lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The positions to return to if the text after the last `*` does not match.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            back = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(next) = one(&pattern, p, text[t]) {
            p = next;
            t += 1;
            continue;
        }
        let Some((after, from)) = back else { return false };
        back = Some((after, from + 1));
        (p, t) = (after, from + 1);
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns the position after the next pattern element if the element matches the character.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let negated = pattern.get(at + 1) == Some(&'!');
            let start = at + 1 + usize::from(negated);
            // The first character belongs to the set, even if it is the closing bracket.
            let Some(end) = (start + 1..pattern.len()).find(|i| pattern[*i] == ']') else {
                return (c == '[').then_some(at + 1);
            };
            let mut found = false;
            let mut i = start;
            while i < end {
                if i + 2 < end && pattern[i + 1] == '-' {
                    found |= (pattern[i]..=pattern[i + 2]).contains(&c);
                    i += 3;
                } else {
                    found |= pattern[i] == c;
                    i += 1;
                }
            }
            (found != negated).then_some(end + 1)
        }
        literal => (*literal == c).then_some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, fits) in [
            ("*.json", "a/b.json", true),
            ("*.json", ".json", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]x", "bx", true),
            ("[!ab]x", "bx", false),
            ("[a-c]x", "bx", true),
            ("[]x", "[]x", true),
            ("[]]", "]", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("A", "a", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        let stars = "*a".repeat(100);
        assert!(!matches(&stars, &"b".repeat(1000)));
    }

    #[test]
    fn lists_are_json_or_have_commas_and_ignoring_wins() {
        for text in [r#"["*.json", "x"]"#, "*.json, x"] {
            let filter = Filter::new(Some(text), Some("secret*"));
            assert!(filter.wants("a.json") && filter.wants("x"), "{text}");
            assert!(!filter.wants("secret.json") && !filter.wants("y"), "{text}");
        }
        assert!(Filter::new(Some(""), Some("[]")).wants("anything"));
        assert!(Filter::new(Some(r#""*.bin""#), None).wants("a.bin"));
        assert!(Filter::new(Some("sub/"), None).with_folders().wants("sub/x"));
    }
}
