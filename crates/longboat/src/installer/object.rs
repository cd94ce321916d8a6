//! Access to the objects of an installation on a cluster.

use anyhow::Context;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
};
use longboat_controller::reader;
use longboat_install::{
    kinds::{self, Kind},
    names::{LABEL, LABEL_VALUE},
};
use longboat_watch::has_code;
use serde_json::Value;

/// An object of which only the metadata was read.
pub(super) type PartialObject = PartialObjectMeta<DynamicObject>;

/// The field manager of all writes.
pub(super) const MANAGER: &str = "longboat-install";

/// Returns an object's name for people: `Deployment kserve/llmisvc-controller-manager`.
pub(super) fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    named(
        &text(&object["kind"]),
        object["metadata"]["namespace"].as_str(),
        &text(&object["metadata"]["name"]),
    )
}

/// Like `title`, from the parts of the name.
pub(super) fn named(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Returns the name of an object.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns kube's description of a kind.
pub(super) fn resource(kind: &Kind) -> ApiResource {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version.to_owned(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

/// Returns the API for the objects of a kind, in one namespace or in all.
pub(super) fn api(client: &Client, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = resource(kind);
    match namespace {
        Some(namespace) if kind.namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        _ => Api::all_with(client.clone(), &resource),
    }
}

/// Selects the objects of an installation.
pub(super) fn installed() -> ListParams {
    ListParams::default().labels(&format!("{LABEL}={LABEL_VALUE}"))
}

/// Lists the metadata of the objects of a kind in all namespaces. Returns an empty list if the server does not know the kind.
pub(super) async fn list(
    client: &Client,
    kind: &Kind,
    params: &ListParams,
) -> anyhow::Result<Vec<PartialObject>> {
    match api(client, kind, None).list_metadata(params).await {
        Ok(found) => Ok(found.items),
        Err(error) if has_code(&error, 404) => Ok(Vec::new()),
        Err(error) => Err(refused("list", kind.plural, &error)),
    }
}

/// Returns the API for an object of an installation.
pub(super) fn api_of(client: &Client, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = kinds::kind(&text(&object["apiVersion"]), &text(&object["kind"]))
        .with_context(|| format!("an installation contains no {}", title(object)))?;
    Ok(api(client, kind, object["metadata"]["namespace"].as_str()))
}

/// Reads the metadata of an object on the cluster. Returns `None` if the object does not exist, or if the server does not
/// know its kind.
pub(super) async fn read_live(client: &Client, object: &Value) -> anyhow::Result<Option<PartialObject>> {
    match api_of(client, object)?.get_metadata(name(object)).await {
        Ok(found) => Ok(Some(found)),
        // The object does not exist, or (with a plain-text answer) its kind does not.
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(refused("read", &title(object), &error)),
    }
}

/// Returns an error with the attempted operation, the object, the server's message, and a hint.
pub(super) fn refused(what: &str, object: &str, error: &kube::Error) -> anyhow::Error {
    let (text, hint) = match error {
        kube::Error::Api(status) => {
            let hint = match status.code {
                401 => "\n  The API server does not accept the credentials: check the kubeconfig.",
                // What a webhook denies is a 403 as well.
                403 if status.message.contains("is forbidden") => {
                    "\n  `install` and `uninstall` need the rights of a cluster administrator."
                }
                404 if status.message.contains("namespaces") => {
                    "\n  Create the namespace, or set `createNamespace` to true."
                }
                422 if status.message.contains("field is immutable") => {
                    "\n  An immutable field has to change: delete the object, and run this command again."
                }
                _ => "",
            };
            (status.message.clone(), hint)
        }
        other => (reader::sentence(other), "\n  Run this command again to continue."),
    };
    anyhow::anyhow!("cannot {what} {object}: {text}{hint}")
}

/// Whether an admission webhook denied a request.
pub(super) fn is_denied_by_a_webhook(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.starts_with("admission webhook "))
}
