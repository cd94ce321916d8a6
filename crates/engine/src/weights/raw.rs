//! A tensor as in its file.

use std::path::PathBuf;

use candle_core::quantized::GgmlDType;

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
