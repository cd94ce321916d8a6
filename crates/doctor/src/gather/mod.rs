//! Reads a cluster (or a local cluster) once, and writes nothing.

use std::{collections::BTreeSet, fmt::Debug, net::IpAddr, sync::Arc};

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{Event, Node, PersistentVolumeClaim, Pod, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use longboat_api::{
    annotations::{API_KEYS, IN_PROCESS},
    labels::PART_OF_SELECTOR,
    names::{CONTROLLER, CONTROLLER_LEASE},
    node::{ENGINE_SEES_OTHER_PATHS, MOUNT_NAMESPACES},
    v1alpha2::LLMInferenceService,
};
use longboat_compose::PresetNames;
use longboat_controller::{Args, ViewError, reader, view};
use longboat_gateway::{API_KEY_LABEL, api_key_problems};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::Snapshot;
use serde::de::DeserializeOwned;

use self::limits::MAX_CONCURRENT_REQUESTS;
use crate::{check, facts::Facts};

mod answers;
mod engines;
mod limits;
mod rights;
mod webhooks;

/// The scope of the examination.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespace of the platform.
    pub system_namespace: Namespace,
    /// The prefix of the names of presets.
    pub preset_prefix: String,
    /// The namespaces of services; empty for all.
    pub namespaces: Vec<Namespace>,
    /// The names of services; empty for all.
    pub services: Vec<Name>,
    /// Whether to request the models of services that report Ready.
    pub ask: bool,
}

/// Why a cluster cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The API server does not respond.
    #[error("the API server does not answer: {}", reader::sentence(.0))]
    Server(kube::Error),
    /// The objects that the controller sees cannot be read.
    #[error(transparent)]
    View(#[from] ViewError),
}

/// Gathers all facts. `ask` sends a request to a URL, and returns the status code or why there is none. It gets the address of the
/// URL's host, too, if only `longboat up` knows it.
///
/// # Errors
/// If the API server does not respond, or the user may not read services.
pub async fn gather<F>(
    client: Client,
    scope: &Scope,
    ask: impl Fn(String, Option<IpAddr>) -> F,
) -> Result<Facts, GatherError>
where
    F: Future<Output = Result<u16, String>>,
{
    let version = client.apiserver_version().await.map_err(GatherError::Server)?;
    let preset_names = PresetNames { prefix: scope.preset_prefix.clone(), versioned: true };
    let snapshot = Snapshot::empty(Timestamp::now(), Arc::default(), scope.system_namespace.clone());
    let mut facts = Facts {
        local: version.git_version.ends_with("+longboat"),
        all_services: scope.services.is_empty(),
        ..Facts::new(snapshot, preset_names)
    };
    definitions(&client, &mut facts).await;
    let mut ours = check::definitions::OURS
        .iter()
        .all(|name| facts.definitions.contains_key(*name) || facts.unseen_definitions.contains(*name));
    if ours {
        match seen_by_the_controller(&client, scope, &mut facts).await {
            Ok(()) => {
                of_services(&client, &mut facts).await;
                api_keys(&client, &mut facts).await;
            }
            // This also happens if the user may not read definitions: now it is known that ours do not exist.
            Err(GatherError::View(ViewError::NotInstalled { .. })) => {
                facts.unseen_definitions.retain(|name| !check::definitions::OURS.contains(&name.as_str()));
                ours = false;
            }
            Err(error) => return Err(error),
        }
    }
    if facts.local {
        of_the_local_node(&client, &mut facts).await;
    } else {
        installation(&client, &mut facts, ours).await;
    }
    if scope.ask {
        answers::of_ready_services(&client, &mut facts, ask).await;
        engines::gather(&client, &mut facts).await;
    }
    Ok(facts)
}

async fn definitions(client: &Client, facts: &mut Facts) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = stream::iter(check::definitions::names())
        .map(|name| {
            let api = api.clone();
            async move { (name, api.get_opt(name).await) }
        })
        .buffered(MAX_CONCURRENT_REQUESTS);
    let mut found = std::pin::pin!(found);
    while let Some((name, answer)) = found.next().await {
        match answer {
            Ok(Some(mut definition)) => {
                for version in &mut definition.spec.versions {
                    version.schema = None;
                }
                facts.definitions.insert(name.to_owned(), definition);
            }
            Ok(None) => {}
            Err(error) => {
                facts.hidden.push(format!("CustomResourceDefinition {name}: {}", reader::sentence(&error)));
                facts.unseen_definitions.insert(name.to_owned());
            }
        }
    }
}

