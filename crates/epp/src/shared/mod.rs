//! The role `shared-picker`: one Deployment whose replicas pick for the pools of many services.
//!
//! [`marked`] reads the pickers from Deployments that the controller has labelled, [`plan`] decides what a replica does next,
//! [`hosting`] runs pickers and ports, and this file watches and writes. What the controller and this role tell each other is in
//! `longboat_api::shared_picker`.

mod args;
mod hosting;
mod limits;
mod marked;
mod monitoring;
mod page;
mod plan;
mod ports;
mod replicas;
mod slice;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    runtime::watcher,
};
use longboat_api::{
    labels::NAME,
    shared_picker::{MANAGED_BY, MANAGER, PICKER, SHARED},
};
use longboat_key::Key;
use longboat_telemetry::traces::own_collector;
use longboat_watch::{Events, Selection, Watched, has_code, text_of, text_of_watch};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::args::SharedArgs;
use self::{
    hosting::PoolHost,
    marked::MarkedDeployment,
    monitoring::{Monitoring, PoolRefusals, ServiceNames},
    plan::{ReplicaView, Step, step},
    ports::PortSettings,
    slice::{SliceState, key, slice_of, state_of},
};
use crate::{
    Error,
    discovery::kubernetes::is_ready,
    host::{LocalPickers, Pages},
    service,
};

/// How often to look at pickers that start and ports that close.
const CHANGING_INTERVAL: Duration = Duration::from_millis(100);
/// How often to look otherwise, and after a failed write.
const QUIET_INTERVAL: Duration = Duration::from_secs(2);
/// The most writes at a time.
const MAX_WRITES: usize = 8;
/// The time limit of a write. The API server's own one is longer than gateways wait for a picker.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A pod that picks.
struct Replica {
    address: IpAddr,
    /// Whether it ends, and takes no more pools.
    ends: bool,
}

/// Everything that a replica watches.
struct Cluster {
    deployments: (Events<Deployment>, Watched<MarkedDeployment>),
    slices: (Events<EndpointSlice>, Watched<EndpointSlice>),
    pods: (Events<Pod>, Watched<Replica>),
    max_pool_bytes: usize,
    decisions: u16,
    /// Where this process sends traces.
    collector: Option<String>,
}

/// Serves pools until `shutdown`, and then until other replicas have taken them over and their streams have ended.
///
/// # Errors
///
/// If the port for probes and metrics cannot be bound.
pub async fn run(args: SharedArgs, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
    longboat_tls::install_default_provider();
    let end = CancellationToken::new();
    let local = Arc::new(LocalPickers::default());
    let ready = Arc::new(AtomicBool::new(false));
    let services = ServiceNames::default();
    let refusals = PoolRefusals::default();
    let monitoring = Monitoring {
        is_ready: ready.clone(),
        local: local.clone(),
        // A loopback address is for the user of this machine.
        pages: if args.pod_ip.is_loopback() { Pages::open() } else { Pages::new(client.clone()) },
        names: services.clone(),
        refusals: refusals.clone(),
        max_bytes: args.max_pool_bytes,
        max_requests: args.max_pool_requests,
    };
    let probes = tokio::spawn(monitoring.run(monitoring::bind(&args).await?, end.clone()));
    let settings = PortSettings {
        address: args.pod_ip,
        range: args.ports.clone(),
        tls: service::self_signed_tls()?,
        streams: args.max_pool_requests,
        grace: args.drain_timeout,
    };
    let mut hosting = PoolHost::new(client.clone(), local, settings, args.close_delay(), args.max_pool_bytes);
    let mut cluster = Cluster::watch(&client, &args);
    let mut writes_failed = false;
    let mut leaving: Option<Instant> = None;
    tracing::info!(pod = args.pod_name, "Sharing pickers.");
    loop {
        let interval =
            if hosting.is_changing() && !writes_failed { CHANGING_INTERVAL } else { QUIET_INTERVAL };
        tokio::select! {
            () = cluster.changed() => {}
            () = tokio::time::sleep(interval) => {}
            () = shutdown.cancelled(), if leaving.is_none() => {
                leaving = Some(Instant::now());
                ready.store(false, Ordering::Release);
                tracing::info!("Shutting down: other replicas take over.");
            }
        }
        if !cluster.is_synced() {
            if leaving.is_some() {
                break;
            }
            continue;
        }
        ready.store(leaving.is_none(), Ordering::Release);
        let mut replicas = cluster.replicas();
        if leaving.is_some() {
            replicas.remove(&args.pod_name);
        }
        let ending = cluster.ending();
        refusals.store(Arc::new(hosting.count_refusals()));
        let hosted = hosting.hosted();
        let view = ReplicaView {
            own: (&args.pod_name, args.pod_ip),
            replicas: &replicas,
            ending: &ending,
            marked: &cluster.deployments.1.now,
            slices: &cluster.slices.1.now,
            hosted: &hosted,
        };
        let mut next = step(&view);
        // Nobody takes over: gateways learn that nobody picks, before the port closes.
        if replicas.is_empty() && leaving.is_some_and(|since| since.elapsed() >= args.close_delay()) {
            next.host.clear();
            next.write = cluster.without_address(args.pod_ip);
        }
        writes_failed = !write(&client, &next, &mut cluster.slices.1.now).await;
        services.store(Arc::new(cluster.service_names()));
        let named = cluster.named();
        hosting.follow(next.host, &named).await;
        let is_late =
            leaving.is_some_and(|since| since.elapsed() >= args.close_delay() * 2 + args.drain_timeout);
        if is_late || leaving.is_some() && hosting.is_empty() {
            break;
        }
    }
    hosting.ended().await;
    end.cancel();
    let _ = probes.await;
    Ok(())
}

