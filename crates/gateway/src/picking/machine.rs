//! The pickers of one machine: for every pod of a picker, and for pools that name none.

use std::sync::Arc;

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_epp::host::{Host, LocalPickers};
use longboat_watch::{Selection, text_of_watch};
use tokio_util::sync::CancellationToken;

use super::{Picking, spec};

/// Runs pickers until shutdown. Those of pods are in the gateway, if it is to pick, and then it also answers health checks and serves
/// metrics on the addresses of the pods, which leave it their ports. A pool that names no picker always has one in the gateway, with
/// the default configuration.
pub(crate) async fn run(
    client: Client,
    picking: Picking,
    local: Arc<LocalPickers>,
    shutdown: CancellationToken,
) {
    let (pools, changes) = watch::<InferencePool>(&client, &Selection::of::<InferencePool>());
    let mut watches = vec![changes];
    let pods = (picking == Picking::Gateway).then(|| {
        let (pods, changes) = watch::<Pod>(&client, &Selection::of::<Pod>());
        watches.push(changes);
        pods
    });
    let mut changes = futures::stream::select_all(watches);
    let mut host = Host::new(client, local);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(()) = changes.next() => {
                let pods = pods.as_ref().map(Store::state).unwrap_or_default();
                let pools = pools.state();
                host.follow(spec::of_machine(pools.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref)));
            }
        }
    }
    host.ended().await;
}

/// Watches a kind. The stream signals changes.
fn watch<K>(client: &Client, selection: &Selection) -> (Store<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + longboat_watch::Decode + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    let changes = longboat_watch::decoded::<K>(client, selection).reflect(writer).filter_map(|event| {
        let changed = match event {
            // A list that is not complete would end the pickers that are not listed yet.
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => None,
            Ok(_) => Some(()),
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), kind = std::any::type_name::<K>(), "Restarting a watch that failed.");
                None
            }
        };
        std::future::ready(changed)
    });
    (reader, changes.boxed())
}