async fn seen_by_the_controller(
    client: &Client,
    scope: &Scope,
    facts: &mut Facts,
) -> Result<(), GatherError> {
    let args = Args {
        system_namespace: scope.system_namespace.clone(),
        preset_prefix: scope.preset_prefix.clone(),
        namespaces: scope.namespaces.clone(),
        ..Args::default()
    };
    let view = view(args, client.clone()).await?;
    facts.platform_error = view.platform_error.map(|error| error.to_string());
    facts.snapshot = view.snapshot;
    facts.configs = view.configs;
    facts.hidden.extend(view.hidden);
    let wanted = |service: &LLMInferenceService| {
        let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
        (scope.namespaces.is_empty() || scope.namespaces.iter().any(|one| one.as_deref() == namespace))
            && (scope.services.is_empty() || scope.services.iter().any(|one| one.as_deref() == name))
    };
    facts.services = view.services.into_iter().filter(|service| wanted(service)).collect();
    Ok(())
}

/// Reads what the controller does not: complete pods, warning events, claims.
async fn of_services(client: &Client, facts: &mut Facts) {
    let namespaces: BTreeSet<String> =
        facts.services.iter().filter_map(|service| service.metadata.namespace.clone()).collect();
    let ours = ListParams::default().labels(PART_OF_SELECTOR);
    let (warnings, any) = (ListParams::default().fields("type=Warning"), ListParams::default());
    for namespace in &namespaces {
        let (pods, events, claims) = tokio::join!(
            list::<Pod>(Api::namespaced(client.clone(), namespace), &ours),
            list::<Event>(Api::namespaced(client.clone(), namespace), &warnings),
            list::<PersistentVolumeClaim>(Api::namespaced(client.clone(), namespace), &any),
        );
        facts.pods.extend(items_or_note(pods, &format!("pods of {namespace}"), &mut facts.hidden));
        facts.events.extend(items_or_note(events, &format!("events of {namespace}"), &mut facts.hidden));
        facts.claims.extend(items_or_note(
            claims,
            &format!("PersistentVolumeClaims of {namespace}"),
            &mut facts.hidden,
        ));
    }
    let apart = facts
        .services
        .iter()
        .filter(|service| service.spec.prefill.is_some())
        .filter_map(|service| service.metadata.namespace.clone());
    let platform = &facts.snapshot.platform;
    let limits_pickers = platform.shared_picker && !platform.picker_clients.is_empty();
    let system = limits_pickers.then(|| facts.snapshot.system_namespace.to_string());
    let with_policies: BTreeSet<String> = apart.into_iter().chain(system).collect();
    for namespace in &with_policies {
        let what = format!("network policies of {namespace}");
        let policies = Api::namespaced(client.clone(), namespace);
        facts.network_policies.extend(listed(policies, &any, &what, &mut facts.hidden).await);
    }
    // Events of `events.k8s.io` have no time of their last occurrence.
    let when = |event: &Event| {
        event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0))
    };
    facts.events.sort_by_key(when);
}

/// Reads the Secrets with keys of services and Gateways that ask for some. Only what is wrong with them is kept.
async fn api_keys(client: &Client, facts: &mut Facts) {
    let services = facts.services.iter().map(|service| &service.metadata);
    let gateways = facts.snapshot.gateways.iter().map(|gateway| &gateway.metadata);
    let keyed = services.chain(gateways).filter(|metadata| {
        metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(API_KEYS))
    });
    let namespaces: BTreeSet<Namespace> = keyed.map(|metadata| Namespace::of(metadata).to_shared()).collect();
    let labelled = ListParams::default().labels(API_KEY_LABEL);
    for namespace in &namespaces {
        let what = format!("Secrets with API keys of {namespace}");
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let secrets = listed(secrets, &labelled, &what, &mut facts.hidden).await;
        facts.refused_keys.extend(api_key_problems(secrets));
    }
}

