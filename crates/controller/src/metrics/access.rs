//! Access to metrics. The API server decides, and its answers are cached for a short time.

use std::{collections::HashMap, time::Duration};

use http::StatusCode;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::SubjectAccessReview,
};
use kube::{Api, Client, api::PostParams};
use longboat_api::scrapers::may_read_metrics;
use longboat_watch::text_of;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long an allowed answer is cached.
const ALLOWED: Duration = Duration::from_mins(1);
/// How long a denied answer is cached. Short, so that new rights take effect soon.
const DENIED: Duration = Duration::from_secs(10);
/// Most answers in the cache. Scrapers are few; a client with many tokens only causes more requests to the API server.
const MAX_CACHED_ANSWERS: usize = 256;
/// How long the API server may take. Scrapers give up after ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest token that is accepted, in bytes. A service account's token has about a thousand.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Checks whether a token's user may `get` the path `/metrics`, as controller-runtime does.
pub(super) struct Access {
    client: Client,
    /// Keyed by the token's hash, because tokens are secrets.
    answers: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

type Verdict = Result<(), StatusCode>;

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self { client, answers: Mutex::default() }
    }

    /// Whether the value of an `Authorization` header allows the request.
    pub(super) async fn check(&self, authorization: Option<&str>) -> Verdict {
        let token = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES)
            .ok_or(StatusCode::UNAUTHORIZED)?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        let known = self.answers.lock().get(&hash).copied();
        if let Some((_, verdict)) = known.filter(|(until, _)| now < *until) {
            return verdict;
        }
        let asked = tokio::time::timeout(REVIEW_TIMEOUT, self.ask(token)).await;
        let verdict = match asked {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => {
                tracing::warn!(
                    error = text_of(&error),
                    "Cannot check whether a client may read the metrics."
                );
                return Err(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Err(_) => return Err(StatusCode::GATEWAY_TIMEOUT),
        };
        let until = now + if verdict.is_ok() { ALLOWED } else { DENIED };
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_CACHED_ANSWERS {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() < MAX_CACHED_ANSWERS {
            answers.insert(hash, (until, verdict));
        }
        verdict
    }

    async fn ask(&self, token: &str) -> Result<Verdict, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviewed =
            Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let user = reviewed
            .status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user);
        let Some(user) = user else { return Ok(Err(StatusCode::UNAUTHORIZED)) };
        let access = may_read_metrics(user);
        let reviewed = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &access)
            .await?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed);
        Ok(if allowed { Ok(()) } else { Err(StatusCode::FORBIDDEN) })
    }
}
