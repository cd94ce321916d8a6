//! The composition root: watches, workers, and their end.

use std::{future::Future, sync::Arc};

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::Client;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    capabilities, config,
    context::Context,
    error::{Error, PassError},
    events,
    key::Key,
    queue::{Ended, Queue},
    readiness::{Check, Readiness},
    service,
    watch::{FirstList, Watched, watch},
};

/// Counts what has to be known before the first pass: a pass that sees half of the world would delete the other half.
#[derive(Clone)]
pub(crate) struct Startup {
    expected: mpsc::Sender<std::convert::Infallible>,
}

/// Held until something that was expected is known.
pub(crate) struct Expected(
    #[expect(dead_code, reason = "held to be dropped")] mpsc::Sender<std::convert::Infallible>,
);

impl Startup {
    /// Expects something; dropping the result says that it is known.
    pub(crate) fn expect(&self) -> Expected {
        Expected(self.expected.clone())
    }
}

/// Runs the controller until `shutdown`, against the API server behind `client`.
///
/// # Errors
/// When a task of the controller ends although it should not.
pub async fn run(args: Args, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
    let (sink, notes) = events::channel();
    let writer = tokio::spawn(events::write_all(client.clone(), notes));
    let context = Arc::new(Context::new(client, args, sink));
    let result = supervise(&context, &Readiness::default(), &shutdown).await;
    // The last sink goes with the context: what is still to be said is said, then the writer ends.
    drop(context);
    let _ = writer.await;
    result
}

/// Watches and reconciles until `shutdown`; says in `readiness` when the caches are filled.
pub(crate) async fn supervise(
    context: &Arc<Context>,
    readiness: &Readiness,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let stop = shutdown.child_token();
    let mut tasks = JoinSet::new();
    // Nothing is ever sent: the channel is closed when everything expected is known.
    let (expected, mut known) = mpsc::channel(1);
    let startup = Startup { expected };
    watch_all(context, &startup, &stop, &mut tasks);
    let follower = capabilities::follow(context.clone(), startup.clone(), stop.clone());
    tasks.spawn(follower);
    capabilities::version(context).await;
    drop(startup);

    let mut started = false;
    let result = loop {
        tokio::select! {
            () = stop.cancelled() => break Ok(()),
            ended = tasks.join_next() => match ended {
                Some(Ok(())) if stop.is_cancelled() => {}
                Some(Ok(())) => break Err(Error::Task("it ended".to_owned())),
                Some(Err(error)) => break Err(Error::Task(error.to_string())),
                None => break Err(Error::Task("all ended".to_owned())),
            },
            _ = known.recv(), if !started => {
                started = true;
                context.load_platform();
                readiness.pass(Check::Caches);
                tracing::info!("The caches are filled; reconciling starts.");
                start_workers(context, &stop, &mut tasks);
            }
        }
    };
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    result
}

fn watch_all(context: &Arc<Context>, startup: &Startup, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    start::<LLMInferenceService>(context, startup, stop, tasks);
    start::<LLMInferenceServiceConfig>(context, startup, stop, tasks);
    start::<ConfigMap>(context, startup, stop, tasks);
    start::<Secret>(context, startup, stop, tasks);
    start::<ServiceAccount>(context, startup, stop, tasks);
    start::<Service>(context, startup, stop, tasks);
    start::<Deployment>(context, startup, stop, tasks);
    start::<HorizontalPodAutoscaler>(context, startup, stop, tasks);
    start::<Pod>(context, startup, stop, tasks);
    start::<Role>(context, startup, stop, tasks);
    start::<RoleBinding>(context, startup, stop, tasks);
    let cluster = watch::<ClusterRoleBinding>(context.clone(), None, stop.clone(), known_once(startup));
    tasks.spawn(cluster);
}

fn start<K: Watched>(
    context: &Arc<Context>,
    startup: &Startup,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    for namespace in namespaces(&context.args) {
        tasks.spawn(watch::<K>(context.clone(), namespace, stop.clone(), known_once(startup)));
    }
}

/// What to call when the first list of a watch is known to have worked, or not to be possible.
fn known_once(startup: &Startup) -> impl Fn(FirstList) + Send + use<> {
    let expected = parking_lot::Mutex::new(Some(startup.expect()));
    move |_| drop(expected.lock().take())
}

/// The namespaces to watch one by one, or none for all at once.
fn namespaces(args: &Args) -> Vec<Option<String>> {
    if args.namespaces.is_empty() {
        return vec![None];
    }
    let mut all = args.namespaces.clone();
    all.push(args.system_namespace.clone());
    all.sort();
    all.dedup();
    all.into_iter().map(Some).collect()
}

fn start_workers(context: &Arc<Context>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    for _ in 0..context.args.workers {
        let (context, stop) = (context.clone(), stop.clone());
        tasks.spawn(async move {
            let pass = |key: Key| {
                let context = context.clone();
                async move { Box::pin(service::pass(&context, &key)).await }
            };
            work(&context.services, &stop, pass).await;
        });
    }
    // Configs change rarely, and their passes are short: one worker is enough.
    let (context, stop) = (context.clone(), stop.clone());
    tasks.spawn(async move {
        let pass = |key: Key| {
            let context = context.clone();
            async move { config::pass(&context, &key).await }
        };
        work(&context.configs, &stop, pass).await;
    });
}

/// Works on keys until cancelled; a pass that has begun is finished.
async fn work<F: Future<Output = Result<(), PassError>>>(
    queue: &Queue<Key>,
    stop: &CancellationToken,
    pass: impl Fn(Key) -> F,
) {
    loop {
        let key = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            key = queue.next() => key,
        };
        let ended = match pass(key.clone()).await {
            Ok(()) => Ended::Settled,
            Err(error) => {
                report(&key, &error);
                Ended::Failed
            }
        };
        queue.done(key, ended, rand::random());
    }
}

fn report(key: &Key, error: &PassError) {
    match error {
        PassError::Conflict { .. } => tracing::debug!(object = %key, %error, "The pass is tried again."),
        PassError::Request { source, .. } => {
            tracing::warn!(object = %key, %error, cause = %source, "The pass failed and is tried again.");
        }
        PassError::Unfinished(_) => {
            tracing::warn!(object = %key, %error, "The pass failed and is tried again.");
        }
    }
}
