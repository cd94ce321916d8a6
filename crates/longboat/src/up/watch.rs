//! Following services until they are ready, and afterwards.

use std::{net::SocketAddr, time::Duration};

use anyhow::bail;
use kube::Client;
use tokio::time::Instant;

use super::Service;
use crate::{
    printer::Stream,
    tree::{
        Follow, Mark, Place, Scope, Screen, Seen,
        group::{self, Group},
        lines,
    },
};

/// Shows the tree until every service serves at this world's `gateway`, as far as it can here; fails when `timeout` passes first.
/// Groups are as they stand at that moment.
pub(crate) async fn until_ready(
    client: Client,
    names: &[(String, String)],
    gateway: SocketAddr,
    timeout: Duration,
) -> anyhow::Result<(Vec<Service>, Vec<Group>)> {
    let mut follow = Follow::start(&client, &Scope::Everywhere);
    let mut screen = Screen::new(Stream::Stderr);
    let deadline = Instant::now() + timeout;
    loop {
        let seen = follow.seen();
        let lines = lines::all(&seen, names, Place::Laptop);
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
    let mut follow = Follow::start(&client, &Scope::Everywhere);
    let mut screen = Screen::news(&lines::all(&follow.synced().await, names, Place::Laptop));
    loop {
        follow.changed_by(Instant::now() + Duration::from_hours(1)).await;
        screen.show(&lines::all(&follow.seen(), names, Place::Laptop));
    }
}

fn ready(seen: &Seen, namespace: &str, name: &str, gateway: SocketAddr) -> Option<Service> {
    let service = lines::find(seen, namespace, name).filter(|service| lines::serves(service))?;
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
