//! `$(NAME)` in commands, arguments and environment values.
//!
//! Kubernetes: third_party/forked/golang/expansion. `$(NAME)` becomes the variable's value; a reference to a variable
//! that does not exist stays as it is written; `$$` is a literal `$`.

/// Expands every reference in `text`. `lookup` returns the value of a variable.
pub(crate) fn expand<'v>(text: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn sample(text: &str) -> String {
        expand(text, |name| match name {
            "A" => Some("1"),
            "EMPTY" => Some(""),
            "REF" => Some("$(A)"),
            _ => None,
        })
    }

    #[test]
    fn references_expand_as_kubernetes_expands_them() {
        for (input, expected) in [
            ("$(A)-$(A)", "1-1"),
            ("$(EMPTY)x", "x"),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$/root", "$$/root"),
            ("$(REF)", "$(A)"),
            ("$A $ $(A", "$A $ $(A"),
            ("${A}", "${A}"),
            ("", ""),
        ] {
            assert_eq!(sample(input), expected, "{input}");
        }
    }
}
