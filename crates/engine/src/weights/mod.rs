//! Reads weights from files and converts them to the form in which they are multiplied.

mod bytes;
pub(crate) mod files;
mod gguf;
mod matrix;
mod raw;
mod safetensors;

use std::path::{Path, PathBuf};

use self::raw::Tensors;
pub(crate) use self::{
    gguf::{Gguf, Value, metadata as gguf_metadata, probe as gguf_probe},
    matrix::{Embedding, Matrix},
    raw::RawTensor,
    safetensors::{Safetensors, open_tensors, probe as safetensors_probe},
};
use crate::LoadError;
use candle_core::quantized::GgmlDType;
use xxhash_rust::xxh64::xxh64;

/// The files with a model's tensors.
pub(crate) enum Weights {
    /// A single file with all data.
    Gguf(Gguf),
    /// Safetensors files with a `config.json`.
    Safetensors(Safetensors),
}

// === impl Weights ===

impl Weights {
    /// Opens the model in a folder, or a GGUF file itself.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        if path.is_file() {
            return Ok(Self::Gguf(Gguf::open(path)?));
        }
        let files = files(path)?;
        let with = |extension: &str| -> Vec<PathBuf> {
            files.iter().filter(|file| file.extension().is_some_and(|e| e == extension)).cloned().collect()
        };
        let safetensors = with("safetensors");
        if path.join("config.json").is_file() && !safetensors.is_empty() {
            return Ok(Self::Safetensors(Safetensors::open(path, &safetensors)?));
        }
        match with("gguf").as_slice() {
            [] => Err(LoadError::NoWeights { path: path.to_owned() }),
            [file] => Ok(Self::Gguf(Gguf::open(file)?)),
            several => {
                let names: Vec<_> = several.iter().filter_map(|file| file.file_name()?.to_str()).collect();
                let names = names.join(", ");
                Err(LoadError::malformed(
                    path,
                    format!("has several GGUF files ({names}): choose one of them"),
                ))
            }
        }
    }

    /// The memory in bytes for loading: all tensors in their final form, and the largest one during its conversion.
    pub(crate) fn memory(&self, as_shipped: bool) -> u64 {
        let (mut resident, mut most) = (0_u64, 0_u64);
        for (format, shape) in self.tensors().formats() {
            let numbers: u64 = shape.iter().map(|length| *length as u64).product();
            let bytes = |format: GgmlDType| numbers / format.block_size() as u64 * format.type_size() as u64;
            // Vectors are kept as plain numbers.
            let as_stored =
                if shape.len() < 2 { GgmlDType::F32 } else { matrix::stored_format(format, as_shipped) };
            resident += bytes(as_stored);
            let converts = as_stored != format;
            most = most.max(bytes(format) + if converts { bytes(GgmlDType::F32) } else { 0 });
        }
        resident + most
    }

    /// Returns a digest of these weights: a hash over the names, formats and bytes of all tensors, in hexadecimal. It does
    /// not protect against weights that were crafted to have the same digest.
    pub(crate) fn digest(&self) -> Result<String, LoadError> {
        let mut digest = 0;
        for name in self.tensors().names() {
            let Some(raw) = self.tensor(name)? else { continue };
            let described = format!("{name} {:?} {:?}", raw.format, raw.shape);
            digest = xxh64(&raw.data, xxh64(described.as_bytes(), digest));
        }
        Ok(format!("{digest:016x}"))
    }

    /// Reads a tensor. Returns `None` if the model has no such tensor.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<RawTensor>, LoadError> {
        self.tensors().read(name)
    }

    fn tensors(&self) -> &Tensors {
        match self {
            Self::Gguf(file) => &file.tensors,
            Self::Safetensors(files) => &files.tensors,
        }
    }

    /// The file that describes the model, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Gguf(file) => file.path(),
            Self::Safetensors(files) => files.path(),
        }
    }
}

/// The files of a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let failed = |source| LoadError::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
