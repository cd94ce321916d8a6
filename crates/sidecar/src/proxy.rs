//! Handles a client's request.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, Method, Request, Response, StatusCode, request::Parts, uri::Authority};
use hyper::body::Incoming;
use longboat_accept::{Budget, Guard};
use longboat_tls::ReloadingRoots;
use rand::seq::IndexedRandom;
use tracing::Instrument as _;

use crate::{
    allowlist::Allowlist,
    answer,
    api::{self, Api},
    body::{ProxyBody, passed},
    flow::{Flow, Head, Route},
    headers,
    metrics::{Metrics, Outcome},
    settings::Settings,
    spans,
    target::{self, Target},
    upload::{self, Fault, Upload},
};

/// The most bytes of request bodies that are held at once: eight bodies of the default limit. A configured limit for one body
/// that is larger replaces it.
const MAX_BODIES_BYTES: usize = 512 << 20;

/// The request handler of all ports.
pub(crate) struct Proxy {
    flow: Flow,
    engines: Vec<Authority>,
    allowlist: Option<Allowlist>,
    bodies: Arc<Budget>,
}

/// The answer to a request that is not forwarded.
type Refusal = Box<Response<ProxyBody>>;

// === impl Proxy ===

impl Proxy {
    /// `trusted` are the roots for connections that verify certificates.
    pub(crate) fn new(
        settings: Settings,
        allowlist: Option<Allowlist>,
        trusted: Option<&ReloadingRoots>,
    ) -> Self {
        let engine = |rank: &crate::settings::Rank| {
            Authority::try_from(format!("localhost:{}", rank.engine)).expect("a host name and a port")
        };
        Self {
            engines: settings.ranks.iter().map(engine).collect(),
            allowlist,
            bodies: Budget::new(settings.body_limit.max(MAX_BODIES_BYTES)),
            flow: Flow::new(settings, trusted),
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.flow.metrics
    }

    /// Returns the refusal if the request is ambiguous or the guard of the port does not accept it.
    pub(crate) fn refusal(&self, head: &Parts, guard: Option<&Guard>) -> Option<Response<ProxyBody>> {
        let checked = match guard {
            Some(guard) => guard.check(head.version, &head.uri, &head.headers, |_| false).map(drop),
            None => {
                longboat_accept::host(head.version, &head.uri, &head.headers).map(drop).map_err(Into::into)
            }
        };
        let refusal = checked.err()?;
        self.flow.metrics.count(Outcome::Refused);
        Some(answer::refused(&refusal))
    }

    /// Answers a request to the port of rank `rank`.
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        rank: usize,
        peer: SocketAddr,
    ) -> Response<ProxyBody> {
        if request.uri().path() == "/health" && matches!(*request.method(), Method::GET | Method::HEAD) {
            return answer::healthy();
        }
        if request.method() == Method::CONNECT {
            let message = "this sidecar does not forward requests to other hosts";
            return answer::error(StatusCode::METHOD_NOT_ALLOWED, message);
        }
        let api = Api::of(request.uri().path()).filter(|_| request.method() == Method::POST);
        let (head, body) = request.into_parts();
        let Some(api) = api else {
            return self.pass(head, body, rank, peer).await;
        };
        let is_disaggregated = head.headers.contains_key(headers::PREFILLER);
        let span = spans::request(&head.headers, head.uri.path(), is_disaggregated);
        let answered = self.forward(api, head, body, rank, peer).instrument(span.clone()).await;
        let response = answered.unwrap_or_else(|refusal| {
            self.flow.metrics.count(Outcome::Refused);
            *refusal
        });
        spans::until_end_of(response, span)
    }

    /// Sends a request through the stages that its headers name.
    async fn forward(
        &self,
        api: Api,
        mut head: Parts,
        body: Incoming,
        rank: usize,
        peer: SocketAddr,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let target = self.choose(&head.headers)?;
        let by_header = target.is_none() || self.flow.connector.is_ranked_by_header();
        let rank = if by_header { self.rank(&head.headers, rank)? } else { rank };
        // Without a prefiller, this engine pulls the blocks, and not from itself.
        let source =
            self.source(&head.headers).filter(|source| target.is_some() || !self.is_here(source, rank));
        let encoders = self.encoders(&head.headers)?;
        tracing::debug!(
            prefill = target.as_ref().map(|target| tracing::field::display(target.authority())),
            "Forwarding a request."
        );
        let is_chunked = self.flow.settings.chunk.is_some() && head.uri.path() == api::CHAT;
        let has_fields = !self.flow.settings.model_fields.is_empty();
        // Most requests, whose bodies pass through unread.
        if target.is_none() && source.is_none() && encoders.is_empty() && !is_chunked && !has_fields {
            return Ok(self.pass(head, body, rank, peer).await);
        }
        let body = upload::held(Upload::new(body), self.flow.settings.body_limit, &self.bodies).await;
        let body = self.flow.settings.model_fields.add(body.map_err(|fault| fault.answer())?);
        let authority = head.uri.authority().map(ToString::to_string);
        headers::for_engine(&mut head.headers, peer, authority.as_deref());
        // `Trailer` describes the end of the client's body. The bodies for the engines have a length.
        head.headers.remove(http::header::TRAILER);
        let route = Route {
            prefiller: target.as_ref(),
            encoders,
            source: source.as_ref(),
            engine: &self.engines[rank],
        };
        Ok(self.flow.run(api, Head { uri: head.uri, headers: head.headers }, body, route).await)
    }

