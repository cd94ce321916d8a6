//! The ports of pools. Each pool has one of its own, because a caller of ext_proc does not say which pool it means.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Context,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use longboat_accept::Budget;
use longboat_extproc::{Incoming, Limits, Outbox, Processor, ProcessorExchange, ServerOptions};
use longboat_key::Key;
use longboat_scheduler::quantity;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{marked::PortOptions, replicas::hash};
use crate::{PoolPicker, exchange, exchange::Picker, host::LocalPickers};

/// The port of a pool, until this is dropped and its streams have ended.
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) options: PortOptions,
    memory: Arc<Budget>,
    refused_streams: Arc<AtomicU64>,
    closing: CancellationToken,
    serving: JoinHandle<()>,
}

/// What all ports have in common.
pub(super) struct PortSettings {
    pub(super) address: IpAddr,
    pub(super) range: RangeInclusive<u16>,
    pub(super) tls: Arc<rustls::ServerConfig>,
    /// The most open streams of a pool.
    pub(super) streams: usize,
    /// How long the streams of a closed port may take to end.
    pub(super) grace: Duration,
}

/// Sends each stream to the picker that a pool has at this moment.
struct PoolProcessor {
    pool: Key,
    pickers: Arc<LocalPickers>,
    /// The last picker that took streams.
    last: ArcSwapOption<PoolPicker>,
    refused_streams: Arc<AtomicU64>,
}

/// A stream, or `None` if the pool has no picker.
struct PoolExchange(Option<exchange::Exchange>);

// === impl Port ===

impl Port {
    /// Opens a port for a pool. `avoided` has the ports at which slices still expect other pools.
    ///
    /// The search begins at a port that only depends on the pool: after a restart, the pool is likely to be where slices still name it.
    pub(super) async fn open(
        pool: &Key,
        options: PortOptions,
        settings: &PortSettings,
        pickers: Arc<LocalPickers>,
        avoided: &BTreeSet<u16>,
    ) -> Option<Self> {
        let count = u64::from(settings.range.end() - settings.range.start()) + 1;
        let first = hash(&[&pool.namespace, &pool.name]) % count;
        let first = usize::try_from(first).unwrap_or(0);
        let range = || settings.range.clone();
        let candidates = range().skip(first).chain(range().take(first));
        for number in candidates.filter(|number| !avoided.contains(number)) {
            let address = SocketAddr::new(settings.address, number);
            let Ok(listener) = TcpListener::bind(address).await else { continue };
            return Some(Self::serve(listener, number, pool, options, settings, pickers));
        }
        None
    }

    fn serve(
        listener: TcpListener,
        number: u16,
        pool: &Key,
        options: PortOptions,
        settings: &PortSettings,
        pickers: Arc<LocalPickers>,
    ) -> Self {
        let memory = Budget::new(options.bytes);
        let refused_streams = Arc::<AtomicU64>::default();
        let usual = ServerOptions::default();
        let server = ServerOptions {
            tls: options.tls.then(|| settings.tls.clone()),
            grace: settings.grace,
            limits: Limits { streams: settings.streams, ..Limits::default() },
            memory: memory.clone(),
            max_receive_bytes: quantity::parse(&options.max_receive).unwrap_or(usual.max_receive_bytes),
            max_send_bytes: quantity::parse(&options.max_send).unwrap_or(usual.max_send_bytes),
            ..usual
        };
        let processor = PoolProcessor {
            pool: pool.clone(),
            pickers,
            last: ArcSwapOption::empty(),
            refused_streams: refused_streams.clone(),
        };
        let closing = CancellationToken::new();
        let until_closed = longboat_extproc::serve(listener, Arc::new(processor), server, closing.clone());
        let name = pool.clone();
        let serving = tokio::spawn(async move {
            if let Err(error) = until_closed.await {
                tracing::error!(pool = %name, %error, "The port of a pool failed.");
            }
        });
        Self { number, options, memory, refused_streams, closing, serving }
    }

    /// Returns what the port has refused since the last call: for want of a free request, and of bytes.
    pub(super) fn take_refusals(&self) -> [u64; 2] {
        [self.refused_streams.swap(0, Ordering::Relaxed), self.memory.take_refusals()]
    }

    /// Takes no more connections. Streams may end.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Whether the port is closed and its streams have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.serving.is_finished()
    }
}

// === impl PoolProcessor ===

impl Processor for PoolProcessor {
    type Exchange = PoolExchange;

    fn open(&self) -> PoolExchange {
        PoolExchange(self.last.load_full().map(|picker| Picker(Arc::clone(&picker.core)).open()))
    }

    fn is_ready(&self) -> bool {
        let serving = self.pickers.serving(Some(&self.pool)).into_iter().next();
        let is_ready = serving.is_some();
        if is_ready {
            self.last.store(serving);
        }
        is_ready
    }

    fn too_many_streams(&self) {
        self.refused_streams.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl PoolExchange ===

impl ProcessorExchange for PoolExchange {
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        match &mut self.0 {
            Some(exchange) => exchange.handle(incoming, out),
            None => out.finish(),
        }
    }

    fn ended(&mut self, status: u8) {
        if let Some(exchange) = &mut self.0 {
            exchange.ended(status);
        }
    }

    fn waits(&self) -> bool {
        self.0.as_ref().is_some_and(ProcessorExchange::waits)
    }

    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        if let Some(exchange) = &mut self.0 {
            exchange.poll(context, out);
        }
    }
}
