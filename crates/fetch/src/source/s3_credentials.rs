//! The keys for S3: from the environment, from web identity, from the shared file, from the container, or from the machine.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;

use super::s3_list::assumed_keys;
use crate::{
    FetchError, encode,
    error::Protocol,
    failure::Failure,
    http::{Client, Limits, Request},
    retry::RetryPolicy,
    settings::Settings,
    trust,
};

/// The keys that sign requests.
#[derive(Clone, Deserialize)]
pub(super) struct Keys {
    #[serde(rename = "AccessKeyId")]
    pub(super) id: String,
    #[serde(rename = "SecretAccessKey")]
    pub(super) secret: String,
    #[serde(rename = "Token", alias = "SessionToken")]
    pub(super) token: Option<String>,
    #[serde(rename = "Expiration")]
    pub(super) expires: Option<Timestamp>,
}

/// Gets keys, and replaces them before they expire.
pub(super) struct Credentials {
    settings: Settings,
    region: String,
    current: Mutex<Option<Arc<Keys>>>,
}

/// Keys are replaced this many seconds before they expire.
const REFRESH_MARGIN: i64 = 300;
/// Longest response with keys, in bytes.
const MAX_RESPONSE: usize = 64 << 10;

// === impl Credentials ===

impl Credentials {
    pub(super) fn new(settings: &Settings, region: &str) -> Self {
        Self { settings: settings.clone(), region: region.to_owned(), current: Mutex::new(None) }
    }

    /// Returns valid keys. Returns `None` if requests are not signed.
    pub(super) async fn keys(&self) -> Result<Option<Arc<Keys>>, FetchError> {
        if self.settings.is_on("awsAnonymousCredential") {
            return Ok(None);
        }
        let now = Timestamp::now().as_second();
        let current = self.current.lock().clone();
        let lasts = |until| {
            let lasts = |keys: &Arc<Keys>| keys.expires.is_none_or(|end| end.as_second() > until);
            current.clone().filter(lasts)
        };
        if let Some(keys) = lasts(now + REFRESH_MARGIN) {
            return Ok(Some(keys));
        }
        match self.find().await {
            Ok(keys) => Ok(self.current.lock().insert(Arc::new(keys)).clone().into()),
            Err(error) => match lasts(now) {
                Some(keys) => {
                    // The margin is there for this: a service of keys that fails for minutes must not end a download.
                    tracing::debug!(%error, "Cannot get new keys for S3, so the former ones are used until they expire.");
                    Ok(Some(keys))
                }
                None => Err(error),
            },
        }
    }

    async fn find(&self) -> Result<Keys, FetchError> {
        if let (Some(id), Some(secret)) =
            (self.settings.get("AWS_ACCESS_KEY_ID"), self.settings.get("AWS_SECRET_ACCESS_KEY"))
        {
            let token = self.settings.get("AWS_SESSION_TOKEN").map(str::to_owned);
            return Ok(Keys { id: id.into(), secret: secret.into(), token, expires: None });
        }
        let refused = |what: &'static str| {
            move |failure: Failure| FetchError::Answer {
                protocol: Protocol::S3,
                resource: what.into(),
                why: failure.why,
            }
        };
        if let (Some(file), Some(role)) =
            (self.settings.get("AWS_WEB_IDENTITY_TOKEN_FILE"), self.settings.get("AWS_ROLE_ARN"))
        {
            let token = std::fs::read_to_string(file)
                .map_err(FetchError::file("read AWS_WEB_IDENTITY_TOKEN_FILE", file))?;
            return self.web_identity(role, token.trim()).await.map_err(refused("web identity"));
        }
        if let Some(keys) = self.shared_file()? {
            return Ok(keys);
        }
        if self.settings.get("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some()
            || self.settings.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some()
        {
            return self.container().await.map_err(refused("container credentials"));
        }
        if !self.settings.is_on("AWS_EC2_METADATA_DISABLED")
            && let Ok(keys) = self.instance_metadata().await
        {
            return Ok(keys);
        }
        Err(FetchError::Authentication { protocol: Protocol::S3, resource: String::new() })
    }

    /// Returns a client with short timeouts, because its servers are near.
    fn client(&self, attempts: u32) -> Result<Client, Failure> {
        let second = Duration::from_secs(1);
        let limits = Limits {
            connect: second,
            read: 5 * second,
            retries: RetryPolicy { attempts, time: 30 * second, first_answer: None },
        };
        Ok(Client::new(trust::usual(&self.settings)?, limits)?)
    }

