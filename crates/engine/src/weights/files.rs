//! Reads the text files of a model, with a limit for the size of each.

use std::{fs::File, io::Read, path::Path};

use serde_json::Value;

use crate::LoadError;

/// The longest settings file or chat template, in bytes. Those of known models have at most a few hundred kilobytes.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;
/// The longest tokenizer file, in bytes. The largest known ones have about 35 MB.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// Reads a JSON settings file.
pub(crate) fn json(path: &Path) -> Result<Value, LoadError> {
    serde_json::from_slice(&bytes(path, MAX_SETTINGS_BYTES)?)
        .map_err(|error| LoadError::malformed(path, error.to_string()))
}

/// Reads a chat template.
pub(crate) fn template(path: &Path) -> Result<String, LoadError> {
    String::from_utf8(bytes(path, MAX_SETTINGS_BYTES)?)
        .map_err(|_| LoadError::malformed(path, "it is not UTF-8"))
}

/// Reads a tokenizer.
pub(crate) fn tokenizer(path: &Path) -> Result<Vec<u8>, LoadError> {
    bytes(path, MAX_TOKENIZER_BYTES)
}

fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(LoadError::malformed(
            path,
            format!("it has more than {most} bytes, the limit of such a file"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_never_ends_is_refused() {
        let error = json(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("it has more than 16777216 bytes"), "{error}");
    }
}
