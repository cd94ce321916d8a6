//! What newer versions of KServe have and this version does not: one list for every place that reports an unknown field or an
//! annotation without effect. A row leaves when the field comes.

use std::collections::BTreeMap;

/// A field or annotation of a newer KServe.
#[derive(Debug, PartialEq, Eq)]
pub struct NewerField {
    /// Path of the field, or beginning of the annotation's key.
    pub name: &'static str,
    /// Which KServe has it.
    pub version: &'static str,
    /// What to do instead.
    pub advice: &'static str,
}

const FIELDS: [NewerField; 3] = [
    NewerField {
        name: "spec.encode",
        version: "a proposal for KServe has it (kserve#6119)",
        advice: "remove it, and run encoders as a Deployment of your own: docs/guides/prefill-decode.md#images-encoded-apart",
    },
    NewerField {
        name: "spec.storageInitializer.storageContainerName",
        version: "a branch of KServe after 0.21 has it",
        advice: "remove it, and set image and variables of the init container `storage-initializer` in `spec.template`; for a \
                 scheme of your own, set `spec.storageInitializer.enabled: false` and download to /mnt/models yourself",
    },
    NewerField {
        name: "spec.trustRemoteCode",
        version: "drafts of KServe 0.21 had it, and the release does not",
        advice: "add `--trust-remote-code` to the arguments of container `main`",
    },
];

const ANNOTATIONS: [NewerField; 2] = [
    NewerField {
        name: "serving.kserve.io/exp-modelexpress-",
        version: "a branch of KServe after 0.21 has it",
        advice: "remove it: models are downloaded as `spec.model.uri` says",
    },
    NewerField {
        name: "serving.kserve.io/kernelcache-",
        version: "KServe 0.21 has it for InferenceServices",
        advice: "remove it",
    },
];

/// Returns the row of a field that is not in the schema.
pub fn field(path: &str) -> Option<&'static NewerField> {
    FIELDS.iter().find(|row| row.name == path.trim_start_matches('.'))
}

/// Returns a warning for each annotation at `place` that only newer versions read.
pub(crate) fn warnings<'a>(
    place: &'static str,
    annotations: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = String> + 'a {
    annotations.keys().filter_map(move |key| {
        let row = ANNOTATIONS.iter().find(|row| key.starts_with(row.name))?;
        Some(format!("{place}: {key} has no effect in this version ({}): {}", row.version, row.advice))
    })
}

// === impl NewerField ===

impl NewerField {
    /// Why the field is refused.
    pub fn reason(&self) -> String {
        format!("not in this version: {}", self.version)
    }
}
