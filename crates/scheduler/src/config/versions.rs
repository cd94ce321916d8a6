//! The versions of the document. An older document is converted to the newest version before it is read.

pub(super) use longboat_api::picker_config::VERSION as NEWEST;
use longboat_api::picker_config::{FORMER_VERSION as FORMER, OLDEST_VERSION as FORMER_GROUP};
use serde_json::{Map, Value};

use crate::error::ConfigError;

/// The kind of the document.
pub(super) const KIND: &str = "EndpointPickerConfig";

/// A field that moved in the newest version.
#[derive(Debug, PartialEq, Eq)]
struct Move {
    from: &'static str,
    to: &'static str,
    /// The field below that names a plugin, if the moved field is an object with nothing else. Messages name it.
    reference: &'static str,
    /// Whether llm-d's picker 0.11 refuses the former place in every version of the document.
    is_gone: bool,
}

const MOVES: [Move; 7] = [
    Move::of_plugin("saturationDetector", "flowControl.saturationDetector"),
    Move::of_plugin("parser", "requestHandler.parsers[0]"),
    Move::of_text("dataLayer.discovery.pluginRef", "dataLayer.discovery.endpoints.pluginRef"),
    Move::of_plugin("dataLayer.peerDiscovery", "dataLayer.discovery.peers"),
    Move::of_text("dataLayer.crossReplicaSyncerPluginRef", "dataLayer.crossReplica.syncerPluginRef"),
    Move::of_text("dataLayer.crossReplicaSyncInterval", "dataLayer.crossReplica.syncInterval"),
    Move::of_text("dataLayer.crossReplicaPublishTimeout", "dataLayer.crossReplica.publishTimeout"),
];

/// The only field of the newest version that the one before does not have.
const NEW_FIELD: (&str, &str) = (
    "dataLayer.crossReplica",
    "crossReplicaSyncerPluginRef, crossReplicaSyncInterval and crossReplicaPublishTimeout of dataLayer",
);

/// The version in which a document is written, and its fields that moved since then.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenVersion {
    /// Empty for the document without text.
    pub(super) api_version: String,
    /// The fields at a former place, and whether each is used: one whose new place is set too is not.
    moved: Vec<(&'static Move, bool)>,
}

/// A release of llm-d's picker, which knows fewer documents than this picker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmdRelease {
    /// Before 0.11: it does not know the newest version of the document.
    Before011,
    /// 0.11 or later: former places are gone.
    Since011,
}

impl Move {
    /// An object that names a plugin. The picker 0.11 refuses each of them.
    const fn of_plugin(from: &'static str, to: &'static str) -> Self {
        Self { from, to, reference: ".pluginRef", is_gone: true }
    }

    const fn of_text(from: &'static str, to: &'static str) -> Self {
        Self { from, to, reference: "", is_gone: false }
    }

    /// Where the newest version has the field, for messages.
    fn target(&self) -> String {
        format!("{}{}", self.to, self.reference)
    }
}

impl WrittenVersion {
    /// Converts a document to the newest version. The caller has checked the version.
    ///
    /// # Errors
    /// A field that the document's version does not have, while another version has it.
    pub(super) fn convert(api_version: &str, document: &mut Value) -> Result<Self, ConfigError> {
        let misplaced = |path: &str, now: &str| ConfigError::Misplaced {
            path: path.to_owned(),
            version: api_version.to_owned(),
            now: now.to_owned(),
        };
        let mut written = Self { api_version: api_version.to_owned(), moved: Vec::new() };
        if api_version == NEWEST {
            let former = MOVES.iter().find(|moved| get(document, moved.from).is_some());
            return match former {
                Some(moved) => Err(misplaced(moved.from, &moved.target())),
                None => Ok(written),
            };
        }
        if get(document, NEW_FIELD.0).is_some() {
            return Err(misplaced(NEW_FIELD.0, NEW_FIELD.1));
        }
        for moved in &MOVES {
            if let Some(value) = take(document, moved.from).filter(|value| !value.is_null()) {
                written.moved.push((moved, put(document, moved.to, value)));
            }
        }
        Ok(written)
    }

