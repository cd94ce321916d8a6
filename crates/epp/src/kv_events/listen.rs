//! Receives KV cache events from engines that connect to a port of the picker.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use longboat_kv_events::{Follower, Step, zmtp::Socket};
use longboat_scheduler::Holdings;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    index::{LoggedWarnings, apply, forget},
    link::Link,
    message::Message,
};
use crate::{core::Core, error::Error, pool::Member};

/// The most connections at once.
const MAX_CONNECTIONS: usize = 1024;
/// The most connections from one address. An engine has one connection for each rank. The loopback address, which all engines
/// of a local node share, has no limit.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 64;
/// The most topics of one connection.
const MAX_TOPICS: usize = 64;
/// The longest topic.
const MAX_TOPIC_BYTES: usize = 4096;

/// A port that engines connect to.
#[derive(Debug)]
pub(crate) struct EventListener {
    listener: TcpListener,
    holdings: Arc<Holdings>,
}

/// One topic of a connection.
struct Topic {
    /// The endpoint that the last message was about.
    member: Arc<Member>,
    follower: Follower,
    logged: LoggedWarnings,
}

impl EventListener {
    /// Binds `IP:PORT`. For all addresses (`*:PORT`, `0.0.0.0:PORT`), binds the one that the picker itself listens on: on one machine,
    /// several pickers have one port.
    pub(crate) async fn bind(address: &str, ip: IpAddr, holdings: Arc<Holdings>) -> Result<Self, Error> {
        let address = match address.strip_prefix("*:") {
            Some(port) => SocketAddr::new(ip, port.parse().unwrap_or_default()),
            None => address.parse().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        };
        let address =
            if address.ip().is_unspecified() { SocketAddr::new(ip, address.port()) } else { address };
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
        Ok(Self { listener, holdings })
    }

    /// Receives events until shutdown.
    pub(crate) async fn run(self, core: Arc<Core>, shutdown: CancellationToken) {
        let holdings = self.holdings;
        let peers = PeerRegistry::default();
        let accepted = |stream, peer: SocketAddr| {
            let (holdings, core, peers) = (Arc::clone(&holdings), Arc::clone(&core), peers.clone());
            async move {
                let Some(_registration) = peers.register(&core, peer.ip().to_canonical()) else {
                    tracing::debug!(
                        %peer,
                        "Closed a connection for KV cache events: it comes from an unknown endpoint, or there are too many connections."
                    );
                    return;
                };
                let mut topics = BTreeMap::new();
                if let Err(error) = connection(stream, &holdings, &core, &mut topics).await {
                    tracing::debug!(%error, "A connection for KV cache events ended.");
                }
                // The process may have ended, and events that are published before the next connection are lost. So what was stored may
                // be gone, and no later message would say so.
                for topic in topics.values() {
                    forget(&holdings, &topic.member).await;
                }
            }
        };
        longboat_accept::until(&shutdown, self.listener, MAX_CONNECTIONS, accepted).await.shutdown().await;
    }
}

