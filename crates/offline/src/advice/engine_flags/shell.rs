//! Words as bash makes them of a text that it evaluates.

use serde_json::{Deserializer, Value};

/// A word, and where it begins in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub at: usize,
    pub text: String,
    /// Whether no variable or command replaces a part of it.
    pub is_exact: bool,
}

/// The words of one command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandWords {
    pub words: Vec<ShellWord>,
    /// What ends the command before the text ends: the character, and where it is.
    pub end: Option<(usize, char)>,
    /// JSON whose quotes the shell removes: where it begins, and where it ends.
    pub bare_json: Vec<(usize, usize)>,
}

/// A character, and whether quotes keep the shell from giving it a meaning.
type Character = (char, bool);

/// Splits a text. JSON that is not quoted stays one word, and is reported.
pub(super) fn split(text: &str) -> CommandWords {
    let mut split = CommandWords::default();
    let mut word = WordBuilder::default();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let begin = at;
        at += c.len_utf8();
        match c {
            ' ' | '\t' => word.finish(&mut split.words),
            '#' if word.at.is_none() => {
                at = text[at..].find('\n').map_or(text.len(), |end| at + end);
            }
            '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => {
                word.finish(&mut split.words);
                split.end = Some((begin, c));
                return split;
            }
            '\\' => {
                let next = text[at..].chars().next().unwrap_or('\\');
                at += if at < text.len() { next.len_utf8() } else { 0 };
                if next != '\n' {
                    word.push(begin, (next, true));
                }
            }
            '\'' => {
                let Some(length) = text[at..].find('\'') else {
                    split.end = Some((begin, c));
                    return split;
                };
                word.begin(begin);
                word.characters.extend(text[at..at + length].chars().map(|c| (c, true)));
                at += length + 1;
            }
            '"' => {
                word.begin(begin);
                let Some(end) = double_quoted(text, at, &mut word) else {
                    split.end = Some((begin, c));
                    return split;
                };
                at = end;
            }
            '$' | '`' => at = expansion(text, begin, &mut word),
            '{' | '[' if word.may_begin_json() => match json(&text[begin..]) {
                Some(length) => {
                    at = begin + length;
                    word.begin(begin);
                    word.characters.extend(text[begin..at].chars().map(|c| (c, true)));
                    split.bare_json.push((begin, at));
                }
                None => word.push(begin, (c, false)),
            },
            _ => word.push(begin, (c, false)),
        }
    }
    word.finish(&mut split.words);
    split
}

/// Returns the words that bash makes of JSON without quotes around it.
pub(super) fn stripped(json: &str) -> String {
    let plain: String = format!("\u{1}{json}");
    // A character before it keeps it from being taken for JSON.
    let words = split(&plain).words;
    let words: Vec<String> = words.into_iter().map(|word| word.text.replace('\u{1}', "")).collect();
    words.join(" ")
}

#[derive(Default)]
struct WordBuilder {
    at: Option<usize>,
    characters: Vec<Character>,
    has_expansion: bool,
}

impl WordBuilder {
    fn begin(&mut self, at: usize) {
        self.at.get_or_insert(at);
    }

    fn push(&mut self, at: usize, character: Character) {
        self.begin(at);
        self.characters.push(character);
    }

    /// Whether what follows is a value: a whole word, or what stands after `--flag=`.
    fn may_begin_json(&self) -> bool {
        self.characters.is_empty()
            || self.characters.last() == Some(&('=', false)) && self.characters.first() == Some(&('-', false))
    }

    fn finish(&mut self, words: &mut Vec<ShellWord>) {
        let word = std::mem::take(self);
        let Some(at) = word.at else { return };
        let has_few_braces = has_few_braces(&word.characters);
        let expanded = if has_few_braces { braces(&word.characters) } else { vec![word.characters] };
        words.extend(expanded.into_iter().map(|characters| ShellWord {
            at,
            text: characters.into_iter().map(|(c, _)| c).collect(),
            is_exact: has_few_braces && !word.has_expansion,
        }));
    }
}

/// Returns the length of the JSON with text in quotes that a text begins with.
fn json(text: &str) -> Option<usize> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    values.next()?.ok()?;
    let length = values.byte_offset();
    text[..length].contains('"').then_some(length)
}

/// Reads up to the closing quote, and returns the place after it.
fn double_quoted(text: &str, mut at: usize, word: &mut WordBuilder) -> Option<usize> {
    loop {
        let c = text[at..].chars().next()?;
        match c {
            '"' => return Some(at + 1),
            '\\' => {
                let next = text[at + 1..].chars().next()?;
                if !"$`\"\\\n".contains(next) {
                    word.characters.push((c, true));
                }
                if next != '\n' {
                    word.characters.push((next, true));
                }
                at += 1 + next.len_utf8();
            }
            '$' | '`' => at = expansion(text, at, word),
            _ => {
                word.characters.push((c, true));
                at += c.len_utf8();
            }
        }
    }
}

