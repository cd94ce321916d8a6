//! Turns a manifest into the object that a cluster would store. All commands use this.
//!
//! The steps are those of a create request: decoding, which drops unknown fields and fills in the defaults of the schema; our
//! mutating webhook; the schema with its rules; our validating webhook; and conversion to the storage version. An object that
//! one of the steps refuses has no stored form.

pub(crate) mod hint;
pub(crate) mod kinds;
pub(crate) mod object;
pub(crate) mod template;
pub(crate) mod unknown;

use std::collections::{HashMap, hash_map::Entry};

use longboat_admission::{Facts, LocalModels};
use longboat_api::{
    conversion::{self, Version},
    v1alpha2::GROUP,
};
use longboat_compose::Platform;
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::{Document, parallel};
use longboat_strategy::{
    examine,
    kinds::Resource,
    names::{NameRule, problems},
};
use serde_json::Value;

use crate::{
    Settings,
    finding::{Finding, INFERENCE_SERVICE, NOT_CHECKED, ObjectName, Source},
    stored::{
        kinds::{KindLookup, Kinds},
        object::Examination,
    },
};

/// An object in its stored form, with the manifest from which it comes.
#[derive(Clone, Debug)]
pub(crate) struct StoredManifest {
    /// The manifest, with the positions of its fields.
    pub(crate) document: Document,
    /// Its namespace; empty for a cluster-scoped kind.
    pub(crate) namespace: Namespace,
    /// The object as a client would read it in the storage version.
    pub(crate) object: Value,
}

/// The result of processing one manifest.
pub(crate) struct AdmissionOutcome {
    /// The name of the object, if its kind is known.
    pub(crate) checked: Option<ObjectName>,
    /// The findings about it.
    pub(crate) findings: Vec<Finding>,
    /// The stored object; `None` if it is refused.
    pub(crate) stored: Option<StoredManifest>,
}

/// The API server and the webhooks, as pure functions.
pub(crate) struct Cluster {
    pub(crate) kinds: Kinds,
    pub(crate) facts: Facts,
    namespace: Namespace,
}

// === impl StoredManifest ===

impl StoredManifest {
    /// The object's name, which is generated if the manifest has none.
    pub(crate) fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The identity of the object.
    pub(crate) fn object_name(&self) -> ObjectName {
        ObjectName::of(&self.document, self.namespace.as_deref())
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.namespace.as_deref(), Name(self.name()))
    }

    /// Whether this is an object of one of our kinds.
    pub(crate) fn is_ours(&self, kind: &str) -> bool {
        self.document.kind() == kind && self.document.group() == GROUP
    }
}

// === impl Cluster ===

impl Cluster {
    /// Creates the cluster for these manifests, with these platform settings.
    pub(crate) fn of(documents: &[Document], settings: &Settings, platform: Option<Platform>) -> Self {
        let facts = Facts {
            system_namespace: settings.system_namespace.clone(),
            preset_prefix: settings.preset_names.prefix.clone(),
            local_models: LocalModels::default(),
            platform: Ok(platform.unwrap_or_default()),
            // The effective configuration is judged, with all layers.
            judges_pickers: false,
            ..Facts::default()
        };
        Self { kinds: Kinds::of(documents), facts, namespace: settings.namespace.clone() }
    }

    /// Processes manifests. Of objects with the same name, only the first is accepted.
    pub(crate) fn judge_all(&self, documents: &[Document]) -> Vec<AdmissionOutcome> {
        let mut outcomes = parallel::map(documents, |document| self.judge(document, None));
        let mut seen = HashMap::new();
        for (number, (document, outcome)) in (1..).zip(documents.iter().zip(&mut outcomes)) {
            let Some(name) = outcome.checked.clone() else { continue };
            if document.name().is_empty() {
                // A generated name has the form that the server would give it. Objects in several files may have the same beginning.
                if let Some(stored) = &mut outcome.stored {
                    stored.object["metadata"]["name"] = Value::from(format!("{}{number:05}", name.name));
                }
                continue;
            }
            match seen.entry((document.group(), name.kind.clone(), name.namespace.clone(), name.name.clone()))
            {
                Entry::Vacant(entry) => {
                    entry.insert(document.place(""));
                }
                Entry::Occupied(first) => {
                    outcome.findings.push(repeated(document, &name, first.get()));
                    outcome.stored = None;
                }
            }
        }
        outcomes
    }

