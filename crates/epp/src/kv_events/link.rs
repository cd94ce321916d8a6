//! A ZMTP connection over TCP.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use longboat_kv_events::zmtp::{Bounds, Connection, Received, Socket};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a connection and its handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limits for messages. The events of one engine step are far shorter.
const BOUNDS: Bounds = Bounds { message: 16 << 20, frames: 8 };

pub(super) struct Link {
    stream: TcpStream,
    connection: Connection,
    received: VecDeque<Received>,
    bytes: Box<[u8; 16 << 10]>,
}

impl Link {
    /// Connects and makes the handshake.
    pub(super) async fn connect(socket: Socket, address: SocketAddr) -> io::Result<Self> {
        let connected = timeout(PATIENCE, TcpStream::connect(address)).await??;
        Self::accept(socket, connected).await
    }

    /// Makes the handshake on an accepted connection.
    pub(super) async fn accept(socket: Socket, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let connection = Connection::new(socket, BOUNDS);
        let mut link = Self { stream, connection, received: VecDeque::new(), bytes: Box::new([0; 16 << 10]) };
        timeout(PATIENCE, async {
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
                Some(Received::Message(frames)) => return Ok(frames),
                Some(_) => {}
                None => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        while !self.connection.output.is_empty() {
            let written = self.stream.write(&self.connection.output).await?;
            self.connection.output.drain(..written);
        }
        let length = self.stream.read(&mut self.bytes[..]).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend(self.connection.receive(&self.bytes[..length]).map_err(io::Error::other)?);
        Ok(())
    }
}
