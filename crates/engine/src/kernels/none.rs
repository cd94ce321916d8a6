//! Packed matrices of a processor without kernels: there are none.

use super::Format;

/// A matrix of weights, which cannot be made here.
pub(crate) enum Packed {}

// === impl Packed ===

impl Packed {
    /// Whether matrices can be packed.
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
