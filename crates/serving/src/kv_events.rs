//! Publishes the events of the prefix cache, as vLLM does with `--kv-events-config`: live to subscribers, and on request
//! again from a sequence number on.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longboat_kv_events::{
    Batch, Event,
    zmtp::{Bounds, Connection, Socket, ZmtpEvent},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::broadcast::{self, error::RecvError},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// The most connections of subscribers and of replay clients.
const MAX_CONNECTIONS: usize = 256;
/// How many messages may wait for a slow subscriber. A subscriber that falls further behind misses messages, notices the gap
/// in the sequence numbers, and requests a replay.
const MAX_BEHIND: usize = 1024;
/// The most topics of one subscriber.
const MAX_TOPICS: usize = 64;
/// The limits of incoming messages, which are short.
const BOUNDS: Bounds = Bounds { message: 4096, frames: 4 };
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait before the connection to an unreachable subscriber is tried again.
const REDIAL: Duration = Duration::from_secs(1);
/// The value in place of a sequence number that ends a replay.
const END_OF_REPLAY: [u8; 8] = [0xff; 8];

/// The settings of `--kv-events-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    enabled: bool,
    endpoint: Endpoint,
    replay: Option<Endpoint>,
    topic: String,
    /// How many messages are retained for replays.
    buffer_steps: usize,
}

/// How a connection is made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    /// Accepts connections on this port.
    Bind(u16),
    /// Connects to this host and port.
    Dial(Box<str>),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an address; expected `tcp://*:PORT` or `tcp://HOST:PORT`");
        let address = text.strip_prefix("tcp://").ok_or_else(wrong)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        // vLLM listens at an address with `*` or `::`, whatever it is.
        if host.contains('*') || host.contains("::") || host == "0.0.0.0" {
            return Ok(Self::Bind(port));
        }
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte));
        if host.is_empty() || !is_host { Err(wrong()) } else { Ok(Self::Dial(address.into())) }
    }
}

impl Settings {
    /// Events go to the subscriber at this address, or subscribers come to it.
    ///
    /// # Errors
    ///
    /// If it is no address. The text names it.
    pub fn new(endpoint: &str, topic: String) -> Result<Self, String> {
        Ok(Self { enabled: true, endpoint: endpoint.parse()?, topic, ..Self::default() })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            endpoint: Endpoint::Bind(5557),
            replay: None,
            topic: String::new(),
            buffer_steps: 10_000,
        }
    }
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let fields = value.as_object().ok_or("expected a JSON object")?;
        let mut settings = Self::default();
        let mut silent = false;
        for (name, value) in fields {
            let wrong = |expected: &str| format!("{name}: {value} is not {expected}");
            let text = || value.as_str().ok_or_else(|| wrong("text"));
            let number =
                || value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| wrong("a number"));
            match name.as_str() {
                "enable_kv_cache_events" => {
                    settings.enabled = value.as_bool().ok_or_else(|| wrong("true or false"))?;
                }
                "publisher" if text()? == "zmq" => {}
                "publisher" if text()? == "null" => silent = true,
                "publisher" => return Err(wrong("\"zmq\" or \"null\"")),
                "endpoint" => settings.endpoint = text()?.parse()?,
                "replay_endpoint" if value.is_null() => {}
                "replay_endpoint" => match text()?.parse()? {
                    Endpoint::Dial(_) => return Err(wrong("an address to bind: `tcp://*:PORT`")),
                    place @ Endpoint::Bind(_) => settings.replay = Some(place),
                },
                "topic" => text()?.clone_into(&mut settings.topic),
                "buffer_steps" => settings.buffer_steps = number()?,
                // The sizes of queues inside vLLM. The queues here have fixed sizes.
                "hwm" | "max_queue_size" => drop(number()?),
                _ => return Err(format!("unknown field `{name}`")),
            }
        }
        settings.enabled &= !silent;
        Ok(settings)
    }
}

type Message = Arc<[Vec<u8>; 3]>;

