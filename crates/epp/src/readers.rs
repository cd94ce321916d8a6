//! Checks who may read the metrics port.
//!
//! The API server decides. A client that may `get` the path `/metrics` may read metrics, as in controller-runtime. Such a
//! client may also read decisions. The holder of a token of the picker's own account that was made for this purpose may read both
//! ([`longboat_api::decisions`] says why).

use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use longboat_api::decisions::{AUDIENCE, TOKEN_HEADER};
use longboat_watch::reviews::{MetricsReaders, unavailable, user_of};
use tokio::sync::OnceCell;

/// Asks the API server about clients.
pub(crate) struct Readers {
    client: Client,
    scrapers: MetricsReaders,
    /// The picker's own user name, after it was requested once.
    own: OnceCell<String>,
}

/// Whether the sender of these headers may read pages. Without a check, everybody may.
///
/// # Errors
/// The status of the response.
pub(crate) async fn may_read(readers: Option<&Readers>, headers: &HeaderMap) -> Result<(), StatusCode> {
    match readers {
        Some(readers) => readers.may_read(headers).await,
        None => Ok(()),
    }
}

// === impl Readers ===

impl Readers {
    /// Creates a check that asks this API server.
    pub(crate) fn new(client: Client) -> Self {
        Self { scrapers: MetricsReaders::new(client.clone()), client, own: OnceCell::new() }
    }

    /// Whether the sender of these headers may read the pages of the picker.
    ///
    /// # Errors
    /// The status of the response: 401 without a valid token, 403 without the right, 500 or 504 if the API server could not be asked.
    pub(crate) async fn may_read(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        if let Some(token) = headers.get(TOKEN_HEADER) {
            return self.is_own(token).await;
        }
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.scrapers.check(authorization).await
    }

    /// Whether a token is one of the picker's own account, made for readers of its pages.
    async fn is_own(&self, token: &HeaderValue) -> Result<(), StatusCode> {
        let token = token.to_str().map_err(|_| StatusCode::UNAUTHORIZED)?;
        let user = user_of(&self.client, token, Some(AUDIENCE)).await?;
        let own = self.own.get_or_try_init(|| self.own()).await?;
        if user.username.as_deref() == Some(own) { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }

    async fn own(&self) -> Result<String, StatusCode> {
        let reviewed = Api::<SelfSubjectReview>::all(self.client.clone())
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .map_err(|error| unavailable(&error))?;
        let user = reviewed.status.and_then(|status| status.user_info).and_then(|user| user.username);
        user.ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
