//! Threads that serve connections, each with a runtime of its own.
//!
//! If one thread reads a connection and another serves its requests, each message costs two thread switches, which is a third
//! of the cost of a small request. So a connection, and all that its requests spawn, stays on one thread.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::JoinSet,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::accept;

/// Threads for connections. Dropping this ends them, and closes the connections that are still open. Without a thread, the
/// caller's runtime serves the connections.
#[derive(Debug)]
pub struct ConnectionThreads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// How many connections the thread has open.
    open: Arc<AtomicUsize>,
    _end: DropGuard,
}

/// Counts a connection of a thread while the connection is open.
struct OpenConnection(Arc<AtomicUsize>);

// === impl ConnectionThreads ===

impl ConnectionThreads {
    /// Starts one thread for each core, but not more than `limit`.
    ///
    /// # Errors
    /// If the system cannot create a thread or an event queue.
    pub fn for_each_core(name: &str, limit: usize) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::start(name, cores.min(limit))
    }

    /// Starts this many threads.
    ///
    /// # Errors
    /// If the system cannot create a thread or an event queue.
    pub fn start(name: &str, count: usize) -> io::Result<Self> {
        (0..count).map(|_| Thread::start(name)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the number of runtimes that serve connections: one for each thread, or the caller's.
    pub fn runtimes(&self) -> usize {
        self.0.len().max(1)
    }

    /// Does what [`until`](crate::until) does, but on these threads: a connection goes to the thread with the fewest. `connection` also
    /// gets the number of its runtime, from 0.
    pub async fn until<F>(
        &self,
        end: &CancellationToken,
        listener: TcpListener,
        limit: usize,
        connection: impl Fn(usize, TcpStream, SocketAddr) -> F + Clone + Send + 'static,
    ) -> JoinSet<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let spawn = |open: &mut JoinSet<()>, stream: TcpStream, peer| {
            let loads = self.0.iter().map(|thread| thread.open.load(Ordering::Relaxed));
            let Some((number, _)) = loads.enumerate().min_by_key(|(_, open)| *open) else {
                open.spawn(connection(0, stream, peer));
                return;
            };
            let thread = &self.0[number];
            // A socket belongs to the event queue of a runtime.
            let stream = match stream.into_std() {
                Ok(stream) => stream,
                Err(error) => return tracing::warn!(%error, "Cannot pass a connection to its thread."),
            };
            // Counted here and not on the thread, so that a burst of connections is spread.
            let (connection, counted) = (connection.clone(), OpenConnection::new(&thread.open));
            let serve = async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => connection(number, stream, peer).await,
                    Err(error) => tracing::warn!(%error, "Cannot serve a connection."),
                }
                drop(counted);
            };
            open.spawn_on(serve, &thread.runtime);
        };
        accept(end, listener, limit, spawn).await
    }
}

// === impl Thread ===

impl Thread {
    fn start(name: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, end) = (runtime.handle().clone(), CancellationToken::new());
        let ended = end.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(ended.cancelled()))?;
        Ok(Self { runtime: handle, open: Arc::default(), _end: end.drop_guard() })
    }
}

// === impl OpenConnection ===

impl OpenConnection {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends the number of the thread that was named and of the one that runs this, then waits until the peer closes the connection.
    async fn greet(number: usize, mut stream: TcpStream) {
        let runs_on = format!("{:?}", thread::current().id());
        stream.write_all(format!("{number} {runs_on}\n").as_bytes()).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    }

    async fn line(stream: &mut TcpStream) -> String {
        let mut line = String::new();
        loop {
            match stream.read_u8().await.unwrap() {
                b'\n' => return line,
                byte => line.push(char::from(byte)),
            }
        }
    }

    #[tokio::test]
    async fn connections_are_spread_over_the_threads_and_close_with_them() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let threads = Arc::new(ConnectionThreads::start("test", 2).unwrap());
        let end = CancellationToken::new();
        let (stop, own) = (end.clone(), threads.clone());
        let server = tokio::spawn(async move {
            own.until(&end, listener, 8, |number, stream, _| greet(number, stream)).await
        });
        let mut clients = Vec::new();
        let mut homes = Vec::new();
        for _ in 0..4 {
            let mut client = TcpStream::connect(address).await.unwrap();
            homes.push(line(&mut client).await);
            clients.push(client);
        }
        assert_eq!((&homes[0], &homes[1]), (&homes[2], &homes[3]));
        assert_eq!(homes.iter().collect::<BTreeSet<_>>().len(), 2, "{homes:?}");
        // The second thread has the fewest connections as soon as one of them is closed.
        drop(clients.remove(1));
        while threads.0[1].open.load(Ordering::Relaxed) > 1 {
            tokio::task::yield_now().await;
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(line(&mut client).await, homes[1]);
        stop.cancel();
        let open = server.await.unwrap();
        assert_eq!(open.len(), 4);
        drop(threads);
        assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
    }
}
