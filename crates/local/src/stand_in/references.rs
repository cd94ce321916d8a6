//! Finds the references in manifests to platform objects.

use longboat_api::groups;
use longboat_manifest::Document;
use serde_json::Value;

use super::inventory::namespace_of;

/// A reference from a manifest to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The index of the manifest.
    pub(super) document: usize,
    /// The path of the referring field, for example `spec.router.gateway.refs[0]`.
    pub(super) path: String,
    pub(super) to: Target,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The target of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A Gateway, with the listener and the port that the reference names, if any.
    Gateway { listener: Option<String>, port: Option<u16> },
    /// The class of a Gateway.
    Class,
    /// A Service with this port. `of` is the LLMInferenceService whose route refers to it, if any.
    Service { port: u16, of: Option<String> },
    /// An object of this kind, for which nothing stands in.
    Given(&'static str),
    /// The account of a pod.
    Account,
}

/// The fields of a service that are specs of pods.
const PODS: [&str; 6] = [
    "spec.template",
    "spec.worker",
    "spec.prefill.template",
    "spec.prefill.worker",
    "spec.router.scheduler.template",
    "spec.router.scheduler.tokenizer.template",
];

/// Returns every reference to a platform object.
pub(super) fn all(documents: &[Document]) -> Vec<Reference> {
    let mut found = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let finder =
            |namespace, service| Finder { document: at, object: &document.object, namespace, service };
        match document.text("/kind") {
            "LLMInferenceService" => {
                finder(namespace_of(document), Some(document.text("/metadata/name"))).router(&mut found);
            }
            // References in a config are resolved in the namespaces of the services that use the config.
            "LLMInferenceServiceConfig" => {
                for service in users(documents, document.text("/metadata/name")) {
                    finder(namespace_of(service), Some(service.text("/metadata/name"))).router(&mut found);
                }
            }
            "HTTPRoute" => finder(namespace_of(document), None).route("spec", &mut found),
            "Gateway" => found.push(Reference {
                document: at,
                path: "spec.gatewayClassName".to_owned(),
                to: Target::Class,
                namespace: String::new(),
                name: document.text("/spec/gatewayClassName").to_owned(),
            }),
            _ => {}
        }
    }
    // Ignores template expressions and empty names, whose targets are unknown here.
    found.retain(|reference| !reference.name.is_empty() && !reference.name.contains("{{"));
    found
}

/// Returns the services that use a config by its name.
fn users<'a>(documents: &'a [Document], layer: &'a str) -> impl Iterator<Item = &'a Document> {
    documents.iter().filter(move |document| {
        let references = document.object.pointer("/spec/baseRefs").and_then(Value::as_array);
        document.text("/kind") == "LLMInferenceService"
            && references.into_iter().flatten().any(|reference| reference["name"] == layer)
    })
}

/// Finds the references of one object.
struct Finder<'a> {
    document: usize,
    object: &'a Value,
    /// The namespace of references that name no namespace.
    namespace: &'a str,
    service: Option<&'a str>,
}

// === impl Finder ===

impl Finder<'_> {
    /// Returns the list at a path such as `spec.router.gateway.refs`.
    fn list(&self, path: &str) -> &[Value] {
        let pointer = format!("/{}", path.replace("].", "/").replace(['.', '['], "/").replace(']', ""));
        self.object.pointer(&pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn reference(&self, path: String, to: Target, value: &Value) -> Reference {
        let namespace = match text(value, "/namespace") {
            "" => self.namespace,
            namespace => namespace,
        };
        let name = text(value, "/name").to_owned();
        Reference { document: self.document, path, to, namespace: namespace.to_owned(), name }
    }

    fn router(&self, found: &mut Vec<Reference>) {
        for (at, value) in self.list("spec.router.gateway.refs").iter().enumerate() {
            let to = Target::Gateway { listener: None, port: None };
            found.push(self.reference(format!("spec.router.gateway.refs[{at}]"), to, value));
        }
        for (at, value) in self.list("spec.router.route.http.refs").iter().enumerate() {
            found.push(self.reference(
                format!("spec.router.route.http.refs[{at}]"),
                Target::Given("HTTPRoute"),
                value,
            ));
        }
        if let Some(pool) = self.object.pointer("/spec/router/scheduler/pool/ref") {
            found.push(self.reference(
                "spec.router.scheduler.pool.ref".to_owned(),
                Target::Given("InferencePool"),
                pool,
            ));
        }
        self.route("spec.router.route.http.spec", found);
        for pod in PODS {
            let path = format!("{pod}.serviceAccountName");
            let name = text(self.object, &format!("/{}", path.replace('.', "/"))).to_owned();
            let namespace = self.namespace.to_owned();
            found.push(Reference { document: self.document, path, to: Target::Account, namespace, name });
        }
    }

    /// Collects the references in a route specification at a path.
    fn route(&self, path: &str, found: &mut Vec<Reference>) {
        let parents = format!("{path}.parentRefs");
        for (at, value) in self.list(&parents).iter().enumerate() {
            // The parent of a route of a mesh (GAMMA) is a Service.
            let is_gateway = ["", groups::GATEWAY].contains(&text(value, "/group"))
                && ["", "Gateway"].contains(&text(value, "/kind"));
            if is_gateway {
                let listener = Some(text(value, "/sectionName")).filter(|name| !name.is_empty());
                let port = value["port"].as_u64().and_then(|port| u16::try_from(port).ok());
                let to = Target::Gateway { listener: listener.map(str::to_owned), port };
                found.push(self.reference(format!("{parents}[{at}]"), to, value));
            }
        }
        for rule in 0..self.list(&format!("{path}.rules")).len() {
            let backends = format!("{path}.rules[{rule}].backendRefs");
            self.mirrors(&format!("{path}.rules[{rule}].filters"), found);
            for (at, value) in self.list(&backends).iter().enumerate() {
                self.mirrors(&format!("{backends}[{at}].filters"), found);
                let to = match text(value, "/kind") {
                    "" | "Service" => Target::Service {
                        port: value["port"]
                            .as_u64()
                            .and_then(|port| u16::try_from(port).ok())
                            .unwrap_or_default(),
                        of: self.service.map(str::to_owned),
                    },
                    "InferencePool" => Target::Given("InferencePool"),
                    _ => continue,
                };
                found.push(self.reference(format!("{backends}[{at}]"), to, value));
            }
        }
    }

    /// Collects the references of filters that send copies of requests elsewhere. No Service of a service's own pods stands in for these.
    fn mirrors(&self, filters: &str, found: &mut Vec<Reference>) {
        for (at, filter) in self.list(filters).iter().enumerate() {
            let Some(value) = filter.pointer("/requestMirror/backendRef") else { continue };
            if ["", "Service"].contains(&text(value, "/kind")) {
                let path = format!("{filters}[{at}].requestMirror.backendRef");
                found.push(self.reference(path, Target::Service { port: 0, of: None }, value));
            }
        }
    }
}

/// Returns a text of an object by its JSON pointer, or an empty text.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
