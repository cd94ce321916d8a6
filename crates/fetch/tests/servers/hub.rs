//! A hub and its CDN.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::json;

use super::{
    Answer, Request,
    contents::{git_blob, known_sha256},
    decoded,
};

/// Files on one page of a tree.
const TREE_PAGE: usize = 1000;

/// The most files in the listing of a model.
const MAX_LISTED: usize = 50_001;

/// A repository.
#[derive(Debug, Default, Clone)]
pub struct Repository {
    pub refs: BTreeMap<String, String>,
    /// Files of each commit, by path.
    pub commits: BTreeMap<String, Vec<File>>,
    pub private: Option<String>,
    /// `manual` or `auto`: files need a token with granted access.
    pub gated: Option<String>,
    pub moved_to: Option<String>,
    pub no_etag: bool,
    pub no_commit: bool,
    pub relative_redirect: bool,
    pub xet: bool,
    /// Whether the query parameter `blobs=true` is supported.
    pub blobs: bool,
}

/// A file of a repository.
#[derive(Debug, Clone)]
pub struct File {
    pub path: String,
    pub content: Arc<Vec<u8>>,
    pub lfs: bool,
}

/// All repositories.
#[derive(Debug, Default)]
pub struct Hub {
    pub repositories: Mutex<BTreeMap<String, Repository>>,
    pub cdn: Mutex<String>,
    /// Valid tokens, and valid tokens without access to gated models.
    pub good: Vec<String>,
}

// === impl Hub ===

