//! Looks for objects that already exist on the cluster, and for their owners. Objects of others are only taken over if the
//! user says so.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::bail;
use kube::{Client, ResourceExt, api::ListParams, core::DynamicObject};
use longboat_install::{
    Installation,
    kinds::{self, Kind},
    names::CONTROLLER,
};
use longboat_watch::has_code;
use serde_json::Value;

use super::object::{self, MANAGER, PartialObject};

/// The result of the survey.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    left: BTreeSet<String>,
    taken: BTreeSet<String>,
}

// === impl Survey ===

impl Survey {
    /// Whether this object stays unchanged.
    pub(super) fn leaves(&self, object: &Value) -> bool {
        self.left.contains(&object::title(object))
    }

    /// Whether this object is completely taken over from others.
    pub(super) fn replaces(&self, object: &Value) -> bool {
        let has_no_merge = object.get("webhooks").is_some()
            || matches!(
                object["kind"].as_str(),
                Some("CustomResourceDefinition" | "LLMInferenceServiceConfig")
            );
        has_no_merge && self.taken.contains(&object::title(object))
    }
}

/// The manager of the fields that `longboat up` writes.
const LAPTOP: &str = "longboat-up";

/// Looks at every object of the installation.
///
/// # Errors
///
/// If others have written some of the objects, and `force` does not allow to take them over.
pub(super) async fn read_live(
    client: &Client,
    installation: &Installation,
    namespace: &str,
    force: bool,
) -> anyhow::Result<Survey> {
    if !force {
        check_other_namespaces(client, namespace).await?;
    }
    check_gateways(client, installation).await?;
    let mut survey = Survey::default();
    let mut foreign = Vec::new();
    let mut in_the_way = None;
    for wanted in installation.objects() {
        let Some(found) = object::read_live(client, wanted).await? else { continue };
        if is_ours(&found) {
            continue;
        }
        let title = object::title(wanted);
        let others = writers(&found);
        match wanted["kind"].as_str() {
            // The namespace stays with its owner.
            Some("Namespace") => {
                survey.left.insert(title);
            }
            Some("ConfigMap") if !force => {
                survey.notes.push(format!(
                    "{title} exists, written by {others}, and is not changed (use --force-conflicts to \
                     take it over)"
                ));
                survey.left.insert(title);
            }
            // Two different controllers cannot be merged: the result would have the image of one and the settings of the
            // other.
            Some("Deployment") => in_the_way = Some((title, others)),
            _ => foreign.push((title, others)),
        }
    }
    if let Some((title, others)) = in_the_way {
        if others == LAPTOP {
            bail!(
                "this is the cluster of `longboat up`, which has a controller of its own: expected the kubeconfig of another \
                 cluster\n  Set KUBECONFIG, or use `--kubeconfig` or `--context`."
            );
        }
        bail!(
            "{title} exists, written by {others}: another controller may run here\n  If {others} applied an \
             installation of Longboat, update it with the same tool. Else run `longboat diff` to see what a \
             change of controllers would change, then delete that Deployment (`kubectl delete \
             deployment {CONTROLLER} -n NAMESPACE`). Services keep running without a controller. \
             docs/guides/from-kserve.md describes all steps."
        );
    }
    if !foreign.is_empty() && !force {
        let mut text = String::from("these objects exist, and other tools wrote them:");
        for (title, others) in &foreign {
            let _ = write!(text, "\n  {title}, written by {others}");
        }
        bail!(
            "{text}\n  Use --force-conflicts to take them over: fields of the installation get its values, \
             and all other fields stay. docs/guides/from-kserve.md describes how to go back."
        );
    }
    for (title, others) in foreign {
        survey.taken.insert(title.clone());
        survey.notes.push(format!("took over {title} from {others}"));
    }
    Ok(survey)
}

/// Refuses to install in a second namespace: definitions, webhooks and rights of the first installation would move, and its controller
/// would be removed.
async fn check_other_namespaces(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let Some(kind) = kinds::kind("apps/v1", "Deployment") else { return Ok(()) };
    let found = match object::api(client, kind, None).list_metadata(&object::installed()).await {
        Ok(found) => found.items,
        // The installation itself does not need this right.
        Err(error) if has_code(&error, 403) => return Ok(()),
        Err(error) => return Err(object::refused("list", kind.plural, &error)),
    };
    let is_other = |found: &&PartialObject| {
        found.name_any() == CONTROLLER && found.namespace().as_deref() != Some(namespace)
    };
    if let Some(other) = found.iter().find(is_other).and_then(ResourceExt::namespace) {
        bail!(
            "Longboat is installed in namespace {other}, and a cluster has one installation: expected `--namespace {other}`\n  Use \
             --force-conflicts to move it to {namespace}; services then use the presets there."
        );
    }
    Ok(())
}

/// Refuses to remove a GatewayClass that Gateways use: their traffic would end.
async fn check_gateways(client: &Client, installation: &Installation) -> anyhow::Result<()> {
    const GATEWAY: Kind = Kind::new("gateway.networking.k8s.io/v1", "Gateway", "gateways", true);
    let Some(class) = kinds::kind(GATEWAY.api_version, "GatewayClass") else { return Ok(()) };
    if installation.objects().any(|object| object["kind"] == class.kind) {
        return Ok(());
    }
    let list = |kind: &'static Kind, params: ListParams| async move {
        match object::api(client, kind, None).list(&params).await {
            Ok(found) => Ok(found.items),
            // Without the Gateway API, there are none. Who may not list them may not remove them either.
            Err(error) if has_code(&error, 404) || has_code(&error, 403) => Ok(Vec::new()),
            Err(error) => Err(object::refused("list", kind.plural, &error)),
        }
    };
    let classes = list(class, object::installed()).await?;
    let classes: Vec<String> =
        classes.iter().filter(|class| is_ours(*class)).map(ResourceExt::name_any).collect();
    if classes.is_empty() {
        return Ok(());
    }
    let gateways = list(&GATEWAY, ListParams::default()).await?;
    let is_served = |gateway: &&DynamicObject| {
        classes.iter().any(|class| gateway.data["spec"]["gatewayClassName"] == class.as_str())
    };
    if let Some(gateway) = gateways.iter().find(is_served) {
        bail!(
            "values: `gateway.enabled` is false, and {} is served by this installation: expected true\n  An installation has the \
             values of its last `longboat install` only, so give all of them again (`-f FILE`). Or delete the Gateway first.",
            object::named("Gateway", gateway.namespace().as_deref(), &gateway.name_any())
        );
    }
    Ok(())
}

/// Whether this command wrote the object.
pub(super) fn is_ours(found: &impl ResourceExt) -> bool {
    found.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(MANAGER))
}

fn writers(found: &PartialObject) -> String {
    let names: BTreeSet<&str> = found
        .managed_fields()
        .iter()
        // Whoever writes only a status does not own the object.
        .filter(|entry| entry.subresource.is_none())
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    if names.is_empty() { "somebody".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(" and ") }
}
