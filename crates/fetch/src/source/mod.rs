//! What a source of models is. A new one is one file below `source/` and one line in [`SOURCES`].

mod gcs;
mod gcs_credentials;
mod hub;
mod hub_cache;
mod hub_wire;
mod oci;
mod oci_auth;
mod oci_manifest;
mod pages;
mod s3;
mod s3_credentials;
mod s3_list;
mod s3_sign;
mod web;

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;

pub use self::{
    gcs::objects as gcs_objects,
    hub_wire::{Address as HubAddress, Model, Tree},
    oci::address as oci_address,
    oci_auth::Challenge,
    oci_manifest::{Layers, Manifest},
    s3::address as s3_address,
    s3_list::Page,
};
use crate::{
    FetchError,
    digest::Digest,
    error::Protocol,
    filter::Filter,
    http::{Answer, Failure, content_range},
    settings::Settings,
};

/// Makes a source of an address.
type Start = fn(&str, &Settings) -> Result<Arc<dyn Source>, FetchError>;

/// How addresses of each source begin, and what starts it.
const SOURCES: [(&[&str], Start); 5] = [
    (&["hf://"], hub::start),
    (&["s3://"], s3::start),
    (&["gs://"], gcs::start),
    (&["oci://"], oci::start),
    (&["https://", "http://"], web::start),
];

/// Starts the source of a remote address.
pub(crate) fn start(uri: &str, settings: &Settings) -> Result<Arc<dyn Source>, FetchError> {
    let source = SOURCES.iter().find(|(prefixes, _)| prefixes.iter().any(|prefix| uri.starts_with(prefix)));
    let Some((_, start)) = source else {
        let known: Vec<_> = SOURCES.iter().flat_map(|(prefixes, _)| *prefixes).copied().collect();
        return Err(FetchError::UnknownScheme {
            uri: crate::redact::redacted(uri).into_owned(),
            known: format!("{}, file:// or a path", known.join(", ")),
        });
    };
    start(uri, settings)
}

/// Where models come from. Everything that is asked of it may be asked again.
pub(crate) trait Source: Send + Sync {
    /// For the words of messages.
    fn protocol(&self) -> Protocol;

    /// What is fetched, as messages name it.
    fn resource(&self) -> &str;

    /// The files that there are. Patterns are applied here, since some sources exempt some files.
    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Listing, FetchError>>;

    /// Size, identity and digest of a file that the listing did not describe.
    fn describe<'a>(&'a self, file: &'a Remote) -> BoxFuture<'a, Result<Remote, FetchError>> {
        Box::pin(async { Ok(file.clone()) })
    }

    /// Starts to read a file.
    fn open<'a>(&'a self, file: &'a Remote, want: &'a Want) -> BoxFuture<'a, Result<Opened, Failure>>;

    /// A copy of the file that is on this machine already.
    fn on_this_machine(&self, _file: &Remote) -> Option<PathBuf> {
        None
    }

    /// What a failed file means.
    fn error(&self, failure: Failure) -> FetchError {
        failure.into_error(self.protocol(), self.resource())
    }

    /// Whether the network must not be used.
    fn is_offline(&self) -> bool {
        false
    }

    /// How parallel the source may be asked.
    fn parallel(&self) -> Parallel {
        Parallel::default()
    }
}

/// How many things are done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parallel {
    /// Files that are unfinished at the same time.
    pub(crate) files: usize,
    /// Connections.
    pub(crate) connections: usize,
    /// Attempts without progress.
    pub(crate) attempts: Option<u32>,
}

impl Default for Parallel {
    fn default() -> Self {
        // What is in the sockets of a killed process is sent again: with more connections that is more than a hundredth of a model.
        Self { files: 8, connections: 5, attempts: None }
    }
}

/// The files of a source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    /// What the source calls its state as a whole: a commit, the digest of a manifest.
    pub(crate) revision: Option<String>,
    /// The files that are wanted.
    pub(crate) files: Vec<Remote>,
}

