//! Prepares a pod's volumes and starts its containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use longboat_api::engine::{ENGINES, Engine as ModelServer, VLLM};
use longboat_watch::text_of;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::download::ask_for_progress;
use super::machine::State;
use super::services;
use super::worker::{Message, RunningInstance, Worker};
use crate::container::env::{self, EnvError};
use crate::container::host::{Host, PodSite};
use crate::container::instance;
use crate::container::launch::{self, Launch, LaunchError};
use crate::container::process::Process;
use crate::container::sources::Sources;
use crate::controllers::{api_beside, merge};
use crate::events::Severity;
use crate::hosts::HOSTS;
use crate::options::{ENGINE_ANNOTATION, Engine};
use crate::pod_access::LiveContainer;
use crate::private;
use crate::probe::Target;
use crate::volume::{self, SERVICE_ACCOUNT, VolumeError};

/// The longest lifetime of a token that an API server issues. The node does not renew tokens; they end with their pod.
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Why a container cannot be started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot read ConfigMaps and Secrets: {}", text_of(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Env(#[from] EnvError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found")]
    NoAccount { namespace: String, name: String },
    #[error("cannot write the credentials of the service account: {source}")]
    Credentials { source: std::io::Error },
    #[error("cannot write the hosts file: {source}")]
    Hosts { source: std::io::Error },
    #[error("cannot run {program}: {source}")]
    Spawn { program: String, source: std::io::Error },
}

impl StartError {
    /// Returns the waiting reason for the status.
    fn reason(&self) -> &'static str {
        match self {
            Self::Launch(_) => "NoLocalRole",
            Self::Spawn { .. } => "RunContainerError",
            _ => "CreateContainerConfigError",
        }
    }
}

