//! The objects of Gateways on the API server, and the writes that make them as planned.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, PostParams, Preconditions},
    runtime::reflector::Store,
};
use longboat_key::Key;
use longboat_plan::Compare;
use longboat_watch::{Selection, has_code, text_of};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::children::{Children, LABEL};
use crate::watch::Source;

/// The objects of all Gateways, by the label that they have.
pub(super) struct Live {
    accounts: Store<ServiceAccount>,
    roles: Store<Role>,
    role_bindings: Store<RoleBinding>,
    cluster_role_bindings: Store<ClusterRoleBinding>,
    policies: Store<NetworkPolicy>,
    budgets: Store<PodDisruptionBudget>,
    deployments: Store<Deployment>,
    services: Store<Service>,
    /// Ends the watches.
    _tasks: JoinSet<()>,
}

/// A kind of object that Gateways have.
trait GatewayChild:
    Compare
    + Resource<DynamicType = ()>
    + Metadata<Ty = ObjectMeta>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> GatewayChild for K where
    K: Compare
        + Resource<DynamicType = ()>
        + Metadata<Ty = ObjectMeta>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Why Gateways lack objects, by Gateway.
pub(super) type Failures = BTreeMap<Key, String>;

// === impl Live ===

impl Live {
    pub(super) fn watch(source: &Source) -> Self {
        fn of<K: GatewayChild>(source: &Source, tasks: &mut JoinSet<()>) -> Store<K> {
            source.watch::<K>(&Selection::of::<K>().labelled(LABEL), tasks, |_| {})
        }
        let mut tasks = JoinSet::new();
        Self {
            accounts: of(source, &mut tasks),
            roles: of(source, &mut tasks),
            role_bindings: of(source, &mut tasks),
            cluster_role_bindings: of(source, &mut tasks),
            policies: of(source, &mut tasks),
            budgets: of(source, &mut tasks),
            deployments: of(source, &mut tasks),
            services: of(source, &mut tasks),
            _tasks: tasks,
        }
    }

    pub(super) fn deployments(&self) -> Vec<Arc<Deployment>> {
        self.deployments.state()
    }

    /// Writes the objects that differ from the planned ones, and removes those that are not planned. Pods start after their
    /// account has its rights.
    pub(super) async fn apply(&self, client: &Client, planned: Children) -> Failures {
        let mut failures = Failures::new();
        namespaced(client, planned.accounts, &self.accounts, &mut failures).await;
        namespaced(client, planned.roles, &self.roles, &mut failures).await;
        namespaced(client, planned.role_bindings, &self.role_bindings, &mut failures).await;
        let wide = |_: &ObjectMeta| Api::<ClusterRoleBinding>::all(client.clone());
        kind(planned.cluster_role_bindings, &self.cluster_role_bindings, wide, &mut failures).await;
        namespaced(client, planned.policies, &self.policies, &mut failures).await;
        namespaced(client, planned.budgets, &self.budgets, &mut failures).await;
        namespaced(client, planned.deployments, &self.deployments, &mut failures).await;
        namespaced(client, planned.services, &self.services, &mut failures).await;
        failures
    }
}

async fn namespaced<K>(client: &Client, planned: Vec<(Key, K)>, store: &Store<K>, failures: &mut Failures)
where
    K: GatewayChild + Resource<Scope = NamespaceResourceScope>,
{
    let api = |metadata: &ObjectMeta| {
        Api::<K>::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or_default())
    };
    kind(planned, store, api, failures).await;
}

/// Makes the objects of one kind as planned.
async fn kind<K: GatewayChild>(
    planned: Vec<(Key, K)>,
    store: &Store<K>,
    api: impl Fn(&ObjectMeta) -> Api<K>,
    failures: &mut Failures,
) {
    let mut live: BTreeMap<Key, Arc<K>> =
        store.state().into_iter().map(|object| (Key::of(object.as_ref()), object)).collect();
    for (gateway, mut object) in planned {
        object.fill_in_defaults();
        let key = Key::of(&object);
        let api = api(object.metadata());
        if let Err(error) = write(&api, &key, object, live.remove(&key).as_deref()).await {
            failures.entry(gateway).or_insert(format!("{} {key}: {error}", K::kind(&())));
        }
    }
    for (key, left) in live {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: left.metadata().uid.clone(), resource_version: None }),
            ..DeleteParams::background()
        };
        if let Err(error) = api(left.metadata()).delete(&key.name, &params).await
            && !has_code(&error, 404)
            && !has_code(&error, 409)
        {
            let error = text_of(&error);
            tracing::warn!(kind = %K::kind(&()), object = %key, %error, "Cannot remove an object of a Gateway that is gone.");
        }
    }
}

/// Creates or replaces an object that differs from the live one. Conflicts are no failures: the object's own watch event leads
/// to the next attempt.
async fn write<K: GatewayChild>(
    api: &Api<K>,
    key: &Key,
    mut object: K,
    live: Option<&K>,
) -> Result<(), String> {
    let params = PostParams::default();
    let Some(live) = live else {
        return match api.create(&params, &object).await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 409) => match api.get_opt(&key.name).await {
                Ok(Some(other))
                    if !other.metadata().labels.iter().flatten().any(|(label, _)| label == LABEL) =>
                {
                    Err("it exists already, and was not made for a Gateway: remove or rename it".to_owned())
                }
                Ok(_) => Ok(()),
                Err(error) => Err(text_of(&error)),
            },
            Err(error) => Err(text_of(&error)),
        };
    };
    if !object.differs(live) {
        return Ok(());
    }
    object.carry_over(live);
    match api.replace(&key.name, &params, &object).await {
        Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(text_of(&error)),
        _ => Ok(()),
    }
}
