//! Assigns connections to threads.
//!
//! If one thread reads a connection and another serves its streams, each message costs two thread switches, which is a third
//! of the cost of a small request. So each thread has its own runtime, and a connection stays on the thread to which it was
//! assigned.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    net::TcpStream,
    sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{connection::connection, options::Shared, processor::Processor};
use crate::error::ServeError;

/// How many connections may wait for a thread. Each thread takes them at once; more connections wait in the system's queue.
const ACCEPT_QUEUE_LIMIT: usize = 16;

/// The runtimes that serve connections.
pub(super) struct ConnectionRuntimes<P> {
    kind: Kind<P>,
    /// Dropping this closes the connections that are still open.
    _cut: DropGuard,
}

enum Kind<P> {
    /// The caller's runtime.
    Here(Box<ConnectionRuntime<P>>),
    Threads(Vec<Thread>),
}

struct Thread {
    connections: mpsc::Sender<(std::net::TcpStream, OwnedSemaphorePermit)>,
    /// How many connections the thread has open.
    open: Arc<AtomicUsize>,
    ended: oneshot::Receiver<()>,
}

/// The connections that one runtime serves.
struct ConnectionRuntime<P> {
    shared: Arc<Shared<P>>,
    shutdown: CancellationToken,
    cut: CancellationToken,
    connections: Mutex<JoinSet<()>>,
}

impl<P: Processor> ConnectionRuntime<P> {
    async fn take_in(&self, stream: TcpStream, place: OwnedSemaphorePermit, open: Option<OpenConnection>) {
        let served = connection(stream, Arc::clone(&self.shared), self.shutdown.clone());
        let mut connections = self.connections.lock().await;
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            served.await;
            drop((place, open));
        });
    }

    /// Waits for the open connections until the grace period is over.
    async fn end(&self) {
        let mut connections = self.connections.lock().await;
        let drained = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            _ = timeout(self.shared.options.grace, drained) => {}
            () = self.cut.cancelled() => {}
        }
        connections.shutdown().await;
    }
}

/// Counts a connection of a thread while the connection is open.
struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Processor> ConnectionRuntimes<P> {
    pub(super) fn start(
        threads: usize,
        shared: &Arc<Shared<P>>,
        shutdown: &CancellationToken,
    ) -> Result<Self, ServeError> {
        let cut = CancellationToken::new();
        let home = || ConnectionRuntime {
            shared: Arc::clone(shared),
            shutdown: shutdown.clone(),
            cut: cut.clone(),
            connections: Mutex::new(JoinSet::new()),
        };
        let kind = if threads == 0 {
            Kind::Here(Box::new(home()))
        } else {
            let started = (0..threads).map(|_| Thread::start(home()));
            Kind::Threads(started.collect::<Result<_, _>>().map_err(ServeError::Thread)?)
        };
        Ok(Self { kind, _cut: cut.drop_guard() })
    }

    /// Hands a connection to the thread with the fewest connections.
    pub(super) async fn take_in(&self, stream: TcpStream, place: OwnedSemaphorePermit) {
        let threads = match &self.kind {
            Kind::Here(home) => return home.take_in(stream, place, None).await,
            Kind::Threads(threads) => threads,
        };
        let Some(home) = threads.iter().min_by_key(|thread| thread.open.load(Ordering::Relaxed)) else {
            return;
        };
        match stream.into_std() {
            Ok(stream) => {
                home.open.fetch_add(1, Ordering::Relaxed);
                // Sending only fails if the thread has ended, which happens with the server.
                let _ = home.connections.send((stream, place)).await;
            }
            Err(error) => tracing::warn!(%error, "Cannot pass a connection to its thread."),
        }
    }

    /// Lets open connections finish within the grace period.
    pub(super) async fn end(self) {
        match self.kind {
            Kind::Here(home) => home.end().await,
            Kind::Threads(threads) => {
                let ended = threads.into_iter().map(|thread| {
                    drop(thread.connections);
                    thread.ended
                });
                futures::future::join_all(ended).await;
            }
        }
    }
}

impl Thread {
    fn start<P: Processor>(home: ConnectionRuntime<P>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (connections, mut coming) = mpsc::channel::<(std::net::TcpStream, _)>(ACCEPT_QUEUE_LIMIT);
        let (ending, ended) = oneshot::channel();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        thread::Builder::new().name("ext-proc".to_owned()).spawn(move || {
            runtime.block_on(async {
                while let Some((stream, place)) = coming.recv().await {
                    let counted = OpenConnection(Arc::clone(&counted));
                    match TcpStream::from_std(stream) {
                        Ok(stream) => home.take_in(stream, place, Some(counted)).await,
                        Err(error) => tracing::warn!(%error, "Cannot serve a connection."),
                    }
                }
                home.end().await;
            });
            let _ = ending.send(());
        })?;
        Ok(Self { connections, open, ended })
    }
}
