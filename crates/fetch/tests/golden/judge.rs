//! Compares the result of a run with the recording.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::Value;

use crate::{
    case::Case,
    servers::{Request, contents::sha256},
};

/// The beginnings of the short texts that alerts match in termination messages.
const WORDS: [&str; 19] = [
    "HuggingFace authentication failed",
    "HuggingFace resource",
    "Failed to connect to HuggingFace endpoint",
    "Access denied to ",
    "Failed to fetch model. No model found in ",
    "Failed to find ca bundle file",
    "Failed to connect to HTTP endpoint",
    "S3 authentication failed",
    "S3 resource",
    "S3 error: Invalid endpoint",
    "S3 error [403]: Forbidden",
    "Local path ",
    "No filename contained in URI",
    "GCS authentication failed",
    "GCS resource",
    "HTTP authentication failed",
    "HTTP access denied",
    "HTTP resource not found",
    "HTTP request to ",
];

/// Cases with a different message: the case, our message, and the reason.
const OTHER_WORDS: [(&str, &str, &str); 2] = [
    ("hf-traversal", "leaves the target folder", "the name is refused before the file is asked for"),
    ("hf-traversal-writable", "leaves the target folder", "the name is refused before the file is asked for"),
];

/// Compares the last message of a failed run with the recorded one, if that is one of the short texts. Our message may continue
/// with the reason. Returns the difference.
pub(crate) fn other_words(case: &Case, run: &Value, message: Option<&str>) -> Option<String> {
    let last = run["stderr"].as_array().and_then(|lines| lines.last()?.as_str())?;
    let text = last.strip_prefix("ERROR Storage initialization failed: ")?;
    let other = OTHER_WORDS.iter().find(|(name, ..)| *name == case.name).map(|(_, text, _)| *text);
    if other.is_none() && !WORDS.iter().any(|word| text.starts_with(word)) {
        return None;
    }
    let expected = case.filled(other.unwrap_or(text)).trim_end_matches('.').to_owned();
    let message = message.unwrap_or_default();
    // The other messages are ours, so they may say where.
    let is_same = if other.is_some() { message.contains(&expected) } else { message.starts_with(&expected) };
    (!is_same).then(|| format!("it says `{message}`; recorded is `{expected}`"))
}

/// Describes the files after a run, each in one text.
pub(crate) type Files = BTreeMap<String, String>;

/// Returns the files below `/mnt` and `/home`, without the state of either downloader.
pub(crate) fn found(root: &Path) -> Files {
    let mut files = Files::new();
    for top in ["mnt", "home"] {
        walk(root, &root.join(top), &mut files);
    }
    files
}

fn walk(root: &Path, folder: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = format!("/{}", path.strip_prefix(root).unwrap().display());
        if is_state(&name) {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            walk(root, &path, files);
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path).unwrap().display().to_string();
            files.insert(name, format!("link to {}", target.replace(&root.display().to_string(), "")));
        } else {
            let content = fs::read(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            files.insert(name, format!("{mode:o} {} {}", content.len(), sha256(&content)));
        }
    }
}

fn is_state(name: &str) -> bool {
    name.contains("/.cache/")
        || name.ends_with("/.cache")
        || name.contains("/.longboat")
        || name.contains("/.docker")
        || name.starts_with("/mnt/ca/")
        || name.starts_with("/mnt/oci-fetch-auth/")
}

/// Returns the files in a recording after a run.
pub(crate) fn recorded(run: &Value) -> Files {
    let mut files = Files::new();
    for file in run["files"].as_array().into_iter().flatten() {
        let path = file["path"].as_str().unwrap();
        if is_state(path) || path.ends_with('/') {
            continue;
        }
        let text = match file["type"].as_str() {
            Some("symlink") => format!("link to {}", file["target"].as_str().unwrap()),
            _ => format!(
                "{} {} {}",
                file["mode"].as_str().unwrap(),
                file["size"],
                file["sha256"].as_str().unwrap_or_default()
            ),
        };
        files.insert(path.to_owned(), text);
    }
    files
}

/// Returns the kinds of the requests: server, method, and the kind of the path.
pub(crate) fn kinds_sent(requests: &[Request]) -> BTreeSet<String> {
    requests.iter().map(|request| kind(request.server, &request.method, &request.target)).collect()
}

/// Returns the kinds of the requests in a recording.
pub(crate) fn kinds_recorded(run: &Value) -> BTreeSet<String> {
    let requests = run["requests"].as_array().into_iter().flatten();
    requests
        .map(|request| {
            let text = |name: &str| request[name].as_str().unwrap();
            kind(text("to"), text("method"), text("path"))
        })
        .collect()
}

fn kind(server: &str, method: &str, target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let what = match server {
        "hub" if path.starts_with("/api/models") => "model",
        "s3" if query.contains("prefix=") || query.contains("list-type") => "list",
        "s3" if path.trim_matches('/').contains('/') => "object",
        "s3" => "bucket",
        "gcs" if path.ends_with("/o") => "list",
        "gcs" if path == "/token" => "token",
        "gcs" if query.contains("alt=media") => "content",
        "gcs" => "object",
        "reg" if path.contains("/manifests/") => "manifest",
        "reg" if path.contains("/blobs/") => "blob",
        "reg" => "token",
        _ => "file",
    };
    format!("{server} {method} {what}")
}
