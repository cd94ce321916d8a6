//! The control loop of the gateway: reads watches, writes the routing table and the statuses.

use std::{collections::BTreeMap, fmt::Debug, future, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Namespace, Pod, Secret, Service},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::{
    foreign::{
        backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass,
        httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet,
        listenerset::ListenerSet, referencegrant::ReferenceGrant, scaledobject::ScaledObject,
    },
    v1alpha2::LLMInferenceService,
};
use longboat_watch::Selection;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    RoutingInputs, keys,
    ports::Listeners,
    resolved::Resolved,
    route::{RouteParser, Tables},
    status::{self, Updates},
};

/// How long to collect changes. They come in bursts (a rollout changes pods, slices and routes at once), and one computation
/// handles a whole burst.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// The wait after a failed status write. The next change usually comes first.
const RETRY: Duration = Duration::from_secs(1);

/// The fields of statuses that are omitted if they are empty. A merge patch has to name them to remove them.
const OPTIONAL_FIELDS: [&str; 3] = ["addresses", "attachedListenerSets", "listeners"];

struct Stores {
    classes: Store<GatewayClass>,
    gateways: Store<Gateway>,
    routes: Store<HTTPRoute>,
    pools: Store<InferencePool>,
    namespaces: Store<Namespace>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    pods: Store<Pod>,
    inference: Store<LLMInferenceService>,
    listener_sets: Store<ListenerSet>,
    grants: Store<ReferenceGrant>,
    secrets: Store<Secret>,
    api_keys: Store<Secret>,
    tls_policies: Store<BackendTLSPolicy>,
    config_maps: Store<ConfigMap>,
    deployments: Store<Deployment>,
    leader_worker_sets: Store<LeaderWorkerSet>,
    autoscalers: Store<HorizontalPodAutoscaler>,
    scaled_objects: Store<ScaledObject>,
}

/// Updates the ports, the tables and the statuses until `shutdown`.
pub(crate) async fn run(
    client: Client,
    mut listeners: Listeners,
    tables: Arc<ArcSwap<Tables>>,
    shutdown: CancellationToken,
) {
    // The capacity is one: a pending signal also covers later changes.
    let (changed, mut wake) = mpsc::channel(1);
    let mut watches = Vec::new();
    let stores = Stores {
        classes: all(&client, &changed, &mut watches),
        gateways: all(&client, &changed, &mut watches),
        routes: all(&client, &changed, &mut watches),
        pools: all(&client, &changed, &mut watches),
        namespaces: all(&client, &changed, &mut watches),
        services: all(&client, &changed, &mut watches),
        slices: all(&client, &changed, &mut watches),
        pods: all(&client, &changed, &mut watches),
        inference: all(&client, &changed, &mut watches),
        listener_sets: all(&client, &changed, &mut watches),
        grants: all(&client, &changed, &mut watches),
        // Only those with certificates: the others are none of the gateway's business.
        secrets: watch(
            &client,
            &Selection::of::<Secret>().fields("type=kubernetes.io/tls"),
            &changed,
            &mut watches,
        ),
        api_keys: watch_changed(
            &client,
            &Selection::of::<Secret>().labelled(format!("{}=true", keys::LABEL)),
            // Before the Secret is stored, so that memory has no key.
            keys::hash_keys,
            &changed,
            &mut watches,
        ),
        tls_policies: all(&client, &changed, &mut watches),
        config_maps: all(&client, &changed, &mut watches),
        deployments: all(&client, &changed, &mut watches),
        leader_worker_sets: all(&client, &changed, &mut watches),
        autoscalers: all(&client, &changed, &mut watches),
        scaled_objects: all(&client, &changed, &mut watches),
    };
    let keep_watching =
        futures::future::join_all(watches.into_iter().map(|stream| stream.for_each(|()| future::ready(()))));
    let mut parser = RouteParser::default();
    let mut refused_keys = BTreeMap::new();
    let reconcile = async {
        while wake.recv().await.is_some() {
            tokio::time::sleep(DEBOUNCE).await;
            let observed = stores.observed();
            listeners.follow(&observed).await;
            let ports = listeners.ports();
            let resolved = Resolved::new(&observed, ports, &mut parser);
            let next = Tables::new(&observed, ports, &resolved);
            for (secret, reason) in &next.keys().refused {
                if refused_keys.get(secret) != Some(reason) {
                    tracing::warn!(%secret, reason, "A Secret with an API key cannot be used; its keys are refused.");
                }
            }
            refused_keys.clone_from(&next.keys().refused);
            next.replace(&tables);
            let now = Time(jiff_now());
            if let Err(error) = report(&client, status::updates(&observed, &resolved, &now)).await {
                tracing::warn!(%error, "Cannot write the status of a Gateway; will retry.");
                tokio::time::sleep(RETRY).await;
                let _ = changed.try_send(());
            }
        }
    };
    tokio::select! {
        _ = keep_watching => {}
        () = reconcile => {}
        () = shutdown.cancelled() => {}
    }
    listeners.ended().await;
}

