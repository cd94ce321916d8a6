//! A ZMTP connection over TCP.

use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};

use longboat_accept::{Budget, MemoryReservation};
use longboat_kv_events::zmtp::{Bounds, Connection, Socket, ZmtpEvent};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a connection and its handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits for messages. The events of one engine step are far shorter.
const BOUNDS: Bounds = Bounds { message: 16 << 20, frames: 8 };
/// The memory of a connection that does not count.
const UNCOUNTED_BYTES: usize = 128 << 10;

pub(super) struct Link {
    stream: TcpStream,
    connection: Connection,
    received: VecDeque<ZmtpEvent>,
    bytes: Box<[u8; 16 << 10]>,
    /// The memory for unfinished messages of all connections, and the part of this connection.
    memory: Arc<Budget>,
    held: Option<MemoryReservation>,
    counted: usize,
}

impl Link {
    /// Connects and makes the handshake.
    pub(super) async fn connect(
        socket: Socket,
        address: SocketAddr,
        memory: &Arc<Budget>,
    ) -> io::Result<Self> {
        let connected = timeout(HANDSHAKE_TIMEOUT, TcpStream::connect(address)).await??;
        Self::accept(socket, connected, memory).await
    }

    /// Makes the handshake on an accepted connection.
    pub(super) async fn accept(socket: Socket, stream: TcpStream, memory: &Arc<Budget>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream,
            connection: Connection::new(socket, BOUNDS),
            received: VecDeque::new(),
            bytes: Box::new([0; 16 << 10]),
            memory: Arc::clone(memory),
            held: None,
            counted: 0,
        };
        timeout(HANDSHAKE_TIMEOUT, async {
            while !link.connection.is_ready() {
                link.read().await?;
            }
            io::Result::Ok(())
        })
        .await??;
        Ok(link)
    }

    pub(super) fn subscribe(&mut self, topic: &str) {
        self.connection.subscribe(topic.as_bytes());
    }

    pub(super) fn send(&mut self, frames: &[&[u8]]) {
        self.connection.send(frames);
    }

    /// Returns the next message. The call is cancel-safe: it may be dropped while it waits, and repeated.
    pub(super) async fn message(&mut self) -> io::Result<Vec<Vec<u8>>> {
        loop {
            match self.received.pop_front() {
                Some(ZmtpEvent::Message(frames)) => return Ok(frames),
                Some(_) => {}
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        // What is to be sent goes first: the peer may say nothing before it has come. `write` and not `write_all`, which forgets how much
        // it has written if it is dropped.
        while !self.connection.output.is_empty() {
            let written = self.stream.write(&self.connection.output).await?;
            self.connection.output.drain(..written);
        }
        let length = self.stream.read(&mut self.bytes[..]).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend(self.connection.receive(&self.bytes[..length]).map_err(io::Error::other)?);
        self.count()
    }

    /// Counts the memory of the unfinished message.
    fn count(&mut self) -> io::Result<()> {
        let buffered = self.connection.buffered();
        if buffered <= UNCOUNTED_BYTES {
            (self.held, self.counted) = (None, 0);
            return Ok(());
        }
        let more = buffered.saturating_sub(self.counted);
        let grown = match &mut self.held {
            Some(held) => held.grow(more),
            None => self.memory.hold(more).map(|held| self.held = Some(held)),
        };
        grown.ok_or_else(|| {
            let limit = self.memory.limit();
            io::Error::other(format!("unfinished messages of all connections take more than {limit} bytes"))
        })?;
        self.counted += more;
        Ok(())
    }
}
