//! The findings of a validation, and the advice of which many of them are made.

use longboat_key::Namespace;
use longboat_manifest::{Document, ManifestError, Position, Unapplied};
use serde::Serialize;

/// The reason of a finding about an object whose kind is unknown.
pub const NOT_CHECKED: &str = "NotChecked";
/// Why `InferenceService`, with which people confuse our kind, is unknown.
pub const INFERENCE_SERVICE: &str = "Longboat does not run InferenceService, KServe's API for other models; a service of a language \
                                     model is a LLMInferenceService";

/// The longest text of a finding that is printed whole, in characters. Without long values, none is half as long.
const MAX_TEXT_CHARS: usize = 2000;

/// One finding about the manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// File, or `-` for standard input.
    pub file: String,
    /// Counts from 1; `None` if nothing was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Counts from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Its severity.
    pub severity: Severity,
    /// The object of the finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The path of the field; empty for the object as a whole.
    pub path: String,
    /// The HTTP status with which a server would refuse the object; `None` if no server would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// `FieldValueInvalid`, `UnknownField`, `ConfigNotFound`, …
    pub reason: String,
    /// What is wrong, in the words of the server if there are some.
    pub message: String,
    /// Advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The step that would report it.
    pub source: Source,
}

/// Advice about a composed service. It becomes a finding where a manifest has the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// The path of the field in the composed service, with names in place of positions where lists merge by name.
    pub(crate) path: String,
    /// An error if the service cannot work at all.
    pub(crate) severity: Severity,
    /// Its reason.
    pub(crate) reason: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object is refused, or cannot work.
    Error,
    /// The object is accepted, but may not do what it says.
    Warning,
    /// Something was not checked, or depends on what the manifests do not say.
    Note,
}

/// The step that would report a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Reading the files.
    Manifest,
    /// The API server: types, fields, bounds and names.
    Schema,
    /// The API server: rules of the CRD.
    Cel,
    /// The webhooks.
    Webhook,
    /// The controller, during composition.
    Compose,
    /// The controller, during planning.
    Plan,
}

/// The identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// `group/version` or `v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name, or the prefix of a generated name.
    pub name: String,
}

// === impl Finding ===

impl Finding {
    /// Creates an error about a field of an object. Its position is that of the field's name, or of its nearest parent.
    pub(crate) fn at(document: &Document, name: &ObjectName, path: &str, source: Source) -> Self {
        Self {
            object: Some(name.clone()),
            path: path.to_owned(),
            ..Self::of_file(document.source.to_string(), Some(document.locate(path).key), source)
        }
    }

    /// Creates an error without words about a file.
    pub(crate) fn of_file(file: String, position: Option<Position>, source: Source) -> Self {
        Self {
            file,
            line: position.map(|Position { line, .. }| line),
            column: position.map(|Position { column, .. }| column),
            severity: Severity::Error,
            object: None,
            path: String::new(),
            code: None,
            reason: String::new(),
            message: String::new(),
            hint: None,
            source,
        }
    }

    /// Says what is wrong.
    pub(crate) fn error(self, reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), ..self }
    }

    /// Like [`error`](Self::error), of something that is accepted.
    pub(crate) fn warning(self, reason: &str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..self.error(reason, message) }
    }

    /// Like [`error`](Self::error), of something that was not checked.
    pub(crate) fn note(self, reason: &str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..self.error(reason, message) }
    }

    /// Says what advice about the field says.
    pub(crate) fn with_advice(self, advice: Advice) -> Self {
        let Advice { severity, reason, message, hint, .. } = advice;
        Self { severity, hint, ..self.error(reason, message) }
    }

    /// Adds what to do.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Moves the finding to a field of a document.
    pub(crate) fn move_to(&mut self, document: &Document, path: &str) {
        let Position { line, column } = document.locate(path).key;
        self.file = document.source.to_string();
        (self.line, self.column) = (Some(line), Some(column));
        path.clone_into(&mut self.path);
    }

    /// Creates an error about an input that cannot be read.
    pub(crate) fn unreadable(error: &ManifestError) -> Self {
        let (file, position) = error.place();
        Self::of_file(file.unwrap_or_default(), position, Source::Manifest)
            .error("Unreadable", error.problem())
    }

    /// Creates a note about a kustomization in a folder whose files were read without it.
    pub fn unapplied(kustomization: &Unapplied) -> Self {
        let what = "this kustomization is not applied: the files beside it are read as they are";
        let finding = Self::of_file(kustomization.file.clone(), None, Source::Manifest);
        finding.note("NotApplied", what).with_hint(&kustomization.hint)
    }

    /// Formats the finding like compilers do: `file:line:column: error: path: message`.
    pub fn line(&self) -> String {
        format!("{}{}: {}", self.place(), self.severity.name(), self.what())
    }

    /// Like [`Self::line`], without the severity.
    pub fn sentence(&self) -> String {
        format!("{}{}", self.place(), self.what())
    }

    fn place(&self) -> String {
        let mut text = self.file.clone();
        for number in [self.line, self.column].into_iter().flatten() {
            text = format!("{text}:{number}");
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text
    }

    pub(crate) fn what(&self) -> String {
        let path = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        shortened(&format!("{path}{}", self.message))
    }
}

/// Returns the text of a finding, or, if a long value is in it, its beginning and its end, with the length of the rest.
pub fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_TEXT_CHARS {
        return text.to_owned();
    }
    let half = MAX_TEXT_CHARS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}… ({} more characters) …{tail}", count - 2 * half)
}

// === impl Advice ===

impl Advice {
    pub(crate) fn warning(
        path: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, reason, message, hint) }
    }

    /// Like [`warning`](Self::warning), of something that is wrong on some clusters only.
    pub(crate) fn note(
        path: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Note, ..Self::error(path, reason, message, hint) }
    }

    pub(crate) fn error(
        path: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            severity: Severity::Error,
            reason,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Formats the advice as one sentence.
    pub(crate) fn sentence(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}: {} {}{hint}", self.reason, self.path, self.message)
    }
}

// === impl Severity ===

impl Severity {
    /// The printed form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

// === impl ObjectName ===

impl ObjectName {
    pub(crate) fn of(document: &Document, namespace: Namespace<&str>) -> Self {
        let name = match document.name() {
            "" => document.text("/metadata/generateName"),
            name => name,
        };
        Self {
            api_version: document.api_version().to_owned(),
            kind: document.kind().to_owned(),
            namespace: namespace.into(),
            name: name.to_owned(),
        }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() {
            write!(formatter, "{kind} {name}")
        } else {
            write!(formatter, "{kind} {namespace}/{name}")
        }
    }
}
