//! Following services until they are ready, and afterwards.

use std::{fmt::Debug, future, hash::Hash, net::SocketAddr, time::Duration};

use anyhow::bail;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, v1alpha2::LLMInferenceService};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Service,
    group::{self, Group},
    screen::Screen,
    tree::{self, Mark, Seen},
};

/// A person cannot read faster; between two pictures changes only pile up.
const FRAME: Duration = Duration::from_millis(30);

struct Follow {
    services: Store<LLMInferenceService>,
    deployments: Store<Deployment>,
    sets: Store<LeaderWorkerSet>,
    pods: Store<Pod>,
    watches: BoxStream<'static, ()>,
    wake: mpsc::Receiver<()>,
}

/// Shows the tree until every service serves at this world's `gateway`, as far as it can here; fails when `timeout` passes first.
/// Groups are as they stand at that moment.
pub(crate) async fn until_ready(
    client: Client,
    names: &[(String, String)],
    gateway: SocketAddr,
    timeout: Duration,
) -> anyhow::Result<(Vec<Service>, Vec<Group>)> {
    let mut follow = Follow::start(&client);
    let mut screen = Screen::new();
    let deadline = Instant::now() + timeout;
    loop {
        let seen = follow.seen();
        let lines = tree::lines(&seen, names);
        screen.show(&lines);
        let ready: Vec<_> =
            names.iter().filter_map(|(namespace, name)| ready(&seen, namespace, name, gateway)).collect();
        if ready.len() == names.len() {
            return Ok((ready, group::all(&seen, names)));
        }
        if !follow.changed_by(deadline).await {
            let stuck = names
                .iter()
                .filter(|(namespace, name)| self::ready(&seen, namespace, name, gateway).is_none());
            let stuck: Vec<_> = stuck.map(|(namespace, name)| format!("{namespace}/{name}")).collect();
            let reasons: Vec<_> = lines
                .iter()
                .filter(|line| line.depth > 0 && line.mark != Mark::Good)
                .map(|line| format!("\n  {}: {}", line.subject, line.text))
                .collect();
            bail!(
                "{} did not become ready within {} s{}",
                stuck.join(", "),
                timeout.as_secs(),
                reasons.concat()
            );
        }
    }
}

/// Prints what changes, for ever.
pub(crate) async fn forever(client: Client, names: &[(String, String)]) -> ! {
    let mut follow = Follow::start(&client);
    let mut screen = Screen::news(&tree::lines(&follow.synced().await, names));
    loop {
        follow.changed_by(Instant::now() + Duration::from_hours(1)).await;
        screen.show(&tree::lines(&follow.seen(), names));
    }
}

fn ready(seen: &Seen, namespace: &str, name: &str, gateway: SocketAddr) -> Option<Service> {
    let service = tree::find(seen, namespace, name).filter(|service| tree::serves(service))?;
    let url = service.status.as_ref()?.url.as_deref().unwrap_or_default().trim_end_matches('/').to_owned();
    if is_of_another_world(&url, gateway) {
        return None;
    }
    let model = service.spec.model.name.clone().filter(|model| !model.is_empty());
    Some(Service {
        name: format!("{namespace}/{name}"),
        url,
        model: model.unwrap_or_else(|| name.to_owned()),
    })
}

/// Whether a URL leads to the gateway of a world that has ended: a kept state says Ready until the controller has looked.
fn is_of_another_world(url: &str, gateway: SocketAddr) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.parse::<SocketAddr>().is_ok_and(|address| address.ip() == gateway.ip() && address != gateway)
}

// === impl Follow ===

impl Follow {
    fn start(client: &Client) -> Self {
        // One place: a change that comes while another waits is shown with it.
        let (changed, wake) = mpsc::channel(1);
        let (services, first) = watch(client, &changed);
        let (deployments, second) = watch(client, &changed);
        let (sets, third) = watch(client, &changed);
        let (pods, fourth) = watch(client, &changed);
        let watches = futures::stream::select_all([first, second, third, fourth]).boxed();
        Self { services, deployments, sets, pods, watches, wake }
    }

    fn seen(&self) -> Seen {
        Seen {
            services: self.services.state(),
            deployments: self.deployments.state(),
            sets: self.sets.state(),
            pods: self.pods.state(),
        }
    }

    async fn synced(&mut self) -> Seen {
        let ready = async {
            let _ = self.services.wait_until_ready().await;
            let _ = self.deployments.wait_until_ready().await;
            let _ = self.sets.wait_until_ready().await;
            let _ = self.pods.wait_until_ready().await;
        };
        tokio::select! {
            () = ready => {}
            () = (&mut self.watches).for_each(|()| future::ready(())) => {}
        }
        self.seen()
    }

    /// Waits for a change; false when the deadline comes first.
    async fn changed_by(&mut self, deadline: Instant) -> bool {
        let change = async {
            let changed = self.wake.recv().await.is_some();
            tokio::time::sleep(FRAME).await;
            changed
        };
        tokio::select! {
            changed = change => changed,
            () = (&mut self.watches).for_each(|()| future::ready(())) => false,
            () = tokio::time::sleep_until(deadline) => false,
        }
    }
}

fn watch<K>(client: &Client, changed: &mpsc::Sender<()>) -> (Store<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType: Default + Eq + Hash + Clone>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (reader, writer) = reflector::store();
    let changed = changed.clone();
    let events =
        watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff().reflect(writer);
    let stream = events.map(move |_| {
        let _ = changed.try_send(());
    });
    (reader, stream.boxed())
}

#[cfg(test)]
mod tests {
    use super::is_of_another_world;

    #[test]
    fn only_another_port_of_the_gateways_address_is_of_another_world() {
        let gateway = "127.0.0.1:8080".parse().unwrap();
        assert!(is_of_another_world("http://127.0.0.1:9090/ns/llm", gateway));
        for url in [
            "http://127.0.0.1:8080/ns/llm",
            "http://llm.ns.svc.cluster.local",
            "http://models.example.com/a",
            "",
        ] {
            assert!(!is_of_another_world(url, gateway), "{url}");
        }
    }
}
