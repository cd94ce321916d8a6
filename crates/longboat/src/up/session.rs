//! One run of a local cluster with a person's manifests, from the start to the end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::jiff::Timestamp;
use longboat_api::annotations::STOP;
use longboat_key::Key;
use longboat_local::{Guard, Local, Options, Picking};
use longboat_manifest::Document;
use longboat_offline::Settings;
use owo_colors::OwoColorize;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    Service,
    chat::Conversation,
    edits::Edits,
    engine::EngineSelection,
    guide,
    interrupts::Interrupts,
    manifests,
    node::{self, StandInReport},
    prompt,
    question::Gateway,
    shutdown_message, unused_images,
    watch::Watch,
};
use crate::{
    cli::LocalArgs,
    dashboard::{self, ClusterBackend},
    printer,
    tree::{Environment, Scope, age},
};

/// What to run, and what to do with it.
pub(crate) struct Session<'a> {
    pub(crate) args: &'a LocalArgs,
    /// The port of the gateway.
    pub(crate) port: u16,
    pub(crate) engine: EngineSelection,
    pub(crate) documents: Vec<Document>,
    pub(crate) purpose: Purpose,
}

/// What a session is for, once its services are ready.
pub(crate) enum Purpose {
    /// Sends the prompt, if there is one, and ends, or serves until a signal.
    Serve { prompt: Option<String>, once: bool, edits: Option<Edits> },
    /// Sends the prompt to the only service, or chats with it.
    Converse { conversation: Conversation, prompt: Option<String>, interrupts: Arc<Interrupts> },
}

// === impl Session ===

