//! Rules for names, labels and keys, with the error messages of kube-apiserver.

/// The rule for names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Dotted lower-case labels, at most 253 bytes.
    Subdomain,
    /// One lower-case label, at most 63 bytes.
    Label,
    /// One lower-case label that starts with a letter.
    Label1035,
    /// Any text that fits into a path segment.
    PathSegment,
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Returns all violations of the rule.
pub fn problems(rule: NameRule, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    match rule {
        NameRule::Subdomain => {
            if name.len() > 253 {
                found.push(too_long(253));
            }
            if !is_subdomain(name) {
                found.push(SUBDOMAIN.to_owned());
            }
        }
        NameRule::Label => {
            if name.len() > 63 {
                found.push(too_long(63));
            }
            if !is_label(name) {
                found.push(if is_subdomain(name) && name.contains('.') {
                    "must not contain dots".to_owned()
                } else {
                    LABEL.to_owned()
                });
            }
        }
        NameRule::Label1035 => {
            if name.len() > 63 {
                found.push(too_long(63));
            }
            if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
                found.push(LABEL_1035.to_owned());
            }
        }
        NameRule::PathSegment => {
            if name == "." || name == ".." {
                found.push(format!("may not be '{name}'"));
            }
            for bad in ["/", "%"] {
                if name.contains(bad) {
                    found.push(format!("may not contain '{bad}'"));
                }
            }
        }
    }
    found
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// Whether a text is a lower-case DNS label, of any length.
pub fn is_label(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name.chars().all(|c| inside(c) || c == '-')
        && name.starts_with(inside)
        && name.ends_with(inside)
}

/// Whether a text consists of lower-case DNS labels with dots between them, of any length.
pub fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_name_part(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns the first violation in a key of labels, annotations or finalizers.
pub(crate) fn qualified_name_problem(key: &str) -> Option<String> {
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
        Some(prefix) if !is_subdomain(prefix) => problems.push(format!("prefix part {SUBDOMAIN}")),
        _ => {}
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
    if value.len() > 63 {
        return Some(too_long(63));
    }
    (!value.is_empty() && !is_name_part(value)).then(|| LABEL_VALUE.to_owned())
}

/// Returns a warning if an object's name is valid for the object, but not as the host name of its pods.
pub(crate) fn host_warning(object: &serde_json::Value, used_in: &str) -> Option<String> {
    let found = problems(NameRule::Label, object["metadata"]["name"].as_str().unwrap_or_default());
    (!found.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            found.join(" ")
        )
    })
}

/// Returns why a key of a ConfigMap or Secret is invalid.
pub(crate) fn config_key_problem(key: &str) -> Option<String> {
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
    }

    #[test]
    fn keys_may_have_a_domain_in_front() {
        assert_eq!(qualified_name_problem("example.com/Name_1"), None);
        assert!(qualified_name_problem("Example.com/x").is_some());
        assert!(qualified_name_problem("-x").is_some());
    }
}