    /// Returns the engine that decodes: the one of the port, or the one that the request names. A pod with one rank checks
    /// the name, too: another address means that the picker's endpoint is not this pod.
    fn rank(&self, headers: &HeaderMap, rank: usize) -> Result<usize, Refusal> {
        let named = headers.get(headers::RANK).and_then(|value| value.to_str().ok()).map(str::trim);
        let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(rank) };
        let Settings { pod_ip, ranks, .. } = &self.flow.settings;
        let port = Target::parse(named)
            .filter(|target| target.host() == pod_ip)
            .and_then(|target| target.authority().port_u16());
        port.and_then(|port| ranks.iter().position(|rank| rank.port == port)).ok_or_else(|| {
            let why = if pod_ip.is_empty() {
                "x-data-parallel-host-port cannot be compared with this pod's address: POD_IP is not set"
            } else {
                "x-data-parallel-host-port is not the address of a rank of this pod"
            };
            answer::error(StatusCode::BAD_REQUEST, why).into()
        })
    }

    /// Returns the prefiller that the request names, if it names one.
    fn choose(&self, headers: &HeaderMap) -> Result<Option<Target>, Refusal> {
        let lines = lines(headers, &headers::PREFILLER);
        let entry = if self.flow.settings.sampling {
            target::entries(&lines).choose(&mut rand::rng()).copied()
        } else {
            target::first(&lines)
        };
        let Some(entry) = entry else { return Ok(None) };
        let target = Target::parse(entry);
        if let Some(allowlist) = &self.allowlist {
            // As in the reference, an entry without a port is judged by its host.
            let named = match &target {
                Some(target) => Some((target.host(), target.authority().port_u16())),
                None => target::named_host(entry).map(|host| (host, None)),
            };
            if !named.is_some_and(|(host, port)| allowlist.allows(host, port)) {
                tracing::warn!(entry, "The prefill endpoint of a request is not a pod of the pool.");
                return Err(answer::forbidden().into());
            }
        }
        Ok(Some(target.ok_or_else(|| misspelt("x-prefiller-host-port", entry))?))
    }

    /// Returns an engine that has cached a part of the prompt, if engines may pull from each other. An engine that is not
    /// allowed is ignored: the request only costs more computation.
    fn source(&self, headers: &HeaderMap) -> Option<Target> {
        self.flow.settings.pull?;
        let entry = headers.get(headers::SOURCE)?.to_str().ok()?.trim();
        let target = Target::parse(entry)?;
        let is_allowed = self.allows(&target);
        if !is_allowed {
            tracing::warn!(entry, "The source of cached blocks of a request is not a pod of the pool.");
        }
        is_allowed.then_some(target)
    }

    /// Returns the encoders that the request names, if there is an encoder stage. Returns an error if one is not allowed.
    fn encoders(&self, headers: &HeaderMap) -> Result<Vec<Target>, Refusal> {
        if self.flow.settings.encoder.is_none() {
            return Ok(Vec::new());
        }
        let lines = lines(headers, &headers::ENCODERS);
        let mut encoders = Vec::new();
        for entry in target::entries(&lines) {
            let target = Target::parse(entry);
            if self.allowlist.is_some() && !target.as_ref().is_some_and(|target| self.allows(target)) {
                tracing::warn!(entry, "The encoder of a request is not a pod of the pool.");
                continue;
            }
            encoders.push(target.ok_or_else(|| misspelt("x-encoder-hosts-ports", entry))?);
        }
        Ok(encoders)
    }

    fn allows(&self, target: &Target) -> bool {
        let port = target.authority().port_u16();
        self.allowlist.as_ref().is_none_or(|allowlist| allowlist.allows(target.host(), port))
    }

    /// Whether the target is this rank of this pod.
    fn is_here(&self, target: &Target, rank: usize) -> bool {
        target.host() == self.flow.settings.pod_ip
            && target.authority().port_u16() == self.flow.settings.ranks.get(rank).map(|rank| rank.port)
    }

    /// Passes a request to the engine unchanged.
    async fn pass(
        &self,
        mut head: Parts,
        body: Incoming,
        rank: usize,
        peer: SocketAddr,
    ) -> Response<ProxyBody> {
        self.flow.metrics.count(Outcome::Passed);
        let authority = head.uri.authority().map(ToString::to_string);
        headers::for_engine(&mut head.headers, peer, authority.as_deref());
        // The extensions belong to the client's connection.
        head.extensions = http::Extensions::new();
        let request = Request::from_parts(head, passed(Upload::new(body)));
        match self.flow.decoder.send(&self.engines[rank], request).await {
            Ok(mut answer) => {
                longboat_accept::remove_hop_by_hop(answer.headers_mut());
                answer.map(passed)
            }
            Err(error) => match Fault::behind(&error) {
                Some(fault) => fault.answer(),
                None => answer::unreachable_decoder(&error),
            },
        }
    }
}

