//! The form of a Secret with an API key.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use sha2::{Digest as _, Sha256};

use super::budget::KeyLimits;

/// The label of Secrets with API keys. Its value is `true`.
pub const LABEL: &str = "longboat.dev/api-key";

/// The SHA-256 hash of a key.
pub(crate) type Digest = [u8; 32];

/// Entries of the Secret: the keys, one per line, and hashes of keys as hexadecimal digits, one per line.
const KEY: &str = "key";
const SHA256: &str = "sha256";
const MODELS: &str = "models";

/// The fewest and the most bytes of a key. Shorter ones could be guessed.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=512;
/// The most keys of a Secret: the present one, the next one, and some spare.
const MAX_KEYS: usize = 8;

/// The most bytes of the name of a model.
const MAX_MODEL_BYTES: usize = 512;

/// The content of a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeySpec {
    /// The hashes of its keys.
    pub(super) digests: Vec<Digest>,
    /// The models that it is for; empty for all.
    pub(crate) models: BTreeSet<String>,
    pub(crate) limits: KeyLimits,
}

pub(crate) fn digest(key: &[u8]) -> Digest {
    Sha256::digest(key).into()
}

/// Replaces the keys of a Secret by their hashes, so that memory has no key. What may repeat the key goes, too.
pub(crate) fn hash_keys(secret: &mut Secret) {
    secret.metadata.annotations = None;
    secret.metadata.managed_fields = None;
    secret.string_data = None;
    let Some(data) = &mut secret.data else { return };
    let Some(ByteString(keys)) = data.remove(KEY) else { return };
    let mut hashes = data.remove(SHA256).map(|ByteString(text)| text).unwrap_or_default();
    for key in keys.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if key.is_empty() {
            continue;
        }
        hashes.push(b'\n');
        if KEY_BYTES.contains(&key.len()) && key.iter().all(u8::is_ascii_graphic) {
            hashes.extend(HEXLOWER.encode(&digest(key)).into_bytes());
        } else {
            // `-` is no hash, so readers of the copy can name the invalid key.
            hashes.push(b'-');
        }
    }
    data.insert(SHA256.to_owned(), ByteString(hashes));
}

// === impl KeySpec ===

impl KeySpec {
    /// Reads a Secret whose keys are hashed. An entry with an unknown name is an error: it may be a limit with a typing error.
    pub(super) fn parse(secret: &Secret) -> Result<Self, String> {
        let empty = BTreeMap::new();
        let data = secret.data.as_ref().unwrap_or(&empty);
        let mut spec = Self { digests: Vec::new(), models: BTreeSet::new(), limits: KeyLimits::default() };
        for (name, ByteString(value)) in data {
            let text = std::str::from_utf8(value).map_err(|_| format!("entry `{name}` is not text"))?;
            let lines = || text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
            match name.as_str() {
                SHA256 => {
                    for (index, line) in lines().enumerate() {
                        let digest = HEXLOWER_PERMISSIVE
                            .decode(line.as_bytes())
                            .ok()
                            .and_then(|digest| Digest::try_from(digest).ok());
                        let digest = digest.ok_or_else(|| {
                            format!(
                                "key {} must have {} to {} visible ASCII characters, or 64 hexadecimal digits in `sha256`",
                                index + 1,
                                KEY_BYTES.start(),
                                KEY_BYTES.end()
                            )
                        })?;
                        // A key and its own hash may both be there.
                        if !spec.digests.contains(&digest) {
                            spec.digests.push(digest);
                        }
                    }
                }
                MODELS => {
                    let is_name =
                        |text: &str| text.len() <= MAX_MODEL_BYTES && !text.contains(char::is_control);
                    if let Some(index) = lines().position(|line| !is_name(line)) {
                        return Err(format!(
                            "model {} of entry `{MODELS}` must have {MAX_MODEL_BYTES} bytes at most, and no control characters",
                            index + 1
                        ));
                    }
                    spec.models = lines().map(ToOwned::to_owned).collect();
                }
                _ => {
                    let limit = spec.limits.of_name(name).ok_or_else(|| {
                        format!("entry `{name}` is unknown, expected {}", Self::names().join(", "))
                    })?;
                    let number = text.trim().parse::<u64>().map_err(|_| {
                        format!(
                            "entry `{name}` must be a number that is not negative, and is `{}`",
                            text.trim()
                        )
                    })?;
                    *limit = Some(number);
                }
            }
        }
        if spec.digests.is_empty() {
            return Err(format!("entry `{KEY}` is missing"));
        }
        if spec.digests.len() > MAX_KEYS {
            return Err(format!("entry `{KEY}` has more than {MAX_KEYS} keys"));
        }
        if data.contains_key(MODELS) && spec.models.is_empty() {
            return Err(format!(
                "entry `{MODELS}` names no model: name some, or remove the entry to allow all"
            ));
        }
        Ok(spec)
    }

