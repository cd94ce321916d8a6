//! A registry of images and artifacts, with the OCI distribution protocol.

use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

use http::header::AUTHORIZATION;
use longboat_download::address::Address;
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;

use super::{
    oci_auth::{Challenge, Login, login},
    oci_manifest::Manifest,
};
use crate::{
    FetchError,
    digest::{Algorithm, Digest},
    encode,
    error::Protocol,
    failure::Failure,
    filter::Filter,
    http::{Client, Limits, Request, Response, ascii, origin, with_retries},
    remote::{ByteRange, FileResponse, Listing, Placement, RemoteFile, Source},
    settings::Settings,
    trust,
};

/// Longest manifest, in bytes.
const MAX_MANIFEST: usize = 4 << 20;
/// Longest answer with a token, in bytes.
const MAX_TOKEN: usize = 256 << 10;

const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";

struct Oci {
    client: Client,
    /// The base URLs of the registry. The second is used if the first does not answer.
    bases: Vec<String>,
    repository: String,
    reference: String,
    login: Option<Login>,
    /// The base URL that answers, and the authorization header that the registry accepts.
    session: Mutex<Session>,
    shown: String,
}

#[derive(Clone, Default)]
struct Session {
    base: Option<String>,
    authorization: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Creates a source for a registry.
pub(super) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let (host, repository, reference) = image(address)?;
    let insecure = settings.is_on("KSERVE_OCI_INSECURE_REGISTRY");
    let limits = Limits {
        connect: Duration::from_secs(10),
        read: Duration::from_secs(30),
        retries: settings.retry_policy()?,
    };
    let tls = if insecure {
        tracing::warn!(
            registry = host,
            "KSERVE_OCI_INSECURE_REGISTRY is on, so the certificate of the registry is not checked."
        );
        longboat_tls::insecure_client_config(&[])
    } else {
        trust::usual(settings)?
    };
    let server = if host == "docker.io" { "registry-1.docker.io" } else { &host };
    let bases = if insecure {
        vec![format!("http://{server}"), format!("https://{server}")]
    } else {
        vec![format!("https://{server}")]
    };
    Ok(Arc::new(Oci {
        client: Client::new(tls, limits)?,
        bases,
        login: login(settings, &host, &repository)?,
        repository,
        reference,
        session: Mutex::new(Session::default()),
        shown: address.to_string(),
    }))
}

