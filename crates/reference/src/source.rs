//! Reading constants and fields, with their documentation, from source text as rustfmt writes it.

/// A constant, a field, or whatever else has a name and documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its name on the wire: the value of a constant, the serialized name of a field.
    pub(crate) name: String,
    /// Its documentation, in one line.
    pub(crate) doc: String,
    /// Its type as Rust writes it; empty for constants.
    pub(crate) kind: String,
}

/// Every `pub const NAME: &str = "value";` of a text, with its documentation.
pub(crate) fn constants(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut doc = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(sentence) = line.strip_prefix("///") {
            doc.push(sentence.trim());
            continue;
        }
        let value = line
            .strip_prefix("pub const ")
            .and_then(|rest| rest.split_once(": &str = \""))
            .and_then(|(_, rest)| rest.strip_suffix("\";"));
        if let Some(value) = value {
            items.push(Item { name: value.to_owned(), doc: doc.join(" "), kind: String::new() });
        }
        doc.clear();
    }
    items
}

/// The part of a text between two lines: a module, say.
pub(crate) fn block<'a>(text: &'a str, first: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(first) else { return "" };
    rest.split_once("\n}").map_or(rest, |(block, _)| block)
}

/// The fields of a struct, by the names that serde gives them under `rename_all = "camelCase"`, unless one is renamed.
pub(crate) fn fields(text: &str, name: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut doc, mut renamed) = (Vec::new(), None);
    for line in block(text, &format!("struct {name} {{\n")).lines().map(str::trim) {
        if let Some(sentence) = line.strip_prefix("///") {
            doc.push(sentence.trim());
        } else if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
            renamed = rest.split_once('"').map(|(name, _)| name.to_owned());
        } else if let Some((field, kind)) = line.trim_end_matches(',').split_once(": ") {
            let field = field.rsplit(' ').next().unwrap_or(field);
            let name = renamed.take().unwrap_or_else(|| camel_case(field));
            items.push(Item { name, doc: doc.join(" "), kind: kind.to_owned() });
            doc.clear();
        }
    }
    items
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_fields_have_their_documentation_and_names() {
        let text = "/// First,\n/// second.\npub const A: &str = \"a/b\";\npub const N: usize = 1;\n\n#[derive(X)]\nstruct S {\n    \
                    /// Text.\n    cpu_request: String,\n    #[serde(rename = \"LLM\")]\n    other: Option<bool>,\n}\n";
        let item = |name: &str, doc: &str, kind: &str| Item {
            name: name.into(),
            doc: doc.into(),
            kind: kind.into(),
        };
        assert_eq!(constants(text), [item("a/b", "First, second.", "")]);
        assert_eq!(
            fields(text, "S"),
            [item("cpuRequest", "Text.", "String"), item("LLM", "", "Option<bool>")]
        );
    }
}
