//! Requests that need an API key: who they are from, and whether their limits allow them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::SystemTime,
};

use futures::{StreamExt, stream};
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body::Frame;
use http_body_util::BodyExt;
use longboat_key::Key;
use parking_lot::Mutex;

use super::{
    answer::{self, ApiError, refused_as},
    body::ProxyBody,
    completion::Completion,
    upload::Upload,
};
use crate::keys::{ApiKey, KeyLimits, KeyReport, KeyScope, KeyState, KeyTable, Tokens, UsageReader};

/// What the keys have used. It stays when a Secret changes.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    states: HashMap<Key, Arc<Mutex<KeyState>>>,
    /// Requests without a valid key.
    unauthorized: u64,
}

/// A request that a key allows. Dropping it ends the request in the account of the key.
#[derive(Debug)]
pub(super) struct Admission {
    account: Option<Arc<Mutex<KeyState>>>,
    /// The Secret of the key, if the key has limits of tokens.
    token_limited: Option<Key>,
    /// Whether the client has not asked for the usage that the engine reports.
    hides_usage: bool,
    reader: Option<UsageReader>,
    /// How far the request has come.
    stage: Stage,
    /// The text of the prompt, in bytes.
    prompt_bytes: u64,
}

/// How far a request has come, which says what it has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No back end has it.
    Held,
    /// The key is not for its model.
    Refused,
    /// A back end has it, and the client has not got the whole response.
    Sent,
    /// The client has got the whole response.
    Answered,
}

/// Prepares an admitted request for the back end, which gets no key, and answers in a form that the gateway can read.
pub(super) fn strip(head: &mut Parts) {
    head.headers.remove(header::AUTHORIZATION);
    head.headers.remove(header::ACCEPT_ENCODING);
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether a request only reads, so that it costs nothing.
fn reads(head: &Parts) -> bool {
    matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS)
        && !head.headers.contains_key(header::UPGRADE)
}

// === impl Accounts ===

impl Accounts {
    /// Checks the key of a request, and counts the request. The error is the response.
    pub(super) async fn admit(
        &self,
        table: &KeyTable,
        scope: &KeyScope,
        head: &mut Parts,
        upload: &mut Upload,
    ) -> Result<Admission, Box<Response<ProxyBody>>> {
        let key = match find(table, scope, head) {
            Ok(key) => key,
            Err(error) => {
                self.0.lock().unauthorized += 1;
                upload.discard().await;
                return Err(Box::new(unauthorized(error)));
            }
        };
        // After the key was checked: reading is free, and not open.
        if reads(head) {
            return Ok(Admission::new(None));
        }
        let account = self.account(&key.secret);
        // In a statement of its own, so that the lock does not live until the body is discarded.
        let begun = account.lock().begin(&key.spec.limits, now());
        if let Err(exhausted) = begun {
            upload.discard().await;
            let message = format!(
                "API key {} has used up its limit {} of {}",
                key.secret, exhausted.limit, exhausted.allowed
            );
            let kind = if exhausted.limit.starts_with("tokens") { "tokens" } else { "requests" };
            let error = ApiError { kind, message: &message, param: None, code: Some("rate_limit_exceeded") };
            let mut response = error.response(StatusCode::TOO_MANY_REQUESTS);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(exhausted.retry_after));
            return Err(Box::new(response));
        }
        let mut admission = Admission::new(Some(account));
        admission.token_limited = key.spec.limits.has_tokens().then(|| key.secret.clone());
        admission.prepare(key, head, upload).await?;
        Ok(admission)
    }

    fn account(&self, secret: &Key) -> Arc<Mutex<KeyState>> {
        self.0.lock().states.entry(secret.clone()).or_default().clone()
    }

    /// The number of requests without a valid key.
    pub(crate) fn unauthorized(&self) -> u64 {
        self.0.lock().unauthorized
    }

    /// Returns all keys, and the Secrets that cannot be used. Forgets the accounts of Secrets that are gone.
    pub(crate) fn report(&self, table: &KeyTable) -> Vec<KeyReport> {
        let usage = |secret: &Key| self.account(secret).lock().usage(now());
        let known = |key: &Arc<ApiKey>| KeyReport {
            namespace: key.secret.namespace.to_string(),
            name: key.secret.name.to_string(),
            problem: None,
            models: key.spec.models.iter().cloned().collect(),
            limits: key.spec.limits,
            usage: usage(&key.secret),
        };
        let refused = |(secret, reason): (&Key, &String)| KeyReport {
            namespace: secret.namespace.to_string(),
            name: secret.name.to_string(),
            problem: Some(reason.clone()),
            models: Vec::new(),
            limits: KeyLimits::default(),
            usage: usage(secret),
        };
        let mut all: Vec<_> = table.all.iter().map(known).chain(table.refused.iter().map(refused)).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        // Made before the lock, for which requests wait.
        let names: HashSet<&Key> =
            table.all.iter().map(|key| &key.secret).chain(table.refused.keys()).collect();
        self.0.lock().states.retain(|secret, _| names.contains(secret));
        all
    }
}

/// Finds the key of a request. The error says what is wrong, and never has the key.
fn find<'a>(table: &'a KeyTable, scope: &KeyScope, head: &Parts) -> Result<&'a Arc<ApiKey>, &'static str> {
    let mut sent = head.headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else {
        return Err("this service needs an API key: send one header `Authorization: Bearer KEY`");
    };
    let (scheme, key) = value.as_bytes().split_at(value.len().min("Bearer ".len()));
    if !scheme.eq_ignore_ascii_case(b"Bearer ") {
        return Err("the header `Authorization` must be `Bearer KEY`");
    }
    table.find(scope, key.trim_ascii()).ok_or("the API key is not valid for this service")
}

