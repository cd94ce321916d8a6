//! Tokens for Google Cloud Storage: from a credential file, from the machine's metadata server, or none.

use std::{path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use reqwest::Url;
use ring::{rand::SystemRandom, signature};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    FetchError, encode,
    failure::Failure,
    http::{Client, Limits, Request},
    retry::RetryPolicy,
    settings::Settings,
    trust,
};

const VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
/// Tokens are replaced this many seconds before they expire.
const REFRESH_MARGIN: i64 = 300;
/// Longest response with a token, in bytes.
const MAX_RESPONSE: usize = 64 << 10;

/// Gets tokens, and replaces them before they expire.
pub(super) struct Credentials {
    from: TokenSource,
    near: Client,
    far: Client,
    /// The last token, if requests have one, and when it ends.
    current: Mutex<Option<(Option<String>, i64)>>,
}

/// The source of tokens.
enum TokenSource {
    /// The key of a service account.
    ServiceAccount(ServiceAccount),
    /// The refresh token of a user.
    AuthorizedUser(AuthorizedUser),
    /// The metadata server at this address, if the machine belongs to Google Cloud.
    Metadata(String),
    /// No source. Requests are anonymous.
    Anonymous,
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    #[serde(default = "token_uri")]
    token_uri: String,
}

#[derive(Deserialize)]
struct AuthorizedUser {
    client_id: String,
    client_secret: String,
    refresh_token: String,
    #[serde(default = "token_uri")]
    token_uri: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: Option<i64>,
}

fn token_uri() -> String {
    "https://oauth2.googleapis.com/token".into()
}

// === impl Credentials ===

impl Credentials {
    pub(super) fn new(settings: &Settings) -> Result<Self, FetchError> {
        let tls = trust::usual(settings)?;
        let limits = |seconds, attempts| Limits {
            connect: Duration::from_secs(seconds),
            read: Duration::from_secs(10),
            retries: RetryPolicy { attempts, time: Duration::from_secs(30), first_answer: None },
        };
        Ok(Self {
            from: TokenSource::find(settings)?,
            near: Client::new(tls.clone(), limits(1, 1))?,
            far: Client::new(tls, limits(10, 5))?,
            current: Mutex::new(None),
        })
    }

    /// Returns a valid token. Returns `None` if requests are anonymous.
    pub(super) async fn token(&self) -> Result<Option<String>, Failure> {
        // One caller asks for a token, and the others wait for the result.
        let mut current = self.current.lock().await;
        let now = Timestamp::now().as_second();
        if let Some((token, end)) = &*current
            && *end > now + REFRESH_MARGIN
        {
            return Ok(token.clone());
        }
        let found = match &self.from {
            TokenSource::Anonymous => Ok((None, None)),
            TokenSource::ServiceAccount(account) => self.ask(&account.token_uri, account.grant(now)?).await,
            TokenSource::AuthorizedUser(user) => self.ask(&user.token_uri, user.grant()).await,
            TokenSource::Metadata(host) => {
                let path = "computeMetadata/v1/instance/service-accounts/default/token";
                let mut request = Request::get(url(&format!("http://{host}/{path}"))?);
                request.headers.insert("metadata-flavor", http::HeaderValue::from_static("Google"));
                match self.near.document(&request, MAX_RESPONSE).await {
                    Ok(document) => read(&document.body),
                    // If the server has answered before, this is a machine of Google Cloud, whose server fails now.
                    Err(failure) if current.is_none() => {
                        tracing::debug!(
                            error = failure.why,
                            "No metadata server answers, so requests are anonymous."
                        );
                        Ok((None, None))
                    }
                    Err(failure) => Err(failure),
                }
            }
        };
        let (token, lasts) = match (found, &*current) {
            (Ok(found), _) => found,
            // The margin is there for this: a service of tokens that fails for minutes must not end a download.
            (Err(_), Some((token, end))) if *end > now => return Ok(token.clone()),
            (Err(failure), _) => return Err(failure),
        };
        let end = lasts.map_or(i64::MAX, |lasts| now.saturating_add(lasts));
        *current = Some((token.clone(), end));
        Ok(token)
    }

    async fn ask(&self, address: &str, body: String) -> Result<(Option<String>, Option<i64>), Failure> {
        let request = Request::form(url(address)?, body);
        let document = self.far.document(&request, MAX_RESPONSE).await.map_err(|failure| Failure {
            // A refused grant is an authentication error, whatever the status.
            status: failure.status.map(|status| if status < 500 { 401 } else { status }),
            ..failure
        })?;
        read(&document.body)
    }
}

fn read(body: &[u8]) -> Result<(Option<String>, Option<i64>), Failure> {
    let answer: TokenResponse =
        serde_json::from_slice(body).map_err(|_| Failure::last("cannot read the response with the token"))?;
    Ok((Some(answer.access_token), answer.expires_in))
}

fn url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|_| Failure::last("an address in the credentials is invalid"))
}

