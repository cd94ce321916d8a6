//! Checks who may read the metrics port.
//!
//! The API server decides. A client that may `get` the path `/metrics` may read metrics, as in controller-runtime. Such a
//! client may also read decisions. The holder of a token of the picker's own account that was made for this purpose may read both
//! ([`longboat_api::decisions`] says why).

use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::SubjectAccessReview,
};
use kube::{Api, Client, api::PostParams};
use longboat_api::{
    decisions::{AUDIENCE, TOKEN_HEADER},
    scrapers::may_read_metrics,
};
use longboat_watch::text_of;
use tokio::sync::OnceCell;

/// Asks the API server about clients.
pub(crate) struct Readers {
    client: Client,
    /// The picker's own user name, after it was requested once.
    own: OnceCell<String>,
}

// === impl Readers ===

impl Readers {
    /// Creates a check that asks this API server.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, own: OnceCell::new() }
    }

    /// Whether the sender of these headers may read the pages of the picker.
    ///
    /// # Errors
    /// The status of the response: 401 without a valid token, 403 without the right, 500 if the API server could not be asked.
    pub(crate) async fn may_read(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        if let Some(token) = headers.get(TOKEN_HEADER) {
            return self.is_own(token).await;
        }
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or(StatusCode::UNAUTHORIZED)?;
        let access = may_read_metrics(self.user(token, None).await?);
        let reviewed = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &access)
            .await
            .map_err(|error| unavailable(&error))?;
        if reviewed.status.is_some_and(|status| status.allowed) { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }

    /// Whether a token is one of the picker's own account, made for readers of its pages.
    async fn is_own(&self, token: &HeaderValue) -> Result<(), StatusCode> {
        let token = token.to_str().map_err(|_| StatusCode::UNAUTHORIZED)?;
        let user = self.user(token, Some(AUDIENCE)).await?;
        let own = self.own.get_or_try_init(|| self.own()).await?;
        if user.username.as_deref() == Some(own) { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }

    /// Returns the user of a token. If an audience is given, the token must be made for it.
    async fn user(&self, token: &str, audience: Option<&str>) -> Result<UserInfo, StatusCode> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: audience.map(|audience| vec![audience.to_owned()]),
            },
            ..TokenReview::default()
        };
        let reviewed = Api::<TokenReview>::all(self.client.clone())
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

    async fn own(&self) -> Result<String, StatusCode> {
        let reviewed = Api::<SelfSubjectReview>::all(self.client.clone())
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .map_err(|error| unavailable(&error))?;
        let user = reviewed.status.and_then(|status| status.user_info).and_then(|user| user.username);
        user.ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

fn unavailable(error: &kube::Error) -> StatusCode {
    tracing::warn!(error = %text_of(error), "Cannot check whether a client may read the metrics.");
    StatusCode::INTERNAL_SERVER_ERROR
}
