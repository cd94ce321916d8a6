//! `longboat status`: shows the tree of running services.

use anyhow::bail;
use longboat_key::{Key, Name, Namespace};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::cluster::{self, Cluster};
use crate::{
    cli::{OutputFormat, StatusArgs},
    printer::{self, Stream},
    tree::{
        self, Environment, Follow, IDLE_REDRAW_INTERVAL, Line, Mark, REDRAW_INTERVAL, Scope, Screen,
        TreeObjects,
        conditions::{is_ready, serves},
        data, lines,
    },
};

/// Shows the tree. Returns whether all requested services are ready.
pub(crate) async fn status(args: &StatusArgs) -> anyhow::Result<bool> {
    let Cluster { client, environment } = cluster::connect(&args.look.cluster).await?;
    let scope = match &args.namespace {
        _ if args.all_namespaces => Scope::Everywhere,
        Some(namespace) => {
            cluster::namespace_exists(&client, Some(namespace)).await?;
            Scope::Namespace(namespace.clone())
        }
        None => Scope::Namespace(Namespace(client.default_namespace()).to_shared()),
    };
    let seen = tree::list_objects(&client, &scope).await?;
    if args.watch {
        // If the first list fails, the user gets its error. A watch alone would only retry.
        drop(seen);
        return follow(args, environment, &scope, Follow::start(&client, &scope)).await;
    }
    let names = names(args, &scope, &seen);
    let is_missing = |key: &&Key| lines::find(&seen, key).is_none();
    let (missing, found): (Vec<_>, Vec<_>) = names.iter().partition(is_missing);
    let found: Vec<_> = found.into_iter().cloned().collect();
    match args.look.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            printer::data(&data::list(&seen, &found), args.look.output)?;
        }
        OutputFormat::Text if names.is_empty() => printer::note(&nothing(&scope)),
        OutputFormat::Text => {
            printer::lines(&tree::text(&lines::all(&seen, &found, environment)));
        }
    }
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        bail!("LLMInferenceService {} not found", missing.join(", "));
    }
    let works = |key: &Key| {
        lines::find(&seen, key).is_some_and(|service| match environment {
            Environment::Laptop => serves(service),
            Environment::Cluster => is_ready(service),
        })
    };
    Ok(names.iter().all(works))
}

/// Redraws the tree on changes until a signal stops it.
async fn follow(
    args: &StatusArgs,
    environment: Environment,
    scope: &Scope,
    mut follow: Follow,
) -> anyhow::Result<bool> {
    let mut screen = Screen::new(Stream::Stdout);
    let mut resized = signal(SignalKind::window_change())?;
    let mut seen = follow.synced().await;
    loop {
        let mut all = lines::all(&seen, &names(args, scope, &seen), environment);
        if let Some(failure) = follow.failure() {
            let text = format!("no connection to the cluster, so these lines may be outdated: {failure}");
            all.push(Line::new(tree::CLUSTER.into(), text, Mark::Bad, 0));
        }
        screen.show(&all);
        let waits = screen.is_live && all.iter().any(|line| line.mark != Mark::Good);
        tokio::select! {
            () = follow.changed_by(Instant::now() + if waits { REDRAW_INTERVAL } else { IDLE_REDRAW_INTERVAL }) => {}
            _ = resized.recv() => {}
        }
        seen = follow.seen();
    }
}

/// Returns the keys of the requested services, in order.
fn names(args: &StatusArgs, scope: &Scope, seen: &TreeObjects) -> Vec<Key> {
    if let (Scope::Namespace(namespace), false) = (scope, args.services.is_empty()) {
        let key = |name: &Name| Key { namespace: namespace.clone(), name: name.clone() };
        return args.services.iter().map(key).collect();
    }
    let mut all: Vec<Key> = seen.services.iter().map(|service| Key::of(service.as_ref())).collect();
    all.sort();
    all
}

fn nothing(scope: &Scope) -> String {
    match scope {
        Scope::Everywhere => "There are no LLMInferenceServices.".to_owned(),
        Scope::Namespace(namespace) => {
            format!(
                "There are no LLMInferenceServices in namespace {namespace}. Use `-A` to see all \
                 namespaces."
            )
        }
    }
}
