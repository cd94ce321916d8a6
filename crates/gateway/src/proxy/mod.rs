//! The path of one request: rule, filters, back end, response.

mod activator;
mod admit;
mod answer;
mod arrival;
mod authorize;
mod body;
mod completion;
mod deadline;
mod event_stream;
mod headers;
mod inference;
mod mirror;
mod redirect;
mod root;
mod upgrade;
mod upload;
mod upstream;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use longboat_accept::{Budget, Guard, SendDeadline};
use longboat_epp::host::LocalPickers;
use longboat_metrics::OPENMETRICS;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    activator::QueueEntry,
    answer::{page, refuse},
    deadline::{BACK_END_IDLE_TIMEOUT, expired, within},
    inference::{Limits, Pickers},
    mirror::Mirrors,
    redirect::redirected,
    root::Root,
    upgrade::Upgrade,
    upload::Upload,
    upstream::Upstream,
};
pub(crate) use self::{
    activator::{Activator, QueueLimits},
    arrival::Arrival,
    authorize::Accounts,
    body::ProxyBody,
    event_stream::end_with_error_event,
};
use crate::{
    metrics::Metrics,
    route::{Backend, Misdirection, RouteMatch},
    series::Series,
    tables::{SharedTables, Tables},
};

/// The most bytes of buffered request bodies: eight of the largest.
const MAX_BODIES_BYTES: usize = 512 << 20;

/// The most bytes of long heads that have not arrived whole: hundreds of the longest.
const MAX_HEADS_BYTES: usize = 128 << 20;

/// How long a picker may take to learn of the first endpoint of a pool. It has a watch of its own.
const PICKER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to read the end of a response, such as an error, after the time of the route.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers requests with the current routing tables. Clones share all but what [`Proxy::for_thread`] makes anew.
#[derive(Clone)]
pub(crate) struct Proxy {
    tables: SharedTables,
    /// Which hosts and pages may use the gateway. `None` on a network, where routes and back ends decide about them.
    guard: Option<Guard>,
    upstream: Arc<Upstream>,
    pickers: Pickers,
    mirrors: Mirrors,
    bodies: Arc<Budget>,
    /// The memory of the heads that arrive.
    pub(crate) heads: Arc<Budget>,
    /// Holds requests whose back end is scaled to zero.
    pub(crate) activator: Arc<Activator>,
    /// What API keys have used.
    pub(crate) accounts: Arc<Accounts>,
    /// The socket of local mode's own Gateway, which also answers requests that no route matches.
    front: Option<SocketAddr>,
    pub(crate) metrics: Metrics,
    /// Upgraded connections, which hyper does not know any more.
    pub(crate) upgraded: TaskTracker,
    /// Ends upgraded connections.
    shutdown: CancellationToken,
}