#[derive(Debug, Default)]
struct MessageLog {
    next: u64,
    retained: VecDeque<Message>,
}

/// Publishes the events of the cache to subscribers.
#[derive(Debug)]
pub struct Publisher {
    settings: Settings,
    log: Mutex<MessageLog>,
    live: broadcast::Sender<Message>,
}

// === impl Publisher ===

impl Publisher {
    /// Creates a publisher. Returns `None` if the settings do not enable it.
    pub fn new(settings: Settings) -> Option<Arc<Self>> {
        let live = broadcast::Sender::new(MAX_BEHIND);
        settings.enabled.then(|| Arc::new(Self { settings, log: Mutex::default(), live }))
    }

    /// Returns the number of published messages, which is the sequence number of the next one.
    pub fn published(&self) -> u64 {
        self.log.lock().next
    }

    /// Publishes events with the next sequence number. Never waits.
    pub fn publish(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let payload = Batch { timestamp, events, ..Batch::default() }.encode(false);
        let mut log = self.log.lock();
        let topic = self.settings.topic.clone().into_bytes();
        let message: Message = Arc::new([topic, log.next.to_be_bytes().to_vec(), payload]);
        log.next += 1;
        log.retained.push_back(Arc::clone(&message));
        while log.retained.len() > self.settings.buffer_steps {
            log.retained.pop_front();
        }
        // Sent under the lock, so that messages leave in the order of their numbers. An error means that there are no
        // subscribers.
        let _ = self.live.send(message);
    }

    /// Binds the ports and serves them until shutdown, or until the returned value is dropped. `*` means the address on
    /// which the server itself listens.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound. The error names it.
    pub async fn serve(
        self: &Arc<Self>,
        host: IpAddr,
        shutdown: &CancellationToken,
    ) -> Result<JoinSet<()>, (SocketAddr, io::Error)> {
        let mut tasks = JoinSet::new();
        let places = [
            (Some(self.settings.endpoint.clone()), Socket::Pub),
            (self.settings.replay.clone(), Socket::Router),
        ];
        for (place, socket) in places {
            let (publisher, shutdown) = (Arc::clone(self), shutdown.clone());
            match place {
                None => {}
                Some(Endpoint::Bind(port)) => {
                    let address = SocketAddr::new(host, port);
                    let listener = TcpListener::bind(address).await.map_err(|error| (address, error))?;
                    // The system may have chosen the port.
                    let address = listener.local_addr().unwrap_or(address);
                    tracing::info!(%address, "Publishing KV cache events.");
                    tasks.spawn(async move {
                        let accepted = |stream, _| {
                            let publisher = Arc::clone(&publisher);
                            async move { publisher.connection(socket, stream).await }
                        };
                        let _open =
                            longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await;
                    });
                }
                Some(Endpoint::Dial(address)) => {
                    tasks.spawn(async move {
                        let mut reported = false;
                        loop {
                            match TcpStream::connect(&*address).await {
                                Ok(stream) => publisher.connection(socket, stream).await,
                                Err(error) if !reported => {
                                    reported = true;
                                    tracing::warn!(address, %error, "Cannot connect to the subscriber of KV cache events; will retry.");
                                }
                                Err(_) => {}
                            }
                            // As ZeroMQ's sockets do: a subscriber may start later, and start again.
                            tokio::time::sleep(REDIAL).await;
                        }
                    });
                }
            }
        }
        Ok(tasks)
    }

