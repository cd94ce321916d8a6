//! The composition root: starts and stops watches and workers.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use longboat_api::names::CONTROLLER_LEASE;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use longboat_gateway::PodTemplate;
use longboat_key::Key;
use longboat_lease::Candidate;
use longboat_plan::{kinds, types};

use crate::{
    adapters,
    args::Args,
    capabilities, config,
    context::Context,
    downloads,
    error::{Error, ReconcileError},
    events,
    metrics::{Metrics, Worker},
    migration, outbound,
    pod_polling::poll,
    proof,
    queue::{Queue, ReconcileOutcome},
    readiness::{Check, Readiness},
    secret_contents::SecretMetadata,
    service, spans,
    startup::Startup,
    watch::{
        self, FirstList,
        kinds::{Availability, Rules, WatchedKind},
        scopes,
    },
};

/// The time that running reconciles get at shutdown. It fits into the grace period of a pod.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the controller until `shutdown`, against the API server behind `client`.
///
/// # Errors
/// If a task of the controller ends unexpectedly.
pub async fn run(args: Args, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
    let (sink, notes) = events::channel();
    let metrics = Metrics::new();
    let client = outbound::watched(client, metrics.clone(), "".into(), None);
    let writer = tokio::spawn(events::write_all(client.clone(), notes));
    let context = Arc::new(Context::new(client, args, sink, metrics));
    let result = supervise(&context, &Readiness::default(), None, &shutdown).await;
    // The last sink is dropped with the context: the writer writes the remaining events, then ends.
    drop(context);
    let _ = tokio::time::timeout(events::SHUTDOWN_TIMEOUT, writer).await;
    result
}

/// Watches until `shutdown`, and reconciles while `candidate` leads, or all the time if there is none. Sets `readiness` when
/// the caches are filled.
pub(crate) async fn supervise(
    context: &Arc<Context>,
    readiness: &Readiness,
    candidate: Option<Candidate>,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let stop = shutdown.child_token();
    let mut watches = JoinSet::new();
    let (startup, mut known) = Startup::channel();
    if candidate.is_some() {
        context.services.close();
        context.configs.close();
    }
    watch_all(context, &startup, &stop, &mut watches);
    watches.spawn(capabilities::follow(context.clone(), startup.clone(), stop.clone()));
    stop.run_until_cancelled(capabilities::version(context)).await;
    // Only the watches hold the sender from here on, so the channel closes when the last of them has its first list.
    drop(startup);

    let reconciling = async {
        if stop.run_until_cancelled(known.recv()).await.is_none() {
            return Ok(());
        }
        context.load_platform();
        readiness.done(Check::Caches);
        tracing::info!("The caches are filled.");
        match candidate {
            Some(candidate) => lead(context, candidate, &stop).await,
            None => work_all(context, &stop).await,
        }
    };
    let mut reconciling = std::pin::pin!(reconciling);
    let result = tokio::select! {
        result = &mut reconciling => result,
        broken = first_end(&mut watches, &stop) => {
            // As at a shutdown: reconciles that run are finished, and the lease is released.
            stop.cancel();
            reconciling.await.and(Err(broken))
        }
    };
    stop.cancel();
    while watches.join_next().await.is_some() {}
    result
}

/// Returns the error when a watch ends before the shutdown.
async fn first_end(watches: &mut JoinSet<()>, stop: &CancellationToken) -> Error {
    let error = match watches.join_next().await {
        Some(Ok(())) => Error::Task("it ended".to_owned()),
        Some(Err(error)) => Error::Task(error.to_string()),
        None => Error::Task("all ended".to_owned()),
    };
    // At a shutdown, watches end as they should. The caller then waits for the reconciles.
    if stop.is_cancelled() {
        return std::future::pending().await;
    }
    error
}

/// Reconciles while holding the lease. On shutdown, running reconciles finish before the lease is released, so the successor
/// finds no half-done work and two processes never write at the same time. If the lease is lost, running reconciles are
/// dropped.
async fn lead(
    context: &Arc<Context>,
    mut candidate: Candidate,
    stop: &CancellationToken,
) -> Result<(), Error> {
    if !candidate.acquire(stop).await {
        return Ok(());
    }
    // Opened before the caches are read: a change in between would be lost, since a closed queue drops keys.
    context.services.open();
    context.configs.open();
    context.enqueue_all();
    for config in context.caches.configs.all() {
        context.configs.add_background(Key::of(config.as_ref()));
    }
    // Services that were changed while there was no leader come before those that are only checked again.
    for service in context.caches.inference_services.all() {
        if service.is_unobserved() {
            context.services.add_changed(Key::of(service.as_ref()));
        }
        // Each service is decoded from text here, and there may be thousands.
        tokio::task::yield_now().await;
    }
    let result = tokio::select! {
        // A lost lease must stop the workers before they run again.
        biased;
        lost = candidate.keep() => {
            context.metrics.set_leading(false);
            return Err(Error::LeaseLost { lease: CONTROLLER_LEASE, why: lost.to_string() });
        }
        result = work_all(context, stop) => result,
    };
    context.metrics.set_leading(false);
    candidate.release().await;
    result
}

