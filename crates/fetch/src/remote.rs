//! The interface of model sources, and what they say about files.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, header};

use crate::{
    FetchError,
    digest::Digest,
    failure::Failure,
    filter::Filter,
    http::{Response, ascii, content_range},
};

/// Larger files are fetched in parts, in bytes.
pub(crate) const SINGLE_REQUEST_LIMIT: u64 = 32 << 20;

/// A source of models. Each call may be repeated.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// Lists the files. The source itself applies the patterns, because some sources exempt some files.
    async fn list(&self, filter: &Filter) -> Result<Listing, FetchError>;

    /// Returns size, identity and digest of a file that the listing did not describe.
    async fn describe(&self, file: &RemoteFile) -> Result<RemoteFile, FetchError> {
        Ok(file.clone())
    }

    /// Starts to read a range of a file.
    async fn open(&self, file: &RemoteFile, range: &ByteRange) -> Result<FileResponse, Failure>;

    /// Returns the path of a copy on this machine, if there is one.
    fn local_copy(&self, _file: &RemoteFile) -> Option<PathBuf> {
        None
    }

    /// Converts the failure of a file to an error.
    fn error(&self, failure: Failure) -> FetchError;

    /// Whether the network must not be used.
    fn is_offline(&self) -> bool {
        false
    }

    /// The limits of parallel requests.
    fn parallel(&self) -> Parallelism {
        Parallelism::default()
    }
}

/// The limits of parallel work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parallelism {
    /// The maximum number of unfinished files at a time.
    pub(crate) files: usize,
    /// The maximum number of connections at a time.
    pub(crate) connections: usize,
    /// Attempts without progress. `None` for the default.
    pub(crate) attempts: Option<u32>,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self { files: 8, connections: 8, attempts: None }
    }
}

/// The files of a source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    /// The source's name for its whole state: a commit, or the digest of a manifest.
    pub(crate) revision: Option<String>,
    /// The wanted files.
    pub(crate) files: Vec<RemoteFile>,
}

/// A file of a source. There may be very many files, so their texts are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    /// The path below the target.
    pub(crate) path: Arc<str>,
    /// The name at the source.
    pub(crate) locator: Arc<str>,
    /// Size in bytes, if it is known.
    pub(crate) size: Option<u64>,
    /// What tells this content from others.
    pub(crate) identity: Identity,
    /// The expected digest, if it is known.
    pub(crate) digest: Option<Digest>,
    /// Whether [`Source::describe`] is not needed.
    pub(crate) described: bool,
    /// Whether range requests are possible.
    pub(crate) ranged: bool,
    /// What is done with the downloaded file.
    pub(crate) placement: Placement,
}

/// What a source calls a content. Different contents have different identities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Identity {
    /// It is not known.
    #[default]
    Unknown,
    /// The hexadecimal digest of the file.
    Digest,
    /// Another text, such as an ETag or a generation.
    Text(Arc<str>),
}

/// What is done with a downloaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    /// It is kept as it is.
    File,
    /// It is unpacked.
    Archive(Box<Members>),
}

/// Which members of an archive are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Only members below this folder are wanted. The folder is removed from their paths.
    pub(crate) below: Option<String>,
    /// Whether names that begin with `.wh.` remove members of earlier archives, as in image layers.
    pub(crate) whiteouts: bool,
    /// The patterns for the members.
    pub(crate) filter: Filter,
}

/// The wanted bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// First byte.
    pub(crate) start: u64,
    /// Byte after the last. `None` for all following bytes.
    pub(crate) end: Option<u64>,
    /// The identity that the content must have.
    pub(crate) identity: Option<Arc<str>>,
}

/// A response with the bytes of a file.
#[derive(Debug)]
pub(crate) struct FileResponse {
    pub(crate) answer: Response,
    /// The first byte in the response.
    pub(crate) start: u64,
    /// Size of the whole file, if it is known.
    pub(crate) size: Option<u64>,
    /// The source's name for this content.
    pub(crate) identity: Option<Arc<str>>,
    /// The expected digest of the whole content.
    pub(crate) digest: Option<Digest>,
}

// === impl RemoteFile ===

impl RemoteFile {
    /// Creates a file of which only the name is known.
    pub(crate) fn new(path: impl AsRef<str>, locator: impl AsRef<str>) -> Self {
        let (path, locator) = (path.as_ref(), locator.as_ref());
        let shared: Arc<str> = path.into();
        Self {
            locator: if path == locator { shared.clone() } else { locator.into() },
            path: shared,
            size: None,
            identity: Identity::Unknown,
            digest: None,
            described: true,
            ranged: true,
            placement: Placement::File,
        }
    }

    /// Returns the source's name for this content, if it is known.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        match &self.identity {
            Identity::Unknown => None,
            Identity::Digest => self.digest.map(|digest| digest.hex().into()),
            Identity::Text(text) => Some(text.clone()),
        }
    }
}

// === impl Members ===

impl Members {
    /// All members that the patterns select.
    pub(crate) fn selected_by(filter: &Filter) -> Self {
        Self { filter: filter.clone(), ..Self::default() }
    }
}

// === impl Listing ===

impl Listing {
    /// Marks a single archive to be unpacked. The patterns select its members.
    #[must_use]
    pub(crate) fn unpacking_a_single_archive(mut self, filter: &Filter) -> Self {
        if let [file] = self.files.as_mut_slice()
            && crate::names::is_archive(&file.path)
        {
            file.placement = Placement::Archive(Box::new(Members::selected_by(filter)));
        }
        self
    }
}

// === impl ByteRange ===

impl ByteRange {
    /// Whether the whole file is wanted.
    pub(crate) fn is_all(&self) -> bool {
        self.start == 0 && self.end.is_none()
    }

    /// Requests only these bytes.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        if !self.is_all() {
            let end = self.end.map_or_else(String::new, |end| (end - 1).to_string());
            headers.insert(header::RANGE, ascii(&format!("bytes={}-{end}", self.start)));
        }
    }
}

// === impl FileResponse ===

impl FileResponse {
    /// Reads from a response which bytes of which content it has.
    pub(crate) fn of(answer: Response, range: &ByteRange) -> Result<Self, Failure> {
        let (start, size) = match answer.status().as_u16() {
            200 => (0, answer.length()),
            206 => {
                let sent = answer.header("content-range").and_then(content_range);
                let Some((start, end, size)) = sent else {
                    return Err(Failure::last("a response with status 206 has no valid range"));
                };
                if start != range.start || range.end.is_some_and(|wanted| end > wanted) {
                    return Err(Failure::last("the server sent another range than the requested one"));
                }
                (start, size)
            }
            status => return Err(Failure::last(format!("the server answered a read with status {status}"))),
        };
        Ok(Self { answer, start, size, identity: None, digest: None })
    }
}