    async fn connection(&self, socket: Socket, mut stream: TcpStream) {
        let served = match socket {
            Socket::Router => self.repeat(&mut stream).await,
            _ => self.serve_subscriber(&mut stream).await,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "A connection for KV cache events ended.");
        }
    }

    /// Serves a subscriber.
    async fn serve_subscriber(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(Socket::Pub, BOUNDS);
        let mut live = self.live.subscribe();
        let mut topics: Vec<Vec<u8>> = Vec::new();
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut bytes = [0; 4096];
        loop {
            stream.write_all(&std::mem::take(&mut connection.output)).await?;
            tokio::select! {
                // A read that is dropped for a message has taken nothing from the socket.
                length = stream.read(&mut bytes) => {
                    let length = length?;
                    if length == 0 {
                        return Ok(());
                    }
                    for received in connection.receive(&bytes[..length]).map_err(io::Error::other)? {
                        match received {
                            ZmtpEvent::Subscribe(topic) if topics.len() < MAX_TOPICS => {
                                if topics.is_empty() {
                                    // The subscriber does not get earlier messages.
                                    live = self.live.subscribe();
                                }
                                topics.push(topic);
                            }
                            ZmtpEvent::Subscribe(_) => return Err(io::Error::other("too many topics")),
                            ZmtpEvent::Unsubscribe(topic) => {
                                if let Some(place) = topics.iter().position(|known| *known == topic) {
                                    topics.swap_remove(place);
                                }
                            }
                            ZmtpEvent::Ready | ZmtpEvent::Message(_) => {}
                        }
                    }
                }
                message = live.recv(), if !topics.is_empty() => match message {
                    Ok(message) if topics.iter().any(|topic| message[0].starts_with(topic)) => {
                        connection.send(&message[..]);
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = tokio::time::sleep_until(deadline), if !connection.is_ready() => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }

    /// Serves a client that requests messages from a sequence number on.
    async fn repeat(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(Socket::Router, BOUNDS);
        let mut bytes = [0; 4096];
        loop {
            stream.write_all(&std::mem::take(&mut connection.output)).await?;
            let length = if connection.is_ready() {
                stream.read(&mut bytes).await?
            } else {
                tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read(&mut bytes)).await??
            };
            if length == 0 {
                return Ok(());
            }
            for received in connection.receive(&bytes[..length]).map_err(io::Error::other)? {
                let ZmtpEvent::Message(frames) = received else { continue };
                let Some(start) = frames.last().and_then(|frame| frame.as_slice().try_into().ok()) else {
                    return Err(io::Error::other("a replay is asked for with a number of eight bytes"));
                };
                let start = u64::from_be_bytes(start);
                // Copied, so that a client that reads slowly does not hold the lock, which publishing needs.
                let missed: Vec<Message> = {
                    let log = self.log.lock();
                    let oldest = log.next - log.retained.len() as u64;
                    let known = usize::try_from(start.saturating_sub(oldest)).unwrap_or(usize::MAX);
                    log.retained.iter().skip(known).cloned().collect()
                };
                for message in missed {
                    connection.send(&[&[], message[1].as_slice(), &message[2]]);
                    stream.write_all(&std::mem::take(&mut connection.output)).await?;
                }
                connection.send(&[&[][..], &END_OF_REPLAY, &[]]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_have_an_effect_are_refused() {
        let error = |text: &str| text.parse::<Settings>().unwrap_err();
        assert_eq!(
            error(r#"{"endpoint": "ipc:///x"}"#),
            "`ipc:///x` is not an address; expected `tcp://*:PORT` or `tcp://HOST:PORT`"
        );
        assert_eq!(error(r#"{"enabled": true}"#), "unknown field `enabled`");
        assert_eq!(error(r#"{"publisher": "x"}"#), r#"publisher: "x" is not "zmq" or "null""#);
        assert!(error(r#"{"replay_endpoint": "tcp://10.0.0.1:5"}"#).contains("tcp://*:PORT"));
        assert_eq!(error("[]"), "expected a JSON object");
        assert_eq!("tcp://[::ffff:127.64.0.1]:5557".parse(), Ok(Endpoint::Bind(5557)));
        assert_eq!("tcp://chat-epp-service:5557".parse(), Ok(Endpoint::Dial("chat-epp-service:5557".into())));
        for wrong in ["tcp://:5557", "tcp://a b:5557", "tcp://chat", "tcp://chat:x"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
        let off: Settings = r#"{"enable_kv_cache_events": false}"#.parse().unwrap();
        assert!(Publisher::new(off).is_none());
    }
}