impl Hub {
    pub fn answer(&self, request: &Request) -> Answer {
        let path = request.path();
        if let Some(rest) = path.strip_prefix("/api/models/") {
            if let Some((name, commit)) = rest.split_once("/tree/") {
                return self.tree(request, name, commit);
            }
            let Some((name, revision)) = rest.split_once("/revision/") else { return Answer::new(404, "") };
            return self.model(request, name, &decoded(revision));
        }
        let rest = path.trim_start_matches('/');
        if let Some(rest) = rest.strip_prefix("api/resolve-cache/models/") {
            let mut parts = rest.splitn(4, '/');
            let name = format!("{}/{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let (commit, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            return self.file(request, &name, commit, &decoded(path), true);
        }
        let Some((name, rest)) = rest.split_once("/resolve/") else { return Answer::new(404, "") };
        let Some((commit, path)) = rest.split_once('/') else { return Answer::new(404, "") };
        self.file(request, name, commit, &decoded(path), false)
    }

    fn model(&self, request: &Request, name: &str, revision: &str) -> Answer {
        let repositories = self.repositories.lock();
        let repository = match permitted(request, repositories.get(name)) {
            Ok(repository) => repository,
            Err(refused) => return refused,
        };
        if let Some(to) = &repository.moved_to {
            let target = request.target.replacen(name, to, 1);
            return Answer::new(307, "").with("Location", target);
        }
        let commit = repository.refs.get(revision).map_or(revision, String::as_str);
        let Some(files) = repository.commits.get(commit) else {
            return Answer::new(404, "").with("X-Error-Code", "RevisionNotFound");
        };
        // Further files are only in the tree.
        let files = &files[..files.len().min(MAX_LISTED)];
        let with_blobs = repository.blobs && request.query("blobs").is_some();
        let siblings: Vec<_> = files
            .iter()
            .map(|file| match (with_blobs, file.lfs) {
                (false, _) => json!({"rfilename": file.path}),
                (true, false) => json!({
                    "rfilename": file.path, "size": file.content.len(), "blobId": git_blob(&file.content),
                }),
                (true, true) => json!({
                    "rfilename": file.path, "size": file.content.len(), "blobId": "0".repeat(40),
                    "lfs": {"sha256": known_sha256(&file.content), "size": file.content.len(), "pointerSize": 130},
                }),
            })
            .collect();
        Answer::new(200, json!({"id": name, "sha": commit, "siblings": siblings}).to_string())
            .with("Content-Type", "application/json")
    }

    /// Returns a page of a tree: a thousand files, and the address of the next page.
    fn tree(&self, request: &Request, name: &str, commit: &str) -> Answer {
        let repositories = self.repositories.lock();
        let repository = match permitted(request, repositories.get(name)) {
            Ok(repository) => repository,
            Err(refused) => return refused,
        };
        let Some(files) = repository.commits.get(commit) else { return Answer::new(404, "") };
        let start: usize = request.query("cursor").map_or(0, |cursor| cursor.parse().unwrap());
        let end = files.len().min(start + TREE_PAGE);
        let nodes: Vec<_> = files[start..end]
            .iter()
            .map(|file| {
                let (path, size) = (&file.path, file.content.len());
                if file.lfs {
                    let lfs = json!({"oid": known_sha256(&file.content), "size": size, "pointerSize": 130});
                    json!({"type": "file", "path": path, "size": size, "oid": "0".repeat(40), "lfs": lfs})
                } else {
                    json!({"type": "file", "path": path, "size": size, "oid": git_blob(&file.content)})
                }
            })
            .collect();
        let answer = Answer::new(200, json!(nodes).to_string());
        if end == files.len() {
            return answer;
        }
        answer.with("Link", format!("<{}?recursive=true&cursor={end}>; rel=\"next\"", request.path()))
    }

    fn file(&self, request: &Request, name: &str, commit: &str, path: &str, direct: bool) -> Answer {
        let repositories = self.repositories.lock();
        let repository = match permitted(request, repositories.get(name)) {
            Ok(repository) => repository,
            Err(refused) => return refused,
        };
        if let Some(to) = &repository.moved_to {
            let target = request.target.replacen(name, to, 1);
            return Answer::new(307, "").with("Location", target);
        }
        if repository.gated.is_some() {
            let status = if request.header("authorization").is_some() { 403 } else { 401 };
            return Answer::new(status, "").with("X-Error-Code", "GatedRepo");
        }
        let commit = repository.refs.get(commit).map_or(commit, String::as_str);
        let file = repository.commits.get(commit).and_then(|files| {
            // The files of large models are sorted.
            let found = files.binary_search_by(|file| file.path.as_str().cmp(path)).ok();
            found.map(|index| &files[index]).or_else(|| files.iter().find(|file| file.path == path))
        });
        let Some(file) = file else { return Answer::new(404, "").with("X-Error-Code", "EntryNotFound") };
        let head = |answer: Answer| {
            if repository.no_commit { answer } else { answer.with("X-Repo-Commit", commit) }
        };
        if !file.lfs {
            if repository.relative_redirect && !direct {
                let to = format!("/api/resolve-cache/models/{name}/{commit}/{path}");
                return head(Answer::new(307, "").with("Location", to));
            }
            let answer = head(Answer::file(&file.content));
            return if repository.no_etag {
                answer
            } else {
                answer.with("ETag", format!("\"{}\"", git_blob(&file.content)))
            };
        }
        let sum = known_sha256(&file.content);
        let location = format!(
            "{}/repos/{name}/{sum}?X-Amz-Signature=SIGNED&filename={}",
            self.cdn.lock(),
            file.path.replace('/', "%2F")
        );
        let mut answer = head(Answer::new(302, "").with("Location", location))
            .with("X-Linked-Size", file.content.len().to_string());
        if !repository.no_etag {
            answer = answer.with("X-Linked-Etag", format!("\"{sum}\""));
        }
        if repository.xet { answer.with("X-Xet-Hash", "e".repeat(64)) } else { answer }
    }

    /// Answers requests to the CDN, which serves large files by their digest.
    pub fn large(&self, request: &Request) -> Answer {
        let Some(sum) = request.path().rsplit('/').next() else { return Answer::new(404, "") };
        let repositories = self.repositories.lock();
        let all = repositories.values().flat_map(|repository| repository.commits.values()).flatten();
        let found = all.filter(|file| file.lfs).find(|file| known_sha256(&file.content) == sum);
        found.map_or_else(|| Answer::new(403, ""), |file| Answer::file(&file.content))
    }
}

/// Returns the repository if its token allows the request, or the refusal.
fn permitted<'a>(request: &Request, repository: Option<&'a Repository>) -> Result<&'a Repository, Answer> {
    let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if token.is_some_and(|token| token.contains("BAD")) {
        return Err(Answer::new(401, "").with("X-Error-Message", "Invalid credentials"));
    }
    match repository {
        Some(Repository { private: Some(wanted), .. }) if token != Some(wanted) => {
            Err(Answer::new(401, "").with("X-Error-Code", "RepoNotFound"))
        }
        Some(repository) => Ok(repository),
        None => {
            let status = if token.is_none() { 401 } else { 404 };
            Err(Answer::new(status, "").with("X-Error-Code", "RepoNotFound"))
        }
    }
}