impl Worker {
    /// Mounts the volumes. Returns `false` if the caller must try again.
    pub(super) async fn prepare(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| at > Instant::now()) {
            return false;
        }
        match self.mount().await {
            Ok(()) => return true,
            Err(StartError::Api(error)) => tracing::debug!(
                error = %text_of(&error),
                pod = %self.pod.name_any(),
                "Cannot read the objects for the volumes of a pod."
            ),
            Err(error) => {
                let recorder = &self.shared.recorder;
                recorder.publish(self.pod.as_ref(), Severity::Warning, "FailedMount", error.to_string());
            }
        }
        self.retry_at = Some(Instant::now() + self.shared.timing.prepare_retry);
        false
    }

    /// Updates the volumes of a running pod.
    pub(super) async fn sync_volumes(&mut self) {
        if volume::can_change(&self.pod)
            && let Err(error) = self.mount().await
        {
            tracing::debug!(%error, pod = %self.pod.name_any(), "Cannot update the volumes of a pod.");
        }
    }

    async fn mount(&mut self) -> Result<(), StartError> {
        let namespace = self.pod.namespace().unwrap_or_default();
        let sources = Sources::load(&self.shared.client, &namespace, volume::wanted(&self.pod)).await?;
        let site = volume::Site {
            pod_dir: self.directory.path().to_owned(),
            claims_dir: self.shared.claims_dir.clone(),
            tokens: self.requested_tokens().await?,
            simulator: self.shared.host.engine == Engine::Simulator,
        };
        self.volumes = Some(volume::mount(&self.pod, &site, &sources, &self.facts)?);
        Ok(())
    }

    /// Returns the tokens of the pod's service account by audience, which is empty for the API server. Requests each once,
    /// and writes the API server's to the place where programs look for it, unless the pod or its account wants none.
    async fn requested_tokens(&mut self) -> Result<BTreeMap<String, String>, StartError> {
        if let Some(tokens) = &self.tokens {
            return Ok(tokens.clone());
        }
        let namespace = self.pod.namespace().unwrap_or_default();
        let name = self.account_name();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.shared.client.clone(), &namespace);
        let missing = || StartError::NoAccount { namespace: namespace.clone(), name: name.clone() };
        let account = accounts.get_opt(&name).await?.ok_or_else(missing)?;
        let wanted = self.pod.spec.as_ref().and_then(|spec| spec.automount_service_account_token);
        let mounts = wanted.or(account.automount_service_account_token).unwrap_or(true);
        let mut audiences = volume::token_audiences(&self.pod);
        if mounts {
            audiences.insert(String::new());
        }
        let mut tokens = BTreeMap::new();
        for audience in audiences {
            let request = TokenRequest {
                spec: TokenRequestSpec {
                    audiences: Some(audience.clone())
                        .filter(|audience| !audience.is_empty())
                        .into_iter()
                        .collect(),
                    expiration_seconds: Some(MAX_TOKEN_SECONDS),
                    bound_object_ref: Some(BoundObjectReference {
                        api_version: Some("v1".to_owned()),
                        kind: Some("Pod".to_owned()),
                        name: self.pod.metadata.name.clone(),
                        uid: self.pod.metadata.uid.clone(),
                    }),
                },
                ..TokenRequest::default()
            };
            let answer = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
            tokens.extend(answer.status.map(|status| (audience, status.token)));
        }
        if let Some(token) = tokens.get("").filter(|_| mounts) {
            self.directory
                .write_credentials(&namespace, &self.shared.api, token)
                .map_err(|source| StartError::Credentials { source })?;
        }
        self.tokens = Some(tokens.clone());
        Ok(tokens)
    }

    fn account_name(&self) -> String {
        let name = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned())
    }

    /// Starts a container, or reports why it cannot start.
    pub(super) async fn start(&mut self, index: usize) {
        match self.try_start(index).await {
            Ok(()) => {
                let name = self.members[index].container.name.clone();
                self.say(index, Severity::Normal, "Created", format!("Created container: {name}"));
                self.say(index, Severity::Normal, "Started", format!("Started container {name}"));
            }
            Err(error) => {
                let (reason, message) = (error.reason(), error.to_string());
                // The user may install the program in the meantime, but checking every ten seconds is enough.
                let patience = if reason == "NoLocalRole" { 10 } else { 1 };
                let not_before = Some(Instant::now() + self.shared.timing.prepare_retry * patience);
                let record = &mut self.records[index];
                let same = matches!(&record.state, State::Waiting { message: Some(before), .. } if *before == message);
                if let State::Terminated(end) = &record.state {
                    record.last = Some(end.clone());
                }
                record.state = State::Waiting { reason, message: Some(message.clone()), not_before };
                if !same {
                    self.say(index, Severity::Warning, "Failed", format!("Error: {message}"));
                }
            }
        }
    }

    async fn try_start(&mut self, index: usize) -> Result<(), StartError> {
        let member = self.members[index].clone();
        let container = &member.container;
        let name = &container.name;
        let mut launch = self.command_line(index).await?;
        ask_for_progress(&self.directory.progress(name), &mut launch);
        self.note_engine(&launch).await?;
        let launch = Arc::new(launch);

        let record = &self.records[index];
        let earlier = match &record.state {
            State::Terminated(end) => Some(end.clone()),
            State::Waiting { .. } | State::Running { .. } => record.last.clone(),
        };
        // The restart count identifies the instance. If the pod ran under an earlier node, the count does not start at zero.
        let number = record.restarts + u32::from(earlier.is_some());
        let spawn_error =
            |source| StartError::Spawn { program: launch.program.display().to_string(), source };
        // Emptied, so that no instance reports the message of the one before.
        private::write(&self.directory.termination_log(name), b"").map_err(spawn_error)?;
        let log = self.logs[index].start(number).map_err(spawn_error)?;
        let process = Process::spawn(&launch, &log, Some(&self.shared.reaper)).map_err(spawn_error)?;

        let group = process.group().number();

        let now = Instant::now();
        let record = &mut self.records[index];
        if let Some(end) = earlier {
            record.backoff.restarted(end.ended, now, &self.shared.timing);
            record.last = Some(end);
        }
        record.restarts = number;
        record.state =
            State::Running { since: Timestamp::now(), started: false, ready: false, stopping: false };

        let target = Target {
            container: Arc::clone(container),
            pod_ip: self.facts.pod_ip.clone(),
            launch,
            host: Arc::clone(&self.shared.host),
            reaper: Some(self.shared.reaper.clone()),
        };
        if let Some(registered) = &self.registered {
            registered.runs(name, LiveContainer { target: target.clone(), group });
        }
        let (stop, stop_asked) = watch::channel(None);
        let messages = self.messages.clone();
        let report = move |event| {
            let messages = messages.clone();
            async move {
                // Sending fails if the worker is gone, and then this task ends soon, too.
                let _ = messages.send(Message::Instance { index, number, event }).await;
            }
        };
        let grace = self.grace();
        // A container may restart for days: what is left of ended instances is dropped here.
        while self.instances.try_join_next().is_some() {}
        self.instances.spawn(instance::run(process, log, target.clone(), grace, stop_asked, report));
        self.running[index] =
            Some(RunningInstance { number, stop, target, started: now, probers: JoinSet::new() });
        Ok(())
    }

    /// Writes an annotation that says which program runs as the engine in the pod, so that nobody takes the simulator's
    /// response for a model's.
    async fn note_engine(&self, launch: &Launch) -> Result<(), StartError> {
        let Host { bin_dir, engine, .. } = &*self.shared.host;
        // The simulator's arguments take the place of a command that names the server.
        let is_simulated = |server: &&ModelServer| {
            let flag = format!("--simulated-engine={}", server.label);
            launch.args.contains(&flag)
        };
        // Presets start engines from a script.
        let program = launch.program.file_name().unwrap_or_default().to_string_lossy();
        let server = ModelServer::of_words(&format!("{program} {}", launch.args.join(" ")))
            .or_else(|| ENGINES.into_iter().find(is_simulated))
            .or_else(|| (launch.program == bin_dir.join("vllm")).then_some(&VLLM));
        let Some(server) = server else { return Ok(()) };
        let simulated = (server.label != engine.label())
            .then(|| format!("{}: {} does not run on this machine", Engine::Simulator.kind(), server.name));
        let note = simulated.as_ref().unwrap_or(&self.shared.engine_note);
        if self.pod.annotations().get(ENGINE_ANNOTATION) == Some(note) {
            return Ok(());
        }
        let pods: Api<Pod> = api_beside(&self.shared.client, &*self.pod);
        let patch = json!({"metadata": {"annotations": {ENGINE_ANNOTATION: note}}});
        merge(&pods, &self.pod.name_any(), patch).await?;
        Ok(())
    }

    /// Returns the command line of a container, after reading everything to which the container refers.
    async fn command_line(&self, index: usize) -> Result<Launch, StartError> {
        let container = &self.members[index].container;
        let namespace = self.pod.namespace().unwrap_or_default();
        let sources = Sources::load(&self.shared.client, &namespace, env::wanted(container)).await?;
        let links = self.pod.spec.as_ref().is_none_or(|spec| spec.enable_service_links != Some(false));
        let services = if links { self.shared.services.all() } else { Vec::new() };
        let own = services.iter().filter(|service| service.metadata.namespace.as_ref() == Some(&namespace));
        let variables = services::variables(own.map(Arc::as_ref));
        let env = env::resolve(&self.pod, container, &sources, &self.facts, &variables)?;

        let folders = self.volumes.clone().unwrap_or_default();
        let name = &container.name;
        let hosts = self.shared.hosts.as_ref().map(|hosts| hosts.of(&namespace)).transpose();
        let termination_path = container.termination_message_path.as_deref();
        let implicit = [
            (SERVICE_ACCOUNT, Some(self.directory.service_account())),
            (termination_path.unwrap_or("/dev/termination-log"), Some(self.directory.termination_log(name))),
            (HOSTS, hosts.map_err(|source| StartError::Hosts { source })?),
        ];
        let implicit = implicit.into_iter().filter_map(|(path, local)| Some((path, local?)));
        let paths = volume::path_map(container, &folders, &env, implicit)?;
        let paths = match &self.shared.host.mounts {
            Some(mounts) => paths.bind(|mount, local| mounts.can_bind(mount, local)),
            None => paths,
        };
        let site = PodSite {
            pod_name: self.pod.name_any(),
            pod_ip: self.facts.pod_ip.clone(),
            kubeconfig: self.directory.kubeconfig(),
            api_host: self.shared.api_host.clone(),
            api_port: self.shared.api_port.clone(),
            volumes: folders,
        };
        Ok(launch::launch(&self.shared.host, &site, container, &env, &paths, &self.directory.scratch(name))?)
    }
}
