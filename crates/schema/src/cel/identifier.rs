//! Names of fields in expressions.

use std::borrow::Cow;

/// The CEL identifier for a field whose name is no identifier: `__word__` for a reserved word.
fn escaped(name: &str) -> Cow<'_, str> {
    if is_reserved(name) {
        return format!("__{name}__").into();
    }
    let is_special = |byte| matches!(byte, b'_' | b'.' | b'-' | b'/');
    if name.bytes().any(is_special) && (name.contains("__") || name.contains(['.', '-', '/'])) {
        return name
            .replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
            .into();
    }
    name.into()
}

/// The CEL identifiers for a field. Since Kubernetes 1.31, an expression may also name a field as it is called if that is a reserved
/// word, because `namespace` is one.
pub(crate) fn identifiers(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    [Some(escaped(name)), is_reserved(name).then_some(name.into())].into_iter().flatten()
}

/// Whether a word is reserved in CEL.
fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "true"
            | "false"
            | "null"
            | "in"
            | "as"
            | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}
