//! Reading manifests: files, folders and standard input, one or many YAML or JSON documents each.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde_json::Value;

/// One object as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// File, or `-` for standard input.
    pub source: String,
    /// Line in the file at which the document starts, from 1.
    pub line: usize,
    /// The text of the document.
    pub text: String,
    /// The object.
    pub object: Value,
}

/// Manifests that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file or folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// As given.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// The text is no YAML.
    #[error("{source_name}:{line}:{column}: {message}")]
    Syntax {
        /// File, or `-`.
        source_name: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The parser's explanation.
        message: String,
    },
    /// A document is no Kubernetes object.
    #[error("{source_name}:{line}: {message}")]
    NotAnObject {
        /// File, or `-`.
        source_name: String,
        /// Where the document starts, from 1.
        line: usize,
        /// What is missing.
        message: String,
    },
    /// There is nothing in them.
    #[error("no object in {0}")]
    Empty(String),
}

/// Reads all inputs in order; in folders the `.yaml`, `.yml` and `.json` files by name.
pub fn read(inputs: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for input in inputs {
        let failed = |source| ManifestError::Read { path: input.clone(), source };
        if input.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(failed)?;
            documents.extend(parse("-", &text)?);
        } else if input.is_dir() {
            let mut files = BTreeSet::new();
            for entry in std::fs::read_dir(input).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                let extension = path.extension().and_then(|extension| extension.to_str());
                if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
                    files.insert(path);
                }
            }
            for file in files {
                documents.extend(read_file(&file)?);
            }
        } else {
            documents.extend(read_file(input)?);
        }
    }
    if documents.is_empty() {
        let names: Vec<_> = inputs.iter().map(|input| format!("`{}`", input.display())).collect();
        return Err(ManifestError::Empty(names.join(", ")));
    }
    Ok(documents)
}

fn read_file(path: &Path) -> Result<Vec<Document>, ManifestError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ManifestError::Read { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &text)
}

/// Reads one text. Lists (`kind: List`) are taken apart.
pub fn parse(source: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for (line, text) in split(text) {
        let value: Value = serde_saphyr::from_str(&text).map_err(|error| {
            let at = error.location();
            let number = |value: u64| usize::try_from(value).unwrap_or(1);
            ManifestError::Syntax {
                source_name: source.to_owned(),
                line: line + at.map_or(1, |at| number(at.line())) - 1,
                column: at.map_or(1, |at| number(at.column())),
                message: without_place(&error.without_snippet().to_string()),
            }
        })?;
        if value.is_null() {
            continue;
        }
        let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let objects = match value.get("items") {
            Some(Value::Array(items)) if is_list => items.clone(),
            _ => vec![value],
        };
        for object in objects {
            check(source, line, &object)?;
            documents.push(Document { source: source.to_owned(), line, text: text.clone(), object });
        }
    }
    Ok(documents)
}

fn check(source: &str, line: usize, object: &Value) -> Result<(), ManifestError> {
    let missing = |message: &str| ManifestError::NotAnObject {
        source_name: source.to_owned(),
        line,
        message: message.to_owned(),
    };
    if !object.is_object() {
        return Err(missing("expected a Kubernetes object (a mapping with apiVersion, kind and metadata)"));
    }
    for field in ["apiVersion", "kind"] {
        if object[field].as_str().is_none_or(str::is_empty) {
            return Err(missing(&format!("the object has no `{field}`")));
        }
    }
    let name = &object["metadata"]["name"];
    let generated = &object["metadata"]["generateName"];
    if [name, generated].iter().all(|name| name.as_str().is_none_or(str::is_empty)) {
        return Err(missing("the object has no `metadata.name`"));
    }
    Ok(())
}

/// The documents of a stream with the lines at which they start. JSON files are one document.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(1, String::new())];
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let separator = line.trim_end();
        if separator == "---" || separator.starts_with("--- ") {
            // What follows the dashes on their line belongs to the document.
            let rest = line.get(3..).unwrap_or_default();
            documents.push((index + 1, format!("   {rest}")));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
        }
    }
    let has_content =
        |text: &str| text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    documents.into_iter().filter(|(_, text)| has_content(text)).collect()
}

/// The first line, without the place that it ends with: that counts from the start of the document, not of the file.
fn without_place(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_documents_and_lists_are_taken_apart_with_their_lines() {
        let text = "# only a comment\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\n\
                    items:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n";
        let documents = parse("f.yaml", text).unwrap();
        let found: Vec<_> =
            documents.iter().map(|d| (d.line, d.object["metadata"]["name"].as_str().unwrap())).collect();
        assert_eq!(found, [(2, "a"), (6, "b"), (6, "c")]);
    }

    #[test]
    fn mistakes_name_their_place() {
        let error = parse("f.yaml", "apiVersion: v1\n---\nkind: X\n  bad: [\n").unwrap_err();
        assert!(error.to_string().starts_with("f.yaml:"), "{error}");
        let ManifestError::NotAnObject { line, .. } = &error else {
            panic!("{error:?}: the first document has no kind")
        };
        assert_eq!(*line, 1);
        let error = parse("f.yaml", "---\napiVersion: v1\nkind: X\n  bad: [\n").unwrap_err();
        assert!(matches!(&error, ManifestError::Syntax { line: 4..=5, .. }), "{error:?}");
        let error = parse("f.yaml", "- 1\n").unwrap_err();
        assert!(error.to_string().contains("expected a Kubernetes object"), "{error}");
        assert!(
            parse("f.yaml", "apiVersion: v1\nkind: Pod\n").unwrap_err().to_string().contains("metadata.name")
        );
    }

    #[test]
    fn an_empty_input_is_said_to_be_empty() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(&[dir.path().to_owned()]).unwrap_err();
        assert!(matches!(error, ManifestError::Empty(_)));
        assert!(matches!(read(&["/no/such/file.yaml".into()]), Err(ManifestError::Read { .. })));
    }
}
