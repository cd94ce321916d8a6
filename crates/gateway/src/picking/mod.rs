//! Pickers in the gateway's own process. Requests reach them without gRPC and without a copy of their bodies.
//!
//! [`spec`] says which pickers to run; `longboat_epp` hosts them.

mod spec;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, runtime::reflector::Store};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_epp::host::{Host, LocalPickers};
use longboat_watch::Selection;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use self::spec::{of_cluster, trim};
use crate::source::Source;

/// Where endpoint pickers run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Picking {
    /// In their pods, which the gateway calls for each request
    #[default]
    Pods,
    /// In the gateway, unless a picker needs something of its pod
    Gateway,
}

/// Runs the pickers of one machine until shutdown. If the gateway picks, it also answers the health checks and serves the metrics of the
/// pickers' pods, on their addresses. A pool that names no picker always has one in the gateway, with the default configuration.
pub(crate) async fn run(
    client: Client,
    picking: Picking,
    local: Arc<LocalPickers>,
    shutdown: CancellationToken,
) {
    // A list that is not complete wakes nobody: it would end the pickers that are not listed yet.
    let (source, mut wake) = Source::new(&client);
    let mut watches = JoinSet::new();
    let pools = source.watch::<InferencePool>(&Selection::of::<InferencePool>(), &mut watches);
    let pods =
        (picking == Picking::Gateway).then(|| source.watch::<Pod>(&Selection::of::<Pod>(), &mut watches));
    // Local mode sends no traces.
    let mut host = Host::new(client, local, None);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(()) = wake.recv() => {
                let pods = pods.as_ref().map(Store::state).unwrap_or_default();
                let pools = pools.state();
                host.follow(spec::of_machine(pools.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref)));
            }
        }
    }
    host.ended().await;
}
