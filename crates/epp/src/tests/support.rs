//! A picker with given endpoints, driven without sockets.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use longboat_extproc::{Event, Headers, Incoming, Metadata, Outbox, Processor, ProcessorExchange, Reply};
use longboat_scheduler::{
    Metrics, Options, Scheduler,
    config::{EndpointPickerConfig, Parser},
    flow,
};

use crate::{
    core::{Core, Settings},
    exchange::{Exchange, Picker},
    pool::EndpointSpec,
};

/// Two ports that are free on these addresses. The system gives none of them to a socket that asks for any port: a server that
/// starts after this could get one of them.
pub(crate) async fn ports(ips: &[IpAddr]) -> (u16, u16) {
    loop {
        let first = rand::random_range(20_000..32_000);
        let ports = [first, first + 1];
        let sockets = ips.iter().flat_map(|ip| ports.map(|port| SocketAddr::new(*ip, port)));
        let bound = futures::future::try_join_all(sockets.map(tokio::net::TcpListener::bind)).await;
        if bound.is_ok() {
            return ports.into();
        }
    }
}

/// Settings for tests: replies include scores, and metrics are never stale.
pub(crate) fn settings(parsers: Vec<Parser>, flow: flow::Settings) -> Settings {
    Settings {
        flow,
        settling: Duration::ZERO,
        parsers,
        propagate_priority: false,
        ignore_subset: false,
        emit_scores: true,
        stale_after: Some(Duration::from_hours(1)),
        max_body: 1 << 20,
        max_bodies: 4 << 20,
    }
}

/// A core with this configuration and no endpoints.
pub(crate) fn core(config: &str) -> Arc<Core> {
    Arc::new(core_of(config))
}

/// A core that can still be changed.
pub(crate) fn core_of(config: &str) -> Core {
    let head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
    let head = if config.contains("EndpointPickerConfig") { "" } else { head };
    let config = EndpointPickerConfig::parse(&format!("{head}{config}")).unwrap();
    let options = Options { allow_experimental: true, trace: true };
    let scheduler = Scheduler::new(&config, options).unwrap();
    let flow = flow::Settings::from_config(&config).unwrap();
    let propagate_priority = config.propagates_priority();
    let settings = Settings { propagate_priority, ..settings(config.parsers().unwrap(), flow) };
    Core::new(scheduler, settings, "pool")
}

/// An endpoint at this address.
pub(crate) fn desired(name: &str, address: SocketAddr, labels: &[(&str, &str)]) -> EndpointSpec {
    EndpointSpec {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        address,
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// Endpoints `pod0`, `pod1`… on 127.0.1.x, all scraped and idle.
pub(crate) fn with_endpoints(core: &Core, count: u8) {
    core.set_endpoints(
        (0..count)
            .map(|index| {
                let address = SocketAddr::from(([127, 0, 1, index + 1], 18300));
                desired(&format!("pod{index}"), address, &[])
            })
            .collect(),
    );
    for member in core.pool.members().iter() {
        member.scraped(Metrics::default());
    }
}

/// One stream, without the wire.
pub(crate) struct Stream(Exchange);

impl Stream {
    pub(crate) fn open(core: &Arc<Core>) -> Self {
        Self(Picker(Arc::clone(core)).open())
    }

    /// Feeds an event; returns the replies, and whether the stream ended.
    pub(crate) fn feed(&mut self, event: impl Into<Incoming>) -> (Vec<Reply>, bool) {
        let mut out = Outbox::default();
        self.0.handle(event.into(), &mut out);
        let finished = out.is_finished();
        (out.into_replies(), finished)
    }

    /// Feeds a whole request.
    pub(crate) fn request(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        metadata: Option<Metadata>,
    ) -> Vec<Reply> {
        let (replies, _) = self.feed(Event::RequestHeaders {
            headers: request_headers("POST", path, headers),
            end_of_stream: false,
        });
        assert_eq!(replies, [], "the header reply waits for the body");
        let incoming = Incoming {
            event: Event::RequestBody { body: Bytes::copy_from_slice(body), end_of_stream: true },
            metadata,
        };
        let (replies, finished) = self.feed(incoming);
        if replies.is_empty() && !finished { self.wait() } else { replies }
    }

    /// The stream ends with this gRPC status.
    pub(crate) fn end(&mut self, status: u8) {
        self.0.ended(status);
    }

    /// Returns the messages that come without a request.
    pub(crate) fn poll(&mut self) -> Vec<Reply> {
        let mut out = Outbox::default();
        self.0.poll(&mut Context::from_waker(Waker::noop()), &mut out);
        out.into_replies()
    }

    /// Polls until a message comes. The waker of the context is called for it.
    pub(crate) fn poll_with(&mut self, context: &mut Context<'_>, out: &mut Outbox) -> Poll<()> {
        self.0.poll(context, out);
        if self.0.waits() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Runs the dispatcher until the waiting request is decided, and returns its replies.
    pub(crate) fn wait(&mut self) -> Vec<Reply> {
        let core = Arc::clone(self.0.core());
        for _ in 0..10_000 {
            core.admission.turn(&core);
            let mut out = Outbox::default();
            self.0.poll(&mut Context::from_waker(Waker::noop()), &mut out);
            let replies = out.into_replies();
            if !replies.is_empty() {
                return replies;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Vec::new()
    }
}

/// The headers that a proxy sends.
pub(crate) fn request_headers(method: &str, path: &str, extra: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in [
        (":method", method),
        (":path", path),
        (":scheme", "http"),
        (":authority", "x"),
        ("x-forwarded-proto", "http"),
        ("content-type", "application/json"),
    ]
    .iter()
    .chain(extra)
    {
        headers.push(Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    }
    headers
}