/// The number of connections of each peer. Only addresses of endpoints may connect, because reading a message needs memory before
/// its topic is known.
#[derive(Debug, Clone, Default)]
struct PeerRegistry(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connected peer. Dropping it ends the registration.
#[derive(Debug)]
struct PeerRegistration(PeerRegistry, IpAddr);

impl PeerRegistry {
    /// Registers a connection. Returns `None` if the peer may not have another one.
    fn register(&self, core: &Core, peer: IpAddr) -> Option<PeerRegistration> {
        let members = core.pool.members();
        let is_endpoint = members.iter().any(|member| member.endpoint.address.ip() == peer);
        let mut connections = self.0.lock();
        let count = connections.get(&peer).copied().unwrap_or_default();
        if !peer.is_loopback() && (!is_endpoint || count >= MAX_CONNECTIONS_PER_ADDRESS) {
            return None;
        }
        connections.insert(peer, count + 1);
        Some(PeerRegistration(self.clone(), peer))
    }
}

impl Drop for PeerRegistration {
    fn drop(&mut self) {
        let mut connections = self.0.0.lock();
        if let Some(count) = connections.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.1);
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    holdings: &Holdings,
    core: &Core,
    topics: &mut BTreeMap<Vec<u8>, Topic>,
) -> io::Result<()> {
    let peer = stream.peer_addr()?.ip().to_canonical();
    let mut link = Link::accept(Socket::Sub, stream, &core.event_bytes).await?;
    link.subscribe(&holdings.settings().events.topic);
    loop {
        let Some(message) = Message::new(link.message().await?) else { continue };
        let (name, model) = message.names();
        // The endpoint is looked up for each message, because the pool may have changed since the last one.
        let Some(member) = publisher(core, name, peer) else { continue };
        if !may_publish(peer, member.endpoint.address.ip()) {
            let endpoint = &member.endpoint.host_port;
            tracing::warn!(
                endpoint,
                %peer,
                "Refused KV cache events of an endpoint, because they come from another address."
            );
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if message.topic.len() > MAX_TOPIC_BYTES {
            return Err(io::Error::other("the name of a topic is too long"));
        }
        if topics.len() >= MAX_TOPICS && !topics.contains_key(&message.topic) {
            return Err(io::Error::other("too many topics"));
        }
        if let Some(metrics) = &core.metrics.kv_cache {
            metrics.events.received(&member.endpoint.full_name());
        }
        let topic = topics.entry(message.topic.clone()).or_insert_with(|| Topic {
            member: Arc::clone(&member),
            follower: Follower::default(),
            logged: LoggedWarnings::default(),
        });
        topic.member = Arc::clone(&member);
        let applies = match topic.follower.live(message.sequence) {
            Step::Apply => true,
            Step::Skip => false,
            // Missed messages cannot be requested again on this connection.
            Step::Replay(_) => topic.follower.replayed(message.sequence),
            Step::Restart => {
                forget(holdings, &member).await;
                true
            }
        };
        if applies {
            apply(holdings, &member, model, &message.payload, &mut topic.logged).await;
        }
    }
}

/// Whether a peer may publish for an endpoint. A peer may only publish for its own address. On one machine, all engines share
/// the loopback address.
fn may_publish(peer: IpAddr, endpoint: IpAddr) -> bool {
    peer == endpoint || peer.is_loopback()
}

/// Returns the endpoint that a topic names, or else that of the sender's address. KServe's sample names none: it writes `${POD_IP}`
/// in single quotes, which no shell replaces.
fn publisher(core: &Core, name: &str, peer: IpAddr) -> Option<Arc<Member>> {
    member(core, name).or_else(|| member(core, &peer.to_string()))
}

/// Returns the endpoint of this name: its address, its IP if only one endpoint has this IP, its own name, or its pod's name.
fn member(core: &Core, name: &str) -> Option<Arc<Member>> {
    let members = core.pool.members();
    let only = |matches: &dyn Fn(&Member) -> bool| {
        let mut found = members.iter().filter(|member| matches(member));
        found.next().filter(|_| found.next().is_none()).cloned()
    };
    let ip = name.parse::<IpAddr>().ok();
    only(&|member| member.endpoint.host_port == name)
        .or_else(|| only(&|member| ip == Some(member.endpoint.address.ip())))
        .or_else(|| only(&|member| member.endpoint.name == name))
        .or_else(|| {
            only(&|member| member.endpoint.name.rsplit_once("-rank-").is_some_and(|(pod, _)| pod == name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support;

    #[test]
    fn a_topic_names_one_endpoint_by_address_or_name_and_only_that_may_publish() {
        let core = support::core("");
        let endpoint = |name: &str, ip: [u8; 4], port: u16| support::desired(name, (ip, port).into(), &[]);
        core.set_endpoints(vec![
            endpoint("a-rank-0", [10, 0, 0, 1], 8000),
            endpoint("b-rank-0", [10, 0, 0, 2], 8000),
            endpoint("b-rank-1", [10, 0, 0, 2], 8001),
        ]);
        let named = |name: &str| member(&core, name).map(|member| member.endpoint.name.clone());
        assert_eq!(named("10.0.0.2:8001").as_deref(), Some("b-rank-1"));
        assert_eq!(named("10.0.0.1").as_deref(), Some("a-rank-0"));
        assert_eq!(named("10.0.0.2"), None, "two endpoints have it");
        assert_eq!(named("b-rank-0").as_deref(), Some("b-rank-0"));
        assert_eq!((named("a").as_deref(), named("b"), named("")), (Some("a-rank-0"), None, None));
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let sender = |last: u8| publisher(&core, "${POD_IP}", ip(last)).map(|one| one.endpoint.name.clone());
        assert_eq!((sender(1).as_deref(), sender(2), sender(3)), (Some("a-rank-0"), None, None));
        assert!(may_publish(ip(1), ip(1)) && !may_publish(ip(3), ip(1)));
        assert!(may_publish(IpAddr::from([127, 0, 0, 1]), ip(1)));
    }

    #[test]
    fn only_endpoints_may_connect_and_not_without_end() {
        let core = support::core("");
        core.set_endpoints(vec![support::desired("a", ([10, 0, 0, 1], 8000).into(), &[])]);
        let peers = PeerRegistry::default();
        let register = |address: [u8; 4]| peers.register(&core, IpAddr::from(address));
        assert!(register([10, 0, 0, 9]).is_none(), "it is no endpoint");
        let mut all: Vec<_> =
            (0..MAX_CONNECTIONS_PER_ADDRESS).map(|_| register([10, 0, 0, 1]).unwrap()).collect();
        assert!(register([10, 0, 0, 1]).is_none());
        assert!((0..2 * MAX_CONNECTIONS_PER_ADDRESS).all(|_| register([127, 0, 0, 1]).is_some()));
        all.pop();
        assert!(register([10, 0, 0, 1]).is_some(), "one has left");
        drop(all);
        assert!(peers.0.lock().is_empty());
    }
}
