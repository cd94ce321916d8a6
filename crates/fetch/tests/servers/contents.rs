//! Generated contents and their digests.

use std::sync::Arc;

use parking_lot::Mutex;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde_json::Value;

/// Concatenates the SHA-256 of `SEED:0`, `SEED:1`, and so on, cut to the size.
pub fn recipe(seed: &str, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 32);
    let mut number = 0;
    while bytes.len() < size {
        bytes.extend_from_slice(digest(&SHA256, format!("{seed}:{number}").as_bytes()).as_ref());
        number += 1;
    }
    bytes.truncate(size);
    bytes
}

/// Returns the content that a recording describes, if it describes one.
pub fn described(file: &Value) -> Option<Arc<Vec<u8>>> {
    let size = file["size"].as_u64().unwrap_or(0) as usize;
    let content = if let Some(text) = file["literal"].as_str() {
        text.as_bytes().to_vec()
    } else if let Some(seed) = file["recipe"].as_str() {
        recipe(seed, size)
    } else if let Some(text) = file["base64"].as_str() {
        STANDARD.decode(text).unwrap()
    } else {
        let content = recipe("w1", size);
        if Some(sha256(&content).as_str()) != file["sha256"].as_str() {
            return None;
        }
        content
    };
    Some(Arc::new(content))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Like `sha256`, but remembers the digest of a content that is used repeatedly.
pub fn known_sha256(content: &Arc<Vec<u8>>) -> String {
    static KNOWN: Known = Mutex::new(Vec::new());
    known(&KNOWN, content, sha256)
}

/// Returns the MD5 in hexadecimal. Remembers the digest of a content that is used repeatedly.
pub fn known_md5(content: &Arc<Vec<u8>>) -> String {
    static KNOWN: Known = Mutex::new(Vec::new());
    known(&KNOWN, content, |bytes| hex(&md5(bytes)))
}

/// Large contents and their digests.
type Known = Mutex<Vec<(Arc<Vec<u8>>, String)>>;

fn known(all: &Known, content: &Arc<Vec<u8>>, compute: impl Fn(&[u8]) -> String) -> String {
    let mut all = all.lock();
    if let Some((_, sum)) = all.iter().find(|(other, _)| Arc::ptr_eq(other, content)) {
        return sum.clone();
    }
    let sum = compute(content);
    if content.len() > 1 << 20 {
        all.push((content.clone(), sum.clone()));
    }
    sum
}

/// Returns the digests of the digests of a content's parts: the MD5 in hexadecimal, and the CRC-32 in base64.
pub fn known_parts(content: &Arc<Vec<u8>>, part: usize) -> (String, String) {
    static KNOWN: Known = Mutex::new(Vec::new());
    let both = known(&KNOWN, content, |bytes| {
        let md5s: Vec<u8> = bytes.chunks(part).flat_map(md5).collect();
        let crcs: Vec<u8> = bytes.chunks(part).flat_map(|part| crc32fast::hash(part).to_be_bytes()).collect();
        format!("{} {}", hex(&md5(&md5s)), STANDARD.encode(crc32fast::hash(&crcs).to_be_bytes()))
    });
    let (md5, crc) = both.split_once(' ').unwrap();
    (md5.to_owned(), crc.to_owned())
}

/// Git's blob hash of a file.
pub fn git_blob(bytes: &[u8]) -> String {
    let whole = [format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat();
    hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole).as_ref())
}

pub fn md5(bytes: &[u8]) -> Vec<u8> {
    use md5::Digest as _;
    md5::Md5::digest(bytes).to_vec()
}

/// A tar archive of files with path, permissions and content.
pub fn tar(files: &[(&str, u32, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, mode, content) in files {
        let mut block = vec![0; 512];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = b'0';
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(block);
        archive.extend(content);
        archive.resize(archive.len().div_ceil(512) * 512, 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}
