//! The objects of Gateways on the API server, and the writes that make them as planned.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
    runtime::reflector::Store,
};
use longboat_key::{Key, Namespace};
use longboat_plan::Compare;
use longboat_watch::{ReceivedObject, Selection, has_code, text_of};
use tokio::task::JoinSet;

use super::children::{Children, LABEL, deployment_of};
use crate::{
    keys,
    secret_namespaces::SecretNamespaces,
    source::{Source, Watchable},
};

/// The objects of all Gateways, by the label that they have.
pub(super) struct Live {
    accounts: Store<ServiceAccount>,
    roles: Store<Role>,
    role_bindings: Store<RoleBinding>,
    cluster_role_bindings: Store<ClusterRoleBinding>,
    api_keys: Vec<Store<Secret>>,
    policies: Store<NetworkPolicy>,
    budgets: Store<PodDisruptionBudget>,
    deployments: Store<Deployment>,
    services: Store<Service>,
    /// Ends the watches.
    _tasks: JoinSet<()>,
}

/// Why Gateways lack objects, by Gateway.
pub(super) type Failures = BTreeMap<Key, String>;

// === impl Live ===

impl Live {
    pub(super) fn watch(source: &Source, secrets: &SecretNamespaces) -> Self {
        fn of<K: Compare + Watchable>(source: &Source, tasks: &mut JoinSet<()>) -> Store<K> {
            source.watch::<K>(&Selection::of::<K>().labelled(LABEL), tasks)
        }
        let mut tasks = JoinSet::new();
        let copies = Selection::of::<Secret>().labelled(LABEL).fields(format!("type={}", keys::COPY_TYPE));
        let mut copies_in = |namespace| source.watch(&copies.clone().within(namespace), &mut tasks);
        let api_keys = secrets.scopes().into_iter().map(&mut copies_in).collect();
        Self {
            accounts: of(source, &mut tasks),
            roles: of(source, &mut tasks),
            role_bindings: of(source, &mut tasks),
            cluster_role_bindings: of(source, &mut tasks),
            api_keys,
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

    /// Writes the objects that differ from the planned ones, and removes those that are neither planned nor retained. Pods start after
    /// their account has its rights.
    pub(super) async fn apply(&self, client: &Client, planned: Children) -> Failures {
        let mut writer = Writer { client, retained: planned.retained, failures: Failures::new() };
        writer.write_all(planned.accounts, self.accounts.state()).await;
        let copies = self.api_keys.iter().flat_map(Store::state).collect();
        writer.write_all(planned.api_keys, copies).await;
        writer.write_all(planned.roles, self.roles.state()).await;
        writer.write_all(planned.role_bindings, self.role_bindings.state()).await;
        writer.write_all(planned.cluster_role_bindings, self.cluster_role_bindings.state()).await;
        writer.write_all(planned.policies, self.policies.state()).await;
        writer.write_all(planned.budgets, self.budgets.state()).await;
        writer.write_all(planned.deployments, self.deployments.state()).await;
        writer.write_all(planned.services, self.services.state()).await;
        writer.failures
    }
}

struct Writer<'a> {
    client: &'a Client,
    /// The names of Deployments whose objects stay as they are.
    retained: BTreeSet<Key>,
    failures: Failures,
}

// === impl Writer ===

impl Writer<'_> {
    /// Makes the objects of one kind as planned.
    async fn write_all<K: Compare + Watchable>(&mut self, planned: Vec<(Key, K)>, live: Vec<Arc<K>>) {
        let objects = |metadata: &ObjectMeta| {
            Selection::of::<K>().within(metadata.namespace.as_deref().map(Namespace)).objects(self.client)
        };
        let mut live: BTreeMap<Key, Arc<K>> =
            live.into_iter().map(|object| (Key::of(object.as_ref()), object)).collect();
        for (gateway, mut object) in planned {
            object.fill_in_defaults();
            let key = Key::of(&object);
            let objects = objects(object.metadata());
            if let Err(error) = write(&objects, &key, object, live.remove(&key).as_deref()).await {
                self.failures.entry(gateway).or_insert(format!("{} {key}: {error}", K::kind(&())));
            }
        }
        for (key, left) in live {
            // A typing error in a ConfigMap must not take the address of a load balancer away.
            if deployment_of(left.metadata()).is_some_and(|name| self.retained.contains(&name)) {
                continue;
            }
            let params = DeleteParams {
                // A watch may be behind, and another object may have the name by now.
                preconditions: Some(Preconditions {
                    uid: left.metadata().uid.clone(),
                    resource_version: None,
                }),
                ..DeleteParams::background()
            };
            if let Err(error) = objects(left.metadata()).delete(&key.name, &params).await
                && !has_code(&error, 404)
                && !has_code(&error, 409)
            {
                let error = text_of(&error);
                tracing::warn!(kind = %K::kind(&()), object = %key, %error, "Cannot remove an object of a Gateway that is gone.");
            }
        }
    }
}

/// Creates or replaces an object that differs from the live one. Conflicts are no failures: the object's own watch event leads
/// to the next attempt.
async fn write<K: Compare + Watchable>(
    objects: &Api<ReceivedObject>,
    key: &Key,
    mut object: K,
    live: Option<&K>,
) -> Result<(), String> {
    let Some(live) = live else {
        return match longboat_watch::create(objects, &object).await {
            Ok(()) => Ok(()),
            // The watch selects by label, so it does not show an object of somebody else.
            Err(error) if has_code(&error, 409) => match objects.get_opt(&key.name).await {
                Ok(Some(other)) if !is_labelled(&other) => {
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
    match longboat_watch::replace(objects, &key.name, &object).await {
        Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(text_of(&error)),
        _ => Ok(()),
    }
}

/// Whether an object was made for a Gateway.
fn is_labelled(object: &ReceivedObject) -> bool {
    let metadata = object.read_metadata().unwrap_or_default();
    metadata.labels.is_some_and(|labels| labels.contains_key(LABEL))
}
