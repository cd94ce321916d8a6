//! The series on a page of metrics in Prometheus's text format.

use std::borrow::Cow;

/// The labels and the value of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series<'a> {
    labels: &'a str,
    /// The value, which is finite.
    pub value: f64,
}

// === impl Series ===

impl<'a> Series<'a> {
    /// Reads a line. Returns the name of its metric and the series, or `None` for a line that is no series or has no number. A
    /// comment has a name that no metric has.
    pub fn of_line(line: &'a str) -> Option<(&'a str, Self)> {
        let (name, rest) = line.split_at(line.find(['{', ' ', '\t'])?);
        Some((name, Self::after_name(rest)?))
    }

    /// Reads the rest of a line after the metric's name. Returns `None` if the name goes on there.
    pub fn after_name(rest: &'a str) -> Option<Self> {
        let (labels, value) = match rest.as_bytes().first()? {
            b'{' => {
                let end = end_of_labels(rest)?;
                (&rest[1..end], &rest[end + 1..])
            }
            b' ' | b'\t' => ("", rest),
            _ => return None,
        };
        // A timestamp may follow the value.
        let value: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        // NaN or infinity from one pod would make a sum or an average over all pods NaN or infinite.
        value.is_finite().then_some(Self { labels, value })
    }

    /// Returns the value of a label.
    pub fn label(&self, label: &str) -> Option<Cow<'a, str>> {
        self.labels().map_while(|label| label).find_map(|(name, value)| (name == label).then_some(value))
    }

    /// Returns names and values of the labels. `None` is a label that cannot be read; it is the last one.
    pub fn labels(&self) -> impl Iterator<Item = Option<(&'a str, Cow<'a, str>)>> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            // A comma may follow the last label.
            rest = rest.trim_start_matches([',', ' ']);
            if rest.is_empty() {
                return None;
            }
            let label = split_label(rest);
            rest = label.as_ref().map_or("", |(.., after)| after);
            Some(label.map(|(name, value, _)| (name, value)))
        })
    }
}

/// Returns the position of the brace that closes the labels. Braces in quoted values do not count.
fn end_of_labels(rest: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns name and value of the first label, and the text after it.
fn split_label(text: &str) -> Option<(&str, Cow<'_, str>, &str)> {
    let (name, after) = text.split_once('=')?;
    let (value, rest) = quoted(after.trim_start().strip_prefix('"')?)?;
    Some((name.trim(), value, rest))
}

/// Reads a label's value up to its closing quote. Returns the value and the text after it. Few values have escapes, and some
/// series have many labels, so the others are not copied.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Cow::Owned(value), &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_whatever_stands_in_their_values() {
        let (name, series) =
            Series::of_line(r#"m{a="x } y",b = "1\"2\n\\", le="+Inf",} 7 1395066363000"#).unwrap();
        assert_eq!((name, series.value), ("m", 7.0));
        let labels: Option<Vec<_>> = series.labels().collect();
        assert_eq!(labels.unwrap(), [("a", "x } y".into()), ("b", "1\"2\n\\".into()), ("le", "+Inf".into())]);
        assert_eq!((series.label("le").as_deref(), series.label("c")), (Some("+Inf"), None));
    }

    #[test]
    fn a_line_without_a_finite_number_or_with_open_labels_is_no_series() {
        for line in ["", "m", "m{", "m{a=\"b} 1", "m NaN", "m +Inf", "m{}", "# HELP m Words", "m x"] {
            assert_eq!(Series::of_line(line), None, "{line}");
        }
        assert_eq!(Series::after_name("_total 1"), None);
        let (_, broken) = Series::of_line("m{a=\"b\",c} 1").unwrap();
        assert_eq!(broken.labels().collect::<Vec<_>>(), [Some(("a", "b".into())), None]);
    }
}