fn jiff_now() -> k8s_openapi::jiff::Timestamp {
    // Conditions have times in whole seconds.
    let now = k8s_openapi::jiff::Timestamp::now();
    k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn all<K>(client: &Client, changed: &mpsc::Sender<()>, watches: &mut Vec<BoxStream<'static, ()>>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    watch(client, &Selection::of::<K>(), changed, watches)
}

fn watch<K>(
    client: &Client,
    selection: &Selection,
    changed: &mpsc::Sender<()>,
    watches: &mut Vec<BoxStream<'static, ()>>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    watch_changed(client, selection, |_| {}, changed, watches)
}

/// Like `watch`, but changes objects before they are stored.
fn watch_changed<K>(
    client: &Client,
    selection: &Selection,
    change: fn(&mut K),
    changed: &mpsc::Sender<()>,
    watches: &mut Vec<BoxStream<'static, ()>>,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    let changed = changed.clone();
    let stream = longboat_watch::decoded::<K>(client, selection)
        .modify(change)
        .reflect(writer)
        .map(move |event| match event {
            // A new list is only signalled when it is complete. Otherwise the gateway would see a partial cluster.
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Ok(_) => {
                let _ = changed.try_send(());
            }
            Err(error) => {
                tracing::debug!(%error, kind = std::any::type_name::<K>(), "Restarting a watch that failed.");
            }
        })
        .boxed();
    watches.push(stream);
    reader
}

async fn report(client: &Client, updates: Updates) -> Result<(), kube::Error> {
    let Updates { classes, gateways, listener_sets, routes, pools, policies } = updates;
    for class in classes {
        write(&Api::<GatewayClass>::all(client.clone()), &class.metadata, &class.status).await?;
    }
    for gateway in gateways {
        write(&namespaced::<Gateway>(client, &gateway.metadata), &gateway.metadata, &gateway.status).await?;
    }
    for set in listener_sets {
        write(&namespaced::<ListenerSet>(client, &set.metadata), &set.metadata, &set.status).await?;
    }
    for policy in policies {
        let api = namespaced::<BackendTLSPolicy>(client, &policy.metadata);
        write(&api, &policy.metadata, &policy.status).await?;
    }
    for route in routes {
        write(&namespaced::<HTTPRoute>(client, &route.metadata), &route.metadata, &route.status).await?;
    }
    for pool in pools {
        write(&namespaced::<InferencePool>(client, &pool.metadata), &pool.metadata, &pool.status).await?;
    }
    Ok(())
}

fn namespaced<K>(client: &Client, metadata: &ObjectMeta) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
{
    Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or_default())
}

/// Writes a status that was computed from this version of the object. If the object has changed or is gone, its own watch
/// event triggers the next computation.
async fn write<K>(api: &Api<K>, metadata: &ObjectMeta, status: &impl Serialize) -> Result<(), kube::Error>
where
    K: Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let mut body = json!({"metadata": {"resourceVersion": metadata.resource_version}, "status": status});
    for field in OPTIONAL_FIELDS {
        if body["status"][field].is_null() {
            body["status"][field] = serde_json::Value::Null;
        }
    }
    let name = metadata.name.as_deref().unwrap_or_default();
    match api.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

// === impl Stores ===

impl Stores {
    fn observed(&self) -> RoutingInputs {
        RoutingInputs {
            classes: self.classes.state(),
            gateways: self.gateways.state(),
            routes: self.routes.state(),
            pools: self.pools.state(),
            namespaces: self.namespaces.state(),
            services: self.services.state(),
            slices: self.slices.state(),
            pods: self.pods.state(),
            inference: self.inference.state(),
            listener_sets: self.listener_sets.state(),
            grants: self.grants.state(),
            secrets: self.secrets.state(),
            api_keys: self.api_keys.state(),
            tls_policies: self.tls_policies.state(),
            config_maps: self.config_maps.state(),
            deployments: self.deployments.state(),
            leader_worker_sets: self.leader_worker_sets.state(),
            autoscalers: self.autoscalers.state(),
            scaled_objects: self.scaled_objects.state(),
        }
    }
}
