//! `longboat up`: runs manifests on this machine.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use longboat_key::{Key, Name, Namespace};
use longboat_local::{AppliedDocument, Guard, Local, Options, StartError, StateError};
use longboat_manifest as manifest;
use owo_colors::OwoColorize;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::input;
use crate::{
    cli::UpArgs,
    dashboard::{self, ClusterBackend},
    printer,
    tree::{Environment, Scope, age},
    up::{engine, guide, node::StandInReport, prompt, service::Gateway, shutdown_message, watch::Watch},
};

/// Runs `up`.
pub(crate) fn run(args: UpArgs) -> ExitCode {
    let result = super::runtime().and_then(|runtime| {
        let result = runtime.block_on(async { up(args, longboat_accept::shutdown_token()?).await });
        // A read of standard input may still block; nothing depends on it.
        runtime.shutdown_timeout(Duration::from_millis(200));
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error, hint(&error).as_deref());
            ExitCode::FAILURE
        }
    }
}

/// Returns a hint for errors with an obvious solution.
fn hint(error: &anyhow::Error) -> Option<String> {
    if error.is::<longboat_dashboard::BindError>() {
        return Some("choose another port with `--dashboard-port`".into());
    }
    match error.downcast_ref::<StartError>()? {
        StartError::Port { what: "gateway", .. } => {
            Some("choose another port with `--port`, or use `--port 0` for any free port".into())
        }
        StartError::Port { .. } => Some("choose another port with `--api-port`".into()),
        StartError::State(StateError::InUse { .. }) => {
            Some("stop the other `longboat up`, or use another folder with `--state`".into())
        }
        _ => None,
    }
}

async fn up(args: UpArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let inputs = args.manifests.files();
    if inputs.is_empty() && args.state.is_none() {
        anyhow::bail!("no manifest given: pass a file, a folder, or `-` for standard input");
    }
    let documents = if inputs.is_empty() {
        Vec::new()
    } else {
        tokio::task::spawn_blocking(move || input::accepted_documents(&inputs)).await??
    };
    let chosen = engine::choose(&args, &documents).await?;
    printer::note(&format!("{} {}", "engine:".bold(), chosen.line()));
    let options = Options {
        port: args.port,
        api_port: args.api_port,
        state: args.state.clone(),
        executable: std::env::current_exe().context("cannot find the path of this executable")?,
        engine: chosen.engine.clone(),
        engine_reason: chosen.reason.clone(),
        offline: args.offline,
        node_labels: args.node_label.iter().cloned().collect(),
        strict_scheduling: args.strict_scheduling,
        guard: Guard {
            hosts: args.allow_host.clone(),
            origins: args.cors_origin.clone(),
            ..Guard::default()
        },
    };
    let dashboard = longboat_dashboard::Server::bind(args.dashboard_port).await?;
    let local = Local::start(options).await?;
    printer::note(&format!("{} http://{}", "gateway:".bold(), local.gateway_address()));
    printer::note(&format!("{} {}", "dashboard:".bold(), dashboard.url()));
    let closing = shutdown.child_token();
    let gateway = Gateway { address: local.gateway_address(), routes: local.routes() };
    let here =
        ClusterBackend::new(local.client(), Environment::Laptop, Scope::Everywhere, Some(gateway.clone()));
    let page = dashboard::serve(dashboard, here, closing.clone())?;
    let page = tokio::spawn(page);
    // The services that are known when a signal arrives.
    let services = Mutex::new(Vec::new());
    let mut stand_ins = StandInReport::new(local.stood_in_for());
    let result = tokio::select! {
        result = serve(&args, &local, gateway, &documents, &services) => result,
        never = stand_ins.run() => match never {},
        () = shutdown.cancelled() => Ok(()),
    };
    stand_ins.print();
    let asked_to_stop = shutdown.is_cancelled();
    if asked_to_stop {
        let services = services.lock().clone();
        let sentence = shutdown_message::stopping(&local.client(), &services).await;
        printer::erase();
        printer::note(&sentence);
    }
    closing.cancel();
    let _ = page.await;
    // A second signal does not wait for the shutdown.
    local.shutdown().await;
    if asked_to_stop {
        printer::note(&shutdown_message::stopped(args.state.as_deref()));
    }
    result
}

async fn serve(
    args: &UpArgs,
    local: &Local,
    gateway: Gateway,
    documents: &[manifest::Document],
    services: &Mutex<Vec<Key>>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let stood_in = local.stand_in(documents).await?;
    for text in &stood_in.notes {
        printer::note(&format!("{} {text}", "stand-in:".bold()));
    }
    let applied = local.apply(&stood_in.documents).await?;
    for object in &applied {
        for warning in &object.warnings {
            printer::note(&format!("{} {object}: {warning}", "warning:".yellow().bold()));
        }
    }
    let names = self::services(&applied);
    services.lock().clone_from(&names);
    if names.is_empty() && args.prompt.is_some() {
        anyhow::bail!("--prompt needs an LLMInferenceService, and the manifests contain none");
    }
    let mut watch = Watch::start(local.client(), names, gateway)?;
    let (services, groups) = watch.until_ready(Duration::from_secs(args.timeout)).await?;
    let took = age(begin.elapsed());
    if args.once {
        printer::leave();
    } else {
        printer::erase();
    }
    if let Some(text) = &args.prompt {
        for service in &services {
            if services.len() > 1 {
                printer::note(&format!("{}:", service.name.bold()));
            }
            prompt::ask(service, text).await?;
        }
    }
    if args.once {
        return Ok(());
    }
    for line in guide::lines(&services, &groups, local.kubeconfig(), &took) {
        printer::note(&line);
    }
    watch.forever(vec!["Press Ctrl-C to stop everything.".into()]).await
}

fn services(applied: &[AppliedDocument]) -> Vec<Key> {
    let own = applied.iter().filter(|object| object.kind == "LLMInferenceService");
    own.map(|object| Key::new(Namespace(&object.namespace), Name(&object.name))).collect()
}
