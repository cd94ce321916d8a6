//! Parses texts into documents.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{
    Document, ManifestError, Position,
    document::items,
    limits::{MAX_ALIASED, MAX_BYTES, MAX_DEPTH, MAX_DOCUMENTS, MAX_NODES, options},
    node::{Node, Parts, Read},
    syntax::explain,
};

/// The result of reading inputs.
#[derive(Debug, Default)]
pub struct ParseOutput {
    /// The objects, in order.
    pub documents: Vec<Document>,
    /// Documents, files and folders that could not be read, in order.
    pub problems: Vec<ManifestError>,
    /// Kustomizations in the folders whose files were read without them, in order.
    pub unapplied: Vec<Unapplied>,
}

/// A kustomization beside files that were read as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapplied {
    /// Its path.
    pub file: String,
    /// How to read what it makes.
    pub hint: String,
}

/// Parses a text. `source` is its name in errors.
///
/// # Errors
/// The first problem of the text.
pub fn parse(source: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    parse_all(source, text).into_result()
}

/// Parses a text. If a document is invalid, continues with the next one.
pub fn parse_all(source: &str, text: &str) -> ParseOutput {
    let mut reading = ParseOutput::default();
    let too_much = |what, most| ManifestError::TooMuch { source_name: source.to_owned(), what, most };
    if text.len() > MAX_BYTES {
        reading.problems.push(too_much("too many bytes", MAX_BYTES));
        return reading;
    }
    let name: Arc<str> = source.into();
    // Editors on Windows may write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let input: Arc<str> = text.into();
    let chunks = split(text);
    let (chunks, rest) = chunks.split_at(chunks.len().min(MAX_DOCUMENTS));
    // Each document is parsed alone, so a mistake in one hides nothing of the others.
    let documents = crate::parallel::map(chunks, |chunk| chunk.documents(&name, &input));
    // A list is one chunk with many objects, and each that is wrong is a problem of its own.
    let mut documents = documents.into_iter().flatten();
    for document in documents.by_ref().take(MAX_DOCUMENTS) {
        match document {
            Ok(document) => reading.documents.push(document),
            Err(problem) => reading.problems.push(problem),
        }
    }
    if !rest.is_empty() || documents.next().is_some() {
        reading.problems.push(too_much("too many documents", MAX_DOCUMENTS));
    }
    reading
}

fn check(document: &Document) -> Result<(), ManifestError> {
    let missing = |message: &str| {
        Err(ManifestError::Malformed {
            source_name: document.source.to_string(),
            position: document.start(),
            message: message.to_owned(),
        })
    };
    if !document.object.is_object() {
        return missing("expected a Kubernetes object (a mapping with apiVersion, kind and metadata)");
    }
    // A line of dashes that is one too many cuts an object in two, and the second half has neither.
    if document.api_version().is_empty() && document.kind().is_empty() && document.start().line > 1 {
        return missing(
            "the object has no `apiVersion`: `---` begins a new object, so remove it if these lines belong to the one before",
        );
    }
    if document.api_version().is_empty() {
        return missing("the object has no `apiVersion`");
    }
    if document.kind().is_empty() {
        return missing("the object has no `kind`");
    }
    if is_picker_config(document) {
        return missing(
            "an EndpointPickerConfig is the configuration of a picker, and no object of a cluster: put it into \
             `spec.router.scheduler.config.inline` of a service, or as text into a ConfigMap that \
             `spec.router.scheduler.config.ref` names",
        );
    }
    for field in ["name", "namespace", "generateName"] {
        check_text(document, field)?;
    }
    if document.name().is_empty() && document.text("/metadata/generateName").is_empty() {
        return missing("the object has no `metadata.name`");
    }
    Ok(())
}

/// Whether a document is what a picker reads from its own file.
fn is_picker_config(document: &Document) -> bool {
    document.kind() == "EndpointPickerConfig"
        && ["llm-d.ai", "inference.networking.x-k8s.io"].contains(&document.group())
}

/// Checks that a name or namespace is a string. YAML parses some words as other types, for which kubectl refuses the object.
fn check_text(document: &Document, field: &str) -> Result<(), ManifestError> {
    let found = match &document.object["metadata"][field] {
        Value::Null | Value::String(_) => return Ok(()),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    };
    Err(ManifestError::Malformed {
        source_name: document.source.to_string(),
        position: document.locate(&format!("metadata.{field}")).value,
        message: format!(
            "expected a string in `metadata.{field}`, found {found}: YAML does not read unquoted y, n, \
             yes, no, on, off, true, false and numbers as strings, so put the name in quotes"
        ),
    })
}

/// The text of one document, and its position in its input.
struct Chunk<'a> {
    text: &'a str,
    /// The number of lines before it.
    lines: u32,
    /// The number of characters before it in its first line.
    columns: u32,
}

/// Splits a stream into documents at lines that start with three dashes, and JSON at its beginning after each object, like kubectl.
fn split(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let mut open = Chunk { text: "", lines: 0, columns: 0 };
    let (mut start, mut end) = (0, 0);
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        let bare = line.trim_end();
        if bare == "---" || bare.starts_with("--- ") {
            chunks.push(Chunk { text: &text[start..end], ..open });
            // The text after the dashes in their line belongs to the document.
            open = Chunk { text: "", lines: number, columns: 3 };
            start = end + 3;
        }
        end += line.len();
    }
    chunks.push(Chunk { text: &text[start..], ..open });
    chunks.retain(Chunk::has_content);
    if chunks.first().is_some_and(|first| first.text.trim_start().starts_with('{')) {
        let objects = chunks[0].json_objects();
        chunks.splice(..1, objects);
    }
    chunks
}

