//! Google Cloud Storage, with its JSON API.

use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

use longboat_download::address::Address;
use reqwest::Url;
use serde::Deserialize;

use super::{gcs_credentials::Credentials, pages::Pages};
use crate::{
    FetchError,
    digest::{Algorithm, Digest},
    encode,
    error::Protocol,
    failure::Failure,
    filter::Filter,
    http::{Client, Document, Limits, Request},
    remote::{ByteRange, FileResponse, Identity, Listing, RemoteFile, Source},
    settings::Settings,
    source::bucket::{bucket_and_path, relative},
    trust,
};

/// Longest page of a listing, in bytes.
const MAX_PAGE: usize = 16 << 20;

struct Gcs {
    client: Client,
    credentials: Credentials,
    endpoint: String,
    bucket: String,
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Object>,
    next_page_token: Option<String>,
}

/// An object in a bucket.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    name: String,
    size: Option<String>,
    generation: Option<String>,
    md5_hash: Option<String>,
    crc32c: Option<String>,
    content_encoding: Option<String>,
}

/// Starts a download from a bucket.
pub(super) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let (bucket, path) = bucket_and_path(address, "gs://BUCKET/PATH")?;
    let emulator = settings.get("STORAGE_EMULATOR_HOST").or_else(|| settings.get("API_ENDPOINT_OVERRIDE"));
    let emulator = emulator.map(|host| {
        let host = host.trim_end_matches('/');
        if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
    });
    let limits = Limits {
        connect: Duration::from_secs(30),
        read: Duration::from_mins(1),
        retries: settings.retry_policy()?,
    };
    let tls = trust::usual(settings)?;
    Ok(Arc::new(Gcs {
        client: Client::new(tls, limits)?,
        credentials: Credentials::new(settings)?,
        endpoint: emulator.unwrap_or_else(|| "https://storage.googleapis.com".into()),
        bucket: bucket.to_owned(),
        path: path.trim_matches('/').to_owned(),
    }))
}

/// Returns the names of the objects on a page of a listing. Returns `None` if the text is not such a page.
pub fn objects(text: &[u8]) -> Option<Vec<String>> {
    let page: Page = serde_json::from_slice(text).ok()?;
    Some(page.items.into_iter().map(|object| object.name).collect())
}

// === impl Gcs ===

impl Gcs {
    fn url(&self, path: &str) -> Result<Url, Failure> {
        Url::parse(&format!("{}/{path}", self.endpoint))
            .map_err(|_| Failure::last("STORAGE_EMULATOR_HOST is not a valid address"))
    }

    async fn request(&self, path: &str) -> Result<Request, Failure> {
        let mut request = Request::get(self.url(path)?);
        if let Some(token) = self.credentials.token().await? {
            request.bearer(&token)?;
        }
        Ok(request)
    }

    async fn ask(&self, path: &str) -> Result<Document, Failure> {
        self.client.document(&self.request(path).await?, MAX_PAGE).await
    }

    /// Returns the objects below the path. If there are none, returns the object with this name, or `None`.
    async fn objects(&self, filter: &Filter) -> Result<Option<Vec<RemoteFile>>, Failure> {
        let prefix = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
        let mut files = Vec::new();
        let mut is_folder = false;
        let mut pages = Pages::default();
        let mut token: Option<String> = None;
        loop {
            let mut path = format!("storage/v1/b/{}/o?projection=noAcl", self.bucket);
            if !prefix.is_empty() {
                path.extend(["&prefix=", &encode::part(&prefix)]);
            }
            if let Some(token) = &token {
                path.extend(["&pageToken=", &encode::part(token)]);
            }
            path.push_str("&prettyPrint=false");
            let document = self.ask(&path).await?;
            let page: Page = serde_json::from_slice(&document.body)
                .map_err(|error| Failure::last(format!("cannot read the list of objects: {error}")))?;
            is_folder |= !page.items.is_empty();
            token = page.next_page_token.filter(|token| !token.is_empty());
            pages.turn(&self.endpoint, page.items.len(), token.as_deref())?;
            for object in page.items {
                let Some(path) = object.name.strip_prefix(&prefix) else { continue };
                if path.is_empty() || path.ends_with('/') {
                    continue;
                }
                let path = relative(path);
                if filter.wants(&path) {
                    files.push(object.into_file(path)?);
                }
            }
            if token.is_none() {
                break;
            }
        }
        if is_folder || self.path.is_empty() {
            return Ok(Some(files));
        }
        let path = format!(
            "storage/v1/b/{}/o/{}?projection=noAcl&prettyPrint=false",
            self.bucket,
            encode::part(&self.path)
        );
        let document = match self.ask(&path).await {
            // The list above shows that the bucket exists.
            Err(failure) if failure.status == Some(404) => return Ok(None),
            document => document?,
        };
        let object: Object = serde_json::from_slice(&document.body)
            .map_err(|error| Failure::last(format!("cannot read the object: {error}")))?;
        let name = self.path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Some(vec![object.into_file(name)?]))
    }
}

// === impl Object ===

impl Object {
    fn into_file(self, path: String) -> Result<RemoteFile, Failure> {
        if self.content_encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip")) {
            let name = crate::names::shown(&self.name);
            return Err(Failure::last(format!(
                "`{name}` is stored with Content-Encoding gzip, which is not supported"
            )));
        }
        let mut file = RemoteFile::new(path, self.name);
        let size = self.size.as_deref().and_then(|size| size.parse().ok());
        file.size = Some(size.ok_or_else(|| Failure::last("the server reports no size of an object"))?);
        file.identity =
            self.generation.map_or(Identity::Unknown, |generation| Identity::Text(generation.into()));
        let md5 = || Digest::from_base64(Algorithm::Md5, &self.md5_hash?);
        let crc = self.crc32c.and_then(|sum| Digest::from_base64(Algorithm::Crc32c, &sum));
        // Every object of Google's store has a CRC. An MD5 takes longer to compute than a download on a fast network.
        file.digest = crc.or_else(md5);
        Ok(file)
    }
}

#[async_trait]
impl Source for Gcs {
    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError> {
        let Some(files) = self.objects(filter).await.map_err(|failure| self.error(failure))? else {
            let resource = format!("{}/{}", self.bucket, self.path);
            return Err(FetchError::NotFound { protocol: Protocol::Gcs, resource });
        };
        Ok(Listing { revision: None, files }.unpacking_a_single_archive(filter))
    }

    async fn open(&self, file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure> {
        let generation =
            file.identity().map(|generation| format!("generation={}&", encode::part(&generation)));
        let path = format!(
            "download/storage/v1/b/{}/o/{}?{}alt=media",
            self.bucket,
            encode::part(&file.locator),
            generation.unwrap_or_default()
        );
        let mut request = self.request(&path).await?;
        range.add_to(&mut request.headers);
        FileResponse::of(self.client.send(request).await?, range)
    }

    fn error(&self, failure: Failure) -> FetchError {
        failure.into_error(Protocol::Gcs, &self.bucket)
    }
}
