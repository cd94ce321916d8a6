//! Safetensors files: a JSON header with the place of each tensor, then the tensors.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use candle_core::quantized::GgmlDType;
use serde::Deserialize;
use serde_json::Value;

use super::{
    files,
    raw::{TensorInfo, Tensors},
};
use crate::LoadError;

/// The longest header, in bytes, as the format defines.
const MAX_HEADER_BYTES: u64 = 100_000_000;

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The open files of a model.
pub(crate) struct Safetensors {
    config_path: PathBuf,
    config: Value,
    pub(crate) tensors: Tensors,
}

// === impl Safetensors ===

impl Safetensors {
    /// Reads `config.json` and the headers of the files.
    pub(crate) fn open(folder: &Path, paths: &[PathBuf]) -> Result<Self, LoadError> {
        let config_path = folder.join("config.json");
        Ok(Self { config: files::json(&config_path)?, config_path, tensors: open_tensors(paths)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.config_path
    }

    /// The content of `config.json`.
    pub(crate) fn config(&self) -> &Value {
        &self.config
    }
}

/// Reads the headers of files.
pub(crate) fn open_tensors(paths: &[PathBuf]) -> Result<Tensors, LoadError> {
    let mut tensors = Tensors { files: Vec::new(), places: BTreeMap::new() };
    for path in paths {
        let file = File::open(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
        tensors.places.append(&mut read_header(path, &file, tensors.files.len())?);
        tensors.files.push((path.clone(), file));
    }
    Ok(tensors)
}

fn read_header(path: &Path, file: &File, number: usize) -> Result<BTreeMap<String, TensorInfo>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let malformed = |reason: String| LoadError::malformed(path, reason);
    let size = file.metadata().map_err(failed)?.len();
    if size < 8 {
        return Err(malformed("the file ends within its header".into()));
    }
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES || length > size - 8 {
        return Err(malformed(format!("a header of {length} bytes; the file has {size}")));
    }
    let mut header = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut header, 8).map_err(failed)?;
    places(&header, number, size).map_err(malformed)
}

/// Parses a header, for the fuzz target.
pub(crate) fn probe(bytes: &[u8]) {
    let _ = places(bytes, 0, 8 + 2 * bytes.len() as u64);
}

/// Returns the places of the tensors in a header. Each must be within the file of `size` bytes.
fn places(header: &[u8], number: usize, size: u64) -> Result<BTreeMap<String, TensorInfo>, String> {
    let entries: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|error| error.to_string())?;
    let start = 8 + header.len() as u64;
    let mut tensors = BTreeMap::new();
    // Where tensors begin and end.
    let mut parts = Vec::new();
    for (name, entry) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        let wrong = |reason: String| format!("tensor `{name}`: {reason}");
        let entry: Entry = serde_json::from_value(entry).map_err(|error| wrong(error.to_string()))?;
        parts.push((entry.data_offsets, name.clone()));
        let format = match entry.dtype.as_str() {
            "F32" => GgmlDType::F32,
            "F16" => GgmlDType::F16,
            "BF16" => GgmlDType::BF16,
            // Such tensors, for example masks, are never multiplied.
            "BOOL" | "U8" | "I8" | "I16" | "U16" | "I32" | "U32" | "I64" | "U64" => continue,
            other => return Err(wrong(format!("the format {other}; expected F32, F16 or BF16"))),
        };
        let [from, to] = entry.data_offsets;
        let elements = entry.shape.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
        let length = elements.and_then(|elements| elements.checked_mul(format.type_size()));
        let length = length
            .filter(|length| to.checked_sub(from) == Some(*length as u64))
            .ok_or_else(|| wrong("its size does not match its shape".into()))?;
        let offset = start.checked_add(from).filter(|_| to <= size - start);
        let offset = offset.ok_or_else(|| wrong("it is outside of the file, which may be cut off".into()))?;
        tensors.insert(name, TensorInfo { file: number, format, shape: entry.shape, offset, length });
    }
    parts.sort_unstable();
    for pair in parts.windows(2) {
        let [([_, end], before), ([start, _], name)] = pair else { continue };
        if start < end {
            return Err(format!("tensor `{name}`: it begins within tensor `{before}`"));
        }
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(header: &str, data: usize) -> Result<Safetensors, LoadError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        let file = folder.path().join("model.safetensors");
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat();
        fs::write(&file, bytes).unwrap();
        Safetensors::open(folder.path(), &[file])
    }

    #[test]
    fn tensors_are_found_and_those_outside_of_the_file_are_refused() {
        let header =
            r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}"#;
        let files = open(header, 8).unwrap();
        let raw = files.tensors.read("w").unwrap().unwrap();
        assert_eq!((raw.shape, raw.data.len()), (vec![2, 2], 8));
        assert!(files.tensors.read("v").unwrap().is_none());
        for (header, data) in [
            (header, 7),
            (r#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, 12),
            (r#"{"w":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#, 12),
            (r#"{"w":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}"#, 12),
            (r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, 12),
            (
                r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
            ),
            ("[]", 0),
        ] {
            assert!(matches!(open(header, data), Err(LoadError::Malformed { .. })), "{header}");
        }
    }
}
