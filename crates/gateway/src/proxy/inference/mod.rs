//! Requests to InferencePools: as behind Envoy, the picker sees the whole request and decides where it goes.
//!
//! A picker may die at any moment. If it dies while it decides, the request goes to another picker, or to any ready endpoint
//! if the pool fails open. If it dies after an endpoint has answered, the response continues without the picker.

mod decide;
mod respond;
mod wire;

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use http::{Response, header, request::Parts};
use longboat_epp::host::{LocalPickers, RunningPicker};
use longboat_extproc::{Client, ClientError, Exchange};
use parking_lot::Mutex;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use self::decide::{Decision, Forward, PickError, decide};
use super::{
    answer::{failed, refused},
    body::ProxyBody,
    deadline::{expired, within},
    upload::Upload,
    upstream::{Failover, Upstream},
};
use crate::route::{Attempts, Pool};

/// The HTTP status of a picker that knows no endpoint.
const UNAVAILABLE_STATUS: u16 = 503;

/// How long to wait before a picker that knows no endpoint is asked again.
const PICKER_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long a picker may take to learn that a request has failed or waits. Nobody gains by it but its metrics and decisions.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The most clients of pickers. If there are more, they are created anew.
const MAX_CLIENTS: usize = 1024;

/// How long the parts of an exchange may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Attempts at endpoints.
    pub(crate) attempts: &'a Attempts,
    /// Everything until an endpoint answers.
    pub(crate) answer: Instant,
    /// Until then, a picker that knows no endpoint is asked again.
    pub(crate) patience: Option<Instant>,
}

/// The pickers of this process, and one connection to each other picker. Clones share both.
#[derive(Clone)]
pub(crate) struct Pickers {
    pub(super) local: Arc<LocalPickers>,
    clients: Arc<Mutex<HashMap<SocketAddr, Client>>>,
    tls: Arc<rustls::ClientConfig>,
}

/// How to reach a picker. Both ways lead to the same exchange of events and replies.
enum PickerLink {
    /// In this process.
    Local(RunningPicker),
    /// Over ext_proc.
    Remote(SocketAddr),
}

// === impl Pickers ===

impl Pickers {
    pub(crate) fn new() -> Self {
        let local = Arc::default();
        Self { local, clients: Arc::default(), tls: longboat_tls::insecure_client_config(&[b"h2"]) }
    }

    /// Returns the same with other connections.
    pub(super) fn for_thread(&self) -> Self {
        Self { clients: Arc::default(), ..self.clone() }
    }

    /// Forwards one request to an endpoint of the pool, and returns its response. Both pass through the picker.
    pub(crate) async fn exchange(
        &self,
        upstream: &Upstream,
        pool: &Pool,
        mut head: Parts,
        mut upload: Upload,
        limits: Limits<'_>,
    ) -> Response<ProxyBody> {
        let deciding = self.decision(pool, &head, &mut upload, limits.patience);
        let Some(decided) = within(Some(limits.answer), deciding).await else { return expired() };
        let forward = match decided {
            Ok(Decision::Answer(immediate)) => {
                upload.discard().await;
                return wire::answered(immediate);
            }
            Ok(Decision::Forward(forward)) => *forward,
            Err(PickError::Upload(error)) => return refused(&error, &mut upload).await,
            Err(error) if pool.fail_open => {
                tracing::debug!(
                    %error,
                    pool = %pool.name,
                    "Continuing without the picker, as failureMode of the pool says."
                );
                match within(Some(limits.answer), upload.read()).await {
                    Some(Ok(())) => {}
                    Some(Err(error)) => return refused(&error, &mut upload).await,
                    None => return expired(),
                }
                Forward { body: upload.chunks().to_vec(), ..Forward::default() }
            }
            Err(error) => {
                tracing::debug!(%error, pool = %pool.name, "The picker did not answer a request.");
                upload.discard().await;
                return error.answer();
            }
        };
        // The chunks live on in `body`. What the picker has replaced of them is freed.
        drop(upload);
        let Forward { changes, body, endpoints, mut exchange } = forward;
        wire::change(&mut head.headers, &changes);
        tracing::debug!(
            request_id = head.headers.get("x-request-id").and_then(|id| id.to_str().ok()),
            endpoint = endpoints.first().map(tracing::field::display),
            pool = %pool.name,
            "Forwarding a request."
        );
        // The picker may have changed the body's length; hyper sets the new one.
        head.headers.remove(header::CONTENT_LENGTH);
        // If the picker's choice cannot be reached, any other ready endpoint is better than an error.
        let others = || {
            let others = pool.endpoints.iter().filter(|other| !endpoints.contains(other));
            let mut others: Vec<_> = others.copied().collect();
            others.shuffle(&mut rand::rng());
            others
        };
        // The others are only put in an order if the picker's choice fails.
        let order = endpoints.iter().copied().chain(std::iter::once_with(others).flatten());
        // As behind Envoy, a retry goes to the next endpoint of the same decision, and the picker sees the last response only.
        let sent = async {
            let (attempts, link, failover) = (limits.attempts, &pool.link, Failover::Always);
            if attempts.retry.is_some() {
                let order = order.collect();
                return upstream.send_again(&head, &body, order, link, attempts, failover).await;
            }
            upstream.send_replayable(&head, &body, order, link, attempts.timeout, failover).await
        };
        let sent = within(Some(limits.answer), sent);
        let answered = match &mut exchange {
            None => sent.await,
            Some((_, receiver)) => match respond::response_or_end(sent, receiver).await {
                Ok(answered) => answered,
                Err(immediate) => return wire::answered(immediate),
            },
        };
        let failure = match answered {
            Some(Ok((served, response))) => {
                return match exchange {
                    None => response,
                    Some((sender, receiver)) => {
                        let within_limit = within(
                            Some(limits.answer),
                            respond::respond(response, Some(served), sender, receiver),
                        );
                        within_limit.await.unwrap_or_else(expired)
                    }
                };
            }
            Some(Err(error)) => failed(&error),
            None => expired(),
        };
        // As Envoy does, so that the picker's metrics and decisions tell the failure from an answer.
        if let Some((sender, receiver)) = exchange {
            let mut head = Response::new(ProxyBody::empty());
            *head.status_mut() = failure.status();
            let report = respond::respond(head, None, sender, receiver);
            let _ = tokio::time::timeout(REPORT_TIMEOUT, report).await;
        }
        failure
    }

