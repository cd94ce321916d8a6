//! Tokens with which the dashboard may read the decisions of pickers.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, api::PostParams};
use longboat_api::decisions::AUDIENCE;
use longboat_controller::reader;
use parking_lot::Mutex;

/// How long a token is valid, in seconds: the minimum that the API server grants.
const VALIDITY_SECONDS: i64 = 600;
/// How long a token is used. This is shorter than its validity, so that it does not expire during a request.
const MAX_TOKEN_AGE: Duration = Duration::from_mins(8);
/// The most tokens to cache.
const MAX_CACHED_TOKENS: usize = 256;

/// The tokens of recently queried pickers, by the uid of the pod.
#[derive(Debug, Default)]
pub struct Tokens(Mutex<HashMap<String, (Instant, String)>>);

// === impl Tokens ===

impl Tokens {
    /// Returns a token of this pod's service account, which only allows to read the picker's decisions. The token ends with
    /// the pod.
    ///
    /// # Errors
    ///
    /// If a right is missing. The error is a sentence that names it.
    pub(crate) async fn of(&self, client: &Client, pod: &Pod) -> Result<String, String> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (uid, name) = (text(&pod.metadata.uid), text(&pod.metadata.name));
        // The lock is not held while a token is created. Two requests may create one each, and both are valid.
        let known = self.0.lock().get(&uid).filter(|(since, _)| since.elapsed() < MAX_TOKEN_AGE).cloned();
        if let Some((_, token)) = known {
            return Ok(token);
        }
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let account = account.ok_or("the pod has no service account")?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![AUDIENCE.to_owned()],
                expiration_seconds: Some(VALIDITY_SECONDS),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(name),
                    uid: Some(uid.clone()),
                }),
            },
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &text(&pod.metadata.namespace));
        let answered = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let answered = answered.map_err(|error| {
            let said = reader::sentence(&error);
            format!(
                "the picker requires a token of ServiceAccount `{account}`, which needs the right to \
                 `create` `serviceaccounts/token`: {said}"
            )
        })?;
        let token = answered.status.ok_or("the API server issued no token")?.token;
        let mut tokens = self.0.lock();
        if tokens.len() >= MAX_CACHED_TOKENS {
            tokens.clear();
        }
        tokens.insert(uid, (Instant::now(), token.clone()));
        Ok(token)
    }
}
