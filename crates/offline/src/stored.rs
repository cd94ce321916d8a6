//! From a manifest to the object that a cluster stores: one way for every verb.
//!
//! The steps are those of a request that creates the object: decoding, which drops unknown fields and fills in the defaults
//! of the schema, our mutating webhook, the schema with its rules, our validating webhook, and conversion to the version in
//! which the object is stored. What one of them refuses has no stored form.

use longboat_admission::{Facts, LocalModels};
use longboat_api::{
    conversion::{self, Version},
    v1alpha2::GROUP,
};
use longboat_apiserver::{examine, kinds::Resource};
use longboat_compose::Platform;
use longboat_manifest::Document;
use serde_json::Value;

use crate::{
    Settings,
    validate::{
        Finding, ObjectName, Severity, Source,
        kinds::{Kinds, Known},
        object::Examination,
    },
};

/// An object as a cluster stores it, beside the manifest that it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// As it was written, with the places of its fields.
    pub(crate) document: Document,
    /// Its namespace; empty where its kind has none.
    pub(crate) namespace: String,
    /// The object, as a client reads it in the stored version.
    pub(crate) object: Value,
}

/// What a cluster makes of one manifest.
pub(crate) struct Judged {
    /// The group and the name of the object, if its kind is known.
    pub(crate) checked: Option<(String, ObjectName)>,
    /// What there is to say about it.
    pub(crate) findings: Vec<Finding>,
    /// The stored object; none if it is refused.
    pub(crate) stored: Option<Stored>,
}

/// The API server and the webhooks, as pure functions.
pub(crate) struct Cluster {
    pub(crate) kinds: Kinds,
    pub(crate) facts: Facts,
    namespace: String,
}

// === impl Stored ===

impl Stored {
    /// The object's name, which the server made up where the manifest gives none.
    pub(crate) fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether this is an object of one of our kinds.
    pub(crate) fn is_ours(&self, kind: &str) -> bool {
        self.document.kind() == kind && self.document.api_version().split('/').next() == Some(GROUP)
    }
}

// === impl Cluster ===

impl Cluster {
    /// The cluster for these manifests, with these settings of the platform.
    pub(crate) fn of(documents: &[Document], settings: &Settings, platform: Option<Platform>) -> Self {
        let facts = Facts {
            system_namespace: settings.system_namespace.clone(),
            preset_prefix: settings.preset_names.prefix.clone(),
            local_models: LocalModels::default(),
            platform: Ok(platform.unwrap_or_default()),
            ..Facts::default()
        };
        Self { kinds: Kinds::of(documents), facts, namespace: settings.namespace.clone() }
    }

    /// Judges one manifest, and says what is stored. Objects of namespaced kinds that name no namespace get `namespace`.
    pub(crate) fn judge(&self, document: &Document, namespace: Option<&str>) -> Judged {
        let resource = match self.kinds.find(document) {
            Known::Yes(resource) => resource,
            Known::Misspelt(problem, hint) => {
                let name = ObjectName::of(document, document.namespace());
                let mut finding = Finding::at(document, &name, "kind", Source::Schema);
                "NoMatch".clone_into(&mut finding.reason);
                finding.code = Some(404);
                finding.message = problem;
                finding.hint = Some(hint);
                return Judged {
                    checked: Some((String::new(), name)),
                    findings: vec![finding],
                    stored: None,
                };
            }
            Known::No => return self.not_known(document),
        };
        let own = document.namespace();
        let namespace = match (resource.namespaced, own.is_empty()) {
            (false, _) => "",
            (true, false) => own,
            (true, true) => namespace.unwrap_or(&self.namespace),
        };
        let name = ObjectName::of(document, namespace);
        let examination = Examination { document, name: &name, resource: &resource, facts: &self.facts };
        let (findings, accepted) = examination.run(placed(document, namespace));
        let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
        let stored = accepted.filter(|_| !refused).map(|object| Stored {
            document: document.clone(),
            namespace: namespace.to_owned(),
            object: self.in_stored_version(&resource, document, object),
        });
        Judged { checked: Some((resource.group.clone(), name)), findings, stored }
    }

    /// An object without a manifest, as it is stored: presets of this build, which their own tests judge.
    pub(crate) fn complete(&self, mut object: Value) -> Value {
        let resource = self.kinds.stored(object["kind"].as_str().unwrap_or_default());
        if let Some(resource) = resource {
            examine::complete(&resource, &mut object);
        }
        object
    }

    /// What nobody here knows the rules of is taken as it is.
    fn not_known(&self, document: &Document) -> Judged {
        let namespace = match document.namespace() {
            "" => &self.namespace,
            own => own,
        };
        let name = ObjectName::of(document, document.namespace());
        let mut finding = Finding::at(document, &name, "", Source::Schema);
        finding.severity = Severity::Note;
        "NotChecked".clone_into(&mut finding.reason);
        finding.message =
            format!("{} in {} is not known here: it was not checked", name.kind, name.api_version);
        let stored = Stored {
            document: document.clone(),
            namespace: namespace.to_owned(),
            object: document.object.clone(),
        };
        Judged { checked: None, findings: vec![finding], stored: Some(stored) }
    }

    /// Our own kinds are stored in one version, and without a status that users write. A name that the server makes up
    /// is one of the form that it would have.
    fn in_stored_version(&self, resource: &Resource, document: &Document, mut object: Value) -> Value {
        if document.name().is_empty() {
            let line = document.start().line;
            object["metadata"]["name"] =
                Value::from(format!("{}{line:05}", document.text("/metadata/generateName")));
        }
        if resource.group != GROUP {
            return object;
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        // The webhook has refused what cannot be converted, because it converts, too.
        if Version::of(&resource.version) == Some(Version::V1Alpha1)
            && conversion::convert(&mut object, Version::V1Alpha2).is_ok()
            && let Some(stored) = self.kinds.stored(&resource.kind)
        {
            examine::complete(&stored, &mut object);
        }
        object
    }
}

/// The object in its namespace.
fn placed(document: &Document, namespace: &str) -> Value {
    let mut object = document.object.clone();
    if document.namespace().is_empty() && !namespace.is_empty() && object["metadata"].is_object() {
        object["metadata"]["namespace"] = Value::from(namespace);
    }
    object
}