    /// Shows a picker a request that waits for an endpoint. What it decides is not used: its counters are what scalers read.
    pub(super) async fn announce(&self, pool: &Pool, head: &Parts, upload: &mut Upload) {
        let _ = tokio::time::timeout(REPORT_TIMEOUT, self.ask(pool, head, upload)).await;
    }

    /// Asks until a picker decides. Until `patience` ends, one that knows no endpoint is asked again.
    async fn decision(
        &self,
        pool: &Pool,
        head: &Parts,
        upload: &mut Upload,
        patience: Option<Instant>,
    ) -> Result<Decision, PickError> {
        loop {
            match self.ask(pool, head, upload).await {
                Ok(Decision::Answer(immediate))
                    if immediate.status == UNAVAILABLE_STATUS
                        && patience.is_some_and(|end| Instant::now() < end) =>
                {
                    tokio::time::sleep(PICKER_RETRY_INTERVAL).await;
                }
                decided => return decided,
            }
        }
    }

    fn client(&self, address: SocketAddr) -> Client {
        let mut clients = self.clients.lock();
        // A picker that is replaced is never asked again, so nothing else removes its client. Exchanges keep their clones.
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&address) {
            clients.clear();
        }
        clients.entry(address).or_insert_with(|| Client::new(address, Some(self.tls.clone()))).clone()
    }

    /// Removes the connection to an unreachable picker, which may no longer belong to any pool.
    fn forget(&self, address: SocketAddr) {
        self.clients.lock().remove(&address);
    }

    /// Calls one picker after the other until one decides.
    async fn ask(&self, pool: &Pool, head: &Parts, upload: &mut Upload) -> Result<Decision, PickError> {
        let mut last = PickError::None;
        for picker in self.links(pool) {
            last = match self.open(&picker).await {
                Ok(exchange) => {
                    let (sender, receiver) = exchange.split();
                    match decide(sender, receiver, head, upload).await {
                        Err(error @ (PickError::Failed(_) | PickError::Silent)) => error,
                        decided => return decided,
                    }
                }
                Err(error) => PickError::Unreachable(error),
            };
            tracing::debug!(error = %last, %picker, pool = %pool.name, "A picker made no decision.");
        }
        Err(last)
    }

    /// Returns the pickers to call, in this order: those of this process, then the others. A single remote picker is called
    /// twice, the second time on a new connection: another picker may have taken over its address.
    fn links(&self, pool: &Pool) -> Vec<PickerLink> {
        let local = self.local.of(&pool.name);
        let is_replaced = |address: &SocketAddr| local.iter().any(|local| local.replaces(address.ip()));
        let mut remote: Vec<_> =
            pool.pickers.iter().filter(|address| !is_replaced(address)).copied().collect();
        remote.shuffle(&mut rand::rng());
        if let [only] = remote[..] {
            remote.push(only);
        }
        let mut links: Vec<_> =
            local.iter().filter_map(|local| local.running().map(PickerLink::Local)).collect();
        links.shuffle(&mut rand::rng());
        links.extend(remote.into_iter().map(PickerLink::Remote));
        links
    }

    async fn open(&self, picker: &PickerLink) -> Result<Exchange, ClientError> {
        match picker {
            PickerLink::Local(picker) => picker.open(),
            PickerLink::Remote(address) => {
                let opened = self.client(*address).open().await;
                if opened.is_err() {
                    self.forget(*address);
                }
                opened
            }
        }
    }
}

impl std::fmt::Display for PickerLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(picker) => f.write_str(picker.name()),
            Self::Remote(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_clients_of_pickers_that_are_gone_do_not_stay() {
        longboat_tls::install_default_provider();
        let pickers = Pickers::new();
        for port in 1..=4 * u16::try_from(MAX_CLIENTS).unwrap() {
            pickers.client(([127, 0, 0, 1], port).into());
        }
        assert!(pickers.clients.lock().len() <= MAX_CLIENTS);
    }
}
