//! What plugins, their parameters, settings, reasons and annotations mean, in sentences.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// The sentences of `sentences.yaml`.
pub(crate) static SENTENCES: LazyLock<Sentences> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("sentences.yaml")).expect("tests read sentences.yaml")
});

/// All sentences.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sentences {
    /// Parameters that several plugins have.
    pub(crate) shared: BTreeMap<String, String>,
    /// Plugins by type.
    pub(crate) plugins: BTreeMap<String, Description>,
    /// Settings by path.
    pub(crate) settings: BTreeMap<String, String>,
    /// What to do about the reasons of conditions.
    pub(crate) reasons: BTreeMap<String, String>,
    /// Annotations whose keys other files define.
    pub(crate) annotations: Vec<Annotation>,
}

/// An annotation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Annotation {
    /// The file that defines its key, below `crates`.
    pub(crate) file: String,
    pub(crate) key: String,
    /// What has it.
    pub(crate) object: String,
    pub(crate) meaning: String,
}

/// The sentences about one plugin type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// Its group, if the name does not end with a group's suffix.
    #[serde(default)]
    pub(crate) group: String,
    /// What it does.
    pub(crate) does: String,
    /// Its parameters and their effects. A shared one has no sentence here.
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Option<String>>,
}