/// Watches the kinds that every cluster serves.
fn watch_all(context: &Arc<Context>, startup: &Startup, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            $(if matches!(types::$kind::SERVED, Availability::Always) {
                start::<types::$kind>(context, startup, stop, tasks);
            })*
        };
    }
    kinds!(all each);
    start::<Namespace>(context, startup, stop, tasks);
    start::<SecretMetadata>(context, startup, stop, tasks);
}

fn start<K: WatchedKind>(
    context: &Arc<Context>,
    startup: &Startup,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    for namespace in scopes::<K>(&context.args) {
        let first = known_once::<K>(context, namespace.clone(), startup);
        let watch = watch::watch::<K>(context.clone(), namespace, stop.clone(), first);
        // Boxed, so that there is one kind of task and not one for each kind of object.
        tasks.spawn(watch.boxed());
    }
}

/// Returns a callback for the first list of a watch, which may have succeeded or failed.
fn known_once<K: WatchedKind>(
    context: &Arc<Context>,
    namespace: Option<longboat_key::Namespace>,
    startup: &Startup,
) -> impl Fn(FirstList) + Send + use<K> {
    let expected = parking_lot::Mutex::new(Some(startup.expect()));
    let context = context.clone();
    move |how| {
        context.note_right(<K as WatchedKind>::KIND, namespace.clone(), how != FirstList::Forbidden);
        drop(expected.lock().take());
    }
}

/// Reconciles services and configs until cancelled, and then finishes the running reconciles. If this future is dropped, they
/// end at once.
async fn work_all(context: &Arc<Context>, stop: &CancellationToken) -> Result<(), Error> {
    tracing::info!("Reconciling starts.");
    context.metrics.workers(Worker::Services, context.args.workers);
    context.metrics.workers(Worker::Configs, 1);
    context.metrics.set_leading(true);
    context.services.start();
    context.configs.start();
    let mut workers = JoinSet::new();
    for _ in 0..context.args.workers {
        let (context, stop) = (context.clone(), stop.clone());
        workers.spawn(async move {
            let reconcile = |key: Key| {
                let context = context.clone();
                async move {
                    let _under_way = context.events.reconciling();
                    Box::pin(service::reconcile(&context, &key)).await
                }
            };
            work(&context, Worker::Services, &context.services, &stop, reconcile).await;
        });
    }
    // Configs change rarely, and their reconciles are short: one worker is enough.
    let (configs, ends) = (context.clone(), stop.clone());
    workers.spawn(async move {
        let reconcile = |key: Key| {
            let context = configs.clone();
            async move { config::reconcile(&context, &key).await }
        };
        work(&configs, Worker::Configs, &configs.configs, &ends, reconcile).await;
    });
    let mut beside = |task: BoxFuture<'static, ()>| {
        let ends = stop.clone();
        workers.spawn(async move {
            ends.run_until_cancelled(task).await;
        });
    };
    beside(migration::run(context.clone()).boxed());
    beside(proof::run(context.clone()).boxed());
    beside(poll(context.clone(), |context| &context.downloads, downloads::collect).boxed());
    beside(poll(context.clone(), |context| &context.adapters, adapters::collect).boxed());
    if let Some(image) = context.args.gateway_image.clone() {
        let secrets = context.args.secret_namespaces.clone();
        beside(longboat_gateway::manage(context.client.clone(), PodTemplate { image }, secrets).boxed());
    }
    let drained = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    let mut drained = std::pin::pin!(drained);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                None => return Ok(()),
                // The migration ends by itself, all others when `stop` is cancelled.
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(Error::Task(error.to_string())),
            },
            () = &mut drained => {
                tracing::warn!("Dropped the reconciles that did not end in time.");
                return Ok(());
            }
        }
    }
}

/// Reconciles keys until cancelled. A reconcile that runs is finished.
async fn work<F: Future<Output = Result<(), ReconcileError>>>(
    context: &Context,
    worker: Worker,
    queue: &Queue<Key>,
    stop: &CancellationToken,
    reconcile: impl Fn(Key) -> F,
) {
    while let Some(key) = stop.run_until_cancelled(queue.next()).await {
        let measured = context.metrics.reconcile(worker);
        let span = spans::reconcile(worker, &key);
        let result = reconcile(key.clone()).instrument(span.clone()).await;
        spans::ended(&span, &result);
        measured(&result);
        let ended = match result {
            Ok(()) => ReconcileOutcome::Settled,
            Err(error) => {
                report(&key, &error);
                if matches!(error, ReconcileError::Conflict { .. }) {
                    ReconcileOutcome::Conflict
                } else {
                    ReconcileOutcome::Failed
                }
            }
        };
        queue.done(key, ended, rand::random());
    }
}

fn report(key: &Key, error: &ReconcileError) {
    match error {
        ReconcileError::Conflict { .. } => {
            tracing::debug!(object = %key, %error, "Retrying the reconcile.");
        }
        ReconcileError::Request { .. } | ReconcileError::Status { .. } | ReconcileError::Unfinished(_) => {
            tracing::warn!(object = %key, %error, "The reconcile failed; will retry.");
        }
    }
}
