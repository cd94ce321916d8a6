//! `longboat status`: the tree of services that run.

use std::{process::ExitCode, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{cluster, runtime};
use crate::{
    cli::{Shown, StatusArgs},
    printer::{self, Stream},
    tree::{self, Follow, Line, Place, Scope, Screen, Seen, lines},
};

/// While nothing changes there is nothing to draw.
const LONG: Duration = Duration::from_hours(1);

/// Runs `status` to its end.
pub(crate) fn run(args: &StatusArgs) -> ExitCode {
    match runtime().and_then(|runtime| runtime.block_on(status(args))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            printer::error(&error, None);
            ExitCode::FAILURE
        }
    }
}

/// Whether all services that were asked for are ready.
async fn status(args: &StatusArgs) -> anyhow::Result<bool> {
    let client = cluster::client(&args.cluster).await?;
    let place = cluster::place(&client).await?;
    let scope = match &args.namespace {
        _ if args.all_namespaces => Scope::Everywhere,
        Some(namespace) => Scope::Namespace(namespace.clone()),
        None => Scope::Namespace(client.default_namespace().to_owned()),
    };
    let seen = tree::look(&client, &scope).await?;
    if args.watch {
        // A first look that fails says why; a watch only tries again.
        drop(seen);
        follow(args, place, &scope, Follow::start(&client, &scope)).await;
        return Ok(true);
    }
    let names = names(args, &scope, &seen);
    let all = lines::all(&seen, &names, place);
    match args.output {
        Shown::Json => printer::line(&serde_json::to_string_pretty(&as_json(&all))?),
        Shown::Text if all.is_empty() => printer::note(&nothing(&scope)),
        Shown::Text => {
            printer::piece(&tree::text(&all));
        }
    }
    let works = |(namespace, name): &(String, String)| {
        lines::find(&seen, namespace, name).is_some_and(|service| match place {
            Place::Laptop => lines::serves(service),
            Place::Cluster => lines::is_ready(service),
        })
    };
    Ok(names.iter().all(works))
}

/// Draws what changes until somebody ends it.
async fn follow(args: &StatusArgs, place: Place, scope: &Scope, mut follow: Follow) {
    let mut screen = Screen::new(Stream::Stdout);
    let mut seen = follow.synced().await;
    loop {
        screen.show(&lines::all(&seen, &names(args, scope, &seen), place));
        follow.changed_by(Instant::now() + LONG).await;
        seen = follow.seen();
    }
}

/// Namespaces and names of the services that were asked for, in order.
fn names(args: &StatusArgs, scope: &Scope, seen: &Seen) -> Vec<(String, String)> {
    if let (Scope::Namespace(namespace), false) = (scope, args.services.is_empty()) {
        return args.services.iter().map(|name| (namespace.clone(), name.clone())).collect();
    }
    let mut all: Vec<_> = seen
        .services
        .iter()
        .map(|service| {
            let metadata = &service.metadata;
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}

fn nothing(scope: &Scope) -> String {
    match scope {
        Scope::Everywhere => "There is no LLMInferenceService.".to_owned(),
        Scope::Namespace(namespace) => {
            format!("There is no LLMInferenceService in namespace {namespace}; `-A` looks at all namespaces.")
        }
    }
}

/// One object for each service, with the lines below it.
fn as_json(all: &[Line]) -> Value {
    let mut services: Vec<Value> = Vec::new();
    for line in all {
        let said = json!({"state": line.mark, "text": line.text});
        match line.subject.split_once(' ') {
            None => {
                let mut service = json!({"service": line.subject, "lines": []});
                service["state"] = said["state"].clone();
                service["text"] = said["text"].clone();
                services.push(service);
            }
            Some((_, about)) => {
                if let Some(below) = services.last_mut().and_then(|service| service["lines"].as_array_mut()) {
                    below.push(json!({
                        "about": about, "depth": line.depth, "state": said["state"], "text": said["text"],
                    }));
                }
            }
        }
    }
    Value::Array(services)
}