/// Logs what interrupted a watch.
fn note<K>(applied: watcher::Result<bool>) {
    if let Err(error) = applied {
        tracing::debug!(error = %text_of_watch(&error), kind = std::any::type_name::<K>(), "Restarting a watch that failed.");
    }
}

// === impl Cluster ===

impl Cluster {
    fn watch(client: &Client, args: &SharedArgs) -> Self {
        let deployments = Selection::of::<Deployment>().labelled(format!("{PICKER}={SHARED}"));
        let slices = Selection::of::<EndpointSlice>().labelled(format!("{MANAGED_BY}={MANAGER}"));
        let pods = Selection::of::<Pod>().within(Some(args.pod_namespace.as_deref()));
        let pods = pods.labelled(args.replicas.clone());
        Self {
            deployments: (longboat_watch::decoded(client, &deployments), Watched::default()),
            slices: (longboat_watch::decoded(client, &slices), Watched::default()),
            pods: (longboat_watch::decoded(client, &pods), Watched::default()),
            max_pool_bytes: args.max_pool_bytes,
            decisions: args.decisions(),
            collector: own_collector(),
        }
    }

    /// Waits for the next event of a watch, and applies it.
    async fn changed(&mut self) {
        let Self { deployments, slices, pods, max_pool_bytes, decisions, collector } = self;
        tokio::select! {
            Some(event) = deployments.0.next() => {
                let collector = collector.as_deref();
                let read = |deployment| {
                    MarkedDeployment::of(&deployment, *max_pool_bytes, *decisions, collector)
                };
                note::<Deployment>(deployments.1.apply(event, read));
            }
            Some(event) = slices.0.next() => note::<EndpointSlice>(slices.1.apply(event, Some)),
            Some(event) = pods.0.next() => note::<Pod>(pods.1.apply(event, |pod| replica(&pod))),
        }
    }

    fn is_synced(&self) -> bool {
        self.deployments.1.is_synced && self.slices.1.is_synced && self.pods.1.is_synced
    }

    /// The replicas that can take pools.
    fn replicas(&self) -> BTreeMap<String, IpAddr> {
        let pods = self.pods.1.now.iter().filter(|(_, replica)| !replica.ends);
        pods.map(|(pod, replica)| (pod.name.to_string(), replica.address)).collect()
    }

