//! Rules for names, with the reference's messages.

use std::sync::LazyLock;

use regex::Regex;

macro_rules! regexes {
    ($($name:ident = $pattern:literal;)+) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("the pattern is a literal that tests compile"));)+
    };
}

regexes! {
    LABEL_1035 = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
    SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    NAME_PART = "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
}

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks that a name is a DNS-1035 label.
pub(crate) fn label_1035(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 characters".to_owned());
    }
    if LABEL_1035.is_match(name) {
        return Ok(());
    }
    Err("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned())
}

/// Checks that a name is a DNS-1123 subdomain.
///
/// # Errors
///
/// The rules for such a name, with the reference's wording.
pub fn subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 characters".to_owned());
    }
    if SUBDOMAIN.is_match(name) { Ok(()) } else { Err(SUBDOMAIN_TEXT.to_owned()) }
}

/// Checks that a name is a label or annotation key.
pub(crate) fn qualified(name: &str) -> Result<(), String> {
    let (prefix, name) = match name.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, name),
    };
    match prefix {
        Some("") => return Err("prefix part must be non-empty".to_owned()),
        Some(prefix) if subdomain(prefix).is_err() => return Err(format!("prefix part {SUBDOMAIN_TEXT}")),
        _ => {}
    }
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 characters".to_owned());
    }
    if NAME_PART.is_match(name) {
        return Ok(());
    }
    Err("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')".to_owned())
}

/// Checks that a text is the value of a label.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err("must be no more than 63 characters".to_owned());
    }
    if value.is_empty() || NAME_PART.is_match(value) {
        return Ok(());
    }
    Err("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned())
}
