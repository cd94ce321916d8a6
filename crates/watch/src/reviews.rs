//! Reviews: whom a token belongs to, and who may read metrics. The API server decides.

use std::{collections::HashMap, time::Duration};

use http::StatusCode;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::SubjectAccessReview,
};
use kube::{Api, Client, api::PostParams};
use longboat_api::scrapers::may_read_metrics;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::text_of;

/// How long an allowed answer is cached.
const ALLOWED_TTL: Duration = Duration::from_mins(1);
/// How long a denied answer is cached. Short, so that new rights take effect soon.
const DENIED_TTL: Duration = Duration::from_secs(10);
/// Most answers in the cache. Scrapers are few; a client with many tokens only causes more requests to the API server.
const MAX_CACHED_ANSWERS: usize = 256;
/// How long the API server may take. Scrapers give up after ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest token that is accepted, in bytes. A service account's token has about a thousand.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Checks whether a client may `get` the path `/metrics`, as controller-runtime does. Answers are cached for a short time.
pub struct MetricsReaders {
    client: Client,
    /// Keyed by the token's hash, because tokens are secrets.
    answers: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

type Verdict = Result<(), StatusCode>;

// === impl MetricsReaders ===

impl MetricsReaders {
    /// Creates a check that asks this API server.
    pub fn new(client: Client) -> Self {
        Self { client, answers: Mutex::default() }
    }

    /// Whether the value of an `Authorization` header allows the request.
    ///
    /// # Errors
    /// The status of the response: 401 without a valid token, 403 without the right, 500 or 504 if the API server cannot be asked or
    /// does not answer.
    pub async fn check(&self, authorization: Option<&str>) -> Verdict {
        let token = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES)
            .ok_or(StatusCode::UNAUTHORIZED)?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        // Before the request, so that no answer is used for longer than it was given for.
        let now = Instant::now();
        let known = self.answers.lock().get(&hash).copied();
        if let Some((_, verdict)) = known.filter(|(until, _)| now < *until) {
            return verdict;
        }
        let verdict = tokio::time::timeout(REVIEW_TIMEOUT, self.ask(token)).await;
        let verdict = verdict.unwrap_or(Err(StatusCode::GATEWAY_TIMEOUT));
        // Not cached: the API server did not decide.
        if verdict.is_err_and(|status| status.is_server_error()) {
            return verdict;
        }
        let until = now + if verdict.is_ok() { ALLOWED_TTL } else { DENIED_TTL };
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_CACHED_ANSWERS {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() < MAX_CACHED_ANSWERS {
            answers.insert(hash, (until, verdict));
        }
        verdict
    }

    async fn ask(&self, token: &str) -> Verdict {
        let access = may_read_metrics(user_of(&self.client, token, None).await?);
        let reviewed = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &access)
            .await
            .map_err(|error| unavailable(&error))?;
        if reviewed.status.is_some_and(|status| status.allowed) { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }
}

/// Returns the user of a token. If an audience is given, the token must be made for it.
///
/// # Errors
/// The status of the response: 401 if the token is not valid, 500 if the API server cannot be asked.
pub async fn user_of(client: &Client, token: &str, audience: Option<&str>) -> Result<UserInfo, StatusCode> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences: audience.map(|audience| vec![audience.to_owned()]),
        },
        ..TokenReview::default()
    };
    let reviewed = Api::<TokenReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .map_err(|error| unavailable(&error))?;
    let status = reviewed
        .status
        .filter(|status| status.authenticated == Some(true))
        .ok_or(StatusCode::UNAUTHORIZED)?;
    // An authenticator that does not know audiences returns none. The token may then be for any audience, so it is refused.
    let is_meant = audience
        .is_none_or(|audience| status.audiences.iter().flatten().any(|confirmed| confirmed == audience));
    status.user.filter(|_| is_meant).ok_or(StatusCode::UNAUTHORIZED)
}

/// Logs why a review failed, and returns the status of the response.
pub fn unavailable(error: &kube::Error) -> StatusCode {
    tracing::warn!(error = text_of(error), "Cannot check whether a client may read the metrics.");
    StatusCode::INTERNAL_SERVER_ERROR
}
