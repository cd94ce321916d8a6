//! Gives the dashboard the results of other commands.

use std::future::Future;

use anyhow::anyhow;
use async_trait::async_trait;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::Client;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_dashboard::{Address, Cluster, Picture, Simulation};
use longboat_key::Key;
use longboat_offline::{Settings, explain, scene::Scene};
use serde_json::{Value, json};
use tokio::{runtime::Handle, time::Instant};

use super::head;
use crate::{
    command::{input, simulate},
    tree::{Environment, Follow, IDLE_REDRAW_INTERVAL, Line, Scope, Time, TreeObjects, age, data, lines},
    up::{
        cause,
        question::{Api, Gateway, Question},
        service,
    },
};

/// The cluster or local cluster of the dashboard.
pub(crate) struct ClusterBackend {
    pub(super) client: Client,
    pub(super) environment: Environment,
    scope: Scope,
    /// The gateway, if it runs in this process.
    gateway: Option<Gateway>,
    /// Where the platform is.
    settings: Settings,
}

// === impl ClusterBackend ===

impl ClusterBackend {
    pub(crate) fn new(
        client: Client,
        environment: Environment,
        scope: Scope,
        gateway: Option<Gateway>,
        settings: Settings,
    ) -> Self {
        Self { client, environment, scope, gateway, settings }
    }
}

#[async_trait]
impl Cluster for ClusterBackend {
    fn pictures(&self, service: Option<Key>) -> BoxStream<'static, Picture> {
        let follow = Follow::start(&self.client, &self.scope);
        let environment = self.environment;
        let state = (follow, service, false);
        let pictures = stream::unfold(state, move |(mut follow, service, shown)| async move {
            if shown {
                follow.changed_by(Instant::now() + IDLE_REDRAW_INTERVAL).await;
            } else {
                follow.synced().await;
            }
            let picture = picture(&follow.seen(), follow.failure(), service.as_ref(), environment);
            Some((picture, (follow, service, true)))
        });
        pictures.boxed()
    }

    async fn explain(&self, service: Key, path: Option<String>) -> Result<Value, String> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        run_blocking(move || async move {
            let scene = scene(client, &settings, &service).await?;
            let answer = explain::explain(&scene, subject(&scene, &service)?, path.as_deref())?;
            Ok(json!({"text": plain(&answer.to_text()), "answer": answer}))
        })
        .await
    }

    async fn diff(&self, manifests: String) -> Result<Value, String> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        run_blocking(move || async move {
            let documents = longboat_manifest::parse("manifest", &manifests)?;
            input::has_own_kinds(&documents)?;
            let changes = input::changes(client, settings, documents).await?;
            let refused = changes.has_errors || !changes.failed.is_empty();
            let failed = changes.failed.iter().map(|error| format!("{error:#}"));
            let sentences: Vec<String> = changes.findings.into_iter().chain(failed).collect();
            Ok(json!({
                "text": plain(&changes.text), "differences": changes.differences, "findings": sentences,
                "refused": refused,
            }))
        })
        .await
    }

    async fn simulate(&self, service: Key, request: Simulation) -> Result<Value, String> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        run_blocking(move || async move {
            let scene = scene(client, &settings, &service).await?;
            simulate::what_if(&scene, subject(&scene, &service)?, &request)
        })
        .await
    }

    async fn findings(&self, service: Key) -> Result<Value, String> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        run_blocking(move || async move {
            let names = [service];
            Ok(json!({"findings": cause::findings(&client, &settings, &names).await}))
        })
        .await
    }

    async fn keys(&self) -> Result<Value, String> {
        let keys = self.gateway.as_ref().map(|gateway| gateway.keys.report());
        Ok(json!({"keys": keys.unwrap_or_default()}))
    }

    async fn address(&self, name: Key) -> Result<Address, String> {
        let api = kube::Api::<LLMInferenceService>::namespaced(self.client.clone(), &name.namespace);
        let found = api.get(&name.name).await;
        let found = found.map_err(|error| longboat_controller::reader::sentence(&error))?;
        let found = service::find(&self.client, &found, self.gateway.as_ref()).await;
        let found = found.map_err(|error| format!("{error:#}"))?;
        let resolve = found.question.resolved();
        let key = found.question.known_key().map(|key| format!("Bearer {key}"));
        let Question { api, url, mut headers, .. } = found.question;
        headers.extend(key.map(|key| ("Authorization".to_owned(), key)));
        if api != Api::Chat {
            return Err(format!("the routes of {} lead to /v1{}, and not to chats", found.name, api.path()));
        }
        Ok(Address { url, headers, resolve, model: found.model })
    }
}

/// Reads what the controller would use for a service.
async fn scene(client: Client, settings: &Settings, service: &Key) -> anyhow::Result<Scene> {
    let (observed, _) = input::observe_with(client, settings, vec![service.namespace.clone()]).await?;
    Ok(Scene::observed(observed)?)
}

/// Finds a service.
fn subject<'s>(scene: &'s Scene, service: &Key) -> anyhow::Result<&'s LLMInferenceService> {
    let mut services = scene.subjects.iter().map(|subject| subject.service.as_ref());
    let found = services.find(|found| Key::of_metadata(&found.metadata) == *service);
    found.ok_or_else(|| anyhow!("LLMInferenceService `{service}` not found"))
}

/// Runs work on a blocking thread, because it reads a cluster and then computes for a while.
async fn run_blocking<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<Value, String>
where
    F: Future<Output = anyhow::Result<Value>>,
{
    let handle = Handle::current();
    match tokio::task::spawn_blocking(move || handle.block_on(work())).await {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(_) => Err("internal error; see the log of Longboat".to_owned()),
    }
}

fn picture(
    seen: &TreeObjects,
    trouble: Option<String>,
    service: Option<&Key>,
    environment: Environment,
) -> Picture {
    let tree = service.and_then(|service| {
        lines::find(seen, service)?;
        let name = std::slice::from_ref(service);
        let lines: Vec<Value> = lines::all(seen, name, environment).iter().map(line_json).collect();
        Some(json!({"lines": lines, "object": data::list(seen, name)["items"][0]}))
    });
    Picture { services: head::of(seen, environment), tree, pods: seen.pods.clone(), trouble }
}

fn line_json(line: &Line) -> Value {
    let (since, took) = match line.time {
        Some(Time::Since(since)) => (Some(since.to_string()), None),
        Some(Time::Took(took)) => (None, Some(age(took))),
        None => (None, None),
    };
    json!({
        "subject": line.subject, "text": line.text, "mark": head::word(line.mark), "depth": line.depth,
        "since": since, "took": took,
    })
}

/// Removes the terminal colours from a text.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