    /// Processes one manifest. An object of a namespaced kind without a namespace gets `namespace`.
    pub(crate) fn judge(&self, document: &Document, namespace: Option<Namespace<&str>>) -> AdmissionOutcome {
        let resource = match self.kinds.find(document) {
            KindLookup::Yes(resource) => resource,
            KindLookup::Misspelt(problem, hint) => {
                let name = ObjectName::of(document, Namespace(document.namespace()));
                let finding = Finding::at(document, &name, "kind", Source::Schema).error("NoMatch", problem);
                let findings = vec![Finding { code: Some(404), ..finding.with_hint(hint) }];
                return AdmissionOutcome { checked: Some(name), findings, stored: None };
            }
            KindLookup::No => return self.not_known(document),
        };
        let own = document.namespace();
        let namespace = match (resource.namespaced, own.is_empty()) {
            (false, _) => Namespace(""),
            (true, false) => Namespace(own),
            (true, true) => namespace.unwrap_or(self.namespace.as_deref()),
        };
        let name = ObjectName::of(document, namespace);
        let examination = Examination { document, name: &name, resource: &resource, facts: &self.facts };
        let mut object = placed(document, namespace);
        // A kind may be known by another version with the same fields.
        object["apiVersion"] = Value::from(resource.api_version());
        let (mut findings, accepted) = examination.run(object);
        findings.extend(misnamed(document, &name, namespace));
        let refused = findings.iter().any(Finding::is_error);
        let stored = accepted.filter(|_| !refused).map(|object| StoredManifest {
            document: document.clone(),
            namespace: namespace.to_shared(),
            object: self.in_stored_version(&resource, object),
        });
        AdmissionOutcome { checked: Some(name), findings, stored }
    }

    /// Returns the stored form of an object without a manifest. Used for presets of this build, which have their own tests.
    pub(crate) fn complete(&self, mut object: Value) -> Value {
        let resource = self.kinds.stored(object["kind"].as_str().unwrap_or_default());
        if let Some(resource) = resource {
            examine::complete(&resource, &mut object);
        }
        object
    }

    /// Accepts an object of an unknown kind as it is.
    fn not_known(&self, document: &Document) -> AdmissionOutcome {
        let namespace = match document.namespace() {
            "" => self.namespace.as_deref(),
            own => Namespace(own),
        };
        let name = ObjectName::of(document, Namespace(document.namespace()));
        let message = format!("unknown kind {} in {}; not checked", name.kind, name.api_version);
        let mut finding = Finding::at(document, &name, "", Source::Schema).note(NOT_CHECKED, message);
        finding.hint = (name.kind == "InferenceService").then(|| INFERENCE_SERVICE.to_owned());
        let stored = StoredManifest {
            document: document.clone(),
            namespace: namespace.to_shared(),
            object: document.object.clone(),
        };
        AdmissionOutcome { checked: None, findings: vec![finding], stored: Some(stored) }
    }

    /// Converts an object of our own kinds to the storage version, and drops a status that users have written.
    fn in_stored_version(&self, resource: &Resource, mut object: Value) -> Value {
        if resource.group != GROUP {
            return object;
        }
        // A create request stores no status, as in the output of `kubectl get`.
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        // The webhook converts objects too, so it has already refused those that cannot be converted.
        if Version::of(&resource.version) == Some(Version::V1Alpha1)
            && conversion::convert(&mut object, Version::V1Alpha2).is_ok()
            && let Some(stored) = self.kinds.stored(&resource.kind)
        {
            examine::complete(&stored, &mut object);
        }
        object
    }
}

fn repeated(document: &Document, name: &ObjectName, first: &str) -> Finding {
    let finding = Finding::at(document, name, "metadata.name", Source::Manifest);
    let hint = "the second object would replace the first one: remove or rename one of them";
    finding.error("Duplicate", format!("{name} is already at {first}")).with_hint(hint)
}

/// A server says only that such a namespace does not exist.
fn misnamed(document: &Document, name: &ObjectName, namespace: Namespace<&str>) -> Option<Finding> {
    if namespace.is_empty() {
        return None;
    }
    let problem = problems(NameRule::Label, namespace.as_str()).into_iter().next()?;
    let message = format!("no namespace can have the name {:?}: {problem}", namespace.as_str());
    let is_template = ["$", "{{", "<"].iter().any(|start| namespace.contains(start));
    let hint = is_template.then(|| "replace this placeholder first, or leave the namespace out".to_owned());
    let finding = Finding::at(document, name, "metadata.namespace", Source::Schema);
    Some(Finding { hint, ..finding.error("FieldValueInvalid", message) })
}

/// Returns the object with its namespace.
fn placed(document: &Document, namespace: Namespace<&str>) -> Value {
    let mut object = document.object.clone();
    if document.namespace().is_empty() && !namespace.is_empty() && object["metadata"].is_object() {
        object["metadata"]["namespace"] = Value::from(namespace.as_str());
    }
    object
}
