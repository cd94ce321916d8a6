//! Rules for names of objects, for keys and values of labels, and for keys of ConfigMaps, with the error messages of
//! kube-apiserver.

/// The label with the name of a namespace, which each namespace has.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The rule for names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Dotted lower-case labels, at most 253 bytes.
    Subdomain,
    /// A subdomain behind `*.`, as in the hosts of an Ingress.
    Wildcard,
    /// A subdomain whose labels may contain `_`, and begin with one `_`, as in the search list of a pod.
    SearchDomain,
    /// One lower-case label, at most 63 bytes.
    Label,
    /// One lower-case label that starts with a letter.
    Label1035,
    /// Any text that fits into a path segment.
    PathSegment,
}

/// The characters of generated names, which form no words.
pub const GENERATED_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// What is wrong with a text that is not a subdomain.
pub const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
/// What is wrong with a text that is not a label.
pub const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

const MAX_SUBDOMAIN_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Returns all violations of the rule.
pub fn problems(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => refuse(name, MAX_SUBDOMAIN_BYTES, has_subdomain_syntax, SUBDOMAIN),
        NameRule::Wildcard => {
            let is_wildcard = |name: &str| name.strip_prefix("*.").is_some_and(has_subdomain_syntax);
            refuse(name, MAX_SUBDOMAIN_BYTES, is_wildcard, WILDCARD)
        }
        NameRule::SearchDomain => {
            let is_part = |part: &str| is_word(part.strip_prefix('_').unwrap_or(part), "-_");
            refuse(name, MAX_SUBDOMAIN_BYTES, |name| name.split('.').all(is_part), SEARCH_DOMAIN)
        }
        NameRule::Label => {
            let has_dots = name.contains('.') && has_subdomain_syntax(name);
            refuse(
                name,
                MAX_LABEL_BYTES,
                has_label_syntax,
                if has_dots { "must not contain dots" } else { LABEL },
            )
        }
        NameRule::Label1035 => {
            let is_label =
                |name: &str| has_label_syntax(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
            refuse(name, MAX_LABEL_BYTES, is_label, LABEL_1035)
        }
        NameRule::PathSegment => {
            let dots = matches!(name, "." | "..").then(|| format!("may not be '{name}'"));
            let separators = ["/", "%"].into_iter().filter(|separator| name.contains(separator));
            dots.into_iter()
                .chain(separators.map(|separator| format!("may not contain '{separator}'")))
                .collect()
        }
    }
}

fn refuse(name: &str, limit: usize, has_syntax: impl Fn(&str) -> bool, syntax: &str) -> Vec<String> {
    let length = (name.len() > limit).then(|| too_long(limit));
    length.into_iter().chain((!has_syntax(name)).then(|| syntax.to_owned())).collect()
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Whether a text is a lower-case DNS label (RFC 1123), as the name of a namespace is.
pub fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && has_label_syntax(text)
}

/// Whether a text consists of lower-case DNS labels with dots between them, as the names of most objects do.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN_BYTES && has_subdomain_syntax(text)
}

fn has_label_syntax(text: &str) -> bool {
    is_word(text, "-")
}

fn has_subdomain_syntax(text: &str) -> bool {
    text.split('.').all(has_label_syntax)
}

/// Whether a text has lower-case letters and digits, and any of the characters of `between` between them.
fn is_word(text: &str, between: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || between.contains(c))
}

fn is_name_part(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns the first violation in a key of labels, annotations or finalizers.
pub fn qualified_name_problem(key: &str) -> Option<String> {
    qualified_name_problems(key).into_iter().next()
}

/// Returns all violations in a key. The prefix and the name are checked separately, and an empty name violates two rules.
pub fn qualified_name_problems(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return vec![
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                .to_owned(),
        ];
    }
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let wrong = self::problems(NameRule::Subdomain, prefix).into_iter();
            problems.extend(wrong.map(|problem| format!("prefix part {problem}")));
        }
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_name_part(name) {
        problems.push(NAME_PART.to_owned());
    }
    problems
}

/// Returns why a label value is invalid.
pub fn label_value_problem(value: &str) -> Option<String> {
    refuse(value, MAX_LABEL_BYTES, |value| value.is_empty() || is_name_part(value), LABEL_VALUE)
        .into_iter()
        .next()
}

/// Returns why a key of a ConfigMap or Secret is invalid.
pub fn config_key_problem(key: &str) -> Option<String> {
    if key.len() > 253 {
        return Some(too_long(253));
    }
    if key == "." || key == ".." {
        return Some(format!("must not be '{key}'"));
    }
    if key.starts_with("..") {
        return Some("must not start with '..'".to_owned());
    }
    let fine = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    (!fine).then(|| CONFIG_KEY.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_the_rule_of_their_kind() {
        assert!(problems(NameRule::Subdomain, "a.b-c").is_empty());
        assert_eq!(problems(NameRule::Label, "a.b"), ["must not contain dots"]);
        assert_eq!(problems(NameRule::Label1035, "1a").len(), 1);
        assert!(problems(NameRule::PathSegment, "a:B").is_empty());
        assert!(problems(NameRule::Wildcard, "*.example.com").is_empty());
        assert_eq!(problems(NameRule::Wildcard, "*.*.com").len(), 1);
        assert!(problems(NameRule::SearchDomain, "_tcp.a_b.example").is_empty());
        for wrong in ["__a", "a_", "a..b"] {
            assert_eq!(problems(NameRule::SearchDomain, wrong), [SEARCH_DOMAIN], "{wrong}");
        }
    }

    #[test]
    fn names_have_a_limit() {
        let long = "a".repeat(254);
        assert!(!is_subdomain(&long) && !is_label(&long[..64]) && is_label(&long[..63]));
        assert_eq!(problems(NameRule::Label1035, &long[..64]), ["must be no more than 63 characters"]);
        assert_eq!(
            qualified_name_problems(&format!("{long}/x")),
            ["prefix part must be no more than 253 characters"]
        );
    }

    #[test]
    fn keys_may_have_a_domain_in_front() {
        assert_eq!(qualified_name_problem("example.com/Name_1"), None);
        assert!(qualified_name_problem("Example.com/x").is_some());
        assert!(qualified_name_problem("-x").is_some());
    }
}
