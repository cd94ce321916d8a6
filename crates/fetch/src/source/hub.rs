//! The Hugging Face hub, over its HTTP API. Files in Xet storage are fetched over plain HTTP, which the hub supports for all of
//! them.

use async_trait::async_trait;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use http::Method;
use longboat_download::address::Address;
use parking_lot::Mutex;
use reqwest::Url;

use super::{
    hub_cache::HubCache,
    hub_wire::{Headers, Model, Tree, digest, next_page},
    pages::Pages,
};
use crate::{
    FetchError, encode,
    error::Protocol,
    failure::Failure,
    filter::Filter,
    http::{Client, Limits, RedirectPolicy, Request, origin},
    remote::{ByteRange, FileResponse, Identity, Listing, RemoteFile, Source},
    settings::Settings,
    trust,
};

/// Longest list of files that is read at once, in bytes.
const MAX_LIST: usize = 24 << 20;

/// The maximum number of download addresses that are remembered.
const MAX_LOCATIONS: usize = 1000;

struct Hub {
    client: Client,
    endpoint: Url,
    /// `owner/name`.
    repository: String,
    /// A branch, a tag, a commit, or another reference such as `refs/pr/1`.
    revision: String,
    token: Option<String>,
    offline: bool,
    cache: Option<HubCache>,
    /// The commit of the revision when it was first resolved.
    commit: Mutex<Option<String>>,
    /// The download addresses that the hub has redirected to, by path.
    locations: Mutex<BTreeMap<Arc<str>, Url>>,
}

/// Creates a source for the hub.
pub(super) fn start(address: &Address, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let (repository, revision) = address.hub_model().map_err(|why| FetchError::address(address, why))?;
    let endpoint = settings.get("HF_ENDPOINT").unwrap_or("https://huggingface.co");
    let endpoint = Url::parse(endpoint)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
        .ok_or_else(|| FetchError::setting("HF_ENDPOINT", "expected an http or https address"))?;
    let limits = Limits {
        connect: settings.seconds("HF_HUB_ETAG_TIMEOUT", 10)?,
        read: settings.seconds("HF_HUB_DOWNLOAD_TIMEOUT", 10)?.max(Duration::from_millis(100)),
        retries: settings.retry_policy()?,
    };
    let cache = HubCache::new(settings, repository);
    Ok(Arc::new(Hub {
        client: Client::new(trust::usual(settings)?, limits)?,
        endpoint,
        repository: repository.to_owned(),
        revision: revision.to_owned(),
        token: token(settings),
        offline: settings.is_on("HF_HUB_OFFLINE") || settings.is_on("TRANSFORMERS_OFFLINE"),
        cache,
        commit: Mutex::new(None),
        locations: Mutex::new(BTreeMap::new()),
    }))
}

/// Returns the token from the environment, or else from the file that `hf auth login` writes.
fn token(settings: &Settings) -> Option<String> {
    let clean = |token: &str| Some(token.trim().to_owned()).filter(|token| !token.is_empty());
    if settings.is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return None;
    }
    let set = settings.get("HF_TOKEN").or_else(|| settings.get("HUGGING_FACE_HUB_TOKEN")).and_then(clean);
    set.or_else(|| {
        let file = settings.get("HF_TOKEN_PATH").map(PathBuf::from);
        let file = file.or_else(|| Some(super::hub_cache::home(settings)?.join("token")))?;
        clean(&std::fs::read_to_string(file).ok()?)
    })
}

// === impl Hub ===

impl Hub {
    fn uri(&self) -> String {
        format!("hf://{}", self.repository)
    }

    fn url(&self, path: &str) -> Result<Url, Failure> {
        let endpoint = self.endpoint.as_str().trim_end_matches('/');
        Url::parse(&format!("{endpoint}/{path}")).map_err(|_| Failure::last("cannot build a valid address"))
    }

    fn request(&self, method: Method, url: Url) -> Result<Request, Failure> {
        let mut request = Request::new(method, url);
        if let Some(token) = self.token.as_ref().filter(|_| origin(&request.url) == origin(&self.endpoint)) {
            request.bearer(token)?;
        }
        Ok(request)
    }

    fn resolve(&self, file: &RemoteFile) -> Result<Url, Failure> {
        let commit = self.commit.lock().clone();
        let revision = commit.as_ref().unwrap_or(&self.revision);
        self.url(&format!(
            "{}/resolve/{}/{}",
            self.repository,
            encode::part(revision),
            encode::path(&file.locator)
        ))
    }

    async fn model(&self) -> Result<(String, Vec<RemoteFile>), Failure> {
        let Self { repository, revision, .. } = self;
        // A hub that does not know `blobs` lists only names. Then each file is described by its own request.
        let path = format!("api/models/{repository}/revision/{}?blobs=true", encode::part(revision));
        let request = self.request(Method::GET, self.url(&path)?)?;
        let document = self.client.document(&request, MAX_LIST).await?;
        let model: Model = serde_json::from_slice(&document.body)
            .map_err(|error| Failure::last(format!("cannot read the list of files: {error}")))?;
        let commit = model.commit().map(str::to_owned);
        let commit =
            commit.ok_or_else(|| Failure::last("the hub does not report the commit of the model"))?;
        let files = match model.into_files() {
            Some(files) => files,
            None => self.tree(&commit).await?,
        };
        Ok((commit, files))
    }

