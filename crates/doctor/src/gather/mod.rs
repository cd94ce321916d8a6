//! Reads a cluster (or a local cluster) once, and writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        coordination::v1::Lease,
        core::v1::{Event, PersistentVolumeClaim, Pod},
        networking::v1::NetworkPolicy,
        rbac::v1::PolicyRule,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
};
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::PresetNames;
use longboat_controller::{Args, ViewError, reader, view};
use longboat_key::{Name, Namespace};
use longboat_plan::{Snapshot, names};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    check,
    facts::{Answers, Facts},
};

mod engines;

/// The rights that the controller needs, as shipped: for the whole cluster, or for each namespace to which it is limited.
const ROLE: &str = include_str!("../../../../deploy/rbac/role.yaml");
const SECRETS_ROLE: &str = include_str!("../../../../deploy/rbac/secrets.yaml");
const WATCHED_ROLE: &str = include_str!("../../../../deploy/rbac-namespaced/watched/role.yaml");

/// Selects the objects of services.
const OF_SERVICES: &str = "app.kubernetes.io/part-of=llminferenceservice";

/// The number of concurrent requests.
const AT_ONCE: usize = 16;

/// How long a service may take to respond to a request for its models.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to examine.
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

/// Gathers all facts. `ask` sends a request to a URL, and returns the status code or why there is none.
///
/// # Errors
/// If the API server does not respond, or the user may not read services.
pub async fn gather<F>(client: Client, scope: &Scope, ask: impl Fn(String) -> F) -> Result<Facts, GatherError>
where
    F: Future<Output = Result<u16, String>>,
{
    let version = client.apiserver_version().await.map_err(GatherError::Server)?;
    let preset_names = PresetNames { prefix: scope.preset_prefix.clone(), versioned: true };
    let system = scope.system_namespace.as_deref();
    let mut facts = Facts {
        local: version.git_version.ends_with("+longboat"),
        preset_names,
        definitions: BTreeMap::new(),
        unseen_definitions: BTreeSet::new(),
        platform_error: None,
        snapshot: Snapshot::empty(Timestamp::now(), Arc::default(), system.to_shared()),
        services: Vec::new(),
        configs: Vec::new(),
        pods: Vec::new(),
        events: Vec::new(),
        claims: Vec::new(),
        network_policies: Vec::new(),
        engines: BTreeMap::new(),
        controller: None,
        lease: None,
        denied: Vec::new(),
        mutating: Vec::new(),
        validating: Vec::new(),
        admission: None,
        conversion: None,
        answers: BTreeMap::new(),
        hidden: Vec::new(),
    };
    definitions(&client, &mut facts).await;
    let mut ours = check::definitions::OURS
        .iter()
        .all(|name| facts.definitions.contains_key(*name) || facts.unseen_definitions.contains(*name));
    if ours {
        match seen_by_the_controller(&client, scope, &mut facts).await {
            Ok(()) => of_services(&client, &mut facts).await,
            // This also happens if the user may not read definitions: now it is known that ours do not exist.
            Err(GatherError::View(ViewError::NotInstalled { .. })) => {
                facts.unseen_definitions.retain(|name| !check::definitions::OURS.contains(&name.as_str()));
                ours = false;
            }
            Err(error) => return Err(error),
        }
    }
    if !facts.local {
        installation(&client, &mut facts, ours).await;
    }
    if scope.ask {
        answers(&client, &mut facts, ask).await;
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
        .buffered(AT_ONCE);
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
    let ours = ListParams::default().labels(OF_SERVICES);
    let (warnings, any) = (ListParams::default().fields("type=Warning"), ListParams::default());
    for namespace in &namespaces {
        let (pods, events, claims) = tokio::join!(
            list::<Pod>(Api::namespaced(client.clone(), namespace), &ours),
            list::<Event>(Api::namespaced(client.clone(), namespace), &warnings),
            list::<PersistentVolumeClaim>(Api::namespaced(client.clone(), namespace), &any),
        );
        facts.pods.extend(kept(pods, &format!("pods of {namespace}"), &mut facts.hidden));
        facts.events.extend(kept(events, &format!("events of {namespace}"), &mut facts.hidden));
        facts.claims.extend(kept(
            claims,
            &format!("PersistentVolumeClaims of {namespace}"),
            &mut facts.hidden,
        ));
    }
    let apart: BTreeSet<&String> = facts
        .services
        .iter()
        .filter(|service| service.spec.prefill.is_some())
        .filter_map(|service| service.metadata.namespace.as_ref())
        .collect();
    for namespace in apart {
        let policies = list::<NetworkPolicy>(Api::namespaced(client.clone(), namespace), &any).await;
        let what = format!("network policies of {namespace}");
        facts.network_policies.extend(kept(policies, &what, &mut facts.hidden));
    }
    let when = |event: &Event| {
        event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0))
    };
    facts.events.sort_by_key(when);
}