impl Session<'_> {
    /// Starts the cluster, serves the purpose, and stops everything.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let begin = Timestamp::now();
        // First, so that a port in use is known before anything has started.
        let dashboard = longboat_dashboard::Server::bind(self.args.dashboard_port).await?;
        let local = Local::start(self.options()?).await?;
        if self.is_serving() {
            printer::labelled("gateway:", format_args!("http://{}", local.gateway_address()));
            printer::labelled("dashboard:", dashboard.url());
        }
        if let Some(line) = node::rewritten_paths(local.rewritten(), &self.engine.engine) {
            printer::note(&line);
        }
        // Not the token itself: the page also ends when the run ends without a signal.
        let closing = shutdown.child_token();
        let gateway =
            Gateway { address: local.gateway_address(), routes: local.routes(), keys: local.keys() };
        let here = ClusterBackend::new(
            local.client(),
            Environment::Laptop,
            Scope::Everywhere,
            Some(gateway.clone()),
            Settings::default(),
        );
        let page = tokio::spawn(dashboard::serve(dashboard, here, closing.clone())?);
        // The services that are known when a signal arrives.
        let names = Arc::new(Mutex::new(Vec::new()));
        let mut stand_ins = StandInReport::new(local.stood_in_for());
        let state = self.args.state.clone();
        let result = tokio::select! {
            result = self.serve(&local, gateway, begin, &names) => result,
            never = stand_ins.run() => match never {},
            () = shutdown.cancelled() => Ok(()),
        };
        stand_ins.print();
        let asked_to_stop = shutdown.is_cancelled();
        if asked_to_stop {
            let sentence = shutdown_message::stopping(&local.client()).await;
            printer::erase();
            printer::note(&sentence);
        }
        closing.cancel();
        let _ = page.await;
        // A second signal does not wait for the shutdown.
        local.shutdown().await;
        if asked_to_stop {
            printer::note(&shutdown_message::stopped(state.as_deref()));
        }
        result
    }

    fn is_serving(&self) -> bool {
        matches!(self.purpose, Purpose::Serve { .. })
    }

    fn options(&self) -> anyhow::Result<Options> {
        let args = self.args;
        let executable: PathBuf =
            std::env::current_exe().context("cannot find the path of this executable")?;
        let traces = args.write_traces.as_deref().map(trace_folder).transpose()?;
        if traces.is_some() && args.picking != Picking::Pods {
            bail!("--write-traces: pickers in the gateway write no traces; leave --picking out");
        }
        let mut node = longboat_node::Options::new(executable);
        node.engine = self.engine.engine.clone();
        node.engine_reason.clone_from(&self.engine.reason);
        node.offline = args.offline;
        node.labels = args.node_label.iter().cloned().collect();
        node.strict_scheduling = args.strict_scheduling;
        node.rewrite_paths = args.rewrite_paths;
        node.images = args.image.iter().cloned().collect();
        node.traces = traces;
        Ok(Options {
            port: self.port,
            api_port: args.api_port,
            state: args.state.clone(),
            node,
            picking: args.picking,
            guard: Guard {
                hosts: args.allow_host.clone(),
                origins: args.cors_origin.clone(),
                ..Guard::default()
            },
        })
    }

    async fn serve(
        &mut self,
        local: &Local,
        gateway: Gateway,
        begin: Timestamp,
        names: &Arc<Mutex<Vec<Key>>>,
    ) -> anyhow::Result<()> {
        let written = manifests::write(local, &self.documents).await?;
        let is_serving = self.is_serving();
        if let Purpose::Serve { prompt: Some(_), .. } = self.purpose
            && written.is_empty()
        {
            anyhow::bail!("--prompt needs an LLMInferenceService, and the manifests contain none");
        }
        let all = manifests::services(&local.client()).await;
        let earlier: Vec<String> =
            all.iter().filter(|service| !written.contains(service)).map(ToString::to_string).collect();
        if !earlier.is_empty() {
            printer::labelled("also running:", format_args!("{}, from an earlier run", earlier.join(", ")));
        }
        names.lock().clone_from(&written);
        let mut watch = Watch::start(local.client(), names.clone(), gateway, begin, is_serving)?;
        let timeout = Duration::from_secs(self.args.timeout);
        let (services, groups) = watch.until_ready(timeout).await?;
        let took = age(Timestamp::now().duration_since(begin).unsigned_abs());
        for text in unused_images::unused_image_notes(&local.client(), &self.args.image).await? {
            printer::labelled("note:", text);
        }
        match &mut self.purpose {
            Purpose::Converse { conversation, prompt, interrupts } => {
                printer::erase();
                let [service] = services.as_slice() else {
                    anyhow::bail!("expected one service, and there are {}", services.len());
                };
                if let Some(prompt) = prompt {
                    conversation.ask(service, prompt, interrupts).await
                } else {
                    interrupts.set_chatting(true);
                    let result = conversation.chat(service, interrupts).await;
                    interrupts.set_chatting(false);
                    result
                }
            }
            Purpose::Serve { prompt, once, edits } => {
                if *once {
                    printer::leave();
                } else {
                    printer::erase();
                }
                if let Some(text) = prompt {
                    if services.is_empty() {
                        bail!("nothing answers the prompt: {}", stopped(&written));
                    }
                    ask_each(&services, text).await?;
                }
                if *once {
                    return Ok(());
                }
                for line in guide::lines(&services, &groups, local.kubeconfig(), &took) {
                    printer::note(&line);
                }
                let footer = vec!["Press Ctrl-C to stop everything.".into()];
                match edits.take() {
                    None => watch.forever(footer).await,
                    Some(edits) => tokio::select! {
                        never = watch.forever(footer) => never,
                        never = edits.follow(local, names) => match never {},
                    },
                }
            }
        }
    }
}

/// Says that services are stopped on purpose.
fn stopped(services: &[Key]) -> String {
    let names: Vec<String> = services.iter().map(ToString::to_string).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} stopped: remove the annotation {STOP}", names.join(", "))
}

/// Creates the folder for traces, if it does not exist. Pods start in folders of their own, so its path is made absolute.
fn trace_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    let create = || std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    create().with_context(|| format!("--write-traces {}: cannot create the folder", folder.display()))
}

async fn ask_each(services: &[Service], text: &str) -> anyhow::Result<()> {
    for service in services {
        if services.len() > 1 {
            printer::note(&format!("{}:", service.name.bold()));
        }
        prompt::ask(service, text).await?;
    }
    Ok(())
}