// === impl Chunk ===

impl Chunk<'_> {
    fn has_content(&self) -> bool {
        self.text.lines().any(|line| {
            let line = line.trim();
            // Directives and the end marker of a document are not content either.
            !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
        })
    }

    /// Splits the chunk after each JSON object that another one follows. The last part is whatever remains, which may be no JSON.
    fn json_objects(&self) -> Vec<Self> {
        let mut objects = Vec::new();
        let mut open = Self { ..*self };
        let mut begin = 0;
        let mut values = serde_json::Deserializer::from_str(self.text).into_iter::<IgnoredAny>();
        // More objects than this are refused anyway.
        while objects.len() <= MAX_DOCUMENTS
            && let Some(Ok(_)) = values.next()
        {
            let end = values.byte_offset();
            if !self.text[end..].trim_start().starts_with('{') {
                break;
            }
            let text = &self.text[begin..end];
            objects.push(Chunk { text, ..open });
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let line = text.rsplit('\n').next().unwrap_or_default();
            let before = if line.len() == text.len() { open.columns } else { 0 };
            open.columns = before + number(line.chars().count());
            open.lines += number(text.matches('\n').count());
            begin = end;
        }
        objects.push(Chunk { text: &self.text[begin..], ..open });
        objects
    }

    fn documents(&self, source: &Arc<str>, input: &Arc<str>) -> Vec<Result<Document, ManifestError>> {
        let document = |(object, node)| {
            let document = Document::new(Arc::clone(source), Arc::clone(input), object, node);
            check(&document).map(|()| document)
        };
        match self.read(source) {
            Ok(Some(read)) => items(read.value, read.node).into_iter().map(document).collect(),
            Ok(None) => Vec::new(),
            Err(problem) => vec![Err(problem)],
        }
    }

    fn read(&self, source: &str) -> Result<Option<Read>, ManifestError> {
        let mut read: Read = serde_saphyr::from_str_with_options(self.text, options()).map_err(|error| {
            let (at, message) = yaml_error(&error);
            let (at, message) = explain(self.text, at, message);
            ManifestError::Malformed { source_name: source.to_owned(), position: self.place(at), message }
        })?;
        if read.value.is_null() {
            return Ok(None);
        }
        if self.lines > 0 || self.columns > 0 {
            self.move_places(&mut read.node);
        }
        Ok(Some(read))
    }

    /// Converts a position in the chunk to the position in its input.
    fn place(&self, at: Position) -> Position {
        // Only the first line of a chunk may begin inside a line of the input.
        let columns = if at.line == 1 { self.columns } else { 0 };
        Position { line: at.line + self.lines, column: at.column + columns }
    }

    fn move_places(&self, node: &mut Node) {
        node.at = self.place(node.at);
        match &mut node.parts {
            Parts::None => {}
            Parts::Fields(fields) => {
                for (_, at, node) in fields {
                    *at = self.place(*at);
                    self.move_places(node);
                }
            }
            Parts::Items(items) => items.iter_mut().for_each(|node| self.move_places(node)),
        }
    }
}

// === impl ParseOutput ===

impl ParseOutput {
    /// Returns the documents, or the first problem.
    ///
    /// # Errors
    /// The first problem.
    pub fn into_result(self) -> Result<Vec<Document>, ManifestError> {
        match self.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(self.documents),
        }
    }
}

/// Returns where YAML cannot be read, and why.
pub fn yaml_error(error: &serde_saphyr::Error) -> (Position, String) {
    let at = error.location().map_or(Position::START, Position::of_parser);
    (at, in_our_words(without_place(&error.without_snippet().to_string())))
}

/// Rewords messages of the parser about its own settings for users.
fn in_our_words(message: String) -> String {
    if let Some(key) =
        message.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(", set ").next())
    {
        return format!("duplicate key `{key}`: remove one of the two");
    }
    if message.starts_with("cannot deserialize null into string") {
        return "expected a key before `:`".to_owned();
    }
    if message.starts_with("alias replay limit exceeded") {
        return format!(
            "aliases (`*name`) add more than {MAX_ALIASED} nodes to this document: write the content \
             without aliases"
        );
    }
    if message.starts_with("recursive references require") {
        return "the alias stands inside of the node that it repeats: write the content without aliases"
            .to_owned();
    }
    if let Some(number) =
        message.strip_prefix("non-finite float ").and_then(|rest| rest.split(" rejected").next())
    {
        return format!(
            "{number} is a number that JSON, and so Kubernetes, cannot hold: put it in quotes, or write another"
        );
    }
    // The parser names its limits by identifiers in its code.
    if message.starts_with("budget breached") || message.starts_with("recursion limit") {
        return format!(
            "this document is too large: expected at most {MAX_NODES} keys and values, in at most \
             {MAX_DEPTH} levels"
        );
    }
    message
}

/// Returns the first line, without the position at its start or end, because that position counts from the start of the
/// document, not of the file.
fn without_place(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line = match line.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") && place.contains(" column ") => rest,
        _ => line,
    };
    line.split(" at line ").next().unwrap_or_default().to_owned()
}
