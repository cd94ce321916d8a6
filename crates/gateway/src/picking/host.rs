//! Runs the pickers: one task for each, which starts its picker again if it fails.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::{foreign::inferencepool::InferencePool, labels};
use longboat_epp::{Args, PoolPicker, needs_pod};
use longboat_key::Key;
use longboat_watch::{Decode, Selection, text_of, text_of_watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    LocalPicker, LocalPickers, Picking, State,
    spec::{self, PickerSpec},
};

/// The wait before a picker that failed is started again. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Runs the pickers of all pools until shutdown, where `picking` says.
pub(crate) async fn run(
    client: Client,
    picking: Picking,
    local: Arc<LocalPickers>,
    shutdown: CancellationToken,
) {
    let (pools, changes) = watch::<InferencePool>(&client, &Selection::of::<InferencePool>());
    let mut watches = vec![changes];
    let selection = match picking {
        Picking::InPods => None,
        Picking::InGateway => {
            let label = format!("{}={}", labels::COMPONENT, labels::component::SCHEDULER);
            Some(Selection::of::<Pod>().labelled(&label))
        }
        Picking::ForPods => Some(Selection::of::<Pod>()),
    };
    let pods = selection.map(|selection| {
        let (pods, changes) = watch::<Pod>(&client, &selection);
        watches.push(changes);
        pods
    });
    let mut changes = futures::stream::select_all(watches);
    let mut host = Host { client, local, running: Vec::new(), tasks: JoinSet::new() };
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(()) = changes.next() => {
                let pods = pods.as_ref().map(Store::state).unwrap_or_default();
                let pools = pools.state();
                host.follow(spec::all(pools.iter().map(AsRef::as_ref), pods.iter().map(AsRef::as_ref), picking));
            }
            Some(_) = host.tasks.join_next() => {}
        }
    }
    host.running.clear();
    while host.tasks.join_next().await.is_some() {}
}

/// Watches a kind. The stream signals changes.
fn watch<K>(client: &Client, selection: &Selection) -> (Store<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Decode + Send + Sync + 'static,
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

struct Host {
    client: Client,
    local: Arc<LocalPickers>,
    running: Vec<PickerTask>,
    tasks: JoinSet<()>,
}

/// A picker with its task, which ends when this is dropped.
struct PickerTask {
    spec: PickerSpec,
    picker: Arc<LocalPicker>,
    _stop: DropGuard,
}

// === impl Host ===

impl Host {
    /// Runs these pickers and no others. A picker whose spec is unchanged goes on.
    fn follow(&mut self, specs: Vec<PickerSpec>) {
        self.running.retain(|task| specs.contains(&task.spec));
        for spec in specs {
            if self.running.iter().any(|task| task.spec == spec) {
                continue;
            }
            let picker = Arc::new(LocalPicker::new(&spec.pool, spec.address));
            let stop = CancellationToken::new();
            self.tasks.spawn(keep_running(spec.clone(), picker.clone(), self.client.clone(), stop.clone()));
            self.running.push(PickerTask { spec, picker, _stop: stop.drop_guard() });
        }
        let mut by_pool: HashMap<Key, Vec<Arc<LocalPicker>>> = HashMap::new();
        for task in &self.running {
            by_pool.entry(task.spec.pool.clone()).or_default().push(task.picker.clone());
        }
        self.local.by_pool.store(Arc::new(by_pool));
    }
}

/// Runs a picker until `stop`. After an error, it starts again with empty state: a failed task may have left any.
async fn keep_running(spec: PickerSpec, picker: Arc<LocalPicker>, client: Client, stop: CancellationToken) {
    let Ok(args) = Args::parse(&spec.arguments) else { return };
    if let Some(need) = needs_pod(&args) {
        tracing::debug!(pool = %spec.pool, "The picker runs in its pod, because it needs {need}.");
        picker.state.store(Arc::new(State::InPod));
        return;
    }
    let mut wait = FIRST_RETRY;
    while let Err(error) = attempt(args.clone(), &picker, client.clone(), stop.clone()).await {
        tracing::warn!(pool = %spec.pool, error = %chain(&error), "A picker in the gateway failed; starting it again.");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(MAX_RETRY);
    }
}

async fn attempt(
    args: Args,
    picker: &LocalPicker,
    client: Client,
    stop: CancellationToken,
) -> Result<(), longboat_epp::Error> {
    // In a task of its own, so that a panic is an error.
    let loaded = tokio::spawn(PoolPicker::load(args)).await.map_err(longboat_epp::Error::Task)??;
    let loaded = Arc::new(loaded);
    picker.state.store(Arc::new(State::Running(loaded.clone())));
    let ended = loaded.host(client, stop).await;
    picker.state.store(Arc::new(State::Starting));
    ended
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let text = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref().map_or_else(|| error.to_string(), text_of)
    };
    causes.fold(error.to_string(), |all, cause| format!("{all}: {}", text(cause)))
}
