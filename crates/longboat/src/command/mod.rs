//! Runs the verbs and roles of the command line, one file per verb.

pub(crate) mod cluster;
pub(crate) mod completion;
mod crds;
mod dashboard;
mod diff;
mod diff_objects;
mod doctor;
mod exit_code;
mod explain;
mod fetch;
mod finding;
pub(crate) mod input;
mod install;
mod man;
mod models;
mod reference;
mod render;
mod run;
pub(crate) mod simulate;
mod status;
mod uninstall;
mod up;
mod upgrade;
mod validate;
mod why;

use std::{future::Future, path::Path, process::ExitCode};

use longboat_telemetry::{
    logging::{self, Format, LogOptions},
    traces::{Otlp, Traces},
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

pub(crate) use self::exit_code::usage;
use self::exit_code::{report, report_comparison, report_success};
use crate::{
    cli::{ClusterArgs, Command},
    heap, printer, role,
    runtime::runtime,
};

/// Runs a verb or role.
pub(crate) fn run(command: Command) -> ExitCode {
    // A laptop's memory is for the model. Other roles start small.
    if matches!(command, Command::Up(_) | Command::Run(_)) {
        heap::give_back_freed_memory();
    }
    let is_verb = !matches!(
        command,
        Command::Reaper
            | Command::Controller(_)
            | Command::Epp(_)
            | Command::SharedPicker(_)
            | Command::Gateway(_)
            | Command::Sidecar(_)
            | Command::Fetch(_)
            | Command::Apiserver(_)
            | Command::Sim(_)
            | Command::Engine(_)
            | Command::Vllm(_)
    );
    let text = |default_filter: &str| LogOptions {
        default_filter: default_filter.to_owned(),
        ..LogOptions::default()
    };
    let picker_traces = || Otlp::default().traces("llm-d-epp");
    let sidecar_traces = || Otlp::default().traces("llm-d-disagg-sidecar");
    let (options, traces) = match &command {
        Command::Controller(args) => (args.logs.options(), args.traces.traces("longboat-controller")),
        Command::Epp(args) => (args.log_options(), args.tracing.then(picker_traces).flatten()),
        Command::Sidecar(args) => (args.log_options(), args.tracing.then(sidecar_traces).flatten()),
        // A person reads the tree, but errors are still logged. Errors of requests are reported together with their purpose.
        _ if is_verb => (text("error,kube_client=off"), None),
        // The storage initializer logs the lines of the reference's, which alerts match.
        Command::Fetch(_) => (text("info"), None),
        role => {
            let options = LogOptions { format: Format::of_environment(), ..text("info") };
            // These pick for many pools, so their own environment says where traces go.
            let picks = matches!(role, Command::SharedPicker(_) | Command::Gateway(_));
            (options, picks.then(picker_traces).flatten())
        }
    };
    if is_verb {
        logging::init_with(&options, traces.as_ref(), printer::LogLine::default);
    } else {
        logging::init(&options, traces.as_ref());
    }
    match command {
        Command::Up(args) => up::run(*args),
        Command::Run(args) => run::run(*args),
        Command::Validate(args) => report_success(validate::run(args)),
        Command::Render(args) => report_success(render::run(&args)),
        Command::Explain(args) => report(explain::run(&args)),
        Command::Diff(args) => report_comparison(diff::run(&args)),
        Command::Simulate(args) => report(simulate::run(&args)),
        Command::Status(args) => {
            report_success(runtime().and_then(|runtime| runtime.block_on(status::status(&args))))
        }
        Command::Doctor(args) => report_success(doctor::run(args)),
        Command::Dashboard(args) => report(dashboard::run(&args)),
        Command::Why(args) => report(why::run(&args)),
        Command::Crds(args) => report(crds::run(&args)),
        Command::Models(command) => report(models::run(&command)),
        Command::Install(args) => report(install::run(&args)),
        Command::Upgrade(args) => report_comparison(upgrade::run(&args)),
        Command::Uninstall(args) => report(uninstall::run(&args)),
        Command::Completion(args) => {
            completion::run(&args);
            report(Ok(()))
        }
        Command::Man(args) => report(man::run(&args)),
        Command::Version => {
            printer::line(&format!("longboat {}", env!("CARGO_PKG_VERSION")));
            report(Ok(()))
        }
        Command::CliReference => {
            reference::run();
            report(Ok(()))
        }
        Command::Reaper => report(longboat_node::reaper::run().map_err(Into::into)),
        Command::Controller(args) => serve(|shutdown| traced(traces, controller(*args, shutdown))),
        Command::Epp(args) => serve_on(longboat_epp::runtime().map_err(Into::into), |shutdown| {
            traced(traces, async { Ok(longboat_epp::run(*args, shutdown).await?) })
        }),
        Command::SharedPicker(args) => serve(|shutdown| {
            traced(traces, async {
                let client = kube::Client::try_from(cluster_config(None).await?)?;
                let client = longboat_watch::named(client, longboat_api::shared_picker::MANAGER);
                Ok(longboat_epp::run_shared(*args, client, shutdown).await?)
            })
        }),
        Command::Gateway(args) => serve(|shutdown| traced(traces, gateway(args, shutdown))),
        Command::Sidecar(args) => {
            let runtime = longboat_sidecar::runtime(&args).map_err(Into::into);
            serve_on(runtime, |shutdown| traced(traces, role::sidecar(*args, shutdown)))
        }
        Command::Fetch(args) => fetch::run(args),
        Command::Apiserver(args) => {
            serve(|shutdown| async { Ok(longboat_apiserver::run(args, shutdown).await?) })
        }
        Command::Sim(args) => serve(|shutdown| role::sim(args.arguments, shutdown)),
        Command::Engine(args) => report(role::engine(&args.arguments)),
        Command::Vllm(args) => serve(|shutdown| role::vllm(args.arguments, shutdown)),
    }
}

/// Runs a role until it ends by itself or a signal stops it.
fn serve<F>(role: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    serve_on(runtime(), role)
}

/// Like `serve`, on a runtime of the role's own.
fn serve_on<F>(runtime: anyhow::Result<Runtime>, role: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    report(
        runtime
            .and_then(|runtime| runtime.block_on(async { role(longboat_accept::shutdown_token()?).await })),
    )
}

/// Sends traces while a role runs, if traces are configured.
async fn traced(
    traces: Option<Traces>,
    role: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let Some(traces) = traces else { return role.await };
    let sending = match traces.start() {
        Ok(sending) => sending,
        // A failure of tracing must not stop the service.
        Err(error) => {
            tracing::error!(%error, "Cannot send traces.");
            return role.await;
        }
    };
    let result = role.await;
    sending.end().await;
    result
}

async fn controller(
    args: longboat_controller::ProcessArgs,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    // The allocator requests huge pages, of which small allocations fill only a part: a sixth of this process's memory was
    // unused. The process starts no others, which would inherit the setting. If the call fails, the process only needs more
    // memory.
    let _ = nix::sys::prctl::set_thp_disable(true);
    let config = cluster_config(args.kubeconfig.as_deref()).await?;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let client = kube::Client::try_from(config)?;
    Ok(longboat_controller::Process::bind(args).await?.with_host(&host).run(client, shutdown).await?)
}

async fn gateway(args: longboat_gateway::Args, shutdown: CancellationToken) -> anyhow::Result<()> {
    let client = kube::Client::try_from(cluster_config(args.kubeconfig.as_deref()).await?)?;
    Ok(longboat_gateway::serve(args, client, shutdown).await?)
}

/// Returns how a role reaches the API server.
async fn cluster_config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    let named = ClusterArgs { kubeconfig: kubeconfig.map(Path::to_owned), context: None };
    Ok(longboat_watch::with_read_timeout(cluster::config(&named).await?))
}