fn unauthorized(message: &str) -> Response<ProxyBody> {
    let kind = "invalid_request_error";
    let mut response = ApiError { kind, message, param: None, code: Some("invalid_api_key") }
        .response(StatusCode::UNAUTHORIZED);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

// === impl Admission ===

impl Admission {
    fn new(account: Option<Arc<Mutex<KeyState>>>) -> Self {
        Self {
            account,
            token_limited: None,
            hides_usage: false,
            reader: None,
            stage: Stage::Held,
            prompt_bytes: 0,
        }
    }

    /// Refuses a request that changes to a protocol in which nobody counts tokens, if the key has limits of tokens.
    pub(super) fn without_count(&self) -> Option<Response<ProxyBody>> {
        let secret = self.token_limited.as_ref()?;
        let message = format!(
            "API key {secret} has limits of tokens, which the gateway cannot count in WebSockets and other upgraded connections"
        );
        let kind = "invalid_request_error";
        let error = ApiError { kind, message: &message, param: None, code: Some("upgrade_not_allowed") };
        Some(error.response(StatusCode::FORBIDDEN))
    }

    /// From now on the request costs something, also if the client goes away.
    pub(super) fn send(&mut self) {
        self.stage = Stage::Sent;
    }

    /// Checks the model, and asks a stream to report its usage.
    async fn prepare(
        &mut self,
        key: &ApiKey,
        head: &mut Parts,
        upload: &mut Upload,
    ) -> Result<(), Box<Response<ProxyBody>>> {
        if let Err(error) = upload.read().await {
            return Err(Box::new(answer::refused(&error, upload).await));
        }
        let completion = Completion::of(upload.chunks());
        self.prompt_bytes = completion.as_ref().map_or(0, |completion| completion.prompt_bytes);
        if !key.spec.models.is_empty() {
            let model = completion.as_ref().ok().and_then(|completion| completion.model.as_deref());
            if !model.is_some_and(|model| key.spec.models.contains(model)) {
                let message = match model {
                    Some(model) => format!("API key {} is not for the model `{model}`", key.secret),
                    None => format!("API key {} is for some models, and the request names none", key.secret),
                };
                self.stage = Stage::Refused;
                let kind = "invalid_request_error";
                let code = Some("model_not_allowed");
                let error = ApiError { kind, message: &message, param: Some("model"), code };
                return Err(Box::new(error.response(StatusCode::FORBIDDEN)));
            }
        }
        // Other APIs report the usage of a stream without being asked.
        let asks = head.uri.path().ends_with("/completions");
        if asks && let Err(error) = &completion {
            // The engine may read a body that the gateway cannot, and would report no usage.
            let message = format!("the request body is not the JSON of a completion: {error}");
            let error =
                ApiError { kind: "invalid_request_error", message: &message, param: None, code: None };
            return Err(Box::new(error.response(StatusCode::BAD_REQUEST)));
        }
        if let Some(body) =
            completion.ok().filter(|completion| completion.stream && asks).and_then(|it| it.with_usage())
        {
            upload.replace(body).map_err(|error| Box::new(refused_as(&error)))?;
            // hyper sets that of the new body.
            head.headers.remove(header::CONTENT_LENGTH);
            self.hides_usage = true;
        }
        Ok(())
    }

    /// Counts the tokens of the response while the client reads it.
    pub(super) fn meter(mut self, response: Response<ProxyBody>) -> Response<ProxyBody> {
        if self.account.is_none() {
            return response;
        }
        let (mut head, body) = response.into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let reader = UsageReader::new(kind.unwrap_or_default(), self.hides_usage);
        // An event may be hidden, and the response be shorter than announced.
        if matches!(reader, UsageReader::Events(_)) {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        self.reader = Some(reader);
        let frames = stream::unfold((body, self, false), |(mut body, mut admission, is_done)| async move {
            if is_done {
                return None;
            }
            let reader = admission.reader.as_mut()?;
            loop {
                let frame = match body.frame().await {
                    Some(Ok(frame)) => frame,
                    Some(Err(error)) => return Some((Err(error), (body, admission, true))),
                    None => {
                        admission.stage = Stage::Answered;
                        let rest = reader.rest();
                        let rest = (!rest.is_empty()).then(|| Ok(Frame::data(rest)))?;
                        return Some((rest, (body, admission, true)));
                    }
                };
                let frame = frame.map_data(|data| reader.read(data));
                if frame.data_ref().is_none_or(|data| !data.is_empty()) {
                    return Some((Ok(frame), (body, admission, false)));
                }
            }
        });
        Response::from_parts(head, ProxyBody::stream(frames.boxed()))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some(account) = self.account.take() else { return };
        if self.stage == Stage::Refused {
            return account.lock().cancel(now());
        }
        let events = self.reader.as_ref().map_or(0, UsageReader::events);
        let reported = self.reader.as_ref().and_then(UsageReader::tokens);
        // A whole response that is no stream and reports nothing is an error, or not about tokens.
        let is_free = self.stage == Stage::Held || (self.stage == Stage::Answered && events == 0);
        let prompt_bytes = if is_free { 0 } else { self.prompt_bytes };
        account.lock().end(reported.unwrap_or(Tokens::estimated(prompt_bytes, events)), now());
    }
}
