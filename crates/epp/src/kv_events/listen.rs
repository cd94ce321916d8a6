//! Engines that connect to a port of ours.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use longboat_kv_events::{Follower, Step, zmtp::Socket};
use longboat_scheduler::Holdings;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Complaints, Message, apply, link::Link};
use crate::{core::Core, error::Error, pool::Member};

/// Engines at once.
const CONNECTIONS: usize = 1024;
/// Publishers of one connection.
const TOPICS: usize = 64;

/// A port that engines connect to.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
    holdings: Arc<Holdings>,
}

/// One topic of a connection.
#[derive(Default)]
struct Topic {
    follower: Follower,
    said: Complaints,
}

impl Listening {
    /// Binds `IP:PORT`, or `*:PORT` on the address that the picker itself listens on.
    pub(crate) async fn bind(address: &str, ip: IpAddr, holdings: Arc<Holdings>) -> Result<Self, Error> {
        let address = match address.strip_prefix("*:") {
            Some(port) => SocketAddr::new(ip, port.parse().unwrap_or_default()),
            None => address.parse().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        };
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
        Ok(Self { listener, holdings })
    }

    /// Takes events until shutdown.
    pub(crate) async fn run(self, core: Arc<Core>, shutdown: CancellationToken) {
        let holdings = self.holdings;
        let accepted = |stream, _| {
            let (holdings, core) = (Arc::clone(&holdings), Arc::clone(&core));
            async move {
                if let Err(error) = connection(stream, &holdings, &core).await {
                    tracing::debug!(%error, "A connection for KV cache events ended.");
                }
            }
        };
        longboat_accept::until(&shutdown, self.listener, CONNECTIONS, accepted).await.shutdown().await;
    }
}

async fn connection(stream: TcpStream, holdings: &Holdings, core: &Core) -> io::Result<()> {
    let mut link = Link::accept(Socket::Sub, stream).await?;
    link.subscribe(&holdings.settings().events.topic);
    let mut topics: BTreeMap<Vec<u8>, Topic> = BTreeMap::new();
    loop {
        let Some(message) = Message::new(link.message().await?) else { continue };
        let (name, model) = message.names();
        let Some(member) = member(core, name) else { continue };
        if topics.len() >= TOPICS && !topics.contains_key(&message.topic) {
            return Err(io::Error::other("too many topics"));
        }
        let topic = topics.entry(message.topic.clone()).or_default();
        let applies = match topic.follower.live(message.sequence) {
            Step::Apply => true,
            Step::Skip => false,
            // What was missed cannot be had here.
            Step::Replay(_) => topic.follower.caught_up(message.sequence),
            Step::Restart => {
                holdings.update(|index| {
                    if !member.is_gone() {
                        index.forget(member.endpoint.slot.0);
                    }
                });
                true
            }
        };
        if applies {
            apply(holdings, &member, model, &message.payload, &mut topic.said);
        }
    }
}

/// The endpoint that a topic names: by its address, by its IP where that is one endpoint's only, or by its name or its pod's.
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
