//! The path of one request: rule, filters, back end, response.

mod admit;
mod answer;
mod body;
mod headers;
mod inference;
mod root;
mod upload;
mod upstream;

use std::{net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use longboat_accept::{Budget, Guard};
use rand::Rng;
use tokio::time::Instant;

pub(crate) use self::body::ProxyBody;
use self::{answer::refuse, inference::Pickers, root::Root, upload::Upload, upstream::Upstream};
use crate::route::{Backend, Filters, Redirect, RouteMatch, Table, Tables};

/// The most bytes of buffered request bodies: eight of the largest.
const BODIES: usize = 512 << 20;

/// Answers requests with the current routing tables.
pub(crate) struct Proxy {
    tables: Arc<ArcSwap<Tables>>,
    guard: Guard,
    upstream: Upstream,
    pickers: Pickers,
    bodies: Arc<Budget>,
    /// The port of local mode's own Gateway, which also answers requests that no route matches.
    front: u16,
}

/// The connection on which a request arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The port to which the client connected.
    pub(crate) port: u16,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(tables: Arc<ArcSwap<Tables>>, guard: Guard, front: u16) -> Self {
        let bodies = Budget::new(BODIES);
        Self { tables, guard, upstream: Upstream::new(), pickers: Pickers::new(), bodies, front }
    }

    /// Handles a request. Never fails: an error becomes a response. Dropping the future, or the body of the response,
    /// cancels the upstream request.
    pub(crate) async fn handle(&self, request: Request<Incoming>, arrival: &Arrival) -> Response<ProxyBody> {
        let (head, body) = request.into_parts();
        let tables = self.tables.load_full();
        let table = tables.on(arrival.port);
        let sender = match admit::admit(&head, table, &self.guard) {
            Ok(sender) => sender,
            Err(refusal) => return *refusal,
        };
        let asked = head.headers.get(header::ORIGIN).cloned();
        let mut response = match admit::preflight(&head, sender) {
            Some(response) => response,
            None => self.answer(&tables, table, head, body, arrival).await,
        };
        admit::share(asked, sender, response.headers_mut());
        response
    }

    async fn answer(
        &self,
        tables: &Tables,
        table: &Table,
        mut head: Parts,
        body: Incoming,
        arrival: &Arrival,
    ) -> Response<ProxyBody> {
        let mut upload = Upload::new(body, self.bodies.clone());
        let found = match table.find(&head) {
            Some(found) => found,
            None if arrival.port != self.front => return unmatched(&head),
            None => match root::root(tables.directory(), table, arrival.port, &mut head, &mut upload).await {
                Some(Root::Answer(response)) => return response,
                Some(Root::Route(service)) => {
                    let Some(found) = table.find(&head) else {
                        let message = format!("no HTTPRoute on this port routes to service {service}");
                        return refuse(StatusCode::NOT_FOUND, &message);
                    };
                    found
                }
                None => return unmatched(&head),
            },
        };
        // As in the Gateway API, this timeout covers the whole exchange, and `backend_timeout` one attempt.
        let deadline = found.rule.request_timeout.map(|time| Instant::now() + time);
        // After the rule was chosen, because rules match the headers that the client sent.
        headers::for_upstream(&mut head, arrival.peer);
        let answer = self.route(head, upload, &found);
        let answered = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, answer).await,
            None => Ok(answer.await),
        };
        let Ok(mut response) = answered else {
            return refuse(StatusCode::GATEWAY_TIMEOUT, "the request timeout of the route expired");
        };
        headers::for_client(&mut response);
        found.rule.filters.response.apply(response.headers_mut());
        match deadline {
            Some(deadline) => response.map(|body| body.until(deadline)),
            None => response,
        }
    }

    async fn route(&self, mut head: Parts, upload: Upload, found: &RouteMatch) -> Response<ProxyBody> {
        let rule = &found.rule;
        if let Some(redirect) = &rule.filters.redirect {
            return redirected(redirect, &head, found.prefix.as_deref());
        }
        apply(&rule.filters, &mut head, found.prefix.as_deref());
        let Some(chosen) = rule.choose(|total| rand::rng().random_range(0..total)) else {
            let message = format!("HTTPRoute {} has no back end for this rule", rule.route);
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &message);
        };
        if let Some(redirect) = &chosen.filters.redirect {
            return redirected(redirect, &head, found.prefix.as_deref());
        }
        apply(&chosen.filters, &mut head, found.prefix.as_deref());
        let mut response = match &chosen.backend {
            Err(unresolved) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &unresolved.message),
            Ok(Backend::Service(endpoints)) => {
                let sent = self.upstream.send(head, upload, endpoints, rule.backend_timeout).await;
                sent.unwrap_or_else(|error| answer::failed(&error))
            }
            Ok(Backend::Pool(pool)) => {
                self.pickers.exchange(&self.upstream, pool, head, upload, rule.backend_timeout).await
            }
        };
        chosen.filters.response.apply(response.headers_mut());
        response
    }
}

fn unmatched(head: &Parts) -> Response<ProxyBody> {
    refuse(StatusCode::NOT_FOUND, &format!("no HTTPRoute matches {}", head.uri.path()))
}

fn apply(filters: &Filters, head: &mut Parts, prefix: Option<&str>) {
    filters.request.apply(&mut head.headers);
    if let Some(host) = &filters.host {
        head.headers.insert(header::HOST, host.clone());
    }
    if let Some(change) = &filters.path
        && let Some(old) = head.uri.path_and_query()
        && let Some(new) = change.apply(old, prefix)
    {
        let mut parts = std::mem::take(&mut head.uri).into_parts();
        parts.path_and_query = Some(new);
        // Scheme and authority are unchanged, so the parts form a valid URI.
        head.uri = http::Uri::from_parts(parts).unwrap_or_default();
    }
}

fn redirected(redirect: &Redirect, head: &Parts, prefix: Option<&str>) -> Response<ProxyBody> {
    let host = head
        .uri
        .authority()
        .map(http::uri::Authority::as_str)
        .or_else(|| head.headers.get(header::HOST)?.to_str().ok());
    let authority = host.unwrap_or_default();
    let (name, port) =
        authority.rsplit_once(':').map_or((authority, None), |(name, port)| (name, port.parse().ok()));
    let scheme = redirect.scheme.as_deref().unwrap_or("http");
    let port = redirect.port.or_else(|| redirect.scheme.is_none().then_some(port).flatten());
    let port = port.filter(|port| !matches!((scheme, port), ("http", 80) | ("https", 443)));
    let path =
        head.uri.path_and_query().cloned().unwrap_or_else(|| http::uri::PathAndQuery::from_static("/"));
    let path = redirect.path.as_ref().and_then(|change| change.apply(&path, prefix)).unwrap_or(path);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let location = format!("{scheme}://{}{port}{path}", redirect.host.as_deref().unwrap_or(name));
    let mut response = Response::new(ProxyBody::empty());
    *response.status_mut() = redirect.status;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests;