/// Splits `oci://REGISTRY/REPOSITORY[:TAG|@DIGEST]` into registry, repository and tag or digest.
pub fn image(address: &Address) -> Result<(String, String, String), FetchError> {
    let refuse = |why: &str| FetchError::address(address, why);
    let rest = address.rest();
    let (first, path) = rest.split_once('/').unwrap_or(("", rest));
    let is_host = first.contains(['.', ':']) || first == "localhost";
    let (host, path) = if is_host { (first, path) } else { ("docker.io", rest) };
    let (repository, reference) = match path.split_once('@') {
        Some((repository, digest)) => {
            if Digest::parse(digest).is_none_or(|digest| digest.algorithm != Algorithm::Sha256) {
                return Err(refuse("expected a digest sha256:… after `@`"));
            }
            // A tag in addition to a digest is ignored.
            (repository.rsplit_once(':').map_or(repository, |(repository, _)| repository), digest)
        }
        None => path.rsplit_once(':').unwrap_or((path, "latest")),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    let in_tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if repository.is_empty()
        || repository.split('/').any(|part| matches!(part, "" | "." | ".."))
        || !repository.chars().all(is_allowed)
        || reference.is_empty()
        || !reference.chars().all(in_tag)
        || host.contains('@')
    {
        return Err(refuse("expected oci://REGISTRY/REPOSITORY[:TAG|@DIGEST]"));
    }
    let repository = if host == "docker.io" && !repository.contains('/') {
        format!("library/{repository}")
    } else {
        repository.to_owned()
    };
    Ok((host.to_owned(), repository, reference.to_owned()))
}

// === impl Oci ===

impl Oci {
    /// Sends a request to the registry. If the registry asks for credentials, the request is repeated with them.
    async fn ask(&self, path: &str, prepare: &(dyn Fn(&mut Request) + Sync)) -> Result<Response, Failure> {
        let mut last = None;
        let known = self.session.lock().base.clone();
        for base in known.as_ref().map_or(self.bases.as_slice(), std::slice::from_ref) {
            let url = Url::parse(&format!("{base}/v2/{}/{path}", self.repository));
            let url = url.map_err(|_| Failure::last("the address of the registry is invalid"))?;
            let once = |authorization: Option<String>| async {
                let mut request = Request::get(url.clone());
                prepare(&mut request);
                if let Some(value) = authorization {
                    request.secret(AUTHORIZATION, &value)?;
                }
                self.client.send(request).await
            };
            let authorization = self.session.lock().authorization.clone();
            let result = match once(authorization.clone()).await {
                // Only the registry itself may ask for credentials. A host that the registry redirects to may not.
                Err(failure) if failure.status == Some(401) && failure.host == origin(&url) => {
                    let authorization = self.authorize(&failure).await?;
                    let result = once(Some(authorization.clone())).await;
                    if result.is_ok() {
                        self.session.lock().authorization = Some(authorization);
                    }
                    result
                }
                result => result,
            };
            match result {
                // The server speaks the other protocol, HTTP or HTTPS.
                Err(failure)
                    if matches!(failure.status, None | Some(400))
                        && known.is_none()
                        && self.bases.len() > 1 =>
                {
                    last = Some(last.unwrap_or(failure));
                }
                result => {
                    self.session.lock().base = Some(base.clone());
                    return result;
                }
            }
        }
        Err(last.unwrap_or_else(|| Failure::last("the registry has no address")))
    }

    /// Returns the authorization header for a challenge.
    async fn authorize(&self, refused: &Failure) -> Result<String, Failure> {
        let challenges = refused.headers.get_all("www-authenticate").iter();
        let mut challenges = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?));
        match challenges.next() {
            None => Err(refused.clone()),
            Some(Challenge::Basic) => {
                self.login.as_ref().and_then(Login::basic).ok_or_else(|| refused.clone())
            }
            Some(Challenge::Bearer { realm, service, scope }) => {
                let mut url =
                    Url::parse(&realm).map_err(|_| Failure::last("the registry has no token server"))?;
                // With one base, the registry is not insecure: the credentials must not go over plain HTTP because it says so.
                if url.scheme() != "https" && self.bases.len() == 1 {
                    return Err(Failure::last("the token server of the registry is unencrypted"));
                }
                let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
                let mut request = if let Some(Login::Identity(token)) = &self.login {
                    let body = format!(
                        "grant_type=refresh_token&client_id=longboat&service={}&scope={}&refresh_token={}",
                        encode::part(service.as_deref().unwrap_or_default()),
                        encode::part(&scope),
                        encode::part(token)
                    );
                    Request::form(url, body)
                } else {
                    if let Some(service) = &service {
                        url.query_pairs_mut().append_pair("service", service);
                    }
                    url.query_pairs_mut().append_pair("scope", &scope);
                    Request::get(url)
                };
                if let Some(basic) = self.login.as_ref().and_then(Login::basic) {
                    request.secret(AUTHORIZATION, &basic)?;
                }
                let body = self.client.document(&request, MAX_TOKEN).await?.body;
                let token: Token = serde_json::from_slice(&body)
                    .map_err(|_| Failure::last("cannot read the response of the token server"))?;
                let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| Failure::last("the token server returned no token"))?;
                Ok(format!("Bearer {token}"))
            }
        }
    }

    /// Fetches a manifest. If it was requested by digest, the digest is checked.
    async fn manifest(&self, reference: &str) -> Result<(Manifest, String), Failure> {
        let body = with_retries(self.client.retry_policy(), || async {
            let prepare = |request: &mut Request| {
                request.headers.insert(http::header::ACCEPT, ascii(MANIFESTS));
            };
            let answer = self.ask(&format!("manifests/{reference}"), &prepare).await?;
            answer.body(MAX_MANIFEST).await
        })
        .await?;
        let found = Digest::of(Algorithm::Sha256, &body).to_string();
        if reference.starts_with("sha256:") && found != reference {
            return Err(FetchError::Content {
                file: format!("the manifest {reference}"),
                why: format!("its digest is {found}"),
            }
            .into());
        }
        Ok((Manifest::parse(&body).map_err(Failure::last)?, found))
    }

    async fn layers(&self, filter: &Filter) -> Result<Listing, Failure> {
        let (mut manifest, mut digest) = self.manifest(&self.reference).await?;
        if let Some(platform) =
            manifest.of_platform(longboat_download::architecture()).map_err(Failure::last)?
        {
            (manifest, digest) = self.manifest(&platform).await?;
            if manifest.is_index() {
                let why = "the index refers to another index; expected manifests, so push the image again \
                           or use its digest";
                return Err(Failure::last(why));
            }
        }
        let layers = manifest.layers(filter).map_err(Failure::last)?;
        Ok(Listing { revision: Some(digest), files: layers.0 })
    }
}

#[async_trait]
impl Source for Oci {
    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError> {
        let listing = self.layers(filter).await.map_err(|failure| self.error(failure))?;
        let archives = listing.files.iter().filter(|file| file.placement != Placement::File).count();
        tracing::debug!(layers = listing.files.len(), archives, "Read the manifest.");
        Ok(listing)
    }

    async fn open(&self, file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure> {
        let prepare = |request: &mut Request| range.add_to(&mut request.headers);
        let answer = self.ask(&format!("blobs/{}", file.locator), &prepare).await?;
        FileResponse::of(answer, range)
    }

    fn error(&self, failure: Failure) -> FetchError {
        failure.into_error(Protocol::Oci, &self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_images() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (uri, host, repository, reference) in [
            ("oci://r.io/o/m:1", "r.io", "o/m", "1"),
            ("oci://r:5000/m", "r:5000", "m", "latest"),
            ("oci://m", "docker.io", "library/m", "latest"),
            ("oci://o/m:v1", "docker.io", "o/m", "v1"),
            (&format!("oci://r.io/m:1@{digest}"), "r.io", "m", digest.as_str()),
        ] {
            let found = image(&Address::parse(uri)).unwrap();
            assert_eq!(
                (found.0.as_str(), found.1.as_str(), found.2.as_str()),
                (host, repository, reference),
                "{uri}"
            );
        }
        for uri in [
            "oci://",
            "oci://r.io/",
            "oci://r.io/m@sha256:1",
            "oci://r.io/../m",
            "oci://r.io/m:a/b",
            "oci://r.io/m?x",
        ] {
            assert!(image(&Address::parse(uri)).is_err(), "{uri}");
        }
    }
}
