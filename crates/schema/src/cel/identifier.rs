//! Names of fields in expressions.

use std::borrow::Cow;

/// The CEL identifier for a field.
pub(super) fn escaped(name: &str) -> Cow<'_, str> {
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

/// Whether a word is reserved in CEL. A field with such a name is written `__word__`.
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