    /// Returns the entries of a Secret that [`Self::parse`] reads as this one.
    pub(super) fn entries(&self) -> BTreeMap<String, String> {
        let digests: Vec<_> = self.digests.iter().map(|digest| HEXLOWER.encode(digest)).collect();
        let models: Vec<&str> = self.models.iter().map(String::as_str).collect();
        let limits = self.limits.entries().map(|(name, limit)| (name, limit.to_string()));
        let texts = [(SHA256, digests.join(",")), (MODELS, models.join(","))].into_iter().chain(limits);
        texts.filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.to_owned(), text)).collect()
    }

    fn names() -> Vec<&'static str> {
        [KEY, SHA256, MODELS].into_iter().chain(KeyLimits::NAMES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(&str, &str)]) -> Result<KeySpec, String> {
        let data =
            entries.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())));
        let mut secret = Secret { data: Some(data.collect()), ..Secret::default() };
        hash_keys(&mut secret);
        KeySpec::parse(&secret)
    }

    #[test]
    fn a_secret_has_keys_or_their_hashes_and_limits() {
        let key = "sk-0123456789abcdef";
        let spec = parse(&[("key", key), ("models", "a/b, c\n"), ("tokensPerDay", " 7 ")]).unwrap();
        assert_eq!(spec.digests, [digest(key.as_bytes())]);
        assert_eq!(spec.models, BTreeSet::from(["a/b".to_owned(), "c".to_owned()]));
        assert_eq!(spec.limits, KeyLimits { tokens_per_day: Some(7), ..KeyLimits::default() });
        assert_eq!(
            parse(&[("sha256", &HEXLOWER.encode(&digest(key.as_bytes())))]).unwrap().digests,
            spec.digests
        );
    }

    #[test]
    fn a_secret_that_is_wrong_in_one_place_is_wrong_as_a_whole() {
        let key = ("key", "sk-0123456789abcdef");
        let long = "m".repeat(MAX_MODEL_BYTES + 1);
        let many = (0..9).map(|number| format!("sk-0123456789abcde{number}\n")).collect::<Vec<_>>().concat();
        for (entries, expected) in [
            (vec![], "entry `key` is missing"),
            (vec![("key", " \n")], "entry `key` is missing"),
            (vec![("key", "short")], "key 1 must have"),
            (vec![("key", "with spaces in the middle")], "key 1 must have"),
            (vec![("sha256", "abc")], "key 1 must have"),
            (vec![("key", &many)], "entry `key` has more than 8 keys"),
            (vec![key, ("models", ",")], "entry `models` names no model"),
            (vec![key, ("models", "a,b\u{1}c")], "model 2 of entry `models` must have 512 bytes at most"),
            (vec![key, ("models", &long)], "model 1 of entry `models` must have 512 bytes at most"),
            (
                vec![key, ("requestPerMinute", "1")],
                "entry `requestPerMinute` is unknown, expected key, sha256, models, requestsPerMinute",
            ),
            (
                vec![key, ("tokensPerDay", "-1")],
                "entry `tokensPerDay` must be a number that is not negative, and is `-1`",
            ),
            (vec![key, ("tokensPerDay", "1k")], "entry `tokensPerDay` must be a number"),
        ] {
            let found = parse(&entries).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