async fn of_the_local_node(client: &Client, facts: &mut Facts) {
    let nodes: Api<Node> = Api::all(client.clone());
    for node in listed(nodes, &ListParams::default(), "nodes", &mut facts.hidden).await {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let other_paths = conditions.into_iter().flatten().find(|condition| {
            condition.type_ == MOUNT_NAMESPACES
                && condition.reason.as_deref() == Some(ENGINE_SEES_OTHER_PATHS)
        });
        let message = other_paths.map(|condition| condition.message.clone().unwrap_or_default());
        facts.other_paths.extend(message.map(|message| (node.name_any(), message)));
    }
}

async fn installation(client: &Client, facts: &mut Facts, ours: bool) {
    let system = facts.snapshot.system_namespace.clone();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &system);
    match deployments.get_opt(CONTROLLER).await {
        // Local mode's controller has all rights and no pods, so there is nothing to examine.
        Ok(found) => facts.controller = found.filter(|live| !live.annotations().contains_key(IN_PROCESS)),
        Err(error) => {
            facts.hidden.push(format!("the controller's Deployment: {}", reader::sentence(&error)));
        }
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), &system);
    match leases.get_opt(CONTROLLER_LEASE).await {
        Ok(found) => facts.lease = found,
        Err(error) => facts.hidden.push(format!("the controllers' Lease: {}", reader::sentence(&error))),
    }
    let pods = Api::namespaced(client.clone(), &system);
    let what = format!("pods of {system}");
    let all = listed(pods, &ListParams::default(), &what, &mut facts.hidden).await;
    add_unknown(&mut facts.pods, all);
    facts.mutating = own_webhooks(client, &mut facts.hidden).await;
    facts.validating = own_webhooks(client, &mut facts.hidden).await;
    if facts.controller.is_some() {
        rights::denied(client, facts).await;
    }
    if ours {
        webhooks::admission(client, &system, facts).await;
        webhooks::conversion(client, &system, facts).await;
    }
}

/// Adds pods of the platform's namespace. Those of services there are known already.
fn add_unknown(pods: &mut Vec<Pod>, all: Vec<Pod>) {
    let known: BTreeSet<Key> = pods.iter().map(Key::of).collect();
    pods.extend(all.into_iter().filter(|pod| !known.contains(&Key::of(pod))));
}

/// Returns our webhook configurations.
async fn own_webhooks<K>(client: &Client, hidden: &mut Vec<String>) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let all = Api::all(client.clone());
    let mut found: Vec<K> = listed(all, &ListParams::default(), "webhook configurations", hidden).await;
    found.retain(|found| check::webhooks::OURS.contains(&found.name_any().as_str()));
    found
}

/// Like [`list`] and [`items_or_note`].
async fn listed<K>(api: Api<K>, parameters: &ListParams, what: &str, hidden: &mut Vec<String>) -> Vec<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    items_or_note(list(api, parameters).await, what, hidden)
}

async fn list<K>(api: Api<K>, parameters: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    Ok(reader::list(&api, parameters).await?.unwrap_or_default())
}

/// Returns the listed objects. If the list failed, returns none and adds a note.
fn items_or_note<K>(listed: Result<Vec<K>, kube::Error>, what: &str, hidden: &mut Vec<String>) -> Vec<K> {
    listed.unwrap_or_else(|error| {
        hidden.push(format!("{what}: {}", reader::sentence(&error)));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn webhooks_of_other_kinds_of_kserve_are_not_ours() {
        let object = |name: &str| json!({"metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
            object("inferenceservice.serving.kserve.io"), object("llminferenceservice.serving.kserve.io"),
        ]});
        let answer = move |_: http::Request<Body>| {
            let response = http::Response::new(Body::from(list.to_string().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(response))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let found = own_webhooks::<MutatingWebhookConfiguration>(&client, &mut Vec::new()).await;
        let names: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["llminferenceservice.serving.kserve.io"]);
    }

    #[test]
    fn a_pod_of_a_service_in_the_platforms_namespace_counts_once() {
        let pod = |name: &str| {
            let metadata = json!({"namespace": "kserve", "name": name});
            serde_json::from_value::<Pod>(json!({"metadata": metadata})).unwrap()
        };
        let mut pods = vec![pod("llm")];
        add_unknown(&mut pods, vec![pod("controller"), pod("llm")]);
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["llm", "controller"]);
    }
}