fn misspelt(header: &str, entry: &str) -> Response<ProxyBody> {
    let message = format!("{header}: `{entry}` is not HOST:PORT");
    answer::error(StatusCode::BAD_GATEWAY, &message)
}

fn lines<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Vec<std::borrow::Cow<'a, str>> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches};
    use http::HeaderValue;

    use super::*;
    use crate::args::Args;

    /// Returns the prefiller that these lines of the header select, or the status of the refusal.
    fn chosen(lines: &[&str]) -> Result<Option<String>, u16> {
        longboat_tls::install_default_provider();
        let command = Args::augment_args(clap::Command::new("sidecar").no_binary_name(true));
        let args = Args::from_arg_matches(&command.get_matches_from([""; 0])).unwrap();
        let allowed = [("10.0.0.1", 8000), ("pod-a", 8000), ("127.0.0.1", 8000), ("fd00::1", 8000)];
        let settings = Settings::try_from(args).unwrap();
        let proxy = Proxy::new(settings, Some(Allowlist::of(&allowed)), None);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(headers::PREFILLER, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let chosen = proxy.choose(&headers).map_err(|refusal| refusal.status().as_u16())?;
        Ok(chosen.map(|target| target.authority().to_string()))
    }

    #[test]
    fn prompts_go_to_listed_endpoints_however_another_one_is_spelled() {
        for good in ["10.0.0.1:8000", "http://10.0.0.1:8000", "pod-a:8000", "[fd00::1]:8000"] {
            let expected = good.strip_prefix("http://").unwrap_or(good);
            assert_eq!(chosen(&[good]), Ok(Some(expected.into())), "{good}");
        }
        assert_eq!(chosen(&["10.0.0.1:8000,10.0.0.2:8000"]), Ok(Some("10.0.0.1:8000".into())));
        assert_eq!(chosen(&[",10.0.0.2:8000"]), Ok(None));
        for bad in [
            "10.0.0.2:8000",
            "10.0.0.1:22",
            "10.0.0.1:8000/x",
            "10.0.0.1:8000?x",
            "10.0.0.1:8000#x",
            "x@10.0.0.1:8000",
            "10.0.0.1:8000@10.0.0.2:80",
            "10.0.0.1:73536",
            "10.0.0.1%00:8000",
            "10.0.0.1.:8000",
            "10.0.0.1.example.com:8000",
            "167772161:8000",
            "0x0a000001:8000",
            "012.0.0.1:8000",
            "10.1:8000",
            "010.000.000.001:8000",
            "localhost:8000",
            "127.1:8000",
            "[::ffff:10.0.0.1]:8000",
            "[::ffff:a00:1]:8000",
            "::ffff:10.0.0.1:8000",
            "[::1]:8000",
            "[fd00::1]:22",
            "[fd00::1%25eth0]:8000",
            "https://10.0.0.1:8000",
            "http://http://10.0.0.1:8000",
            "//10.0.0.1:8000",
            "10.0.0.1:8000 10.0.0.2",
            "10.0.0.2:8000,10.0.0.1:8000",
            "1\u{2460}.0.0.1:8000",
        ] {
            assert_eq!(chosen(&[bad]), Err(403), "{bad}");
        }
        assert_eq!(chosen(&["10.0.0.2:8000", "10.0.0.1:8000"]), Err(403));
        assert_eq!(chosen(&["10.0.0.1:8000,10.0.0.2:8000", "x"]), Err(403));
        assert_eq!(chosen(&["10.0.0.1"]), Err(502), "it has no port");
    }
}
