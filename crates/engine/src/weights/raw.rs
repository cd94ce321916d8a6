//! Tensors as in their files.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt, path::PathBuf};

use candle_core::quantized::GgmlDType;

use crate::LoadError;

/// The place of a tensor.
pub(super) struct TensorInfo {
    /// Its file, as an index.
    pub(super) file: usize,
    pub(super) format: GgmlDType,
    pub(super) shape: Vec<usize>,
    pub(super) offset: u64,
    pub(super) length: usize,
}

/// Open files, and the places of the tensors in them by name.
pub(crate) struct Tensors {
    pub(super) files: Vec<(PathBuf, File)>,
    pub(super) places: BTreeMap<String, TensorInfo>,
}

/// A tensor as in its file.
pub(crate) struct RawTensor {
    /// The file, for messages.
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) format: GgmlDType,
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<u8>,
}

// === impl Tensors ===

impl Tensors {
    /// The format and the shape of every tensor.
    pub(super) fn formats(&self) -> impl Iterator<Item = (GgmlDType, &[usize])> {
        self.places.values().map(|place| (place.format, place.shape.as_slice()))
    }

    /// The sorted names of all tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Reads a tensor. Returns `None` if there is no such tensor.
    pub(crate) fn read(&self, name: &str) -> Result<Option<RawTensor>, LoadError> {
        let Some(place) = self.places.get(name) else { return Ok(None) };
        let (path, file) = &self.files[place.file];
        let mut data = vec![0; place.length];
        file.read_exact_at(&mut data, place.offset)
            .map_err(|source| LoadError::Read { path: path.clone(), source })?;
        Ok(Some(RawTensor {
            path: path.clone(),
            name: name.to_owned(),
            format: place.format,
            shape: place.shape.clone(),
            data,
        }))
    }
}
