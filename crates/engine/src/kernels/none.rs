//! A placeholder for processors without kernels.

use super::Format;

/// A matrix of weights. It cannot be created on this processor.
pub(crate) enum PackedMatrix {}

// === impl PackedMatrix ===

impl PackedMatrix {
    /// Whether the kernels can be used.
    pub(crate) fn is_available() -> bool {
        false
    }

    pub(crate) fn new(_: Format, _: &[u8], _: usize, _: usize) -> Option<Self> {
        None
    }

    pub(crate) fn bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) fn apply(&self, _: &[f32]) -> Vec<f32> {
        match *self {}
    }

    pub(crate) fn row(&self, _: usize, _: &mut Vec<f32>) {
        match *self {}
    }
}