    async fn web_identity(&self, role: &str, token: &str) -> Result<Keys, Failure> {
        let endpoint = self.settings.get("AWS_ENDPOINT_URL_STS").map_or_else(
            || format!("https://sts.{}.amazonaws.com", self.region),
            |url| url.trim_end_matches('/').to_owned(),
        );
        let session = self.settings.get("AWS_ROLE_SESSION_NAME").unwrap_or("longboat");
        // The token must be in the body, because servers and proxies may log URLs.
        let body = format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
            encode::part(role),
            encode::part(session),
            encode::part(token)
        );
        let request = Request::form(url(&format!("{endpoint}/"))?, body);
        let document = self.client(5)?.document(&request, MAX_RESPONSE).await?;
        assumed_keys(&document.body)
            .map_err(|why| Failure::last(format!("cannot read the response with the keys: {why}")))
    }

    /// Returns the keys of the profile `AWS_PROFILE` in the shared file. Another identity must not stand in for one that was asked for by
    /// name.
    fn shared_file(&self) -> Result<Option<Keys>, FetchError> {
        const FILE: &str = "AWS_SHARED_CREDENTIALS_FILE";
        const PROFILE: &str = "AWS_PROFILE";
        let named = self.settings.get(FILE).map(PathBuf::from);
        let is_named = named.is_some();
        let Some(file) = named.or_else(|| Some(self.settings.home()?.join(".aws/credentials"))) else {
            return Ok(None);
        };
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if is_named => {
                return Err(FetchError::setting(FILE, format!("cannot read `{}`: {error}", file.display())));
            }
            Err(_) => String::new(),
        };
        let name = self.settings.get(PROFILE);
        match (profile(&text, name.unwrap_or("default")), name) {
            (None, Some(name)) => Err(FetchError::setting(
                PROFILE,
                format!(
                    "`{}` has no profile `{name}` with aws_access_key_id and aws_secret_access_key; profiles with roles or SSO \
                     are not supported",
                    file.display()
                ),
            )),
            (keys, _) => Ok(keys),
        }
    }

    async fn container(&self) -> Result<Keys, Failure> {
        let full = self.settings.get("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned);
        let address = full.unwrap_or_else(|| {
            let path = self.settings.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").unwrap_or_default();
            format!("http://169.254.170.2{path}")
        });
        let mut request = Request::get(url(&address)?);
        let token = match self.settings.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                Some(read.map_err(|_| Failure::last("cannot read AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))?)
            }
            None => self.settings.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
        };
        if let Some(token) = token {
            request.secret(http::header::AUTHORIZATION, token.trim())?;
        }
        self.request_keys(&self.client(5)?, &request).await
    }

    /// Gets keys from the machine's metadata service (IMDSv2).
    async fn instance_metadata(&self) -> Result<Keys, Failure> {
        let endpoint =
            self.settings.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or("http://169.254.169.254");
        let endpoint = endpoint.trim_end_matches('/');
        let client = self.client(1)?;
        let mut session = Request::new(http::Method::PUT, url(&format!("{endpoint}/latest/api/token"))?);
        session
            .headers
            .insert("x-aws-ec2-metadata-token-ttl-seconds", http::HeaderValue::from_static("21600"));
        let token = client.document(&session, MAX_RESPONSE).await?.body;
        let token = String::from_utf8_lossy(&token).into_owned();
        let ask = |path: &str| -> Result<Request, Failure> {
            let path = format!("{endpoint}/latest/meta-data/iam/security-credentials/{path}");
            let mut request = Request::get(url(&path)?);
            request.secret(http::HeaderName::from_static("x-aws-ec2-metadata-token"), &token)?;
            Ok(request)
        };
        let role = client.document(&ask("")?, MAX_RESPONSE).await?.body;
        let role = String::from_utf8_lossy(&role).lines().next().unwrap_or_default().trim().to_owned();
        self.request_keys(&client, &ask(&encode::part(&role))?).await
    }

    async fn request_keys(&self, client: &Client, request: &Request) -> Result<Keys, Failure> {
        let document = client.document(request, MAX_RESPONSE).await?;
        serde_json::from_slice(&document.body)
            .map_err(|_| Failure::last("cannot read the response with the keys"))
    }
}

fn url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|_| Failure::last("an address in the environment variables is invalid"))
}

fn profile(text: &str, name: &str) -> Option<Keys> {
    let mut is_in = false;
    let (mut id, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_in = section.trim() == name;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_in) {
            let slot = match key.trim() {
                "aws_access_key_id" => &mut id,
                "aws_secret_access_key" => &mut secret,
                "aws_session_token" => &mut token,
                _ => continue,
            };
            *slot = Some(value.trim().to_owned());
        }
    }
    Some(Keys { id: id?, secret: secret?, token, expires: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_serve_until_their_end_if_no_new_ones_can_be_had() {
        let settings = Settings::default()
            .with("AWS_WEB_IDENTITY_TOKEN_FILE", "/none/token")
            .with("AWS_ROLE_ARN", "role");
        let credentials = Credentials::new(&settings, "r");
        for (left, is_used) in [(REFRESH_MARGIN - 1, true), (0, false)] {
            let end = Timestamp::from_second(Timestamp::now().as_second() + left).unwrap();
            let keys = Keys { id: "a".into(), secret: "s".into(), token: None, expires: Some(end) };
            *credentials.current.lock() = Some(Arc::new(keys));
            let found = credentials.keys().await;
            assert_eq!(found.is_ok_and(|keys| keys.is_some_and(|keys| keys.id == "a")), is_used, "{left}");
        }
    }

    #[test]
    fn a_profile_is_read_off_the_shared_file() {
        let text = "[other]\naws_access_key_id=x\n[ default ]\naws_access_key_id = A\naws_secret_access_key=S=\n# c\n";
        let keys = profile(text, "default").unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str()), ("A", "S="));
        assert!(profile(text, "other").is_none() && profile(text, "none").is_none());
        let settings = Settings::default().with("HOME", "/none");
        let found = |settings: Settings| Credentials::new(&settings, "r").shared_file();
        assert!(matches!(found(settings.clone()), Ok(None)));
        for (variable, value) in [("AWS_PROFILE", "mine"), ("AWS_SHARED_CREDENTIALS_FILE", "/none/keys")] {
            let Err(error) = found(settings.with(variable, value)) else { panic!("{variable}") };
            assert!(error.to_string().contains(variable) && error.to_string().contains(value), "{error}");
        }
    }
}
