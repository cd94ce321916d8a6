//! Finds and removes command-line flags in container arguments.

use longboat_api::picker_config::{is_config_flag, is_text_flag};

/// Returns the last configuration flag (text or file) and its value, which is the next argument.
pub(crate) fn config_pair(args: &[String]) -> Option<[String; 2]> {
    args.windows(2).rfind(|pair| is_config_flag(&pair[0])).map(|pair| [pair[0].clone(), pair[1].clone()])
}

/// Splits configuration flags with `=` into two arguments, the form that [`config_pair`] and [`config_text_position`] expect.
pub(crate) fn split_config(args: &mut Vec<String>) {
    let split = |arg: String| match arg.split_once('=') {
        Some((flag, value)) if is_config_flag(flag) => vec![flag.to_owned(), value.to_owned()],
        _ => vec![arg],
    };
    *args = std::mem::take(args).into_iter().flat_map(split).collect();
}

/// The position of the last configuration text among `args`.
pub(crate) fn config_text_position(args: &[String]) -> Option<usize> {
    args.windows(2).rposition(|pair| is_text_flag(&pair[0])).map(|at| at + 1)
}

/// Whether the flag is among `args`, with or without `=`.
pub(crate) fn has(args: &[String], name: &str) -> bool {
    args.iter().any(|arg| !matches!(match_flag(arg, name), FlagMatch::Other))
}

/// Returns the value of a flag that has one, in either form. The last one counts, as in the picker.
pub(crate) fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().enumerate().rev().find_map(|(at, word)| match match_flag(word, name) {
        FlagMatch::Other => None,
        FlagMatch::With(value) => Some(value),
        // As Go's flags do, whatever the next word begins with.
        FlagMatch::Bare => words.get(at + 1).copied(),
    })
}

/// Whether a boolean flag is on. It takes its value only with `=`.
pub(crate) fn is_on(words: &[&str], name: &str) -> bool {
    let mut settings = words.iter().rev().filter_map(|word| match match_flag(word, name) {
        FlagMatch::Other => None,
        FlagMatch::Bare => Some(true),
        FlagMatch::With(value) => Some(value == "true"),
    });
    settings.next().unwrap_or_default()
}

/// Removes every occurrence of a flag from `args`. Returns the last value, `Some("")` for a flag without a value.
///
/// The value follows `=`, or is the next argument unless that is a flag itself.
pub(crate) fn take(args: &mut Vec<String>, name: &str) -> Option<String> {
    let mut value = None;
    let mut remaining = Vec::with_capacity(args.len());
    let mut rest = std::mem::take(args).into_iter().peekable();
    while let Some(arg) = rest.next() {
        match match_flag(&arg, name) {
            FlagMatch::Other => remaining.push(arg),
            FlagMatch::With(inline) => value = Some(inline.to_owned()),
            // Nobody says here whether the flag is boolean. A boolean one stands alone, so the next flag is not its value.
            FlagMatch::Bare => value = Some(rest.next_if(|next| !next.starts_with('-')).unwrap_or_default()),
        }
    }
    *args = remaining;
    value
}

/// How an argument relates to a flag.
enum FlagMatch<'a> {
    Other,
    Bare,
    With(&'a str),
}

fn match_flag<'a>(arg: &'a str, name: &str) -> FlagMatch<'a> {
    // Go's flags take one dash or two.
    let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
    match flag.and_then(|flag| flag.strip_prefix(name)) {
        Some("") => FlagMatch::Bare,
        Some(rest) => rest.strip_prefix('=').map_or(FlagMatch::Other, FlagMatch::With),
        None => FlagMatch::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{config_pair, is_on, take, value};

    fn args(list: &[&str]) -> Vec<String> {
        list.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn a_flag_is_taken_with_its_value_in_either_form() {
        let mut list = args(&["--path", "/m", "--port=9", "--bare", "--last"]);
        assert_eq!(take(&mut list, "path").as_deref(), Some("/m"));
        assert_eq!(take(&mut list, "port").as_deref(), Some("9"));
        assert_eq!(take(&mut list, "bare").as_deref(), Some(""));
        assert_eq!(take(&mut list, "absent"), None);
        assert_eq!(list, args(&["--last"]));
    }

    #[test]
    fn the_last_value_of_a_flag_counts_in_either_form() {
        let words = ["epp", "--text=one", "-name", "two", "--on", "--on=false", "--off=true", "--last"];
        assert_eq!(value(&words, "name"), Some("two"));
        assert_eq!(value(&words, "text"), Some("one"));
        assert_eq!(value(&["--text=one", "-text", "two"], "text"), Some("two"));
        assert_eq!(value(&words, "last"), None);
        assert!(is_on(&words[..5], "on") && !is_on(&words, "on") && is_on(&words, "off"));
    }

    #[test]
    fn a_configuration_needs_its_value_as_the_next_argument() {
        let mut list = args(&["-v", "--config-text=a=b", "--port=1"]);
        assert_eq!(config_pair(&list), None);
        super::split_config(&mut list);
        assert_eq!(list, args(&["-v", "--config-text", "a=b", "--port=1"]));
        assert_eq!(
            config_pair(&args(&["-v", "--config-file", "/x"])),
            Some(["--config-file".into(), "/x".into()])
        );
        let mut list = args(&["--config-text=first", "--config-text=last"]);
        super::split_config(&mut list);
        assert_eq!(config_pair(&list), Some(["--config-text".into(), "last".into()]));
        assert_eq!(super::config_text_position(&list), Some(3));
        let words: Vec<&str> = list.iter().map(String::as_str).collect();
        assert_eq!(longboat_api::picker_config::config_text(&words), Some("last"));
    }
}
