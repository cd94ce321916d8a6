//! Runs the pickers: one task for each, which starts its picker again if it fails.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use longboat_key::Key;
use longboat_watch::text_of;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    local::{LocalPicker, LocalPickers, State},
    spec::PickerSpec,
};
use crate::{Args, Error, PoolPicker, backoff::Backoff, needs_pod};

/// The wait before a picker that failed is started again.
const RESTARTS: Backoff = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };

/// How often to look whether a picker takes requests, so that its former one can end.
const SUCCESSION_INTERVAL: Duration = Duration::from_millis(50);

/// The running pickers.
pub struct Host {
    client: Client,
    local: Arc<LocalPickers>,
    /// Where this process sends traces.
    collector: Option<String>,
    running: Vec<PickerTask>,
    tasks: JoinSet<()>,
}

/// A picker with its task, which ends when this is dropped.
struct PickerTask {
    spec: PickerSpec,
    picker: Arc<LocalPicker>,
    /// The previous picker, which answers until this one is ready.
    former: Former,
    _stop: DropGuard,
}

/// A picker that still answers. Its successor ends it once ready, unless a later successor takes it over first.
type Former = Arc<Mutex<Option<PickerTask>>>;

// === impl Host ===

impl Host {
    /// A host without pickers. Those that it will run are found in `local`. `collector` is where this process sends traces: a picker
    /// that sends them elsewhere stays in its pod.
    pub fn new(client: Client, local: Arc<LocalPickers>, collector: Option<String>) -> Self {
        Self { client, local, collector, running: Vec::new(), tasks: JoinSet::new() }
    }

    /// Runs these pickers and no others. A picker whose spec is unchanged goes on. One with another spec goes on until its
    /// successor takes requests, unless it answers on the address of a pod, which has gone with the pod.
    pub fn follow(&mut self, specs: Vec<PickerSpec>) {
        // A `JoinSet` keeps tasks that have ended until somebody asks for them.
        while self.tasks.try_join_next().is_some() {}
        let (kept, mut replaced): (Vec<_>, Vec<_>) =
            self.running.drain(..).partition(|task| specs.contains(&task.spec));
        self.running = kept;
        for spec in specs {
            if self.running.iter().any(|task| task.spec == spec) {
                continue;
            }
            let precedes = |task: &PickerTask| {
                task.spec.pool == spec.pool && task.spec.address.is_none() && spec.address.is_none()
            };
            let former = replaced.iter().position(precedes).map(|at| replaced.swap_remove(at));
            // Of several changes in a row, the picker before the first one answers until the last one is done.
            let former = former.and_then(|former| match former.picker.running() {
                Some(_) => Some(former),
                None => former.former.lock().take(),
            });
            let former: Former = Arc::new(Mutex::new(former));
            let picker = Arc::new(LocalPicker::new(&spec.pool, spec.address));
            let stop = CancellationToken::new();
            self.tasks.spawn(keep_running(
                spec.clone(),
                picker.clone(),
                former.clone(),
                self.client.clone(),
                self.collector.clone(),
                stop.clone(),
            ));
            self.running.push(PickerTask { spec, picker, former, _stop: stop.drop_guard() });
        }
        drop(replaced);
        let mut by_pool: HashMap<Key, Vec<Arc<LocalPicker>>> = HashMap::new();
        for task in &self.running {
            let pickers = by_pool.entry(task.spec.pool.clone()).or_default();
            pickers.extend(task.former.lock().as_ref().map(|former| former.picker.clone()));
            pickers.push(task.picker.clone());
        }
        self.local.by_pool.store(Arc::new(by_pool));
    }

    /// Ends all pickers.
    pub async fn ended(mut self) {
        self.running.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Runs a picker until `stop`. After an error, it starts again with empty state: a failed task may have left any.
async fn keep_running(
    spec: PickerSpec,
    picker: Arc<LocalPicker>,
    former: Former,
    client: Client,
    collector: Option<String>,
    stop: CancellationToken,
) {
    let Ok(args) = Args::parse(&spec.arguments) else { return };
    if let Some(need) = needs_pod(&args).or_else(|| spec.needs_collector(collector.as_deref())) {
        tracing::debug!(pool = %spec.pool, "The picker runs in its pod, because it needs {need}.");
        picker.state.store(Arc::new(State::InPod));
        former.lock().take();
        return;
    }
    let mut wait = Duration::ZERO;
    loop {
        let began = Instant::now();
        let ended = attempt(args.clone(), &picker, &former, client.clone(), stop.clone()).await;
        let Err(error) = ended else { return };
        wait = RESTARTS.next(wait, began.elapsed());
        let problem = chain(&error);
        tracing::warn!(pool = %spec.pool, error = %problem, "A picker failed; starting it again.");
        picker.state.store(Arc::new(State::Failed(problem)));
        let Some(()) = stop.run_until_cancelled(tokio::time::sleep(wait)).await else { return };
    }
}

async fn attempt(
    args: Args,
    picker: &LocalPicker,
    former: &Former,
    client: Client,
    stop: CancellationToken,
) -> Result<(), Error> {
    // In a task of its own, so that a panic is an error.
    let loaded = tokio::spawn(PoolPicker::load(args)).await.map_err(Error::Task)??;
    let loaded = Arc::new(loaded);
    picker.state.store(Arc::new(State::Running(loaded.clone())));
    let succeed = async {
        while former.lock().is_some() && !loaded.is_serving() {
            tokio::time::sleep(SUCCESSION_INTERVAL).await;
        }
        former.lock().take();
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = loaded.host(client, stop) => ended,
        () = succeed => Ok(()),
    };
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