async fn installation(client: &Client, facts: &mut Facts, ours: bool) {
    let system = facts.snapshot.system_namespace.clone();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &system);
    match deployments.get_opt(check::controller::NAME).await {
        Ok(found) => facts.controller = found,
        Err(error) => {
            facts.hidden.push(format!("the controller's Deployment: {}", reader::sentence(&error)));
        }
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), &system);
    match leases.get_opt(check::leader::LEASE).await {
        Ok(found) => facts.lease = found,
        Err(error) => facts.hidden.push(format!("the controllers' Lease: {}", reader::sentence(&error))),
    }
    let pods = list::<Pod>(Api::namespaced(client.clone(), &system), &ListParams::default()).await;
    facts.pods.extend(kept(pods, &format!("pods of {system}"), &mut facts.hidden));
    let mutating =
        list::<MutatingWebhookConfiguration>(Api::all(client.clone()), &ListParams::default()).await;
    let is_ours =
        |name: &Option<String>| name.as_deref().is_some_and(|name| name.ends_with(".serving.kserve.io"));
    let mutating = kept(mutating, "webhook configurations", &mut facts.hidden);
    facts.mutating = mutating.into_iter().filter(|found| is_ours(&found.metadata.name)).collect();
    let validating =
        list::<ValidatingWebhookConfiguration>(Api::all(client.clone()), &ListParams::default()).await;
    let validating = kept(validating, "webhook configurations", &mut facts.hidden);
    facts.validating = validating.into_iter().filter(|found| is_ours(&found.metadata.name)).collect();
    if facts.controller.is_some() {
        denied(client, facts).await;
    }
    if ours {
        admission(client, &system, facts).await;
        conversion(client, &system, facts).await;
    }
}

/// Finds out which rights of the shipped role the controller's account lacks.
async fn denied(client: &Client, facts: &mut Facts) {
    let user = format!(
        "system:serviceaccount:{}:{}",
        facts.snapshot.system_namespace,
        check::rights::account(facts)
    );
    let watched = check::controller::watched(facts.controller.as_ref());
    let needed = if watched.is_empty() {
        let open = check::controller::secret_namespaces(facts.controller.as_ref());
        let mut all = needed(ROLE, None);
        if open.is_empty() {
            all.extend(needed(SECRETS_ROLE, None));
        }
        all.extend(open.iter().flat_map(|namespace| needed(SECRETS_ROLE, Some(namespace))));
        all
    } else {
        watched.iter().flat_map(|namespace| needed(WATCHED_ROLE, Some(namespace))).collect()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let asked = stream::iter(needed)
        .map(|attributes| {
            let (reviews, user) = (reviews.clone(), user.clone());
            async move {
                let spec = SubjectAccessReviewSpec {
                    user: Some(user),
                    resource_attributes: Some(attributes.clone()),
                    ..SubjectAccessReviewSpec::default()
                };
                let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
                let answer = reviews.create(&PostParams::default(), &review).await;
                (attributes, answer.map(|review| review.status.is_some_and(|status| status.allowed)))
            }
        })
        .buffered(AT_ONCE);
    let mut asked = std::pin::pin!(asked);
    while let Some((attributes, answer)) = asked.next().await {
        match answer {
            Ok(true) => {}
            Ok(false) => facts.denied.push(in_words(&attributes)),
            Err(error) => {
                facts.hidden.push(format!("the rights of {user}: {}", reader::sentence(&error)));
                return;
            }
        }
    }
}

fn in_words(attributes: &ResourceAttributes) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (resource, group) = (part(&attributes.resource), part(&attributes.group));
    let resource = match &attributes.subresource {
        Some(below) => format!("{resource}/{below}"),
        None => resource,
    };
    let group = if group.is_empty() { group } else { format!(".{group}") };
    let place = attributes.namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    format!("{} {resource}{group}{place}", part(&attributes.verb))
}

/// Returns one access review for each verb on each resource of a shipped role.
fn needed(role: &str, namespace: Option<&Namespace>) -> Vec<ResourceAttributes> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(role).unwrap_or_default();
    let rules =
        documents.into_iter().filter_map(|mut role| serde_json::from_value(role["rules"].take()).ok());
    let mut all = Vec::new();
    for rule in rules.flat_map(|rules: Vec<PolicyRule>| rules) {
        for (group, resource) in rule
            .api_groups
            .iter()
            .flatten()
            .flat_map(|group| rule.resources.iter().flatten().map(move |resource| (group, resource)))
        {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, below)) => (resource, Some(below.to_owned())),
                None => (resource.as_str(), None),
            };
            let names: Vec<Option<String>> = match &rule.resource_names {
                Some(names) if !names.is_empty() => names.iter().cloned().map(Some).collect(),
                _ => vec![None],
            };
            for (verb, name) in rule.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, name)))
            {
                all.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.clone(),
                    verb: Some(verb.clone()),
                    name: name.clone(),
                    namespace: namespace.map(|one| one.as_deref().into()),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

/// Finds out whether a service could be created.
async fn admission(client: &Client, system: &str, facts: &mut Facts) {
    let api: Api<LLMInferenceService> = Api::namespaced(client.clone(), system);
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"generateName": "longboat-doctor-"}, "spec": {"model": {"uri": "hf://longboat/doctor"}},
    });
    let Ok(object) = serde_json::from_value(object) else { return };
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&dry, &object).await {
        Err(kube::Error::Api(status))
            if status.code == 403 && !status.message.contains("admission webhook") =>
        {
            facts.hidden.push(format!("whether services can be created: {}", status.message));
        }
        Err(kube::Error::Api(status)) => facts.admission = Some(status.message.clone()),
        Err(error) => facts.admission = Some(reader::sentence(&error)),
        Ok(_) => {}
    }
}