/// Reads `$NAME`, `${…}`, `$(…)` or a command in backquotes as it is written, and returns the place after it.
fn expansion(text: &str, at: usize, word: &mut WordBuilder) -> usize {
    word.begin(at);
    let rest = &text[at..];
    let closing = |close: char| rest[1..].find(close).map_or(rest.len(), |end| end + 2);
    let length = match rest[1..].chars().next() {
        _ if rest.starts_with('`') => closing('`'),
        Some('{') => closing('}'),
        Some('(') => parentheses(rest),
        Some(c) if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
            let name = rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            1 + name.unwrap_or(rest.len() - 1).max(1)
        }
        // A lone dollar sign.
        _ => {
            word.characters.push(('$', true));
            return at + 1;
        }
    };
    word.has_expansion = true;
    word.characters.extend(rest[..length].chars().map(|c| (c, true)));
    at + length
}

/// Returns the length of the text up to the parenthesis that closes the first one. Parentheses nest in `$((4 * 2))`.
fn parentheses(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ')' && depth == 0
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Whether the braces of a word are so few that they can be expanded. Each comma can double the words, and each brace is another pass
/// over the word.
fn has_few_braces(word: &[Character]) -> bool {
    let count = |wanted: char| word.iter().filter(|character| **character == (wanted, false)).count();
    count('{') <= 64 && (count('{') == 0 || count(',') <= 12)
}

/// Expands the braces of a word: `{a,b}` makes two words. [`has_few_braces`] bounds their number, and the depth.
fn braces(word: &[Character]) -> Vec<Vec<Character>> {
    for (open, _) in word.iter().enumerate().filter(|(_, character)| **character == ('{', false)) {
        let (mut depth, mut parts, mut begin) = (0, Vec::new(), open + 1);
        for (at, character) in word.iter().enumerate().skip(open) {
            match character {
                ('{', false) => depth += 1,
                (',', false) if depth == 1 => {
                    parts.push(&word[begin..at]);
                    begin = at + 1;
                }
                ('}', false) if depth == 1 => {
                    if parts.is_empty() {
                        break;
                    }
                    parts.push(&word[begin..at]);
                    let ends = braces(&word[at + 1..]);
                    let expanded = parts.into_iter().flat_map(braces);
                    return expanded
                        .flat_map(|part| ends.iter().map(move |end| [&word[..open], &part, end].concat()))
                        .collect();
                }
                ('}', false) => depth -= 1,
                _ => {}
            }
        }
    }
    vec![word.to_vec()]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text).words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_those_of_bash() {
        for text in [
            "--a 'b c' \"d e\" f\\ g ''",
            "--a=\"x\\\"y\\z\" 'it'\\''s' # a comment",
            "a{b,c}d {e,{f,g}} {h} {i,'j,k'} x{} \"{l,m}\"",
            "--flag=\\\n8 a#b",
            "1\u{e4} '\u{2014}'",
            "x{\"a\":1,\"b\":{\"c\":[1,2]}}",
            "x{\"a\": 1, \"b\":\"c d\"}",
        ] {
            let script = "eval \"set -- $1\"; printf '%s\\n' \"$@\"";
            let output = Command::new("bash").args(["-c", script, "-", text]).output().unwrap();
            let expected: Vec<String> =
                String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
            assert_eq!(texts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_command_ends_at_characters_that_mean_something_to_the_shell() {
        for (text, end) in [
            ("a (b)", Some((2, '('))),
            ("a | b", Some((2, '|'))),
            ("a\nb", Some((1, '\n'))),
            ("a 'b", Some((2, '\''))),
            ("a \"b", Some((2, '"'))),
            ("a '(b)' \"|\" \\;", None),
            ("a $((4 * (1 + 1))) \"$(b $(c))\" $(d", None),
        ] {
            assert_eq!(split(text).end, end, "{text}");
        }
    }

    #[test]
    fn json_without_quotes_around_it_is_one_word_that_is_reported() {
        let json = "{\"a\": \"b\", \"c\": \"d\"}";
        let found = split(&format!("--x {json} --y={json}"));
        assert_eq!(found.bare_json, [(4, 24), (29, 49)]);
        assert_eq!(found.words[1].text, json);
        assert_eq!(stripped(json), "{a: b, c: d}");
        assert_eq!(stripped("{\"a\":\"b\",\"c\":\"d\"}"), "a:b c:d");
        assert_eq!(split(&format!("--x '{json}' {{}} [1,2]")).bare_json, []);
    }

    #[test]
    fn braces_that_would_make_too_many_words_stay_as_they_are() {
        for text in ["{a,b}".repeat(40), "{a,".repeat(5000) + &"}".repeat(5000), "{".repeat(100_000)] {
            let words = split(&text).words;
            assert_eq!((words.len(), words[0].text.as_str(), words[0].is_exact), (1, text.as_str(), false));
        }
    }

    #[test]
    fn what_variables_put_into_a_word_is_not_known() {
        let exact: Vec<bool> =
            split("a $B ${C} \"$(d e)\" '$f' \\$g `h` $").words.iter().map(|word| word.is_exact).collect();
        assert_eq!(exact, [true, false, false, false, true, true, false, true]);
    }
}
