//! Writes the user's objects as kubectl does, so that people can go on with `kubectl apply`. Errors name the file, the object
//! and the field.

use std::{fmt, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::{self, Scope},
    runtime::wait::{await_condition, conditions},
};
use longboat_api::{annotations::LAST_APPLIED, newer};
use longboat_controller::reader;
use longboat_manifest::Document;
use longboat_types::quote::escape_html;
use serde_json::{Value, json};

use crate::{
    DEFAULT_NAMESPACE,
    schema_hint::{UnknownField, unknown_fields},
    warnings::Warnings,
};

/// The manager of this annotation, if `kubectl apply --server-side` has written it.
const RECORDER: &str = "kubectl-last-applied";

/// The longest record. All annotations of an object together may have 256 KiB.
const MAX_LAST_APPLIED: usize = 192 << 10;

const DEFINITION: &str = "CustomResourceDefinition";

/// How long the server may take to serve the objects of a definition. After that, the error about the first object says that it does not.
const DEFINITION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an object that is being deleted may take.
const DELETION_TIMEOUT: Duration = Duration::from_secs(30);

/// The manager of the fields of an object that `up` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// `up`, which needs the object.
    Up,
    /// The user, who may change the object with kubectl.
    User,
}

// === impl Owner ===

impl Owner {
    /// The field manager of server-side apply. `kubectl apply --server-side` has the same one, so it does not conflict.
    pub(crate) fn manager(self) -> &'static str {
        match self {
            Self::Up => "longboat-up",
            Self::User => "kubectl",
        }
    }
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedDocument {
    /// `group/version` or `v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The warnings of the API server about the write.
    pub warnings: Vec<String>,
}

impl fmt::Display for AppliedDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
#[error("{}{object}: {problem}", origin.as_deref().map(|origin| format!("{origin}: ")).unwrap_or_default())]
pub struct ApplyError {
    /// File, line and column, for the user's own objects.
    origin: Option<String>,
    /// Kind and name.
    object: String,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    /// The API server refused the object.
    #[error("{}", refusal(.0))]
    Refused(Box<kube::Error>),
    #[error("the local API server does not serve kind `{kind}` in `{api_version}`")]
    UnknownKind { kind: String, api_version: String },
    /// The object that is there is being deleted, and does not go.
    #[error(
        "is being deleted, and waits for its finalizers {}: `kubectl edit` it to remove them, or start with another --state",
        .0.join(", ")
    )]
    Terminating(Vec<String>),
    /// The object has fields that its kind does not have.
    #[error("{}", unknown_sentence(.0))]
    UnknownFields(Vec<UnknownField>),
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

fn refusal(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => reader::sentence(other),
    }
}