/// A file of a source. There may be very many, so texts are shared with what else names the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Where it belongs below the target.
    pub(crate) path: Arc<str>,
    /// What the source calls it.
    pub(crate) locator: Arc<str>,
    /// Size in bytes, if it is known.
    pub(crate) size: Option<u64>,
    /// What the source calls this content.
    pub(crate) name: Name,
    /// What the content must be, if it is known.
    pub(crate) digest: Option<Digest>,
    /// Whether [`Source::describe`] has nothing to add.
    pub(crate) described: bool,
    /// Whether parts of it may be asked for at the same time.
    pub(crate) ranged: bool,
    /// What becomes of it.
    pub(crate) placement: Placement,
}

/// What a source calls a content. Another content has another name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Name {
    /// It is not known.
    #[default]
    Unknown,
    /// The digest of the file, in hexadecimal.
    Digest,
    /// An ETag, a generation.
    Text(Arc<str>),
}

/// What becomes of a file when it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    /// It stays as it is.
    File,
    /// It is unpacked.
    Archive(Box<Members>),
}

/// Which members of an archive are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Only what is below this folder, without it.
    pub(crate) below: Option<String>,
    /// Whether names that begin with `.wh.` remove what former archives brought, as in images.
    pub(crate) whiteouts: bool,
    /// Which of them.
    pub(crate) filter: Filter,
}

/// Which bytes of a file are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    /// First byte.
    pub(crate) start: u64,
    /// Byte after the last; none for all that follow.
    pub(crate) end: Option<u64>,
    /// The content that the bytes must be of.
    pub(crate) identity: Option<Arc<str>>,
}

/// A file that is being read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) answer: Answer,
    /// The first byte that comes.
    pub(crate) start: u64,
    /// Size of the whole file, if it is known.
    pub(crate) size: Option<u64>,
    /// What the source calls this content.
    pub(crate) identity: Option<Arc<str>>,
    /// What the whole content must be.
    pub(crate) digest: Option<Digest>,
}

// === impl Remote ===

impl Remote {
    /// A file of which only the name is known.
    pub(crate) fn new(path: impl AsRef<str>, locator: impl AsRef<str>) -> Self {
        let (path, locator) = (path.as_ref(), locator.as_ref());
        let shared: Arc<str> = path.into();
        Self {
            locator: if path == locator { shared.clone() } else { locator.into() },
            path: shared,
            size: None,
            name: Name::Unknown,
            digest: None,
            described: true,
            ranged: true,
            placement: Placement::File,
        }
    }

    /// What the source calls this content, if it is known.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        match &self.name {
            Name::Unknown => None,
            Name::Digest => self.digest.map(|digest| digest.hex().into()),
            Name::Text(text) => Some(text.clone()),
        }
    }
}

// === impl Listing ===

impl Listing {
    /// An archive that is alone is unpacked.
    #[must_use]
    pub(crate) fn unpacking_a_single_archive(mut self) -> Self {
        if let [file] = self.files.as_mut_slice()
            && crate::names::is_archive(&file.path)
        {
            file.placement = Placement::Archive(Box::default());
        }
        self
    }
}

// === impl Want ===

impl Want {
    /// Whether it is the whole file.
    pub(crate) fn is_all(&self) -> bool {
        self.start == 0 && self.end.is_none()
    }
}

// === impl Opened ===

impl Opened {
    /// Reads off an answer which bytes of what come.
    pub(crate) fn of(answer: Answer, want: &Want) -> Result<Self, Failure> {
        let (start, size) = match answer.status().as_u16() {
            200 => (0, answer.length()),
            206 => {
                let range = answer.header("content-range").and_then(content_range);
                let Some((start, end, size)) = range else {
                    return Err(Failure::last("an answer with status 206 has no range that can be read"));
                };
                if start != want.start || want.end.is_some_and(|wanted| end > wanted) {
                    return Err(Failure::last("the server sends other bytes than it was asked for"));
                }
                (start, size)
            }
            status => return Err(Failure::last(format!("the server answered a read with status {status}"))),
        };
        Ok(Self { answer, start, size, identity: None, digest: None })
    }
}