    /// The addresses of replicas that end.
    fn ending(&self) -> BTreeSet<IpAddr> {
        self.pods.1.now.values().filter(|replica| replica.ends).map(|replica| replica.address).collect()
    }

    /// The places that slices name, with their pools.
    fn named(&self) -> Vec<(SocketAddr, Key)> {
        let pools = self.deployments.1.now.values().filter_map(|marked| {
            let place = state_of(self.slices.1.now.get(&key(&marked.deployment))?).place?;
            let pool = &marked.picker.as_ref().ok()?.spec.pool;
            Some((SocketAddr::new(place.address, place.port), pool.clone()))
        });
        pools.collect()
    }

    /// The names of the services, by their pools.
    fn service_names(&self) -> BTreeMap<Key, String> {
        let names = self.deployments.1.now.values().filter_map(|marked| {
            let pool = &marked.picker.as_ref().ok()?.spec.pool;
            Some((pool.clone(), marked.label(NAME)?.to_owned()))
        });
        names.collect()
    }

    /// The slices that name this address, without it.
    fn without_address(&self, own: IpAddr) -> Vec<EndpointSlice> {
        let named = self.deployments.1.now.values().filter(|marked| {
            let slice = self.slices.1.now.get(&key(&marked.deployment));
            slice.and_then(|slice| state_of(slice).place).is_some_and(|place| place.address == own)
        });
        named.map(|marked| slice_of(marked, &SliceState::default(), own)).collect()
    }
}

/// A pod that picks. A terminating pod is not ready, but still answers until others have taken its pools.
fn replica(pod: &Pod) -> Option<Replica> {
    let status = pod.status.as_ref()?;
    let is_ready = is_ready(status);
    let ends = pod.metadata.deletion_timestamp.is_some();
    let address = status.pod_ip.as_ref()?.parse().ok().filter(|_| is_ready || ends)?;
    Some(Replica { address, ends })
}

/// Writes and deletes slices. What the API server returns counts before the watch reports it. Returns whether all succeeded.
async fn write(client: &Client, step: &Step, known: &mut BTreeMap<Key, EndpointSlice>) -> bool {
    let writes = step.write.iter().map(|slice| async move {
        let key = Key::of_metadata(&slice.metadata);
        let api = Api::<EndpointSlice>::namespaced(client.clone(), &key.namespace);
        let mut object = json!(slice);
        (object["apiVersion"], object["kind"]) = ("discovery.k8s.io/v1".into(), "EndpointSlice".into());
        // Only this role writes these slices, so nobody else's fields are taken.
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&object);
        let written = tokio::time::timeout(WRITE_TIMEOUT, api.patch(&key.name, &params, &patch)).await;
        (key, written.map(|written| written.map(Some)))
    });
    let deletes = step.delete.iter().map(|key| async move {
        let api = Api::<EndpointSlice>::namespaced(client.clone(), &key.namespace);
        let deleted =
            tokio::time::timeout(WRITE_TIMEOUT, api.delete(&key.name, &DeleteParams::default())).await;
        let deleted = deleted.map(|deleted| match deleted {
            Err(error) if !has_code(&error, 404) => Err(error),
            _ => Ok(None),
        });
        (key.clone(), deleted)
    });
    // Slices are deleted after the others are written.
    let writes = stream::iter(writes).buffer_unordered(MAX_WRITES);
    let mut steps = writes.chain(stream::iter(deletes).buffer_unordered(MAX_WRITES));
    let mut all = true;
    while let Some((key, written)) = steps.next().await {
        match written {
            Ok(Ok(Some(slice))) => drop(known.insert(key, slice)),
            Ok(Ok(None)) => drop(known.remove(&key)),
            Ok(Err(error)) => {
                all = false;
                tracing::warn!(slice = %key, error = %text_of(&error), "Cannot write who picks for a pool; trying again.");
            }
            Err(_) => {
                all = false;
                tracing::warn!(slice = %key, "The API server does not answer in time; trying again.");
            }
        }
    }
    all
}
