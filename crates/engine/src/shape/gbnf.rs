//! Grammars in the notation of llama.cpp (GBNF), as vLLM takes them beside Lark: `root ::= "yes" | "no"`.
//!
//! The two notations differ in names, in character classes, and in where a rule ends. So the text is rewritten piece by piece, and
//! the parser of Lark judges the result.

use std::collections::HashMap;

/// Returns a grammar in Lark's notation. A grammar that names a rule `start` or Lark's library is in it already.
pub(super) fn to_lark(grammar: &str) -> Result<String, String> {
    let is_lark = grammar.lines().map(str::trim_start).any(|line| {
        line.starts_with("%llguidance")
            || line
                .strip_prefix("start")
                .is_some_and(|rest| rest.trim_start().starts_with(':') && !rest.contains("::="))
    });
    if is_lark {
        return Ok(grammar.to_owned());
    }
    rewrite(grammar).map_err(|reason| format!("Failed to convert the grammar from GBNF to Lark: {reason}"))
}

fn rewrite(grammar: &str) -> Result<String, String> {
    let mut lark = String::new();
    let mut names = HashMap::from([("start".to_owned(), "root".to_owned())]);
    // A rule goes on behind the end of its line within parentheses, and where something must follow.
    let (mut depth, mut goes_on, mut has_root) = (0_usize, false, false);
    let mut rest = grammar;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => closed(rest, '"')?,
            '[' => closed(rest, ']')?,
            '#' => rest.find('\n').unwrap_or(rest.len()),
            ':' if rest.starts_with("::=") => 3,
            _ if is_word(first) => rest.find(|next| !is_word(next)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        match first {
            '#' => continue,
            '\n' if depth > 0 || goes_on => lark.push(' '),
            '[' => push_class(&mut lark, piece),
            '\r' => {}
            '.' => lark.push_str(r"/(.|\n)/"),
            ':' => lark.push(':'),
            '(' | ')' => {
                depth = if first == '(' { depth + 1 } else { depth.saturating_sub(1) };
                lark.push(first);
            }
            _ if is_word(first) => {
                has_root |= piece == "root" && rest.trim_start().starts_with("::=");
                lark.push_str(&rule_name(piece, &mut names)?);
            }
            _ => lark.push_str(piece),
        }
        if !first.is_whitespace() {
            goes_on = matches!(first, '|' | ':');
        }
    }
    if has_root { Ok(lark) } else { Err("No 'root' rule found".into()) }
}

/// Writes a character class as a regular expression, in which `[` and `/` have a meaning of their own.
fn push_class(lark: &mut String, class: &str) {
    lark.push('/');
    let mut escaped = false;
    for (at, letter) in class.char_indices() {
        if at > 0 && matches!(letter, '[' | '/') && !escaped {
            lark.push('\\');
        }
        escaped = letter == '\\' && !escaped;
        lark.push(letter);
    }
    lark.push('/');
}

/// Lark's rules have small letters.
fn rule_name(name: &str, names: &mut HashMap<String, String>) -> Result<String, String> {
    let lark = if name == "root" { "start".to_owned() } else { name.to_ascii_lowercase() };
    let known = names.entry(lark.clone()).or_insert_with(|| name.to_owned());
    if known == name {
        Ok(lark)
    } else {
        Err(format!("the rules `{known}` and `{name}` have the same name in Lark"))
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')
}

/// The length of a text in quotes or a character class, with its end.
fn closed(text: &str, end: char) -> Result<usize, String> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => break,
            '\\' if !escaped => escaped = true,
            _ if letter == end && !escaped => return Ok(at + 1),
            _ => escaped = false,
        }
    }
    let shown: String = text.lines().next().unwrap_or_default().chars().take(40).collect();
    Err(format!("`{shown}` has no closing `{end}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammars_are_rewritten_rule_by_rule() {
        for (gbnf, lark) in [
            (r#"root ::= "a""#, r#"start : "a""#),
            (
                "# choices\nroot ::= answer+ |\n  \"no\"\nanswer ::= (\n\"a\" | [a-z/[]{2,3} )",
                "\nstart : answer+ |   \"no\"\nanswer : ( \"a\" | /[a-z\\/\\[]/{2,3} )",
            ),
            (
                "root ::= sub-rule .\nsub-rule ::= \"\\\"#\"",
                "start : sub-rule /(.|\\n)/\nsub-rule : \"\\\"#\"",
            ),
            ("root ::= [\\]\"] \"[\"", "start : /[\\]\"]/ \"[\""),
            (r"root ::= [\[\\/]", r"start : /[\[\\\/]/"),
        ] {
            assert_eq!(to_lark(gbnf).as_deref(), Ok(lark));
        }
        let lark = "start: a\na: \"x\"";
        assert_eq!(to_lark(lark).as_deref(), Ok(lark));
    }

    #[test]
    fn grammars_without_a_first_rule_or_an_end_are_refused() {
        for (gbnf, reason) in [
            ("nonsense ::=", "No 'root' rule found"),
            ("", "No 'root' rule found"),
            ("root ::= \"a", "`\"a` has no closing `\"`"),
            ("root ::= [a\n]", "`[a` has no closing `]`"),
            ("root ::= Ab aB", "the rules `Ab` and `aB` have the same name in Lark"),
            ("root ::= start", "the rules `root` and `start` have the same name in Lark"),
        ] {
            let expected = format!("Failed to convert the grammar from GBNF to Lark: {reason}");
            assert_eq!(to_lark(gbnf), Err(expected), "{gbnf}");
        }
    }
}