    async fn tree(&self, commit: &str) -> Result<Vec<RemoteFile>, Failure> {
        let first = format!("api/models/{}/tree/{commit}?recursive=true", self.repository);
        let mut url = self.url(&first)?;
        let (mut files, mut pages) = (Vec::new(), Pages::default());
        loop {
            let request = self.request(Method::GET, url)?;
            let page = self.client.document(&request, MAX_LIST).await?;
            let tree: Tree = serde_json::from_slice(&page.body)
                .map_err(|error| Failure::last(format!("cannot read the list of files: {error}")))?;
            let next = next_page(&page.headers);
            let before = files.len();
            files.extend(tree.into_files());
            pages.turn(&origin(&self.endpoint), files.len() - before, next.as_deref())?;
            let Some(next) = next else { return Ok(files) };
            url = page.url.join(&next).map_err(|_| Failure::last("the next page has no valid address"))?;
            // The hub's response must not make the downloader send requests to other hosts.
            if origin(&url) != origin(&page.url) {
                let (hub, host) = (origin(&page.url), crate::names::shown(&origin(&url)));
                return Err(Failure::last(format!(
                    "the next page of the list of files of {hub} is on another host, {host}; check \
                     HF_ENDPOINT"
                )));
            }
        }
    }

    /// Remembers the download address of a file. The number is limited, because the hub can be asked again.
    fn remember(&self, file: &RemoteFile, location: Url) {
        let mut locations = self.locations.lock();
        if locations.len() >= MAX_LOCATIONS {
            locations.clear();
        }
        locations.insert(file.path.clone(), location);
    }

    async fn ask(&self, url: Url, range: &ByteRange) -> Result<FileResponse, Failure> {
        let mut request = self.request(Method::GET, url)?;
        range.add_to(&mut request.headers);
        FileResponse::of(self.client.send(request).await?, range)
    }
}

#[async_trait]
impl Source for Hub {
    fn is_offline(&self) -> bool {
        self.offline
    }

    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError> {
        let (commit, mut files) = if self.offline {
            let found = self.cache.as_ref().and_then(|cache| cache.list(&self.revision));
            found.ok_or_else(|| FetchError::Offline { source_uri: self.uri() })?
        } else {
            self.model().await.map_err(|failure| self.error(failure))?
        };
        let filter = filter.clone().with_folders();
        files.retain(|file| filter.wants(&file.path));
        *self.commit.lock() = Some(commit.clone());
        Ok(Listing { revision: Some(commit), files })
    }

    async fn describe(&self, file: &RemoteFile) -> Result<RemoteFile, FetchError> {
        let described = async {
            let mut request = self.request(Method::HEAD, self.resolve(file)?)?;
            request.follow = RedirectPolicy::SameHost;
            let answer = self.client.send_with_retries(&request).await?;
            let headers = Headers::read(answer.headers()).map_err(Failure::broken)?;
            if let Some(location) = answer.location()? {
                self.remember(file, location);
            }
            Ok(RemoteFile {
                size: Some(headers.size),
                digest: digest(&headers.identity),
                identity: Identity::Text(headers.identity.into()),
                described: true,
                ..file.clone()
            })
        };
        described.await.map_err(|failure: Failure| self.error(failure))
    }

    async fn open(&self, file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure> {
        if self.offline {
            return Err(FetchError::Offline { source_uri: self.uri() }.into());
        }
        let known = self.locations.lock().get(&*file.path).cloned();
        if let Some(location) = known {
            match self.ask(location, range).await {
                // The signature of the download address has expired, so the hub is asked for a new one. S3 answers 403 then, and
                // Google's store 400.
                Err(failure) if matches!(failure.status, Some(400 | 401 | 403 | 404 | 410)) => {
                    self.locations.lock().remove(&*file.path);
                }
                result => return result,
            }
        }
        let opened = self.ask(self.resolve(file)?, range).await?;
        if origin(opened.answer.url()) != origin(&self.endpoint) {
            self.remember(file, opened.answer.url().clone());
        }
        Ok(opened)
    }

    fn local_copy(&self, file: &RemoteFile) -> Option<PathBuf> {
        self.cache.as_ref()?.find(file)
    }

    fn error(&self, failure: Failure) -> FetchError {
        let resource = self.repository.clone();
        let is_hub = failure.host == origin(&self.endpoint);
        let code = failure.header("x-error-code").unwrap_or_default();
        let protocol = Protocol::HuggingFace;
        match failure.status {
            Some(401 | 403) if is_hub && code == "GatedRepo" => {
                FetchError::Authentication { protocol, resource }
            }
            Some(status @ (408 | 425 | 429 | 500..)) => FetchError::Unreachable {
                protocol,
                resource,
                why: format!("{} answered {status}", failure.host),
            },
            _ => failure.into_error(protocol, &resource),
        }
    }
}