    /// The field that moved to this path, if the author wrote its former path.
    fn move_to(&self, path: &str) -> Option<&'static Move> {
        let used = self.moved.iter().filter(|(_, is_used)| *is_used);
        used.map(|(moved, _)| *moved).find(|moved| path.starts_with(moved.to))
    }

    /// The path of a field as the author wrote it.
    pub(super) fn path(&self, path: String) -> String {
        match self.move_to(&path) {
            Some(moved) => path.replacen(moved.to, moved.from, 1),
            None => path,
        }
    }

    /// Names the fields of an error as the author wrote them.
    pub(super) fn rename(&self, error: ConfigError) -> ConfigError {
        match error {
            ConfigError::Shape { path: place, message } => {
                let message = match self.move_to(&place) {
                    Some(moved) => message.replacen(moved.to, moved.from, 1),
                    None => message,
                };
                ConfigError::Shape { path: self.path(place), message }
            }
            ConfigError::Unsupported { path: place, value, needs } => {
                ConfigError::Unsupported { path: self.path(place), value, needs }
            }
            ConfigError::Reference { from, reference, expected, hint } => {
                ConfigError::Reference { from: self.path(from), reference, expected, hint }
            }
            other => other,
        }
    }

    /// Warnings about a version and fields that are to be replaced.
    pub(super) fn deprecations(&self) -> Vec<String> {
        if self.api_version.is_empty() || self.api_version == NEWEST {
            return Vec::new();
        }
        let version = format!(
            "DEPRECATION: apiVersion {}/{} is deprecated, and later releases will not read it; write {NEWEST}",
            self.api_version, KIND
        );
        let moved = self.moved.iter().map(|(moved, is_used)| {
            let (from, to) = (moved.from, moved.target());
            let state = if moved.is_gone { "is gone in llm-d's picker 0.11" } else { "is deprecated" };
            let effect = if *is_used { "" } else { "has no effect beside the new field, and " };
            format!("DEPRECATION: {from} {effect}{state}; write {to} of {NEWEST}")
        });
        std::iter::once(version).chain(moved).collect()
    }

    /// Returns why a picker of llm-d does not start with a document that this picker reads.
    pub(super) fn refusal_by(&self, release: LlmdRelease) -> Option<ConfigError> {
        let unknown = || ConfigError::Kind {
            api_version: self.api_version.clone(),
            kind: KIND.to_owned(),
            expected: match release {
                LlmdRelease::Before011 => FORMER,
                LlmdRelease::Since011 => NEWEST,
            },
        };
        match (release, self.api_version.as_str()) {
            (LlmdRelease::Before011, NEWEST) | (LlmdRelease::Since011, FORMER_GROUP) => Some(unknown()),
            (LlmdRelease::Before011, _) => None,
            (LlmdRelease::Since011, _) => {
                self.moved.iter().find(|(moved, _)| moved.is_gone).map(|(moved, _)| ConfigError::Misplaced {
                    path: moved.from.to_owned(),
                    version: format!("{} since llm-d's picker 0.11", self.api_version),
                    now: moved.target(),
                })
            }
        }
    }
}

/// Whether documents of this version are read.
pub(super) fn is_known(api_version: &str) -> bool {
    [NEWEST, FORMER, FORMER_GROUP].contains(&api_version)
}

fn get<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(document, |value, field| value.get(field))
}

fn take(document: &mut Value, path: &str) -> Option<Value> {
    let (above, field) = path.rsplit_once('.').map_or((None, path), |(above, field)| (Some(above), field));
    let parent = match above {
        None => document,
        Some(above) => above.split('.').try_fold(document, |value, field| value.get_mut(field))?,
    };
    parent.as_object_mut()?.remove(field)
}

/// Sets a field, unless it is set. A path that ends with `[0]` is the first entry of an empty list. Returns whether the field
/// was set by this.
fn put(document: &mut Value, path: &str, value: Value) -> bool {
    let (path, value) = match path.strip_suffix("[0]") {
        Some(list) => (list, Value::Array(vec![value])),
        None => (path, value),
    };
    let mut place = document;
    for field in path.split('.') {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        // What is no object is refused when the document is read.
        let Some(fields) = place.as_object_mut() else { return false };
        place = fields.entry(field).or_insert(Value::Null);
    }
    let is_unset = place.is_null() || place.as_array().is_some_and(Vec::is_empty);
    if is_unset {
        *place = value;
    }
    is_unset
}