fn unknown_sentence(fields: &[UnknownField]) -> String {
    let each = fields.iter().map(|UnknownField { path, nearest }| match (newer::field(path), nearest) {
        (Some(newer), _) => format!("`{path}` is {} ({})", newer.reason(), newer.advice),
        (None, Some(nearest)) => format!("unknown field `{path}` (did you mean `{nearest}`?)"),
        (None, None) => format!("unknown field `{path}`"),
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Writes all documents: first objects to which others refer, services last.
pub(crate) async fn all(client: &Client, documents: &[Document]) -> Result<Vec<AppliedDocument>, ApplyError> {
    // The sort is stable: objects of one rank keep the order of the manifests, as with kubectl.
    let mut ordered: Vec<_> = documents.iter().collect();
    ordered.sort_by_key(|document| rank(document.object["kind"].as_str().unwrap_or_default()));
    // All field names are checked before anything is written.
    let own = longboat_api::crd::own();
    for document in &ordered {
        check_fields(&own, document)?;
    }
    drop(own);
    let mut applied = Vec::with_capacity(ordered.len());
    for document in ordered {
        let written = one(client, Owner::User, Some(document.place("")), document.object.clone()).await;
        let written = written.map_err(|error| at_field(error, document))?;
        if written.kind == DEFINITION {
            until_served(client, &written.name).await;
        }
        applied.push(written);
    }
    Ok(applied)
}

/// Replaces the position of the document by the line of the first field that the server rejects, which helps the user more.
fn at_field(mut error: ApplyError, document: &Document) -> ApplyError {
    if let Problem::Refused(answer) = &error.problem
        && let kube::Error::Api(status) = &**answer
        && let Some(cause) = status.details.iter().flat_map(|details| &details.causes).next()
    {
        error.origin = Some(document.place(&cause.field));
    }
    error
}

fn rank(kind: &str) -> u8 {
    match kind {
        DEFINITION => 0,
        "Namespace" => 1,
        "LLMInferenceService" => 4,
        "LLMInferenceServiceConfig" => 3,
        _ => 2,
    }
}

/// Writes one object by server-side apply.
pub(crate) async fn one(
    client: &Client,
    owner: Owner,
    origin: Option<String>,
    object: Value,
) -> Result<AppliedDocument, ApplyError> {
    let described = described(&object);
    let written = write(client, owner, object).await;
    written.map_err(|problem| ApplyError { origin, object: described, problem })
}

fn described(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

async fn write(client: &Client, owner: Owner, mut object: Value) -> Result<AppliedDocument, Problem> {
    // A cluster serves these kinds in both versions, whose fields are the same.
    if object["apiVersion"] == "gateway.networking.k8s.io/v1beta1" && object["kind"] != "ReferenceGrant" {
        object["apiVersion"] = Value::from("gateway.networking.k8s.io/v1");
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let types = TypeMeta { api_version: api_version.clone(), kind: kind.clone() };
    let unknown = || Problem::UnknownKind { kind: kind.clone(), api_version: api_version.clone() };
    let gvk = GroupVersionKind::try_from(types).map_err(|_| unknown())?;
    let warnings = Warnings::default();
    let client = &warnings.of(client);
    // Asked for each object, because the one before may have defined its kind.
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await.map_err(|_| unknown())?;
    let mut namespace = String::new();
    let api: Api<DynamicObject> = if capabilities.scope == Scope::Namespaced {
        namespace = text("/metadata/namespace");
        if namespace.is_empty() {
            DEFAULT_NAMESPACE.clone_into(&mut namespace);
            object["metadata"]["namespace"] = Value::from(DEFAULT_NAMESPACE);
        }
        Api::namespaced_with(client.clone(), &namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    // Objects that were read from a cluster have these fields, which apply refuses.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
            metadata.remove(field);
        }
    }
    let mut written = apply(&api, owner, &name, &object).await?;
    if written.metadata.deletion_timestamp.is_some() {
        // Somebody has deleted it before the node was stopped. What is written now would go with it.
        wait_until_deleted(&api, written).await?;
        written = apply(&api, owner, &name, &object).await?;
    }
    let name = written.metadata.name.unwrap_or_default();
    Ok(AppliedDocument { api_version, kind, namespace, name, warnings: warnings.take() })
}

/// Creates or changes an object. One without a name gets a generated one.
async fn apply(
    api: &Api<DynamicObject>,
    owner: Owner,
    name: &str,
    object: &Value,
) -> Result<DynamicObject, kube::Error> {
    if name.is_empty() {
        let parsed = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let parameters =
            kube::api::PostParams { field_manager: Some(owner.manager().into()), ..Default::default() };
        return api.create(&parameters, &parsed).await;
    }
    let parameters = PatchParams::apply(owner.manager()).force().validation_strict();
    let written = api.patch(name, &parameters, &Patch::Apply(object)).await?;
    match owner {
        Owner::User => record(api, written, last_applied(object)).await,
        Owner::Up => Ok(written),
    }
}

async fn wait_until_deleted(api: &Api<DynamicObject>, object: DynamicObject) -> Result<(), Problem> {
    let uid = object.metadata.uid.unwrap_or_default();
    let name = object.metadata.name.unwrap_or_default();
    let deleted = await_condition(api.clone(), &name, conditions::is_deleted(&uid));
    match tokio::time::timeout(DELETION_TIMEOUT, deleted).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::Terminating(object.metadata.finalizers.unwrap_or_default())),
    }
}

/// Waits until the server serves the objects of a definition.
async fn until_served(client: &Client, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let served = await_condition(definitions, name, conditions::is_crd_established());
    let _ = tokio::time::timeout(DEFINITION_TIMEOUT, served).await;
}

/// Returns the record of an object, byte for byte as kubectl writes it: otherwise `kubectl apply` of the same manifest would
/// change the object.
fn last_applied(object: &Value) -> String {
    let mut object = object.clone();
    match &mut object["metadata"]["annotations"] {
        Value::Object(annotations) => drop(annotations.remove(LAST_APPLIED)),
        // kubectl's record has this field even if the manifest does not.
        annotations => *annotations = json!({}),
    }
    format!("{}\n", escape_html(&object.to_string()))
}

/// Records what was applied. Without the record, `kubectl apply` warns and does not remove fields that leave the manifest.
/// The record has the field manager that kubectl gives it, not that of the fields: server-side apply removes the fields of its
/// manager that are not in the manifest.
async fn record(
    api: &Api<DynamicObject>,
    written: DynamicObject,
    configuration: String,
) -> Result<DynamicObject, kube::Error> {
    if configuration.len() > MAX_LAST_APPLIED
        || written.annotations().get(LAST_APPLIED) == Some(&configuration)
    {
        return Ok(written);
    }
    let types = written.types.clone().unwrap_or_default();
    let change = json!({
        "apiVersion": types.api_version,
        "kind": types.kind,
        "metadata": {"annotations": {LAST_APPLIED: configuration}},
    });
    api.patch(&written.name_any(), &PatchParams::apply(RECORDER).force(), &Patch::Apply(change)).await
}

/// Checks the field names of Longboat's own kinds before the server does, because the server cannot suggest the intended
/// name. The server checks other kinds.
fn check_fields(own: &[Value], document: &Document) -> Result<(), ApplyError> {
    let text = |field: &str| document.object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let crd =
        own.iter().find(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == text("kind"));
    let versions = crd.and_then(|crd| crd["spec"]["versions"].as_array());
    let served = versions.into_iter().flatten().find(|served| served["name"] == version);
    let Some(found) = served else { return Ok(()) };
    let unknown = unknown_fields(&found["schema"]["openAPIV3Schema"], &document.object);
    let Some(first) = unknown.first() else { return Ok(()) };
    let (origin, object) = (Some(document.place(&first.path)), described(&document.object));
    Err(ApplyError { origin, object, problem: Problem::UnknownFields(unknown) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_the_one_that_kubectl_writes() {
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"},
            "data": {"b": "<&>", "a": "x"},
        });
        let expected = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"x\",\"b\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\
             \"metadata\":{\"annotations\":{},\"name\":\"a\",\"namespace\":\"default\"}}\n";
        assert_eq!(last_applied(&object), expected);
        let mut recorded = object;
        recorded["metadata"]["annotations"] = json!({LAST_APPLIED: expected});
        assert_eq!(last_applied(&recorded), expected);
    }
}
