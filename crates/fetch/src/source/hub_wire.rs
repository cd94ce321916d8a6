//! The data of the Hugging Face hub: models, trees, and the headers of files.

use std::fmt;

use http::HeaderMap;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};

use crate::{
    digest::{Algorithm, Digest},
    remote::{Identity, RemoteFile},
};

/// A model at a revision.
#[derive(Debug, Deserialize)]
pub struct Model {
    sha: Option<String>,
    #[serde(default = "no_files", deserialize_with = "files")]
    siblings: Option<Vec<RemoteFile>>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

/// One page of a model's tree.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Tree(Vec<Node>);

#[derive(Debug, Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    size: Option<u64>,
    oid: Option<String>,
    lfs: Option<Lfs>,
}

/// The headers of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) identity: String,
    pub(super) size: u64,
}

// === impl Model ===

impl Model {
    /// A response that lists more files than this may be incomplete.
    const MAX_FILES: usize = 50_000;

    /// The commit.
    pub fn commit(&self) -> Option<&str> {
        self.sha.as_deref().filter(|sha| is_commit(sha))
    }

    /// Returns the files. Returns `None` if the response may be incomplete.
    pub(crate) fn into_files(self) -> Option<Vec<RemoteFile>> {
        self.siblings
    }
}

#[expect(clippy::unnecessary_wraps, reason = "none are too many files")]
fn no_files() -> Option<Vec<RemoteFile>> {
    Some(Vec::new())
}

/// Reads the files one by one, so that the list is held only once. Returns `None` if there are too many.
fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<RemoteFile>>, D::Error> {
    struct Files;

    impl<'de> Visitor<'de> for Files {
        type Value = Option<Vec<RemoteFile>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of files")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut files = Vec::new();
            while let Some(Sibling { rfilename, size, blob, lfs }) = all.next_element()? {
                if files.len() == Model::MAX_FILES {
                    while all.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(None);
                }
                files.push(remote(&rfilename, size, blob, lfs));
            }
            Ok(Some(files))
        }
    }

    deserializer.deserialize_seq(Files)
}

// === impl Tree ===

impl Tree {
    /// Returns the files of this page.
    pub(crate) fn into_files(self) -> Vec<RemoteFile> {
        let files = self.0.into_iter().filter(|node| node.kind == "file");
        files.map(|file| remote(&file.path, file.size, file.oid, file.lfs)).collect()
    }
}

fn remote(path: &str, size: Option<u64>, blob: Option<String>, lfs: Option<Lfs>) -> RemoteFile {
    let mut file = RemoteFile::new(path, path);
    let identity;
    (file.size, identity) = lfs.map_or((size, blob), |lfs| (lfs.size.or(size), lfs.sha256));
    file.digest = identity.as_deref().and_then(digest);
    // There may be very many files. For most of them the name is the digest, so it is not stored twice.
    file.identity = match identity {
        Some(identity) if file.digest.is_none() => Identity::Text(identity.into()),
        Some(_) => Identity::Digest,
        None => Identity::Unknown,
    };
    file.described = file.size.is_some() && file.digest.is_some();
    file
}

/// Returns the digest in an ETag: SHA-256 for large files, git's blob hash for others.
pub(super) fn digest(etag: &str) -> Option<Digest> {
    Digest::from_hex(Algorithm::Sha256, etag).or_else(|| Digest::from_hex(Algorithm::GitBlob, etag))
}

pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

// === impl Headers ===

impl Headers {
    /// Reads the headers of a file. The error names the missing header.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, &'static str> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if text("x-repo-commit").is_none() {
            return Err("the server does not report the commit of a file (X-Repo-Commit)");
        }
        let etag = text("x-linked-etag").or_else(|| text("etag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        let identity = etag.filter(|etag| !etag.is_empty()).ok_or("the server reports no ETag of a file")?;
        let size = text("x-linked-size").or_else(|| text("content-length"));
        let size =
            size.and_then(|size| size.trim().parse().ok()).ok_or("the server reports no size of a file")?;
        Ok(Self { identity: identity.to_owned(), size })
    }
}

/// Returns the next page in a `Link` header.
pub(super) fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get("link")?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(next.trim().strip_prefix('<')?.split_once('>')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_digests_where_the_hub_gives_them() {
        let sha256 = "a".repeat(64);
        let text = format!(
            r#"{{"sha":"{}","siblings":[{{"rfilename":"a","size":3,"blobId":"{}"}},
            {{"rfilename":"w","size":9,"lfs":{{"sha256":"{sha256}","size":9}}}},{{"rfilename":"x"}}]}}"#,
            "c".repeat(40),
            "b".repeat(40),
        );
        let model: Model = serde_json::from_str(&text).unwrap();
        assert_eq!(model.commit(), Some("c".repeat(40).as_str()));
        let files = model.into_files().unwrap();
        let algorithms: Vec<_> =
            files.iter().map(|file| file.digest.as_ref().map(|digest| digest.algorithm)).collect();
        assert_eq!(algorithms, [Some(Algorithm::GitBlob), Some(Algorithm::Sha256), None]);
        assert_eq!(files.iter().map(|file| file.described).collect::<Vec<_>>(), [true, true, false]);
        let tree = r#"[{"type":"directory","path":"d"},{"type":"file","path":"d/x","size":2,"oid":"0"}]"#;
        assert_eq!(serde_json::from_str::<Tree>(tree).unwrap().into_files().len(), 1);
    }
}