/// Finds out whether services can be read in the older version.
async fn conversion(client: &Client, system: &str, facts: &mut Facts) {
    let resource = ApiResource {
        group: "serving.kserve.io".into(),
        version: "v1alpha1".into(),
        api_version: "serving.kserve.io/v1alpha1".into(),
        kind: "LLMInferenceServiceConfig".into(),
        plural: "llminferenceserviceconfigs".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), system, &resource);
    // One preset is enough, because all objects go through the same webhook.
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            facts.hidden.push(format!("whether objects can be converted: {}", status.message));
        }
        Err(kube::Error::Api(status)) => facts.conversion = Some(status.message.clone()),
        Err(error) => facts.conversion = Some(reader::sentence(&error)),
        Ok(_) => {}
    }
}

/// Requests the models of services that report Ready, at their URLs and, through the API server, at their workloads.
async fn answers<F>(client: &Client, facts: &mut Facts, ask: impl Fn(String) -> F)
where
    F: Future<Output = Result<u16, String>>,
{
    let ready: Vec<_> = facts
        .services
        .iter()
        .filter(|service| {
            let conditions = service.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|found| found.type_ == "Ready" && found.is_true())
        })
        .cloned()
        .collect();
    let asked = stream::iter(ready)
        .map(|service| {
            let (client, ask) = (client.clone(), &ask);
            async move {
                let metadata = &service.metadata;
                let (namespace, name) = (
                    metadata.namespace.clone().unwrap_or_default(),
                    metadata.name.clone().unwrap_or_default(),
                );
                let url = service.status.as_ref().and_then(|status| status.url.clone());
                let at_url = match url {
                    Some(url) => {
                        let models = format!("{}/v1/models", url.trim_end_matches('/'));
                        let late = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
                        Some(tokio::time::timeout(PATIENCE, ask(models)).await.unwrap_or_else(|_| late()))
                    }
                    None => None,
                };
                let fine = matches!(at_url, None | Some(Ok(200)));
                let at_workload =
                    if fine { None } else { at_workload(&client, Namespace(&namespace), Name(&name)).await };
                (format!("{namespace}/{name}"), Answers { at_url, at_workload })
            }
        })
        .buffered(AT_ONCE);
    facts.answers = asked.collect().await;
}

/// Sends the request directly to the workload, without Gateways and pickers. Returns `None` if the API server does not
/// forward requests.
async fn at_workload(
    client: &Client,
    namespace: Namespace<&str>,
    name: Name<&str>,
) -> Option<Result<u16, String>> {
    let service = names::workload_service(name);
    for scheme in ["https", "http"] {
        let path = format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:8000/proxy/v1/models");
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        let answer = tokio::time::timeout(PATIENCE, client.request_text(request)).await;
        match answer {
            Ok(Ok(_)) => return Some(Ok(200)),
            // The server uses the other scheme.
            Ok(Err(kube::Error::Api(status))) if status.code == 503 || status.code == 400 => {}
            Ok(Err(kube::Error::Api(status))) if [403, 404, 405, 501].contains(&status.code) => return None,
            Ok(Err(kube::Error::Api(status))) => return Some(Ok(status.code)),
            Ok(Err(error)) => return Some(Err(reader::sentence(&error))),
            Err(_) => return Some(Err(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
    Some(Err("the API server cannot reach it".to_owned()))
}

async fn list<K>(api: Api<K>, parameters: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    Ok(reader::list(&api, parameters).await?.unwrap_or_default())
}

/// Returns the listed objects. If the list failed, returns none and adds a note.
fn kept<K>(listed: Result<Vec<K>, kube::Error>, what: &str, hidden: &mut Vec<String>) -> Vec<K> {
    listed.unwrap_or_else(|error| {
        hidden.push(format!("{what}: {}", reader::sentence(&error)));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_of_the_shipped_roles_is_asked_for() {
        let cluster = needed(ROLE, None);
        let words: Vec<String> = cluster.iter().map(in_words).collect();
        for right in [
            "create deployments.apps",
            "patch llminferenceservices/status.serving.kserve.io",
            "bind clusterroles.rbac.authorization.k8s.io",
        ] {
            assert!(words.iter().any(|word| word == right), "{right}: {words:#?}");
        }
        let namespace = Namespace("ns").to_shared();
        let within = needed(WATCHED_ROLE, Some(&namespace));
        assert!(within.len() > 50 && within.len() < cluster.len(), "{}", within.len());
        assert!(within.iter().any(|right| in_words(right) == "create deployments.apps in ns"));
    }
}
