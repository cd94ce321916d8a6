//! Variables in arguments that nothing sets.

use k8s_openapi::api::core::v1::Container;

use super::words::Words;
use crate::finding::Advice;

/// Variables that shells and kubelets set.
const ALWAYS: [&str; 8] = ["HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// Finds them in the words that the start script of a preset evaluates.
pub(super) fn check(path: &str, main: &Container, words: &Words) -> Vec<Advice> {
    if !words.is_preset || main.env_from.iter().flatten().next().is_some() {
        return Vec::new();
    }
    let script = || main.command.iter().chain(&main.args).flatten();
    let is_set = |name: &str| {
        main.env.iter().flatten().any(|variable| variable.name == name)
            || ALWAYS.contains(&name)
            // Kubelets set NAME_SERVICE_HOST and the like for each Service; the controller and the start script set others.
            || name.contains("_SERVICE_")
            || script().any(|text| text.contains(&format!("{name}=")))
    };
    let mut all = Vec::new();
    for word in words.all.iter().filter(|word| !word.is_exact) {
        for name in names(&word.text).filter(|name| !is_set(name)) {
            all.push(Advice::warning(
                word.path.clone(),
                "VariableNotSet",
                format!(
                    "has the variable {name}, which {path}.env does not set: vLLM gets nothing in its place"
                ),
                "set it there, unless the image does, or write the value",
            ));
        }
    }
    all
}

/// Returns the names in `$NAME`, `${NAME}` and `$(NAME)`. Others have a default, or are no names of variables.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let (open, close) = match rest.chars().next()? {
            '{' => (1, Some('}')),
            '(' => (1, Some(')')),
            _ => (0, None),
        };
        let rest = &rest[open..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        // Kubelets replace `$(NAME)` if the container has this variable. Otherwise a shell runs it as a command, such as `$(nproc)`.
        let is_command = close == Some(')') && name.contains(|c: char| c.is_ascii_lowercase());
        (is_name && !is_command && close.is_none_or(|close| after.starts_with(close))).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_of_variables_are_told_from_other_expansions() {
        for (text, expected) in [
            ("--a=$B-${C}/$(D)", &["B", "C", "D"][..]),
            ("${B:-1} $(date +%s) $1 $@ $? a$", &[]),
            ("`date`", &[]),
            ("$(hostname) $(( $(nproc) * 2 )) $((4 * $CORES))", &["CORES"]),
        ] {
            assert_eq!(names(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