// === impl TokenSource ===

impl TokenSource {
    fn find(settings: &Settings) -> Result<Self, FetchError> {
        if let Some(file) = settings.get(VARIABLE) {
            return Self::read(&PathBuf::from(file));
        }
        let known =
            settings.home().map(|home| home.join(".config/gcloud/application_default_credentials.json"));
        if let Some(file) = known.filter(|file| file.is_file()) {
            return Self::read(&file);
        }
        if settings.is_on("NO_GCE_CHECK") || settings.get("STORAGE_EMULATOR_HOST").is_some() {
            return Ok(Self::Anonymous);
        }
        Ok(Self::Metadata(settings.get("GCE_METADATA_HOST").unwrap_or("metadata.google.internal").to_owned()))
    }

    fn read(file: &PathBuf) -> Result<Self, FetchError> {
        let refuse = |why: String| FetchError::setting(VARIABLE, why);
        let shown = file.display();
        let text = std::fs::read(file).map_err(|error| refuse(format!("cannot read `{shown}`: {error}")))?;
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|_| refuse(format!("`{shown}` is not valid JSON")))?;
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let broken = |_| refuse(format!("`{shown}` lacks a field of `{kind}`"));
        match kind.as_str() {
            "service_account" => Ok(Self::ServiceAccount(serde_json::from_value(value).map_err(broken)?)),
            "authorized_user" => Ok(Self::AuthorizedUser(serde_json::from_value(value).map_err(broken)?)),
            other => Err(refuse(format!(
                "`{shown}` is of type `{}`; expected service_account or authorized_user",
                crate::names::shown(other)
            ))),
        }
    }
}

// === impl ServiceAccount ===

impl ServiceAccount {
    /// Builds the body of a token request: a JWT that is signed with the account's key.
    fn grant(&self, now: i64) -> Result<String, Failure> {
        let encode_json = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.private_key_id {
            header["kid"] = id.as_str().into();
        }
        let claims = json!({
            "iss": self.client_email, "scope": SCOPE, "aud": self.token_uri, "iat": now, "exp": now + 3600,
        });
        let text = format!("{}.{}", encode_json(header), encode_json(claims));
        let refuse = || Failure::last("the private key of the service account is invalid");
        let key = PrivateKeyDer::from_pem_slice(self.private_key.as_bytes()).map_err(|_| refuse())?;
        let pair = match &key {
            PrivateKeyDer::Pkcs8(key) => signature::RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => signature::RsaKeyPair::from_der(key.secret_pkcs1_der()),
            _ => return Err(refuse()),
        };
        let pair = pair.map_err(|_| refuse())?;
        let mut signed = vec![0; pair.public().modulus_len()];
        let random = SystemRandom::new();
        pair.sign(&signature::RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signed)
            .map_err(|_| refuse())?;
        let grant = encode::part("urn:ietf:params:oauth:grant-type:jwt-bearer");
        Ok(format!("grant_type={grant}&assertion={text}.{}", URL_SAFE_NO_PAD.encode(signed)))
    }
}

// === impl AuthorizedUser ===

impl AuthorizedUser {
    fn grant(&self) -> String {
        format!(
            "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
            encode::part(&self.client_id),
            encode::part(&self.client_secret),
            encode::part(&self.refresh_token)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_serves_until_its_end_if_no_new_one_can_be_had() {
        longboat_tls::install_default_provider();
        let mut credentials = Credentials::new(&Settings::default().with("NO_GCE_CHECK", "1")).unwrap();
        let user =
            json!({"client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": "nowhere"});
        credentials.from = TokenSource::AuthorizedUser(serde_json::from_value(user).unwrap());
        for (left, is_used) in [(REFRESH_MARGIN - 1, true), (0, false)] {
            let end = Timestamp::now().as_second() + left;
            *credentials.current.lock().await = Some((Some("t".to_owned()), end));
            let found = credentials.token().await;
            assert_eq!(found.is_ok_and(|token| token.as_deref() == Some("t")), is_used, "{left}");
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there_and_of_a_known_type() {
        let dir = tempfile::tempdir().unwrap();
        let find = |content: Option<&str>| {
            let file = dir.path().join("key.json");
            let _ = std::fs::remove_file(&file);
            if let Some(content) = content {
                std::fs::write(&file, content).unwrap();
            }
            let settings = Settings::new([(VARIABLE.to_owned(), file.display().to_string())]).unwrap();
            TokenSource::find(&settings).err().map(|error| error.to_string())
        };
        for content in [
            None,
            Some("s3cr3t"),
            Some(r#"{"type":"external_account"}"#),
            Some(r#"{"type":"service_account"}"#),
        ] {
            let error = find(content).unwrap();
            assert!(error.contains(VARIABLE) && !error.contains("s3cr3t"), "{error}");
        }
        let user = r#"{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}"#;
        assert_eq!(find(Some(user)), None);
    }
}
