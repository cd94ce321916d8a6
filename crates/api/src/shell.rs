//! Names as words of a shell. The start scripts of presets put the names of models into a command line.

/// Whether a shell reads the text as one word, and as that text.
pub fn is_word(text: &str) -> bool {
    // A shell gives no meaning to characters outside of ASCII.
    let plain = |byte: u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// Returns the text as one word of a command line.
pub fn quoted(text: &str) -> String {
    if is_word(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Returns the text as one word of a command line that is in double quotes and that `eval` reads afterwards. A text that is
/// such a word already stays as it is, and so does the empty text, because scripts that run now must not change.
pub fn quoted_for_eval(text: &str) -> String {
    if text.is_empty() || is_word(text) {
        return text.to_owned();
    }
    // `eval` sees single quotes. What double quotes would change before that has a backslash.
    let mut word = String::with_capacity(text.len() + 16);
    word.push('\'');
    for c in text.chars() {
        match c {
            '\'' => word.push_str(r"'\\''"),
            // The kubelet replaces `$(NAME)` in a command. The quotes separate the two characters.
            '$' => word.push_str(r"\$''"),
            '`' | '"' | '\\' => word.extend(['\\', c]),
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::{is_word, quoted, quoted_for_eval};

    #[test]
    fn an_ordinary_name_stays_as_it_is() {
        for name in ["", "llama", "Qwen/Qwen2.5-0.5B-Instruct", "a@b:c_d,e+f=g%h", "模型"] {
            assert_eq!(quoted_for_eval(name), name);
        }
        for name in [
            "", "a b", "a;b", "$(id)", "`id`", "a'b", "a\"b", "a\\b", "a*", "a#b", "~", "{a,b}", "a\nb", "!x",
        ] {
            assert!(!is_word(name), "{name:?}");
        }
    }

    #[test]
    fn a_path_is_quoted_if_it_has_to_be() {
        for (path, word) in [("/tmp/a-1", "/tmp/a-1"), ("/it's two", r"'/it'\''s two'"), ("", "''")] {
            assert_eq!(quoted(path), word);
        }
    }

    #[test]
    fn any_other_name_is_quoted_for_double_quotes_and_for_eval() {
        assert_eq!(quoted_for_eval("a b"), "'a b'");
        assert_eq!(quoted_for_eval("$(id)"), r"'\$''(id)'");
        assert_eq!(quoted_for_eval("it's"), r"'it'\\''s'");
        assert_eq!(quoted_for_eval(r#"a"`\"#), r#"'a\"\`\\'"#);
    }
}