/// A request whose rule is known.
struct RoutedRequest<'a> {
    found: &'a RouteMatch,
    /// Chooses the back end by weight.
    pick: u32,
    /// Whether the request has waited until its back end had an endpoint.
    has_waited: bool,
    arrival: &'a Arrival,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(
        tables: SharedTables,
        guard: Option<Guard>,
        front: Option<SocketAddr>,
        shutdown: CancellationToken,
    ) -> Self {
        let upstream = Arc::new(Upstream::new());
        Self {
            activator: Arc::new(Activator::new(tables.clone(), QueueLimits::default(), shutdown.clone())),
            accounts: Arc::default(),
            tables,
            guard,
            mirrors: Mirrors::new(upstream.clone()),
            upstream,
            pickers: Pickers::new(),
            bodies: Budget::new(MAX_BODIES_BYTES),
            heads: Budget::new(MAX_HEADS_BYTES),
            front,
            metrics: Metrics::create(),
            upgraded: TaskTracker::new(),
            shutdown,
        }
    }

    /// Returns a proxy for one thread: it has its own connections to back ends and pickers, so that the bytes of a request never wait
    /// for another thread.
    pub(crate) fn for_thread(&self) -> Self {
        let upstream = Arc::new(Upstream::new());
        Self {
            mirrors: self.mirrors.over(upstream.clone()),
            upstream,
            pickers: self.pickers.for_thread(),
            ..self.clone()
        }
    }

    /// Where requests find pickers of this process.
    pub(crate) fn local_pickers(&self) -> Arc<LocalPickers> {
        self.pickers.local.clone()
    }

    /// The page of metrics.
    pub(crate) fn metrics_page(&self) -> String {
        self.metrics.page(Series {
            queue: self.activator.samples(),
            keys: self.accounts.report(self.tables.load().keys()),
            unauthorized: self.accounts.unauthorized(),
        })
    }

    /// Handles a request. Never fails: an error becomes a response. Dropping the future, or the body of the response,
    /// cancels the upstream request.
    pub(crate) async fn handle(&self, request: Request<Incoming>, arrival: &Arrival) -> Response<ProxyBody> {
        let (received, running) = (Instant::now(), self.metrics.request());
        let is_api = event_stream::is_api(request.uri().path());
        let head = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            let id = request.headers().get("x-request-id").cloned();
            (id, request.method().clone(), request.uri().path().to_owned())
        });
        let response = self.respond(request, arrival).await;
        // Here again, for refusals that come before a route is found.
        let response = if is_api { answer::as_api_error(response) } else { response };
        if let Some((id, method, path)) = head {
            let id = id.as_ref().or_else(|| response.headers().get("x-request-id"));
            tracing::debug!(
                request_id = id.and_then(|id| id.to_str().ok()),
                %method,
                path,
                status = response.status().as_u16(),
                "Answering a request."
            );
        }
        self.metrics.response(response.status(), received);
        response.map(|body| body.counted(running))
    }

    async fn respond(&self, request: Request<Incoming>, arrival: &Arrival) -> Response<ProxyBody> {
        let (mut head, body) = request.into_parts();
        headers::set_host_of_http2(&mut head);
        // Not a guard: a thread has few slots for them, and this one would last as long as the answer takes.
        let tables = self.tables.load_full();
        let table = tables.on(arrival.local);
        let found = table.find(&head);
        let cors = found.as_ref().and_then(|found| found.rule.filters.cors.as_ref());
        let sender = match admit::admit(&head, table, self.guard.as_ref(), cors) {
            Ok(sender) => sender,
            Err(refusal) => return *refusal,
        };
        if head.method == Method::CONNECT {
            return refuse(StatusCode::NOT_IMPLEMENTED, "CONNECT is not supported: send requests to a route");
        }
        match arrival.server_name.as_ref().map_or(Ok(()), |name| table.directed(name, &head)) {
            Ok(()) => {}
            Err(Misdirection::OtherListener) => {
                return refuse(
                    StatusCode::MISDIRECTED_REQUEST,
                    "this connection is for another host: open a new one",
                );
            }
            // A new connection would not help: without a certificate, its handshake fails.
            Err(Misdirection::Unserved(problem)) => return refuse(StatusCode::SERVICE_UNAVAILABLE, problem),
        }
        let cors = cors.cloned();
        let origin = head.headers.get(header::ORIGIN).cloned();
        let mut response = match admit::preflight(&head, sender, cors.as_ref()) {
            // A CORS filter has answered in full.
            Some(response) if cors.is_some() => return response,
            Some(response) => response,
            None => self.answer(&tables, found, head, body, arrival).await,
        };
        match &cors {
            Some(cors) => cors.share(origin.as_ref(), response.headers_mut()),
            // On a network, the CORS headers of the back end are left as they are.
            None if self.guard.is_none() => {}
            None => admit::share(origin, sender, response.headers_mut()),
        }
        response
    }

    async fn answer(
        &self,
        tables: &Tables,
        found: Option<RouteMatch>,
        mut head: Parts,
        body: Incoming,
        arrival: &Arrival,
    ) -> Response<ProxyBody> {
        let mut upload = Upload::new(body, self.bodies.clone());
        let mut socket = arrival.local;
        let found = match found {
            Some(found) => found,
            None if Some(arrival.local) != self.front => return unmatched(&head),
            None if head.method == Method::GET && head.uri.path() == "/metrics" => {
                return page(StatusCode::OK, OPENMETRICS, self.metrics_page());
            }
            None => match Box::pin(root::root(tables, arrival.local, &mut head, &mut upload)).await {
                Some(Root::Answer(response)) => return response,
                Some(Root::Route(service, entrance)) => {
                    socket = entrance;
                    let Some(found) = tables.on(socket).find(&head) else {
                        let message = format!("no HTTPRoute on {socket} routes to service {service}");
                        return refuse(StatusCode::NOT_FOUND, &message);
                    };
                    found
                }
                None => return unmatched(&head),
            },
        };
        // As in the Gateway API, this timeout covers the whole exchange, and that of `attempts` one attempt.
        let deadline = found.rule.request_timeout.map(|time| Instant::now() + time);
        // Once: the back end whose API key is checked, the one that is waited for and the one that gets the request are the same.
        let pick = rand::random();
        // Before the request may wait, so that nobody without a key takes a place.
        let mut admission = match found.key_scope(pick) {
            None => None,
            Some(scope) => {
                let admitting = self.accounts.admit(tables.keys(), scope, &mut head, &mut upload);
                match Box::pin(admitting).await {
                    Ok(admission) => Some(admission),
                    Err(response) => return *response,
                }
            }
        };
        let waiting = QueueEntry { head: &head, upload: &mut upload, socket, pick };
        let begun = within(deadline, self.activator.wait(found, waiting, &self.pickers)).await;
        let (found, has_waited) = match begun {
            Some(Ok(begun)) => begun,
            Some(Err(response)) => return *response,
            None => return expired(),
        };
        // While the request has waited, newer tables may have come.
        if admission.is_none() && found.key_scope(pick).is_some() {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the service needs API keys since a moment ago: try again",
            );
        }
        let is_api = event_stream::is_api(head.uri.path());
        // After the rule was chosen, because rules match the headers that the client sent.
        let upgrade = Upgrade::take(&mut head);
        if let Some(admission) = &mut admission {
            if upgrade.is_some()
                && let Some(refusal) = admission.without_count()
            {
                return refusal;
            }
            authorize::strip(&mut head);
            admission.send();
        }
        headers::for_upstream(&mut head, arrival);
        if let Some(upgrade) = &upgrade {
            upgrade.ask(&mut head.headers);
        }
        let routed = RoutedRequest { found: &found, pick, has_waited, arrival };
        let mut response = self.route(head, upload, routed, deadline).await;
        longboat_accept::remove_hop_by_hop(response.headers_mut());
        found.rule.filters.response.apply(response.headers_mut());
        let switch = |upgrade: Upgrade| {
            let shutdown = self.shutdown.clone();
            upgrade.connect(&mut response, &mut admission, &arrival.switch, &self.upgraded, shutdown)
        };
        if upgrade.is_some_and(switch) {
            return response;
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let message = "the back end has changed to a protocol that the client has not asked for";
            response = refuse(StatusCode::BAD_GATEWAY, message);
        }
        // Before it is metered, because the account of a key follows the body.
        if is_api {
            response = answer::as_api_error(response);
        }
        // Also if the client has asked for another protocol and got an answer: a header must not make tokens free.
        match admission {
            Some(admission) => admission.meter(response),
            None => response,
        }
    }

    /// Sends a request where its rule leads. The response has to end until the deadline.
    async fn route(
        &self,
        mut head: Parts,
        mut upload: Upload,
        routed: RoutedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Response<ProxyBody> {
        let RoutedRequest { found, pick, has_waited, arrival } = routed;
        // Without a timeout of the route, this limits the time until the head of the response: a stream may last longer.
        let limit = deadline.unwrap_or_else(|| Instant::now() + BACK_END_IDLE_TIMEOUT);
        let rule = &found.rule;
        let prefix = found.prefix.as_deref();
        if let Some(redirect) = &rule.filters.redirect {
            return redirected(redirect, &head, prefix, arrival);
        }
        rule.filters.apply(&mut head, prefix);
        let Some(chosen) = rule.choose(|total| pick % total) else {
            let message = format!("HTTPRoute {} has no back end for this rule", rule.route);
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &message);
        };
        if let Some(redirect) = &chosen.filters.redirect {
            return redirected(redirect, &head, prefix, arrival);
        }
        chosen.filters.apply(&mut head, prefix);
        let mirrors = rule.mirrors.iter().chain(&chosen.mirrors);
        match within(Some(limit), self.mirrors.copy(mirrors, &head, &mut upload)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return answer::refused(&error, &mut upload).await,
            None => return expired(),
        }
        let is_generation = event_stream::is_generation(head.uri.path());
        let mut response = match &chosen.backend {
            Err(unresolved) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &unresolved.message),
            Ok(Backend::Service(service)) => {
                // Here and below, on the heap: the future of a request has room for only one of the two.
                let sending = Box::pin(self.upstream.send(head, upload, service, &rule.attempts));
                let sent = within(Some(limit), sending).await;
                sent.map_or_else(expired, |sent| sent.unwrap_or_else(|error| answer::failed(&error)))
            }
            Ok(Backend::Pool(pool)) => {
                let patience = has_waited.then(|| Instant::now() + PICKER_TIMEOUT);
                let limits = Limits { attempts: &rule.attempts, answer: limit, patience };
                Box::pin(self.pickers.exchange(&self.upstream, pool, head, upload, limits)).await
            }
        };
        // The deadline applies inside an event stream, so that an expired stream ends with an error event.
        response = match deadline {
            Some(deadline) => {
                // For a client that does not read: then nobody polls the body, which has the deadline.
                response.extensions_mut().insert(SendDeadline(deadline + END_TIMEOUT));
                response.map(|body| body.until(deadline))
            }
            None => response.map(|body| body.idle(BACK_END_IDLE_TIMEOUT)),
        };
        if is_generation {
            response = end_with_error_event(response);
        }
        chosen.filters.response.apply(response.headers_mut());
        response
    }
}

fn unmatched(head: &Parts) -> Response<ProxyBody> {
    refuse(StatusCode::NOT_FOUND, &format!("no HTTPRoute matches {}", head.uri.path()))
}

#[cfg(test)]
mod tests;
